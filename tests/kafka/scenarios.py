"""What the broker is given to write, topic by topic, and what it then keeps."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.kafka.broker import Broker
from tests.kafka.client import Client, Record, partitions_of
from tests.kafka.dump import SegmentFiles

T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 7


@dataclass(frozen=True, slots=True)
class Marker:
    """A control record: it takes an offset and is no record."""

    kind: str


@dataclass(frozen=True, slots=True)
class Given:
    """A partition as it was produced: entry i was acknowledged with offset `offsets[i]`."""

    topic: str
    entries: tuple[Record | Marker, ...]
    offsets: tuple[int, ...]


def varied_records(count: int) -> list[Record]:
    """Records of every shape, with printable content; timestamps go back now and then.

    Keys are null, empty or short, values null, empty or up to 600 bytes; headers are none, one, or
    several with a null value and a name that comes twice.
    """
    headers = (
        (),
        (("h1", b"x"),),
        (("h1", b"1"), ("h2", None), ("h1", b""), ("size", b"\xff\x00")),
    )
    return [
        Record(
            key=(None, b"", f"key-{i % 37}".encode())[i % 3],
            value=(None, b"", f"value-{i}-".encode() * (i % 60 + 1))[min(i % 7, 2)],
            timestamp=T0 + 10 * i - (25 if i % 11 == 0 else 0),
            headers=headers[i % 4 % 3],
        )
        for i in range(count)
    ]


def produce_all(broker: Broker) -> dict[str, Given]:
    """Runs every scenario on a running broker: what was given, by topic."""
    runs: list[Callable[[Broker], Given]] = [
        _idempotent,
        _transactional,
        _log_append_time,
        _compacted,
    ]
    given = [_plain(broker, codec) for codec in CODECS]
    given += [_recompressed(broker, codec) for codec in CODECS[1:]]
    given += [run(broker) for run in runs]
    return {each.topic: each for each in given}


def create_topic(broker: Broker, name: str, config: Mapping[str, str] | None = None) -> None:
    """A topic of one partition that keeps everything: what the tests write is years old."""
    broker.create_topic(name, config={"retention.ms": "-1", **(config or {})})


def mount(broker: Broker, topic: str, segments: Sequence[SegmentFiles]) -> None:
    """Puts segments in the place of all that a stopped broker keeps of a topic's partition 0.

    An index that is None is left out: the broker builds it when it starts.
    """
    folder = broker.partition_dir(topic)
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for segment in segments:
        files = (segment.log, "log"), (segment.index, "index"), (segment.time_index, "timeindex")
        for source, suffix in files:
            if source is not None:
                shutil.copyfile(source, folder / f"{segment.base_offset:020d}.{suffix}")


def partition_keys(broker: Broker) -> dict[bytes, int]:
    """The partition out of seven that each of many keys went to; keys of every length up to 40."""
    broker.create_topic("partitioned", num_partitions=PARTITIONS)
    keys = [bytes((i * j + i) % 256 for j in range(i % 41)) for i in range(41 * 6)]
    return dict(zip(keys, partitions_of(broker, "partitioned", keys), strict=True))


def _plain(broker: Broker, codec: str) -> Given:
    topic = f"plain-{codec}"
    create_topic(broker, topic)
    client = Client(broker, {"compression.type": codec, "batch.num.messages": 25})
    records = varied_records(400)
    return Given(topic, tuple(records), tuple(client.send(topic, records)))


def _recompressed(broker: Broker, codec: str) -> Given:
    """The broker's own classes compress, for the topic wants another codec than the producer."""
    topic = f"recompressed-{codec}"
    create_topic(broker, topic, {"compression.type": codec})
    records = varied_records(100)
    client = Client(broker, {"batch.num.messages": 25})
    return Given(topic, tuple(records), tuple(client.send(topic, records)))


def _idempotent(broker: Broker) -> Given:
    create_topic(broker, "idempotent")
    client = Client(broker, {"enable.idempotence": True, "batch.num.messages": 10})
    records = varied_records(60)
    return Given("idempotent", tuple(records), tuple(client.send("idempotent", records)))


def _transactional(broker: Broker) -> Given:
    """A transaction that commits, one that aborts, records of nobody's, one that commits."""
    topic = "transactional"
    create_topic(broker, topic)
    client = Client(broker, {"transactional.id": "judge", "batch.num.messages": 5})
    records = varied_records(40)
    entries: list[Record | Marker] = []
    offsets: list[int] = []
    ends = (("COMMIT", client.commit), ("ABORT", client.abort), ("COMMIT", client.commit))
    for turn, (kind, end) in enumerate(ends):
        part = records[10 * turn : 10 * turn + 10]
        client.begin()
        offsets += client.send(topic, part)
        end()
        offsets.append(offsets[-1] + 1)
        entries += [*part, Marker(kind)]
    plain = records[30:]
    offsets += Client(broker).send(topic, plain)
    return Given(topic, (*entries, *plain), tuple(offsets))


def _log_append_time(broker: Broker) -> Given:
    topic = "log-append-time"
    create_topic(broker, topic, {"message.timestamp.type": "LogAppendTime"})
    client = Client(broker, {"batch.num.messages": 20})
    records = varied_records(100)
    return Given(topic, tuple(records), tuple(client.send(topic, records)))


def _compacted(broker: Broker) -> Given:
    """Three segments of the same 20 keys, compacted: the last values are left, and what is active.

    A segment is closed by the timestamps of what comes next, a day later.
    """
    topic = "compacted"
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    create_topic(broker, topic, config)
    client = Client(broker, {"batch.num.messages": 7, "compression.type": "zstd"})
    records: list[Record] = []
    offsets: list[int] = []
    for day in range(3):
        part = [_keyed(day, i) for i in range(50)]
        records += part
        offsets += client.send(topic, part)
    broker.await_cleaner(topic, 100)
    kept = _latest(records[:100], offsets[:100]) + list(
        zip(offsets[100:], records[100:], strict=True)
    )
    return Given(topic, tuple(record for _, record in kept), tuple(offset for offset, _ in kept))


def _keyed(day: int, i: int) -> Record:
    record = Record(f"k{i % (20 - day)}".encode(), f"{day}-{i}".encode(), T0 + i + day * 86_400_000)
    return replace(record, value=None) if i % 17 == 16 else record


def _latest(records: Sequence[Record], offsets: Sequence[int]) -> list[tuple[int, Record]]:
    """(offset, record) of the last record of every key, in offset order."""
    by_key = {record.key: (offset, record) for offset, record in zip(offsets, records, strict=True)}
    return sorted(by_key.values(), key=lambda pair: pair[0])
