"""A broker's __consumer_offsets, adopted: its groups go on here, members and offsets.

A group belongs to the partition that its hash and the number of partitions give. So the topic is
adopted whole, with as many partitions, or not at all.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import GROUP_RECORDS, OFFSETS_TOPIC, read_record
from sparklog.errors import (
    CorruptionError,
    InvalidOptionError,
    InvalidTxnStateError,
    LogDirError,
    UnknownRecordTypeError,
)
from sparklog.interop.broker_dir import PartitionDir
from sparklog.interop.coordinator_log import batches_of
from sparklog.interop.java_records import records_at
from sparklog.metadata.edit import OpenTransaction
from sparklog.model import TopicDescription


def check_whole(partitions: Sequence[PartitionDir]) -> None:
    """Refuse directories that lack partitions of the topic, and one with a damaged one.

    If the last partitions are missing, groups do not belong to the partitions that they lie in; the
    first group of each partition is looked at.

    `partitions` are those of the topic; none are all right. Raises LogDirError, and the problem of
    a partition.
    """
    for one in partitions:
        if one.problem is not None:
            raise one.problem
    numbers = sorted(one.topic_partition.partition for one in partitions)
    if numbers != list(range(len(numbers))):
        raise LogDirError(
            f"{OFFSETS_TOPIC} is not whole: here are {len(numbers)} of at least {numbers[-1] + 1} "
            f"partitions; give the log directories of all brokers at once, or take the offsets "
            f"alone with --consumer-offsets"
        )
    for one in partitions:
        number = one.topic_partition.partition
        group_id = _first_group(one)
        due = number if group_id is None else partition_of(group_id, len(numbers))
        if due != number:
            raise LogDirError(
                f"{OFFSETS_TOPIC} is not whole: {one.path} has group {group_id!r}, which with "
                f"{len(numbers)} partitions belongs to {due}: the last ones are missing; give the "
                f"log directories of all brokers at once"
            )


def _first_group(partition: PartitionDir) -> str | None:
    """Return the group that a partition names first; None without one, and where it is damaged."""
    with suppress(CorruptionError):  # the import reports it
        for view, batch, _, _ in batches_of(partition):
            if batch.is_control[0]:
                continue
            for record in records_at(view, int(batch.position[0]), int(batch.size[0])):
                with suppress(UnknownRecordTypeError):
                    key = read_record(GROUP_RECORDS, record.key, None).key
                    return str(key.get("group", key.get("groupId")))
    return None


def check_adoptable(
    known: TopicDescription | None, num_partitions: int, config: Mapping[str, str]
) -> None:
    """Refuse the topic if it is here with another number of partitions, or if it is given configs.

    `known` is the topic as it is here. Raises InvalidOptionError, LogDirError.
    """
    if config:
        raise InvalidOptionError(
            f"{OFFSETS_TOPIC} has configs of its own: import it without any", option="config"
        )
    if known is not None and known.num_partitions != num_partitions:
        raise LogDirError(
            f"{OFFSETS_TOPIC} has {known.num_partitions} partitions here and {num_partitions} "
            f"there, so its groups belong to others: use --consumer-offsets"
        )


def check_settled(topic: TopicDescription, transactions: Sequence[OpenTransaction]) -> None:
    """Refuse a partition of the topic that ends inside a transaction: nothing would end it here.

    Raises InvalidTxnStateError.
    """
    if topic.name == OFFSETS_TOPIC and transactions:
        raise InvalidTxnStateError(
            f"producer {transactions[0].producer_id} has offsets in a transaction that is open: "
            f"let it end at the broker, or abort it there, then import again"
        )
