"""Transactional ids as JSON and back.

An id is a list: producer id, epoch, timeout_ms, status, last producer id, last epoch, number,
[[topic id, partition] …], [group …], [[group, topic, partition, offset, leader epoch, metadata] …].
An `Added` is a list of the last three.
"""

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any, Final

from sparklog.metadata.codec.types import (
    Json,
    Member,
    all_are,
    are_integers,
    integer,
    integers,
    listed,
    lists,
    mapping,
    text,
)
from sparklog.metadata.state.transactions import (
    Added,
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)

_TOUCHED_AT: Final = TransactionalId._fields.index("partitions")
_TYPES: Final = (
    str,
    int,
    int,
    int,
    TransactionStatus,
    int,
    int,
    int,
    tuple,
    tuple,
    tuple,
    int,
    int,
)
_NUMBERS: Final = itemgetter(*(slot for slot, kind in enumerate(_TYPES) if kind is int))


def _ids_json(ids: Mapping[str, TransactionalId | None]) -> Json:
    return {name: None if one is None else _id_json(one) for name, one in ids.items()}


def _id_json(one: TransactionalId) -> list[Any]:
    return [*one[1:_TOUCHED_AT], *_touched_json(one)]


def _touched_json(one: TransactionalId | Added) -> list[Any]:
    return [lists(one.partitions), list(one.groups), lists(one.offsets)]


def _all_added_json(added: Mapping[str, Added]) -> Json:
    return {name: _touched_json(one) for name, one in added.items()}


def _ids(value: object) -> dict[str, TransactionalId | None]:
    return {
        name: None if one is None else _id(name, listed(one))
        for name, one in mapping(value).items()
    }


def _id(name: str, fields: list[Any]) -> TransactionalId:
    producer_id, epoch, timeout_ms, status, last_id, last_epoch, number, *touched = fields
    first_id, epoch, timeout, before, epoch_before, count = integers(
        [producer_id, epoch, timeout_ms, last_id, last_epoch, number]
    )
    return TransactionalId(
        transactional_id=name,
        producer_id=first_id,
        epoch=epoch,
        timeout_ms=timeout,
        status=TransactionStatus(text(status)),
        last_producer_id=before,
        last_epoch=epoch_before,
        number=count,
        **_added(touched)._asdict(),
    )


def _all_added(value: object) -> dict[str, Added]:
    return {name: _added(listed(one)) for name, one in mapping(value).items()}


def _added(value: list[Any]) -> Added:
    partitions, groups, offsets = value
    return Added(
        partitions=tuple(
            TransactionPartition(text(topic_id), integer(partition))
            for topic_id, partition in map(listed, listed(partitions))
        ),
        groups=tuple(map(text, listed(groups))),
        offsets=tuple(_pending_offset(*listed(one)) for one in listed(offsets)),
    )


def _pending_offset(group_id: object, topic: object, *numbers: object) -> PendingOffset:
    *places, metadata = numbers
    partition, offset, leader_epoch = integers(places)
    return PendingOffset(
        text(group_id), text(topic), partition, offset, leader_epoch, text(metadata)
    )


def plain_ids_json(ids: Mapping[str, TransactionalId | None]) -> Json | None:
    """Return the object of TRANSACTIONAL_IDS, for ids that a reader decodes as they are; else None.

    The times of an id do not count: an image sets them.
    """
    is_plain = type(ids) is dict and all(_is_plain(name, one) for name, one in ids.items())
    return _ids_json(ids) if is_plain else None


def _is_plain(name: str, one: TransactionalId | None) -> bool:
    return (
        type(one) is TransactionalId
        and tuple(map(type, one)) == _TYPES
        and one.transactional_id == name
        and are_integers(_NUMBERS(one))
        and _is_touched_plain(one)
    )


def plain_added_json(added: Mapping[str, Added]) -> Json | None:
    """Return the object of ADDED, for values that a reader decodes as they are; else None."""
    is_plain = (
        type(added) is dict
        and all_are(str, added)
        and all_are(Added, added.values())
        and all(all_are(tuple, one) and _is_touched_plain(one) for one in added.values())
    )
    return _all_added_json(added) if is_plain else None


def _is_touched_plain(one: TransactionalId | Added) -> bool:
    return (
        _are_plain(one.partitions, TransactionPartition, str, int)
        and all_are(str, one.groups)
        and _are_plain(one.offsets, PendingOffset, str, str, int, int, int, str)
    )


def _are_plain(rows: Collection[tuple[Any, ...]], kind: type, *types: type) -> bool:
    """Whether the rows are of a NamedTuple whose fields have these types."""
    return all_are(kind, rows) and all(
        are_integers(column) if wanted is int else all_are(wanted, column)
        for wanted, column in zip(types, zip(*rows, strict=True), strict=False)
    )


TRANSACTIONAL_IDS: Final = Member(_ids_json, _ids)
"""How the transactional ids of an edit are written and read."""
ADDED: Final = Member(_all_added_json, _all_added)
"""How the additions to open transactions are written and read."""
