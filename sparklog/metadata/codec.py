"""Edits as JSON and back: the `edits` of an entry.

An object has the fields of its class; a field with its default is left out. Small tuples are
lists. The path of an index file that lies beside its log is written as "" (`tables`). A member that
this release does not know is refused, for it may change the meaning of the others. A value of
another type is refused, too, so every decoded edit can be applied.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from sparklog.errors import UnsupportedFeatureError
from sparklog.metadata.cluster import Broker, Endpoint, ScramCredential, UserKey
from sparklog.metadata.edit import (
    Edit,
    EpochStart,
    FoldEdit,
    Lease,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    RunFile,
    TopicEdit,
)
from sparklog.metadata.producers import ProducerBatch, ProducerState
from sparklog.metadata.tables import SEGMENT_SCHEMA, segment_of, segment_row
from sparklog.model import OffsetRange, SegmentEntry, SegmentKey, TopicDescription

Json = dict[str, Any]

_INT64: Final = 2**63
_BATCH_FIELDS: Final = len(ProducerBatch._fields)


class Member(NamedTuple):
    """How one field of a class is written and read; `decode` raises ValueError for another type."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def edit_json(edit: Edit) -> Json:
    """Return an edit as an object of JSON's types."""
    return _object(edit, _EDIT)


def edit_of(found: object, parameters: Mapping[str, str]) -> Edit:
    """Return the edit of such an object; `parameters` are those of its entry.

    Raises UnsupportedFeatureError for a member that this release does not know; ValueError,
    TypeError or UsageError for anything that is not an edit.
    """
    return Edit(**_values("edit", found, _EDIT), parameters=parameters)


def _object(value: object, members: Mapping[str, Member]) -> Json:
    found: Json = {}
    for name, member in members.items():
        part = getattr(value, name)
        if part or (part is not None and part is not False and isinstance(part, int)):
            found[name] = member.encode(part)
    return found


def _values(what: str, found: object, members: Mapping[str, Member]) -> Json:
    checked = _mapping(found)
    if not checked.keys() <= members.keys():
        _check_names(what, checked, members.keys())
    return {name: members[name].decode(value) for name, value in checked.items()}


def _check_names(what: str, found: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(found).difference(known))
    if unknown:
        raise UnsupportedFeatureError(
            f"an {what} has members that this release does not know: {', '.join(unknown)}; upgrade "
            f"sparklog"
        )


# -------------------------------------------------------------------------------------- plain types


def _same(value: Any) -> Any:
    return value


def _refused(value: object, wanted: str) -> ValueError:
    return ValueError(f"{value!r:.80} where {wanted} belongs")


def integer(value: object) -> int:
    """Return a number that fits 64 bits; raises ValueError for anything else."""
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise _refused(value, "an integer")
    return value


def text(value: object) -> str:
    """Return a string; raises ValueError for anything else."""
    if type(value) is not str:
        raise _refused(value, "a string")
    return value


def texts(value: object) -> dict[str, str]:
    """Return an object of strings; raises ValueError for anything else."""
    return {name: text(one) for name, one in _mapping(value).items()}


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise _refused(value, "true or false")
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refused(value, "an object")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _refused(value, "a list")
    return value


def _integers(value: object) -> list[int]:
    return [integer(one) for one in _list(value)]


def _all(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: tuple(decode(one) for one in _list(value))


def _by_partition(encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Member:
    return Member(
        lambda value: {str(number): encode(one) for number, one in value.items()},
        lambda value: {int(number): decode(one) for number, one in _mapping(value).items()},
    )


_INTEGER: Final = Member(_same, integer)
_TEXT: Final = Member(_same, text)
_TEXTS: Final = Member(list, _all(text))


# ------------------------------------------------------------------------------------------- values


def _lists(value: Iterable[Iterable[Any]]) -> list[list[Any]]:
    return [list(one) for one in value]


def _key_of(value: object) -> SegmentKey:
    partition, path, position = _list(value)
    return SegmentKey(integer(partition), text(path), integer(position))


def _run_of(value: object) -> RunFile:
    path, *numbers = _list(value)
    return RunFile(text(path), *_integers(numbers))


def _range_of(value: object) -> OffsetRange:
    return OffsetRange(*_integers(value))


_SEGMENT_DEFAULTS: Final = {
    "log_position": 0,
    "max_timestamp": -1,
    "max_timestamp_delta": 0,
    "transactional": False,
}
_SEGMENT_TYPES: Final = {
    field.name: bool
    if pa.types.is_boolean(field.type)
    else str
    if pa.types.is_string(field.type)
    else list
    if pa.types.is_list(field.type)
    else int
    for field in SEGMENT_SCHEMA
}


def _segment_json(entry: SegmentEntry) -> Json:
    return {
        name: value
        for name, value in segment_row(entry).items()
        if value is not None and _SEGMENT_DEFAULTS.get(name) != value
    }


class _Shape(NamedTuple):
    """The types that fields of these names must have; the segments of entries have few shapes."""

    types: tuple[type, ...]
    integers: Callable[[Mapping[str, Any]], tuple[int, ...]]


@lru_cache(256)
def _shape(names: tuple[str, ...]) -> _Shape:
    _check_names("segment", names, _SEGMENT_TYPES)
    types = tuple(_SEGMENT_TYPES[name] for name in names)
    integers = [name for name in names if _SEGMENT_TYPES[name] is int]
    # An itemgetter of one name returns no tuple: the first name is given twice.
    return _Shape(types, itemgetter(*integers, *integers[:1]) if integers else lambda _: (0,))


def _segment(value: object) -> SegmentEntry:
    found = _mapping(value)
    names = tuple(found)
    shape = _shape(names)
    if tuple(map(type, found.values())) != shape.types:
        raise _refused(found, "a segment's fields")
    integers = shape.integers(found)
    if max(integers) >= _INT64 or min(integers) < -_INT64:
        raise _refused(found, "a segment's numbers")
    _integers(found.get("producer_ids", []))
    for span in found.get("aborted", ()):
        _integers(list(_mapping(span).values()))
    return segment_of(names, found.values())


def _lease_json(lease: Lease | None) -> list[Any] | None:
    return None if lease is None else [lease.owner, lease.expires_ms]


def _leases(value: object) -> dict[str, Lease | None]:
    return {
        name: None if one is None else _lease(name, *_list(one))
        for name, one in _mapping(value).items()
    }


def _lease(name: str, owner: object, expires_ms: object) -> Lease:
    return Lease(name, text(owner), integer(expires_ms))


def _broker_json(broker: Broker | None) -> list[Any] | None:
    return None if broker is None else [broker.incarnation, broker.rack, _lists(broker.endpoints)]


def _brokers(value: object) -> dict[int, Broker | None]:
    return {
        int(node_id): None if one is None else _broker(int(node_id), *_list(one))
        for node_id, one in _mapping(value).items()
    }


def _broker(node_id: int, incarnation: object, rack: object, endpoints: object) -> Broker:
    found = tuple(
        Endpoint(text(name), text(host), integer(port))
        for name, host, port in map(_list, _list(endpoints))
    )
    return Broker(node_id, text(incarnation), found, None if rack is None else text(rack))


def _users_json(users: Mapping[UserKey, ScramCredential | None]) -> list[Any]:
    return [[*key, None if one is None else _credential_json(one)] for key, one in users.items()]


def _credential_json(one: ScramCredential) -> list[Any]:
    return [*(b64encode(part).decode() for part in one[:3]), one.iterations]


def _users(value: object) -> dict[UserKey, ScramCredential | None]:
    try:
        return {
            (text(name), text(mechanism)): None if one is None else _credential(*_list(one))
            for name, mechanism, one in map(_list, _list(value))
        }
    except (TypeError, ValueError):
        raise ValueError("users that cannot be read") from None  # no error shows their keys


def _credential(salt: object, stored: object, server: object, rounds: object) -> ScramCredential:
    keys = [b64decode(text(part), validate=True) for part in (salt, stored, server)]
    return ScramCredential(keys[0], keys[1], keys[2], integer(rounds))


def _receipts_json(receipts: Mapping[ReceiptKey, Receipt]) -> list[Any]:
    return [[*key, _object(receipt, _RECEIPT)] for key, receipt in receipts.items()]


def _receipts(value: object) -> dict[ReceiptKey, Receipt]:
    found = {}
    for app_id, is_versioned, receipt in map(_list, _list(value)):
        values = {"ranges": (), **_values("receipt", receipt, _RECEIPT)}
        found[ReceiptKey(text(app_id), _flag(is_versioned))] = Receipt(**values)
    return found


def _producer_json(state: ProducerState) -> list[int]:
    """Return a state as numbers: its id, its epoch, and four of each batch."""
    return [state.producer_id, state.epoch, *chain.from_iterable(state.batches)]


def _producer_of(value: object) -> ProducerState:
    numbers = _list(value)
    # Not `_integers`: a produce of an idempotent producer has twenty of them.
    is_right = len(numbers) % _BATCH_FIELDS == 2 and set(map(type, numbers)) == {int}
    if not is_right or max(numbers) >= _INT64 or min(numbers) < -_INT64:
        raise _refused(value, "a producer's state")
    fields = iter(numbers)
    producer_id, epoch = next(fields), next(fields)
    batches = tuple(map(ProducerBatch, fields, fields, fields, fields))
    return ProducerState(producer_id, epoch, batches)


def _description(value: object) -> TopicDescription:
    return TopicDescription(**{"configs": {}, **_values("description", value, _DESCRIPTION)})


def _fold(value: object) -> FoldEdit:
    return FoldEdit(**{"runs": (), **_values("fold", value, _FOLD)})


_RUNS: Final = Member(_lists, _all(_run_of))
_FOLD: Final = {"cover": _INTEGER, "based_on": _INTEGER, "runs": _RUNS, "history": _RUNS}
_RECEIPT: Final = {
    "ranges": Member(_lists, _all(_range_of)),
    "partition_count": _INTEGER,
    "version": _INTEGER,
    "content_crc32c": _INTEGER,
}
_DESCRIPTION: Final = {
    "name": _TEXT,
    "topic_id": _TEXT,
    "num_partitions": _INTEGER,
    "configs": Member(_same, texts),
    "created_ms": _INTEGER,
    "deleted_ms": _INTEGER,
}
_SEGMENTS: Final = Member(lambda value: [_segment_json(one) for one in value], _all(_segment))
_KEYS: Final = Member(_lists, _all(_key_of))
_TOPIC: Final = {
    "description": Member(lambda value: _object(value, _DESCRIPTION), _description),
    "segments": _SEGMENTS,
    "replace": _SEGMENTS,
    "partitions": _by_partition(list, lambda one: PartitionState(*_integers(one))),
    "transactions": _by_partition(_lists, _all(lambda one: OpenTransaction(*_integers(one)))),
    "epochs": _by_partition(_lists, _all(lambda one: EpochStart(*_integers(one)))),
    "remove": _KEYS,
    "removed_ms": _INTEGER,
    "forget": _KEYS,
    "forget_receipts_before_ms": _INTEGER,
    "vacuum_horizon_ms": _INTEGER,
    "leader_epochs": _by_partition(_same, integer),
    "allow_gaps": Member(_same, _flag),
    "receipts": Member(_receipts_json, _receipts),
    "producers": _by_partition(
        lambda states: [_producer_json(one) for one in states], _all(_producer_of)
    ),
    "forget_producers_before_ms": _INTEGER,
}
_EDIT: Final = {
    "operation": _TEXT,
    "topics": Member(
        lambda value: {topic_id: _object(one, _TOPIC) for topic_id, one in value.items()},
        lambda value: {
            topic_id: TopicEdit(**_values("edit of a topic", one, _TOPIC))
            for topic_id, one in _mapping(value).items()
        },
    ),
    "leases": Member(
        lambda value: {name: _lease_json(lease) for name, lease in value.items()}, _leases
    ),
    "horizon_ms": _INTEGER,
    "level": _INTEGER,
    "forget_topics": _TEXTS,
    "forget_shared": _TEXTS,
    "fold": Member(lambda value: _object(value, _FOLD), _fold),
    "next_producer_id": _INTEGER,
    "brokers": Member(
        lambda value: {str(node_id): _broker_json(one) for node_id, one in value.items()}, _brokers
    ),
    "replaces": Member(
        lambda value: {str(node_id): one for node_id, one in value.items()},
        lambda value: {int(node_id): one for node_id, one in texts(value).items()},
    ),
    "users": Member(_users_json, _users),
}
