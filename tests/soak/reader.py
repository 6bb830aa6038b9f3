"""A reader: takes image after image and writes down the records of the log."""

import time

from sparklog.errors import MissingFileError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from tests.soak.history import Polled, Read
from tests.soak.setup import GRACE_MS, REVISION, TOPIC, Life
from tests.soak.values import from_bytes

FRESH = 0.2
"""How often a reader that was born again does not go on where it was."""
LOOK_BACK = 2_000
"""The offsets of a partition that such a reader, and one that wanders, reads at once."""
PAUSE_S = 0.02


def follow(life: Life) -> None:
    """Read all that comes, from where the last life ended."""
    draw, journal, catalog = life.draws(), life.journal(), life.catalog()
    polls = journal.of(Polled)
    is_whole = not polls or draw.random() >= FRESH
    positions = list(polls[-1].ends) if polls and is_whole else []
    while time.monotonic() < life.deadline:
        began = time.monotonic_ns()
        reader = TopicReader.open(catalog, TOPIC)
        starts, ends = bounds(reader)
        if not is_whole:
            positions = [end - LOOK_BACK for end in ends]
        positions += [0] * (len(ends) - len(positions))
        try:
            reads = [
                read(reader, partition, max(position, starts[partition]), ends[partition])
                for partition, position in enumerate(positions)
            ]
        except MissingFileError:
            if not is_outdated(began):
                raise
            continue
        journal.note(polled(life.name, began, reader, reads, is_whole=is_whole))
        positions, is_whole = ends, True
        time.sleep(PAUSE_S)


def wander(life: Life) -> None:
    """Read here and there."""
    draw, journal, catalog = life.draws(), life.journal(), life.catalog()
    while time.monotonic() < life.deadline:
        began = time.monotonic_ns()
        reader = TopicReader.open(catalog, TOPIC)
        ranges = []
        for low, high in zip(*bounds(reader), strict=True):
            start = draw.randint(low, high)
            ranges.append((start, draw.randint(start, min(high, start + LOOK_BACK))))
        try:
            reads = [read(reader, number, *one) for number, one in enumerate(ranges)]
        except MissingFileError:
            if not is_outdated(began):
                raise
            continue
        journal.note(polled(life.name, began, reader, reads, is_whole=False))
        time.sleep(10 * PAUSE_S)


def is_outdated(began_ns: int) -> bool:
    """Whether a plan of this monotonic time is older than readers may rely on: its files may go."""
    return time.monotonic_ns() - began_ns >= GRACE_MS * 1_000_000


def read_all(life: Life) -> None:
    """Read the whole log once."""
    began = time.monotonic_ns()
    reader = TopicReader.open(life.catalog(), TOPIC)
    reads = [
        read(reader, partition, start, end)
        for partition, (start, end) in enumerate(zip(*bounds(reader), strict=True))
    ]
    life.journal().note(polled(life.name, began, reader, reads, is_whole=True))


def bounds(reader: TopicReader) -> tuple[list[int], list[int]]:
    """The log start and log end offsets by partition.

    Of all partitions that the image knows: it is newer than the topic's description, which may lack
    one that was added in between.
    """
    count = max(reader.topic.num_partitions, reader.image.description.num_partitions)
    logs = [reader.image.partition(number) for number in range(count)]
    return [log.log_start_offset for log in logs], [log.log_end_offset for log in logs]


def read(reader: TopicReader, partition: int, start: int, end: int) -> Read:
    """Read the offsets [start, end) of a partition."""
    offsets: list[int] = []
    values: list[int] = []
    slices = reader.image.partition(partition).slices(start, end)
    for records in read_slices(reader.files, reader.directory, slices, columns=("offset", "value")):
        offsets += records.offset.to_pylist()
        values += [from_bytes(value) for value in records.value.to_pylist()]
    is_dense = offsets == list(range(start, start + len(offsets)))
    return Read(partition, start, end, values, None if is_dense else offsets)


def polled(
    name: str, began: int, reader: TopicReader, reads: list[Read], *, is_whole: bool
) -> Polled:
    """The event of one image."""
    starts, ends = bounds(reader)
    return Polled(
        name,
        began,
        time.monotonic_ns(),
        starts,
        ends,
        reader.topic.num_partitions,
        int(reader.topic.configs.get(REVISION, 0)),
        reads,
        is_whole,
    )
