"""Edits as JSON and back: the `edits` of an entry.

An object has the fields of its class; a field with its default value is left out. Small tuples are
lists. The path of an index file beside its log is "" (`state.segment_tables`). A member that this
release does not know is refused, because it may change the meaning of the others. A value of a
wrong type is refused too, so every decoded edit can be applied.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from sparklog.metadata.codec.segments import segment_json, segment_of
from sparklog.metadata.codec.transactions import ADDED, TRANSACTIONAL_IDS
from sparklog.metadata.codec.types import (
    INTEGER,
    TEXT,
    TEXTS,
    Json,
    Member,
    all_of,
    by_number,
    check_integers,
    check_names,
    flag,
    integer,
    integers,
    listed,
    lists,
    mapping,
    refused,
    same,
    text,
    texts,
)
from sparklog.metadata.state.cluster import Broker, Endpoint, ScramCredential, UserKey
from sparklog.metadata.state.edit import (
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
    with_fields,
)
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.model import OffsetRange, SegmentKey, TopicDescription

_BATCH_FIELDS: Final = len(ProducerBatch._fields)


def edit_json(edit: Edit) -> Json:
    """Return an edit as a JSON object."""
    return _object(edit, _EDIT)


def edit_of(found: object, parameters: Mapping[str, str]) -> Edit:
    """Return the edit of a JSON object; `parameters` are those of its entry.

    Raises UnsupportedFeatureError for a member that this release does not know; ValueError,
    TypeError or UsageError for an object that is no edit.
    """
    values = _values("edit", found, _EDIT)
    text(values.get("operation"))
    values["parameters"] = parameters
    return with_fields(Edit, values)


def _object(value: object, members: Mapping[str, Member]) -> Json:
    found: Json = {}
    for name, member in members.items():
        part = getattr(value, name)
        if part or (part is not None and part is not False and isinstance(part, int)):
            found[name] = member.encode(part)
    return found


def _values(what: str, found: object, members: Mapping[str, Member]) -> Json:
    checked = mapping(found)
    if not checked.keys() <= members.keys():
        check_names(what, checked, members.keys())
    return {name: members[name].decode(value) for name, value in checked.items()}


# ------------------------------------------------------------------------------------------- values


def _keys(value: object) -> tuple[SegmentKey, ...]:
    rows = listed(value)
    if not rows:
        return ()
    partitions, paths, positions = zip(*map(listed, rows), strict=True)
    # Column by column: an edit of retention or vacuum has tens of thousands.
    check_integers(partitions)
    check_integers(positions)
    if set(map(type, paths)) != {str}:
        raise refused(paths, "paths")
    return tuple(map(SegmentKey, partitions, paths, positions))


def _run_of(value: object) -> RunFile:
    path, *numbers = listed(value)
    return RunFile(text(path), *integers(numbers))


def _range_of(value: object) -> OffsetRange:
    return OffsetRange(*integers(value))


def _lease_json(lease: Lease | None) -> list[Any] | None:
    return None if lease is None else [lease.owner, lease.expires_ms]


def _leases(value: object) -> dict[str, Lease | None]:
    return {
        name: None if one is None else _lease(name, *listed(one))
        for name, one in mapping(value).items()
    }


def _lease(name: str, owner: object, expires_ms: object) -> Lease:
    return Lease(name, text(owner), integer(expires_ms))


def _broker_json(broker: Broker | None) -> list[Any] | None:
    return None if broker is None else [broker.incarnation, broker.rack, lists(broker.endpoints)]


def _brokers(value: object) -> dict[int, Broker | None]:
    return {
        int(node_id): None if one is None else _broker(int(node_id), *listed(one))
        for node_id, one in mapping(value).items()
    }


def _broker(node_id: int, incarnation: object, rack: object, endpoints: object) -> Broker:
    found = tuple(
        Endpoint(text(name), text(host), integer(port))
        for name, host, port in map(listed, listed(endpoints))
    )
    return Broker(node_id, text(incarnation), found, None if rack is None else text(rack))


def _users_json(users: Mapping[UserKey, ScramCredential | None]) -> list[Any]:
    return [[*key, None if one is None else _credential_json(one)] for key, one in users.items()]


def _credential_json(one: ScramCredential) -> list[Any]:
    return [*(b64encode(part).decode() for part in one[:3]), one.iterations]


def _users(value: object) -> dict[UserKey, ScramCredential | None]:
    try:
        return {
            (text(name), text(mechanism)): None if one is None else _credential(*listed(one))
            for name, mechanism, one in map(listed, listed(value))
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
    for app_id, is_versioned, receipt in map(listed, listed(value)):
        values = {"ranges": (), **_values("receipt", receipt, _RECEIPT)}
        found[ReceiptKey(text(app_id), flag(is_versioned))] = Receipt(**values)
    return found


def producer_json(state: ProducerState) -> list[int]:
    """Return a state as numbers: its id, its epoch, and four of each batch (ProducerBatch)."""
    return [state.producer_id, state.epoch, *chain.from_iterable(state.batches)]


def _producer_of(value: object) -> ProducerState:
    numbers = listed(value)
    # Not `integers`: a produce of an idempotent producer has twenty of them.
    if len(numbers) % _BATCH_FIELDS != 2:
        raise refused(value, "a producer's state")
    check_integers(numbers)
    fields = iter(numbers)
    producer_id, epoch = next(fields), next(fields)
    batches = tuple(map(ProducerBatch, fields, fields, fields, fields))
    return ProducerState(producer_id, epoch, batches)


def _description(value: object) -> TopicDescription:
    return TopicDescription(**{"configs": {}, **_values("description", value, _DESCRIPTION)})


def _fold(value: object) -> FoldEdit:
    return FoldEdit(**{"runs": (), **_values("fold", value, _FOLD)})


def _topic(value: object) -> TopicEdit:
    edit = with_fields(TopicEdit, _values("edit of a topic", value, _TOPIC))
    edit.check()
    return edit


_RUNS: Final = Member(lists, all_of(_run_of))
_FOLD: Final = {"cover": INTEGER, "based_on": INTEGER, "runs": _RUNS, "history": _RUNS}
_RECEIPT: Final = {
    "ranges": Member(lists, all_of(_range_of)),
    "partition_count": INTEGER,
    "version": INTEGER,
    "content_crc32c": INTEGER,
}
_DESCRIPTION: Final = {
    "name": TEXT,
    "topic_id": TEXT,
    "num_partitions": INTEGER,
    "configs": Member(same, texts),
    "created_ms": INTEGER,
    "deleted_ms": INTEGER,
}
_SEGMENTS: Final = Member(lambda value: [segment_json(one) for one in value], all_of(segment_of))
_KEYS: Final = Member(lists, _keys)
_TOPIC: Final = {
    "description": Member(lambda value: _object(value, _DESCRIPTION), _description),
    "segments": _SEGMENTS,
    "replace": _SEGMENTS,
    "partitions": by_number(list, lambda one: PartitionState(*integers(one))),
    "transactions": by_number(lists, all_of(lambda one: OpenTransaction(*integers(one)))),
    "epochs": by_number(lists, all_of(lambda one: EpochStart(*integers(one)))),
    "remove": _KEYS,
    "removed_ms": INTEGER,
    "forget": _KEYS,
    "forget_receipts_before_ms": INTEGER,
    "vacuum_horizon_ms": INTEGER,
    "leader_epochs": by_number(same, integer),
    "allow_gaps": Member(same, flag),
    "receipts": Member(_receipts_json, _receipts),
    "producers": by_number(
        lambda states: [producer_json(one) for one in states], all_of(_producer_of)
    ),
    "forget_producers_before_ms": INTEGER,
}
_EDIT: Final = {
    "operation": TEXT,
    "topics": Member(
        lambda value: {topic_id: _object(one, _TOPIC) for topic_id, one in value.items()},
        lambda value: {topic_id: _topic(one) for topic_id, one in mapping(value).items()},
    ),
    "leases": Member(
        lambda value: {name: _lease_json(lease) for name, lease in value.items()}, _leases
    ),
    "horizon_ms": INTEGER,
    "level": INTEGER,
    "forget_topics": TEXTS,
    "forget_shared": TEXTS,
    "fold": Member(lambda value: _object(value, _FOLD), _fold),
    "next_producer_id": INTEGER,
    "brokers": Member(
        lambda value: {str(node_id): _broker_json(one) for node_id, one in value.items()}, _brokers
    ),
    "replaces": by_number(same, text),
    "users": Member(_users_json, _users),
    "transactional_ids": TRANSACTIONAL_IDS,
    "added_to_transactions": ADDED,
    "ended_log": TEXT,
}
