"""A small language for one partition's log in files: append segments, ask it, damage its files.

Partition().append(batch((1, 5), (2, 9)), GAP, marker(3)).flip_byte(path, 70).read(0, 9)

A piece is a function from the offset it begins at to its bytes; a number is a gap, as compaction
leaves it. What a log must answer is read from the same bytes by the naive reader.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from hypothesis import strategies as st

from sparklog.clock import ManualClock
from sparklog.errors import CorruptRecordError
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name, uuid7
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import Edit, PartitionState, TopicEdit
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.model import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Codec,
    SegmentEntry,
    TimestampOffset,
    TimestampType,
    TopicDescription,
)
from sparklog.record import layout
from sparklog.record.encode import BatchSettings, RecordColumns, encode
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files
from sparklog.storage.log_dir import create_log_dir
from sparklog.storage.memory import MemoryFiles
from tests import golden
from tests.damage import HEADER
from tests.naive import log as naive
from tests.naive import messages
from tests.naive.decode import read_log
from tests.naive.records import Record, binary_column, header_column, rows, timestamps

Piece = Callable[[int], bytes]

TOPIC = TopicDescription("t", "A" * 22, 1, {}, 0)
DIRECTORY = topic_directory(TOPIC)
NOW_MS = 1_700_000_000_000
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

small_times = st.one_of(st.integers(-1, 9), st.integers(0, 2**62))
"""Times that meet, and times that do not."""


def batch(
    *times: int,
    codec: Codec = Codec.NONE,
    append_time: int | None = None,
    size: int = 3,
    batch_bytes: int = 2**20,
) -> Piece:
    """A batch (more if they exceed `batch_bytes`) of a record per time, with all that one has."""

    def at(offset: int) -> bytes:
        records = [
            Record(
                offset + n,
                time,
                b"k" if n % 3 else None,
                b"%d" % n * size,
                (("h", b"x"),) * (n % 2),
            )
            for n, time in enumerate(times)
        ]
        return encoded(records, offset, codec, append_time, batch_bytes)

    return at


def encoded(
    records: Sequence[Record],
    offset: int,
    codec: Codec,
    append_time: int | None,
    batch_bytes: int,
) -> bytes:
    """Records as batches that begin at `offset`."""
    columns = RecordColumns(
        binary_column(record.key for record in records),
        binary_column(record.value for record in records),
        timestamps(records),
        header_column(records),
    )
    settings = BatchSettings(codec, batch_bytes=batch_bytes)
    if append_time is not None:
        kind = TimestampType.LOG_APPEND_TIME
        settings = replace(settings, timestamp_type=kind, log_append_time_ms=append_time)
    (stream,) = encode(columns, None, 1, np.array([offset]), settings)
    return bytes(stream.data)


def marker(time: int = golden.T0) -> Piece:
    """The end of a transaction: a control batch, which takes an offset and is no record."""

    def at(offset: int) -> bytes:
        data = bytearray(golden.COMMIT_MARKER)
        _place(data, 0, offset, leader_epoch=5)
        return bytes(data)

    return at


def _place(data: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log, as a leader does: both lie outside the checksum."""
    struct.pack_into(">q", data, position + layout.BASE_OFFSET, base_offset)
    struct.pack_into(">i", data, position + layout.LEADER_EPOCH, leader_epoch)


def message_set(*times: int, magic: int, codec: str | None = None) -> Piece:
    """Entries of magic 0 or 1: a message per time, or one that holds them all compressed."""

    def at(offset: int) -> bytes:
        times_of = times if magic else [-1] * len(times)
        records = [Record(offset + n, time, b"k", b"v") for n, time in enumerate(times_of)]
        if codec is not None:
            return messages.wrapper(records, magic, codec)
        return b"".join(messages.message(record, magic) for record in records)

    return at


def log_bytes(pieces: Iterable[Piece | int], offset: int) -> bytes:
    """The bytes of a `.log` that begins at `offset`."""
    data = b""
    for piece in pieces:
        if isinstance(piece, int):
            offset += piece
        else:
            data += piece(offset)
            offset = int(scan_batches(data).batches.last_offset[-1]) + 1
    return data


def marks_of(data: bytes) -> list[naive.Record]:
    """The control records: ListOffsets counts them."""
    found, at = [], 0
    while at < len(data):
        _, length = struct.unpack_from(">qi", data, at)
        if data[at + 16] == 2:
            base, _, _, _, _, attributes, delta, _, newest, *_ = HEADER.unpack_from(data, at)
            found += [naive.Record(base + delta, newest)] * (attributes >> 5 & 1)
        at += 12 + length
    return found


def catalog_of(files: Files, topic: TopicDescription = TOPIC) -> Catalog:
    """A catalog of one topic over these files; its metadata lies elsewhere, out of the trace."""
    clock = ManualClock()
    catalog = Catalog(files, clock)
    catalog._log = MetadataLog.create(MemoryFiles(), clock)
    catalog._is_log_dir = True
    made = TopicEdit(description=topic)
    catalog.log.commit(lambda _: Edit(operation="CREATE TOPICS", topics={topic.topic_id: made}))
    return catalog


class Partition:
    """Partition 0 of a topic: files, rows, and the records that must be read from them."""

    def __init__(self, files: Files | None = None) -> None:
        self.files = files or MemoryFiles()
        self.catalog = catalog_of(self.files)
        create_log_dir(self.files, bytes(16))
        self.records: list[Record] = []
        self.times: list[naive.Record] = []
        """Offsets and times of all records, control records as well."""

    def append(
        self,
        *pieces: Piece | int,
        sealed: bool = False,
        interval: int | None = 0,
        **columns: Any,
    ) -> Self:
        """Append a segment; `interval` is that of its indexes, None for a segment without any.

        `columns` replace columns of its row.
        """
        end = self.log.log_end_offset
        base = end if sealed else 0
        data = log_bytes(pieces, base)
        builder = SegmentBuilder(base, 0, RollPolicy(index_interval_bytes=interval or 0))
        builder.append(scan_batches(data).batches)
        summary, indexes = builder.finish()
        names = [segment_name(base, uuid7(NOW_MS, end.to_bytes(10, "big")), s) for s in SUFFIXES]
        log, index, time_index = (f"t-0/{name}" for name in names)
        contents = {log: data}
        if interval is not None:
            contents |= {index: indexes.offset_index, time_index: indexes.time_index}
        for path, content in contents.items():
            if content:
                self.files.write_new(f"{DIRECTORY}/{path}", content)
        entry = summary.entry(
            end,
            NOW_MS,
            log,
            index_path=index if contents.get(index) else None,
            time_index_path=time_index if contents.get(time_index) else None,
            indexes=None if interval is None else indexes,
        )
        self.commit(segments=[entry._replace(**columns)])
        shift = end - base
        self.records += [one._replace(offset=one.offset + shift) for one in read_log(data)]
        times = [naive.Record(one.offset, one.timestamp) for one in read_log(data)]
        times += marks_of(data)
        self.times += sorted(one._replace(offset=one.offset + shift) for one in times)
        return self

    def commit(self, **edit: Any) -> Self:
        """Commit an edit of the topic."""
        self.catalog.commit(TOPIC, lambda _: TopicEdit(**edit), operation="TEST")
        return self

    def delete_topic(self) -> Self:
        """Delete the topic."""
        return self.commit(description=replace(self.image.description, deleted_ms=NOW_MS))

    def delete_records(self, before: int) -> Self:
        """Raise the log start offset."""
        return self.commit(partitions={0: PartitionState(log_start_offset=before)})

    def with_columns(self, entry: SegmentEntry, **columns: Any) -> SegmentEntry:
        """Let the metadata say something else of a segment."""
        changed = entry._replace(**columns)
        self.commit(replace=[changed])
        return changed

    # --- asking ----------------------------------------------------------------------------------

    @property
    def reader(self) -> TopicReader:
        return TopicReader(self.files, TOPIC, self.image)

    @property
    def image(self) -> TopicImage:
        return self.catalog.topic_image(TOPIC)

    @property
    def log(self) -> PartitionLog:
        return self.image.partition(0)

    @property
    def segments(self) -> list[SegmentEntry]:
        return list(self.log.segments)

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    def read(self, start: int = 0, end: int | None = None, **options: Any) -> list[Record]:
        """What a reader gets of [start, end)."""
        return list(self.reading(start, end, **options))

    def reading(self, start: int = 0, end: int | None = None, **options: Any) -> Iterator[Record]:
        """The same, one by one."""
        slices = self.reader.slices(0, start, self.end if end is None else end)
        for records in read_slices(self.files, DIRECTORY, slices, **options):
            yield from rows(records)

    def expected(self, start: int = 0, end: int | None = None) -> list[Record]:
        """What a reader must get of [start, end)."""
        stop = self.end if end is None else end
        return [record for record in self.records if start <= record.offset < stop]

    def expected_offset(self, timestamp: int) -> TimestampOffset:
        """What ListOffsets must answer."""
        state = self.log
        if timestamp == LATEST:
            return TimestampOffset(-1, state.log_end_offset)
        if timestamp == EARLIEST:
            return TimestampOffset(-1, state.log_start_offset)
        live = [one for one in self.times if one.offset >= state.log_start_offset]
        if timestamp == MAX_TIMESTAMP:
            return naive.newest(live)
        return naive.first_at_or_after(live, timestamp, 0)

    # --- damage ----------------------------------------------------------------------------------

    def path(self, suffix: str = LOG_SUFFIX, slot: int = 0) -> str:
        """The path of a file of segment `slot`."""
        entry = self.segments[slot]
        paths = {LOG_SUFFIX: entry.log_path, INDEX_SUFFIX: entry.index_path}
        return f"{DIRECTORY}/{paths.get(suffix, entry.time_index_path)}"

    def bytes_of(self, path: str) -> bytes:
        return bytes(self.files.read(path))

    def put(self, path: str, data: bytes) -> Self:
        """Give a file other bytes."""
        self.files.delete(path)
        self.files.write_new(path, data)
        return self

    def flip_byte(self, path: str, position: int, mask: int = 0xFF) -> Self:
        data = bytearray(self.bytes_of(path))
        data[position] ^= mask
        return self.put(path, bytes(data))

    def shrink(self, path: str, count: int) -> Self:
        """Drop the last `count` bytes."""
        data = self.bytes_of(path)
        return self.put(path, data[: len(data) - count])

    def zero(self, path: str, start: int, stop: int) -> Self:
        data = self.bytes_of(path)
        return self.put(path, data[:start] + bytes(stop - start) + data[stop:])

    def put_offset(self, path: str, position: int, base_offset: int) -> Self:
        """Give the batch at `position` another base offset."""
        data = bytearray(self.bytes_of(path))
        _place(data, position, base_offset, leader_epoch=0)
        return self.put(path, bytes(data))

    def remove(self, path: str) -> Self:
        self.files.delete(path)
        return self


def outcome(reading: Iterator[Record]) -> tuple[list[Record], CorruptRecordError | None]:
    """The records up to the error, and the error."""
    records: list[Record] = []
    try:
        records.extend(reading)
    except CorruptRecordError as error:
        return records, error
    return records, None


# --- any partition -------------------------------------------------------------------------------


def pieces(times: st.SearchStrategy[int]) -> st.SearchStrategy[Piece | int]:
    """Batches of every codec and timestamp type, markers, message sets."""
    some = st.lists(times, min_size=1, max_size=4)
    batches = st.builds(
        lambda times, codec, append_time: batch(*times, codec=codec, append_time=append_time),
        some,
        st.sampled_from(Codec),
        st.none() | times,
    )
    sets = st.builds(
        lambda times, magic, codec: message_set(*times, magic=magic, codec=codec),
        some,
        st.sampled_from((0, 1)),
        st.sampled_from((None, "gzip", "snappy", "lz4")),
    )
    return st.one_of(batches, batches, sets, st.builds(marker, times))


@st.composite
def partitions(draw: Callable[..., Any], times: st.SearchStrategy[int] = small_times) -> Partition:
    """Some segments, sealed or not, with or without indexes, and a log start within them."""
    partition = Partition()
    for _ in range(draw(st.integers(0, 4))):
        parts = draw(st.lists(pieces(times), min_size=1, max_size=4))
        gaps = draw(st.lists(st.integers(0, 3), min_size=len(parts), max_size=len(parts)))
        parts = [one for pair in zip(gaps, parts, strict=True) for one in pair]
        partition.append(
            *parts, sealed=draw(st.booleans()), interval=draw(st.sampled_from((0, 100, 4096, None)))
        )
    return partition.delete_records(draw(st.integers(0, partition.end)))
