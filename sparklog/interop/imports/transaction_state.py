"""The transactional ids of a broker, from its __transaction_state.

The last record of an id counts; a null value deletes it. See TransactionLog and TransactionMetadata
of Kafka 4.1.1.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from sparklog.coordinator.records import TRANSACTION_RECORDS, read_record
from sparklog.errors import CorruptRecordError, UnknownRecordTypeError
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.file_records import Bytes
from sparklog.interop.broker_files.java_records import JavaRecord, records_at
from sparklog.interop.imports.coordinator_log import each_batch
from sparklog.model import TopicPartition
from sparklog.record.batches import BatchTable

TRANSACTIONS_TOPIC: Final = "__transaction_state"
IDS_MAX: Final = 1_000_000
"""The most ids in memory: a small compressed file may hold any number of them."""
NO_PRODUCER: Final = -1
BUMPS_FROM: Final = 2
"""The first transaction.version with which each end raises the epoch (KIP-890)."""


class BrokerStatus(IntEnum):
    """The state of a transaction as a broker writes it (TransactionState)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class BrokerTransaction(NamedTuple):
    """A transactional id at a broker; producer ids are -1 where there is none.

    `next_producer_id` is the producer id after the prepared end. `bumps`: each end by this client
    raises the epoch.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: BrokerStatus
    partitions: tuple[TopicPartition, ...]
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    bumps: bool = False


def broker_transactions(partitions: Iterable[PartitionDir]) -> list[BrokerTransaction]:
    """Return the transactional ids, by name; those that are Dead are left out.

    `partitions` are those of __transaction_state. Raises CorruptRecordError naming the file.
    """
    found: dict[str, BrokerTransaction] = {}

    def take(view: Bytes, batch: BatchTable) -> None:
        if batch.is_control[0]:
            return
        for record in records_at(view, int(batch.position[0]), int(batch.size[0])):
            _apply(record, found)
        if len(found) > IDS_MAX:
            raise CorruptRecordError(f"more than {IDS_MAX} transactional ids")

    for partition in partitions:
        each_batch(partition, take)
    return [one for _, one in sorted(found.items()) if one.status is not BrokerStatus.DEAD]


def _apply(record: JavaRecord, found: dict[str, BrokerTransaction]) -> None:
    try:
        read = read_record(TRANSACTION_RECORDS, record.key, record.value)
    except UnknownRecordTypeError:
        return
    name = read.key["transactionalId"]
    if read.value is None:
        found.pop(name, None)
    else:
        found[name] = _transaction(name, read.value)


def _transaction(name: str, value: dict[str, Any]) -> BrokerTransaction:
    status = value["transactionStatus"]
    if status not in iter(BrokerStatus):
        raise CorruptRecordError(f"transactional id {name!r}: status {status}; there are 0 to 7")
    return BrokerTransaction(
        name,
        value["producerId"],
        value["producerEpoch"],
        value["transactionTimeoutMs"],
        BrokerStatus(status),
        tuple(
            TopicPartition(one["topic"], number)
            for one in value["transactionPartitions"] or ()
            for number in one["partitionIds"] or ()
        ),
        _tag(value, "previousProducerId"),
        _tag(value, "nextProducerId"),
        (value.get("clientTransactionVersion") or 0) >= BUMPS_FROM,
    )


def _tag(value: dict[str, Any], name: str) -> int:
    found = value.get(name)
    return NO_PRODUCER if found is None else int(found)
