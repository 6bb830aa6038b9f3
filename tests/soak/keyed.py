"""The compacted topic: its writers, its readers, and the records that a reader may see.

Key and tombstone follow from a value, so that a record is known by its value, and a tombstone by
its key and offset. The records that an image shows, folded into a table of the latest value of each
key, equal the table of all records ever written up to its end: the jobs lose none and revive none.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from sparklog.errors import MissingFileError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.record.rows import RecordColumns
from tests.soak.checker import Anomaly, Found, History
from tests.soak.history import Answered, Polled, Read
from tests.soak.producer import Producer
from tests.soak.reader import bounds, is_outdated, polled
from tests.soak.setup import KEYED, KEYED_PARTITIONS, Life
from tests.soak.values import DAMAGED, from_bytes, to_bytes

KEYS: Final = 200
OWN_KEYS: Final = 100
"""Of a thousand values so many have a key of their own."""
TOMBSTONES: Final = 200
"""Of a thousand values so many are tombstones."""
SLOW_S: Final = 4.0
"""How long a reader may take over its plan, at the most: less than the grace."""


def key_of(value: int) -> int:
    """The key of a value: one of some, or its own."""
    draw = crc32(b"key of %d" % value)
    return KEYS + value if draw % 1000 < OWN_KEYS else draw // 1000 % KEYS


def is_tombstone(value: int) -> bool:
    """Whether the record of a value has none."""
    return crc32(b"is %d a tombstone" % value) % 1000 < TOMBSTONES


def seen_as(value: int) -> int:
    """What a reader notes of the record of a value: the value, or of a tombstone its key."""
    return -2 - key_of(value) if is_tombstone(value) else value


def columns(values: Sequence[int], now_ms: int) -> RecordColumns:
    """The records of these values."""
    return RecordColumns(
        key=pa.array([b"%d" % key_of(value) for value in values], pa.binary()),
        value=pa.array(
            [None if is_tombstone(value) else to_bytes(value) for value in values], pa.binary()
        ),
        timestamp=np.full(len(values), now_ms, np.int64),
    )


class KeyedProducer(Producer):
    """A producer of the compacted topic."""

    topic = KEYED
    columns = staticmethod(columns)


def produce_keyed(life: Life) -> None:
    """Write until the deadline; replay first what an earlier life had begun."""
    producer = KeyedProducer(life)
    producer.recover()
    while not life.settles and time.monotonic() < life.deadline:
        producer.write_next()


def read_keyed(life: Life) -> None:
    """Plan, wait, read: what was planned stays readable, whatever the jobs do meanwhile."""
    draw, journal, catalog = life.draws(), life.journal(), life.catalog()
    while time.monotonic() < life.deadline:
        began = time.monotonic_ns()
        reader = TopicReader.open(catalog, KEYED)
        try:
            reads = [
                read(reader, one, draw.uniform(0, SLOW_S / 2)) for one in range(KEYED_PARTITIONS)
            ]
        except MissingFileError:
            if not is_outdated(began):
                raise
            continue
        journal.note(polled(life.name, began, reader, reads, is_whole=True))


def read_all_keyed(life: Life) -> None:
    """Read the whole topic once."""
    began = time.monotonic_ns()
    reader = TopicReader.open(life.catalog(), KEYED)
    reads = [read(reader, one, 0) for one in range(KEYED_PARTITIONS)]
    life.journal().note(polled(life.name, began, reader, reads, is_whole=True))


def read(reader: TopicReader, partition: int, wait_s: float) -> Read:
    """Read a whole partition, after a while."""
    start, end = (found[partition] for found in bounds(reader))
    slices = list(reader.slices(partition, start, end))
    time.sleep(wait_s)
    offsets: list[int] = []
    values: list[int] = []
    names = ("offset", "key", "value")
    for records in read_slices(reader.files, reader.directory, slices, columns=names):
        offsets += records.offset.to_pylist()
        values += map(observed, records.key.to_pylist(), records.value.to_pylist())
    return Read(partition, start, end, values, offsets)


def cleaner_offsets(life: Life) -> list[int]:
    """How far each partition is compacted."""
    catalog = life.catalog()
    image = catalog.topic_image(catalog.topic(KEYED))
    return [image.partition(one).cleaner_offset for one in range(KEYED_PARTITIONS)]


def observed(key: bytes, value: bytes | None) -> int:
    """What is noted of a record, DAMAGED when key and value do not fit."""
    if value is None:
        return -2 - int(key)
    found = from_bytes(value)
    return found if found != DAMAGED and key_of(found) == int(key) else DAMAGED


# --- checking ------------------------------------------------------------------------------------

Log = dict[int, int]
"""What a reader sees at each offset of a partition."""


def check_keyed(history: History, cleaned: Sequence[int]) -> list[Found]:
    """Every anomaly of the compacted topic; `cleaned` are the cleaner offsets of the last poll."""
    logs, found = written(history)
    for poll in history.polls:
        for one in poll.reads:
            found += wrong(poll, one, logs.get(one.partition, {}))
    for one in history.polls[-1].reads:
        end = cleaned[one.partition]
        below = [seen for at, seen in pairs(one) if at < end]
        keys = [key_seen(seen) for seen in below]
        if len(keys) != len(set(keys)):
            found.append(Found(Anomaly.DUPLICATE, f"keys below {end} of {one.partition}"))
    return found


def written(history: History) -> tuple[dict[int, Log], list[Found]]:
    """The log as it was acknowledged, by partition; and writes that lie over each other."""
    logs: dict[int, Log] = {}
    found: list[Found] = []
    landed: set[tuple[int, int]] = set()
    for event in history.of(Answered):
        write = event.producer, event.version
        if event.ranges is None or write in landed:
            continue
        landed.add(write)
        for partition, start, end in event.ranges:
            log = logs.setdefault(partition, {})
            values = history.begun[write].get(partition, [])
            if len(values) != end - start or not log.keys().isdisjoint(range(start, end)):
                where = f"write {write}, partition {partition}, [{start}, {end})"
                found.append(Found(Anomaly.WRONG_RANGES, where))
            log.update(zip(range(start, end), map(seen_as, values), strict=False))
    for partition, log in logs.items():
        if sorted(log) != list(range(len(log))):
            found.append(Found(Anomaly.HOLE, f"acknowledged in partition {partition}"))
    return logs, found


def wrong(poll: Polled, read: Read, log: Log) -> Iterator[Found]:
    """What one read of a whole partition shows that may not be."""
    where = f"{poll.reader}, partition {read.partition}, up to {read.end}"
    offsets = [at for at, _ in pairs(read)]
    if offsets != sorted(set(offsets)):
        yield Found(Anomaly.HOLE, f"{where}: offsets doubled or out of order")
    strange = [at for at, seen in pairs(read) if log.get(at) != seen]
    if strange:
        yield Found(Anomaly.UNKNOWN, f"{where}: others than were written at {strange[:8]}")
    is_there = folded(pairs(read))
    must_be = folded((at, log[at]) for at in sorted(log) if at < read.end)
    if is_there != must_be:
        keys = sorted({key for key, _ in is_there.items() ^ must_be.items()})
        example = is_there.get(keys[0]), must_be.get(keys[0])
        yield Found(Anomaly.LOST, f"{where}: {len(keys)} keys, as {keys[0]}: {example}")


def folded(records: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The table: of each key the latest value's offset; a tombstone takes it out."""
    table: dict[int, int] = {}
    for at, seen in records:
        table.pop(key_seen(seen), None)
        if seen >= 0:
            table[key_of(seen)] = at
    return table


def pairs(read: Read) -> list[tuple[int, int]]:
    """(offset, seen) of a read."""
    return list(zip(read.offsets or [], read.values, strict=True))


def key_seen(seen: int) -> int:
    """The key of what a reader noted."""
    return key_of(seen) if seen >= 0 else -2 - seen
