"""A broker's __consumer_offsets, adopted: its groups go on here, members and offsets.

A group belongs to the partition that its hash and the number of partitions give. So the topic is
adopted whole, with as many partitions, or not at all.
"""

from collections.abc import Mapping, Sequence

from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import InvalidOptionError, InvalidTxnStateError, LogDirError
from sparklog.interop.broker_dir import PartitionDir
from sparklog.metadata.edit import OpenTransaction
from sparklog.model import TopicDescription


def check_whole(partitions: Sequence[PartitionDir]) -> None:
    """Refuse a directory that lacks partitions of the topic, and one with a damaged one.

    `partitions` are those of the topic; none are all right. Raises LogDirError, and the problem of
    a partition.
    """
    for one in partitions:
        if one.problem is not None:
            raise one.problem
    numbers = sorted(one.topic_partition.partition for one in partitions)
    if numbers != list(range(len(numbers))):
        raise LogDirError(
            f"{OFFSETS_TOPIC} is not whole: the directory has {len(numbers)} of at least "
            f"{numbers[-1] + 1} partitions; use --consumer-offsets on each broker's directory"
        )


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
