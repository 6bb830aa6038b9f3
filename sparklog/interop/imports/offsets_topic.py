"""Checks the import of a broker's __consumer_offsets: its groups go on here, members and offsets.

The hash of a group and the number of partitions give the group's partition. So the topic must be
imported as a whole, with the same number of partitions, or not at all.
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
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.java_records import records_at
from sparklog.interop.imports.coordinator_log import batches_of
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import TopicDescription


def check_whole(partitions: Sequence[PartitionDir]) -> None:
    """Check that all partitions of the topic are there, and that none has a `problem`.

    To notice that the last partitions are missing, it reads the first group of each partition: with
    too few partitions, this group belongs to another one.

    `partitions` are those of the topic; an empty sequence is accepted. Raises LogDirError, and the
    problem of a partition.
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
    """Return the first group in a partition; None if it has none, or if it is damaged."""
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
    """Check that the topic has the same number of partitions here, and that no config is given.

    `known` is the topic here, None if it does not exist. Raises InvalidOptionError for configs, and
    LogDirError for another number of partitions.
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
    """Check that no transaction is open in a partition of the topic: nothing would end it here.

    Raises InvalidTxnStateError.
    """
    if topic.name == OFFSETS_TOPIC and transactions:
        raise InvalidTxnStateError(
            f"producer {transactions[0].producer_id} has offsets in a transaction that is open: "
            f"let it end at the broker, or abort it there, then import again"
        )
