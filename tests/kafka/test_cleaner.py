"""Compaction beside Kafka's own: the same batches, a broker's cleaner and our job, round by round.

The broker writes under cleanup.policy=delete, its segment files are copied, and only then may its
cleaner run. So both compact the same bytes at the same offsets, several segments a round.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparklog.model import AbortedRange, Codec
from sparklog.record.scan import scan_batches
from tests.compaction import Compacted
from tests.kafka.broker import Broker, running_broker
from tests.kafka.client import Client, Record, Settings, read_topic
from tests.kafka.scenarios import CODECS, T0

pytestmark = pytest.mark.kafka

ROUNDS = 3
SEGMENTS = 3
"""Of each round; the last one of the newest round is never compacted."""
KEYS = 40
DAY_MS = 86_400_000
FOREVER_MS = str(10 * 365 * DAY_MS)


@pytest.fixture(scope="module")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("cleaner") / "node") as broker:
        yield broker


@dataclass
class Twins:
    """One partition of a broker, and the same one of ours."""

    broker: Broker
    topic: str
    delete_retention_ms: str
    ours: Compacted = field(init=False)
    written: list[tuple[int, Record]] = field(default_factory=list)
    copied: set[str] = field(default_factory=set)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    """First and last offset of each aborted transaction."""

    def __post_init__(self) -> None:
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.ms": str(DAY_MS // 24),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": self.delete_retention_ms,
        }
        self.broker.create_topic(self.topic, config=configs)
        self.ours = Compacted(delete_retention_ms=self.delete_retention_ms)

    def send(self, client: Client, records: list[Record]) -> None:
        """Produce; the first record of a day rolls a segment."""
        offsets = client.send(self.topic, records)
        self.written += zip(offsets, records, strict=True)

    def copy(self) -> None:
        """Append the broker's new segments to our log, byte for byte."""
        for files in self.broker.segments(self.topic):
            if files.log.name not in self.copied:
                self.copied.add(files.log.name)
                self._append(files.log)

    def _append(self, log: Path) -> None:
        data = log.read_bytes()
        batches = scan_batches(data).batches
        first, last = int(batches.base_offset[0]), int(batches.last_offset[-1])
        aborted = tuple(
            AbortedRange(int(batches.producer_id.max()), start - first, end - first)
            for start, end in self.aborted
            if start <= last and end >= first
        )
        assert self.ours.partition.end == first == int(log.stem)
        self.ours.partition.append(lambda _: data, sealed=True, aborted=aborted)

    def compact(self) -> None:
        """Let the broker's cleaner run, and our job."""
        end = max(int(files.log.stem) for files in self.broker.segments(self.topic))
        self.broker.set_topic_config(self.topic, "cleanup.policy", "compact")
        self.broker.await_cleaner(self.topic, end)
        self.broker.set_topic_config(self.topic, "cleanup.policy", "delete")
        self.ours.compact()
        self.ours.wait(1)

    @property
    def theirs_left(self) -> list[tuple[int, Record]]:
        """What a consumer of the broker gets."""
        return read_topic(self.broker, self.topic)

    @property
    def ours_left(self) -> list[tuple[int, Record]]:
        """What a reader of ours gets."""
        return [
            (one.offset, Record(one.key, one.value, one.timestamp, one.headers))
            for one in self.ours.records
            if not any(first <= one.offset <= last for first, last in self.aborted)
        ]

    @property
    def must_stay(self) -> list[tuple[int, Record]]:
        """What no cleaner may drop: the latest value of each key, and all that is not cleaned."""
        end = self.ours.partition.log.cleaner_offset
        live = [
            (offset, record)
            for offset, record in self.written
            if not any(first <= offset <= last for first, last in self.aborted)
        ]
        latest = {record.key: offset for offset, record in live if offset < end}
        return [
            (offset, record)
            for offset, record in live
            if offset >= end
            or (
                (record.key is not None and record.value is not None)
                and latest[record.key] == offset
            )
        ]


def keyed(draw: random.Random, day: int) -> list[Record]:
    """Records of one day: some keys often, some once; tombstones, null keys, headers."""
    headers = ((), (("h1", b"x"),), (("h1", b"1"), ("h2", None), ("h1", b"")))
    return [
        Record(
            key=draw.choice((None, b"")) if draw.random() < 0.1 else key(draw, day),
            value=None if draw.random() < 0.25 else f"{day}-{i}-".encode() * draw.randint(0, 20),
            timestamp=T0 + day * DAY_MS + 10 * i - draw.choice((0, 0, 25)),
            headers=draw.choice(headers),
        )
        for i in range(draw.randint(60, 150))
    ]


def key(draw: random.Random, day: int) -> bytes:
    """One of some keys that come every day, or of some of that day alone."""
    number = draw.randrange(KEYS)
    return f"key-{number}".encode() if number % 4 else f"key-{number}-of-day-{day}".encode()


def days(twins: Twins, clients: list[Client], seed: int) -> Iterator[int]:
    """Produce round after round; the caller compacts between them."""
    draw = random.Random(seed)
    for round_number in range(ROUNDS):
        for day in range(round_number * SEGMENTS, (round_number + 1) * SEGMENTS):
            twins.send(draw.choice(clients), keyed(draw, day))
        twins.copy()
        yield round_number


def assert_the_same(twins: Twins) -> None:
    """Both cleaned as far, left the same records, and ours has what must stay."""
    ours, theirs = twins.ours_left, twins.theirs_left
    cleaned = twins.ours.partition.log.cleaner_offset

    assert cleaned == twins.broker.cleaner_offset(twins.topic)
    assert ours == theirs
    assert [one for one in twins.must_stay if one not in ours] == []


class TestCleaner:
    @pytest.mark.parametrize("delete_retention_ms", ["0", FOREVER_MS])
    @pytest.mark.parametrize("codecs", [("none",), CODECS], ids=["plain", "every codec"])
    def test_leaves_what_the_broker_leaves(
        self, broker: Broker, delete_retention_ms: str, codecs: tuple[str, ...]
    ) -> None:
        twins = Twins(broker, f"of-{len(codecs)}-{delete_retention_ms}", delete_retention_ms)
        clients = [client(broker, codec) for codec in codecs]
        for _ in days(twins, clients, seed=len(codecs)):
            twins.compact()

            assert_the_same(twins)

    def test_drops_tombstones_in_the_round_that_the_broker_drops_them(self, broker: Broker) -> None:
        twins = Twins(broker, "tombstones", "0")
        seen_before = 0
        for _ in days(twins, [client(broker, "zstd")], seed=9):
            twins.compact()
            tombstones = [offset for offset, one in twins.ours_left if one.value is None]

            assert_the_same(twins)
            assert len(twins.ours_left) < len(twins.written)
            assert min(tombstones) >= seen_before
            seen_before = twins.ours.partition.log.cleaner_offset

    def test_drops_records_of_an_aborted_transaction(self, broker: Broker) -> None:
        twins = Twins(broker, "aborted", FOREVER_MS)
        draw, other = random.Random(3), client(broker, "none")
        writer = client(broker, "none", {"transactional.id": "cleaned"})
        for day, end in enumerate((writer.commit, writer.abort, writer.commit, writer.abort)):
            writer.begin()
            twins.send(writer, keyed(draw, 2 * day))
            end()
            if end == writer.abort:
                twins.aborted.append(last_transaction(twins))
            twins.send(other, keyed(draw, 2 * day + 1))
        twins.copy()
        twins.compact()

        assert_the_same(twins)

    def test_keeps_every_batch_of_the_broker_and_its_place(self, broker: Broker) -> None:
        twins = Twins(broker, "batches", FOREVER_MS)
        for _ in days(twins, [client(broker, "gzip"), client(broker, "none")], seed=5):
            twins.compact()

            assert batches_of_ours(twins) == batches_of_theirs(twins)


def client(broker: Broker, codec: str, settings: Settings | None = None) -> Client:
    """A producer of small batches."""
    more: Settings = {"compression.type": codec, "batch.num.messages": 12}
    return Client(broker, {**more, **(settings or {})})


def last_transaction(twins: Twins) -> tuple[int, int]:
    """First and last offset of the records of the day that was written last."""
    day = (twins.written[-1][1].timestamp - T0) // DAY_MS
    offsets = [
        offset for offset, one in twins.written if abs((one.timestamp - T0) / DAY_MS - day) < 0.5
    ]
    return offsets[0], offsets[-1]


Batch = tuple[int, int, int, int, Codec]
"""First and last offset, records, newest time, codec."""


def batches_of_theirs(twins: Twins) -> list[Batch]:
    """The batches in the broker's files."""
    logs = [files.log.read_bytes() for files in twins.broker.segments(twins.topic)]
    return [one for data in logs for one in described(data)]


def batches_of_ours(twins: Twins) -> list[Batch]:
    """The batches in ours."""
    partition = twins.ours.partition
    paths = [partition.path(slot=slot) for slot in range(len(partition.segments))]
    return [one for path in paths for one in described(partition.bytes_of(path))]


def described(data: bytes) -> list[Batch]:
    """Each batch of a `.log`, as far as a cleaner has no choice."""
    batches = scan_batches(data).batches
    columns = (
        batches.base_offset,
        batches.last_offset,
        batches.record_count,
        batches.max_timestamp,
        batches.codec,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))
