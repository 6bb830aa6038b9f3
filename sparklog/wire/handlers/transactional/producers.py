"""DescribeProducers: the remembered producers of partitions, and their open transactions.

Every instance knows all producers, not only the leader (KIP-664). `kafka-transactions.sh` uses this
request to find a producer that has left a transaction open.
"""

from typing import Any, Final

from sparklog.errors import ErrorCode
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.partition_log import PartitionLog
from sparklog.metadata.state.producers import ProducerState
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.partitions import NO_EPOCH, newest_image_of, readable

NONE_YET: Final = -1
"""Stands for a sequence, an epoch or an offset that a producer does not have."""
MARKER_EPOCH: Final = 0
"""The coordinator epoch of every marker (`encode_marker`)."""


async def describe_producers(call: Call) -> Reply:
    """Return the answer: for each partition the remembered producers, by their ids."""
    request = await call.request()
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # each partition once: it may have many producers
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    image = await newest_image_of(call, asked)

    def described() -> Reply:
        topics = [
            {"name": name, "partitions": [_described(call, image, name, one) for one in numbers]}
            for name, numbers in asked.items()
        ]
        return call.answer({"topics": topics})

    return await call.gateway.at_length(described)


def _described(call: Call, image: Image, name: str, partition: int) -> dict[str, Any]:
    log = readable(call, image, name, partition, NO_EPOCH)
    if isinstance(log, int):
        return {"partition_index": partition, "error_code": log}
    producers = [_told(log, log.producers[number]) for number in sorted(log.producers)]
    return {
        "partition_index": partition,
        "error_code": ErrorCode.NONE,
        "active_producers": producers,
    }


def _told(log: PartitionLog, producer: ProducerState) -> dict[str, int]:
    """Return the fields of a producer.

    Behind a marker of a new epoch it has no batches, but the marker's time. Then, and in an open
    transaction, it has the coordinator epoch of all markers: clients send it to abort the
    transaction (`Admin.abortTransaction`). A broker tells it from the first marker on.
    """
    number = producer.producer_id
    newest = producer.batches[-1] if producer.batches else None
    begun = [one.first_offset for one in log.transactions if one.producer_id == number]
    return {
        "producer_id": number,
        "producer_epoch": producer.epoch,
        "last_sequence": NONE_YET if newest is None else newest.last_sequence,
        "last_timestamp": producer.used_ms if newest is None else newest.timestamp_ms,
        "coordinator_epoch": MARKER_EPOCH if begun or newest is None else NONE_YET,
        "current_txn_start_offset": min(begun, default=NONE_YET),
    }
