"""Transactional ids as JSON and back.

An id is a list: producer id, epoch, timeout_ms, status, last producer id, last epoch, number,
[[topic id, partition] …], [group …], [[group, topic, partition, offset, leader epoch, metadata] …].
"""

from collections.abc import Mapping
from typing import Any, Final

from sparklog.metadata.codec_types import (
    Json,
    Member,
    integer,
    integers,
    listed,
    lists,
    mapping,
    text,
)
from sparklog.metadata.transactions import (
    PendingOffset,
    TransactionalId,
    TransactionPartition,
    TransactionStatus,
)

_TOUCHED_AT: Final = TransactionalId._fields.index("partitions")


def _ids_json(ids: Mapping[str, TransactionalId | None]) -> Json:
    return {name: None if one is None else _id_json(one) for name, one in ids.items()}


def _id_json(one: TransactionalId) -> list[Any]:
    touched = (lists(one.partitions), list(one.groups), lists(one.offsets))
    return [*one[1:_TOUCHED_AT], *touched]


def _ids(value: object) -> dict[str, TransactionalId | None]:
    return {
        name: None if one is None else _id(name, listed(one))
        for name, one in mapping(value).items()
    }


def _id(name: str, fields: list[Any]) -> TransactionalId:
    producer_id, epoch, timeout_ms, status, last_id, last_epoch, number, *touched = fields
    partitions, groups, offsets = touched
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


TRANSACTIONAL_IDS: Final = Member(_ids_json, _ids)
"""How the transactional ids of an edit are written and read."""
