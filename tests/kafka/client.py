"""librdkafka as the other side: produces to a broker what a test says, and reads a topic back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from sparklog.model import READ_COMMITTED
from tests.kafka.broker import Broker

TIMEOUT_S = 30.0

Headers = tuple[tuple[str, bytes | None], ...]
Settings = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Record:
    """What is produced, or was read. No headers are an empty tuple."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


Found = list[tuple[int, Record]]
"""Records and their offsets."""


LINGER_MS = 10_000
"""Longer than any `send`: a batch leaves when it is full, or when `flush` asks for the rest.

librdkafka's own 5 ms cut batches wherever this process was held up, and it does not compress a
batch that is too small to become smaller.
"""


class Client:
    """A producer that knows the offsets it was given."""

    def __init__(self, broker: Broker, settings: Settings | None = None) -> None:
        own = {"log_level": 2, "linger.ms": LINGER_MS, "bootstrap.servers": broker.bootstrap}
        self._producer = Producer({**own, **(settings or {})})
        self._offsets: list[int | None] = []

    def send(self, topic: str, records: Iterable[Record], partition: int = 0) -> list[int]:
        """The offset of each record, when all are acknowledged."""
        first = len(self._offsets)
        for record in records:
            self._queue(topic, record, partition)
        unsent = self._producer.flush(TIMEOUT_S)
        offsets = [offset for offset in self._offsets[first:] if offset is not None]
        if unsent or len(offsets) != len(self._offsets) - first:
            raise RuntimeError(f"{unsent} records for {topic} were not acknowledged")
        return offsets

    def begin(self) -> None:
        """Begins a transaction; the first one makes the producer known to the broker."""
        if not self._offsets:
            self._producer.init_transactions(TIMEOUT_S)
        self._producer.begin_transaction()

    def commit(self) -> None:
        """Commits: a COMMIT marker follows the records."""
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        """Aborts: an ABORT marker follows the records that were sent."""
        self._producer.abort_transaction(TIMEOUT_S)

    def _queue(self, topic: str, record: Record, partition: int) -> None:
        slot = len(self._offsets)
        self._offsets.append(None)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._offsets[slot] = message.offset()

        self._producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        self._producer.poll(0)


def partitions_of(broker: Broker, topic: str, keys: Iterable[bytes]) -> list[int]:
    """Where the default partitioner of the Java producer, as librdkafka has it, puts each key."""
    settings = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2", "log_level": 2}
    producer = Producer(settings)
    found: dict[bytes, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        key, partition = message.key(), message.partition()
        if error is None and key is not None and partition is not None:
            found[key] = partition

    wanted = list(keys)
    for key in wanted:
        producer.produce(topic, key=key, value=b"", on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    return [found[key] for key in wanted]


def read_topic(broker: Broker, topic: str, partition: int = 0) -> Found:
    """(offset, record) of every record that is not aborted, from the log's start to its end."""
    return read_from(broker.bootstrap, topic, partition)


def read_from(
    address: str, topic: str, partition: int = 0, isolation: str = READ_COMMITTED
) -> Found:
    """The same from any server, to an isolation level's end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "log_level": 2,
        }
    )
    found: Found = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise RuntimeError(f"no message and no end of {topic} within {TIMEOUT_S} s")
            error = message.error()
            if error is None:
                found.append((_offset(message), _record(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def offsets_for_times(
    broker: Broker, topic: str, times: Iterable[int], partition: int = 0
) -> list[int]:
    """The broker's answers: -1, or the log's end, where no record is as new."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    try:
        asked = [TopicPartition(topic, partition, time) for time in times]
        return [consumer.offsets_for_times([one], timeout=30)[0].offset for one in asked]
    finally:
        consumer.close()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _record(message: Message) -> Record:
    pairs: Any = message.headers() or ()
    headers = tuple((name, value) for name, value in pairs)
    kind, time = message.timestamp()
    is_timeless = kind == TIMESTAMP_NOT_AVAILABLE
    return Record(message.key(), message.value(), -1 if is_timeless else time, headers)
