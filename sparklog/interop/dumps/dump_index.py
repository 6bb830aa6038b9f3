"""Prints and checks a `.index` and a `.timeindex` as kafka-dump-log.sh does.

    .index       int32 relative offset | int32 position      ascending; zeros may fill the end
    .timeindex   int64 timestamp | int32 relative offset

An offset entry is right if the batch at its position ends at its offset. A time entry is right if a
batch ends at its offset, its timestamp is the largest in this batch, and it is above the timestamp
of the previous entry. The batch is found by AbstractIndex's search; in an index that is not in
order, another search would find another batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError, UsageError
from sparklog.interop.broker_files.file_records import FILE_BYTES_MAX, Bytes, OddBatch, int_at, walk
from sparklog.interop.broker_files.index_checks import OFFSET_DTYPE, TIME_DTYPE
from sparklog.interop.broker_files.java_records import records_at
from sparklog.interop.dumps.dump_log import DumpedFile, Findings, Text
from sparklog.interop.dumps.text_lines import Lines, content, numbers
from sparklog.model import NO_TIMESTAMP
from sparklog.record import layout
from sparklog.record.batches import BatchTable, byte_view
from sparklog.record.decode import decode

Int64s = NDArray[np.int64]

MESSAGE_BYTES_MAX: Final = 5 * 1024 * 1024
_WARM_ENTRIES: Final = 8192 // OFFSET_DTYPE.itemsize
_DECODED_BYTES_MAX: Final = 1024 * 1024
"""A larger batch is decoded by itself."""
_DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
_CHUNK: Final = 1024
"""Time entries whose batches are decoded at once."""


@dataclass(frozen=True, slots=True)
class IndexChecks:
    """Options. `sanity`: only the checks of a broker when it starts; `quiet`: print no entry."""

    sanity: bool = False
    quiet: bool = False
    max_message_size: int = MESSAGE_BYTES_MAX


class _Log:
    """The `.log` beside an index: its batches by position, up to the first damage."""

    def __init__(self, view: Bytes, file: str) -> None:
        self.view = view
        self.file = file
        tables = []
        try:
            for found in walk(view, file):
                if isinstance(found, OddBatch):
                    break
                tables.append(found)
        except CorruptRecordError:
            pass  # reported when an index entry points there
        self.batches = BatchTable.concat(tables)

    def rows(self, positions: Int64s, size_max: int = FILE_BYTES_MAX) -> Int64s:
        """Return the row of the batch at each position; -1: none, or one above `size_max` bytes."""
        batches = self.batches
        if not len(batches):
            return np.full(len(positions), -1)
        row = np.minimum(batches.position.searchsorted(positions), len(batches) - 1)
        is_there = (batches.position[row] == positions) & (batches.size[row] <= size_max)
        return np.where(is_there, row, -1)

    def batches_from(self, position: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield (position, size, last offset) of the batches in [position, position + size).

        Raises CorruptRecordError for a position outside the file, UsageError for a negative size.
        """
        if not 0 <= position <= len(self.view):
            raise CorruptRecordError(
                f"an index entry points to position {position}, the log has {len(self.view)} bytes",
                file=self.file,
                position=position,
            )
        if size < 0:
            raise UsageError(f"Invalid size: {size}")
        end = min(len(self.view), position + size)
        for found in walk(self.view, self.file, position, end):
            if isinstance(found, OddBatch):
                yield found.position, found.size, _odd_last_offset(self.view, found)
            else:
                columns = (found.position, found.size, found.last_offset)
                yield from zip(*(column.tolist() for column in columns), strict=True)


def _odd_last_offset(view: Bytes, batch: OddBatch) -> int:
    base = int_at(view, batch.position, 8)
    if batch.magic < layout.MAGIC_V2:
        return base
    return base + int_at(view, batch.position + layout.LAST_OFFSET_DELTA, 4)


def dump_index(
    file: DumpedFile, log: DumpedFile, checks: IndexChecks, findings: Findings
) -> Iterator[Text]:
    """Yield the printed text of a `.index`; `log` is the `.log` beside it.

    Where Kafka's tool ends with an exception, it raises CorruptRecordError, after it has yielded
    the text before: for an entry that points to no batch, an index that fails `checks.sanity`.
    """
    base = file.base_offset
    entries = _entries(file, OFFSET_DTYPE)
    offsets = entries["offset"].astype(np.int64) + base
    positions = entries["position"].astype(np.int64)
    if not len(entries):
        yield file.printed + b" is empty.\n"
        return
    if checks.sanity:
        _check_offset_index(file, offsets)
        yield file.printed + b" passed sanity check.\n"
        return
    count = _used(entries["offset"])
    offsets, positions = offsets[:count], positions[:count]
    sound = _Log(byte_view(log.data), log.path)
    row = sound.rows(positions, checks.max_message_size)
    mismatches = findings.mismatches
    cuts = [0, *(np.flatnonzero(np.diff(row >= 0)) + 1).tolist(), count]
    for start, stop in pairwise(cuts):
        part = slice(start, stop)
        if row[start] >= 0:
            found = sound.batches.last_offset[row[part]]
            _note(mismatches, file.absolute, offsets[part], found)
            yield from _offset_lines(offsets[part], positions[part], checks)
            continue
        for slot in range(start, stop):
            last = _first_last_offset(sound, int(positions[slot]), checks.max_message_size)
            one = slice(slot, slot + 1)
            _note(mismatches, file.absolute, offsets[one], np.array([last]))
            yield from _offset_lines(offsets[one], positions[one], checks)


def _offset_lines(offsets: Int64s, positions: Int64s, checks: IndexChecks) -> Iterator[Text]:
    if not checks.quiet:
        parts = ("offset: ", numbers(offsets), " position: ", numbers(positions), "\n")
        yield content(Lines(len(offsets), *parts))


def _first_last_offset(log: _Log, position: int, size: int) -> int:
    for _, _, last in log.batches_from(position, size):
        return last
    raise CorruptRecordError(
        f"an index entry points to position {position}, where there is no whole batch",
        file=log.file,
        position=position,
    )


def _note(
    found: dict[str, list[tuple[int, int]]], file: str, entries: Int64s, logged: Int64s
) -> None:
    wrong = np.flatnonzero(entries != logged)
    if len(wrong):
        pairs = zip(entries[wrong].tolist(), logged[wrong].tolist(), strict=True)
        found.setdefault(file, []).extend(pairs)


def dump_time_index(
    file: DumpedFile, log: DumpedFile, index: DumpedFile, checks: IndexChecks, findings: Findings
) -> Iterator[Text]:
    """Yield the printed text of a `.timeindex`; `log` and `index` are the files beside it.

    Where Kafka's tool ends with an exception, it raises CorruptRecordError, after it has yielded
    the text before.
    """
    base = file.base_offset
    entries = _entries(file, TIME_DTYPE)
    offsets = entries["offset"].astype(np.int64) + base
    if checks.sanity:
        _check_time_index(file, entries["timestamp"].astype(np.int64), offsets)
        yield file.printed + b" passed sanity check.\n"
        return
    count = _used(entries["offset"])
    judge = _TimeJudge(
        file.absolute,
        _Log(byte_view(log.data), log.path),
        _OffsetLookup(index, base),
        findings,
    )
    for start in range(0, count, _CHUNK):
        part = slice(start, min(start + _CHUNK, count))
        timestamps = entries["timestamp"][part].astype(np.int64)
        for timestamp, offset in judge.judged(timestamps, offsets[part]):
            if not checks.quiet:
                yield f"timestamp: {timestamp} offset: {offset}\n".encode()


class _TimeJudge:
    """Compares the entries of a time index with the log, in their order."""

    def __init__(self, file: str, log: _Log, lookup: "_OffsetLookup", findings: Findings) -> None:
        self._file = file
        self._log = log
        self._lookup = lookup
        self._findings = findings
        self._before = NO_TIMESTAMP

    def judged(self, timestamps: Int64s, offsets: Int64s) -> Iterator[tuple[int, int]]:
        """Yield each entry after its check. Raises CorruptRecordError as `_Log.batches_from`."""
        positions = np.array([self._lookup.position(offset) for offset in offsets.tolist()])
        rows = self._ending_at_or_after(offsets, positions)
        largest = self._largest_timestamps(rows)
        entries = zip(timestamps.tolist(), offsets.tolist(), strict=True)
        for slot, (timestamp, offset) in enumerate(entries):
            row = int(rows[slot])
            if row in largest:
                self._judge(
                    timestamp, offset, int(self._log.batches.last_offset[row]), largest[row]
                )
            else:
                self._judge_alone(timestamp, offset, int(positions[slot]))
            yield timestamp, offset
            self._before = timestamp

    def _ending_at_or_after(self, offsets: Int64s, positions: Int64s) -> Int64s:
        """Return the row of the first batch from each position on that ends at its offset or later.

        -1 if there is none, if no batch is at the position, or if the log is out of order.
        """
        batches = self._log.batches
        rows = self._log.rows(positions)
        if not (np.diff(batches.last_offset) > 0).all():
            return np.full(len(rows), -1)
        rows = np.where(rows < 0, -1, np.maximum(rows, batches.last_offset.searchsorted(offsets)))
        return np.where(rows < len(batches), rows, -1)

    def _largest_timestamps(self, rows: Int64s) -> dict[int, int]:
        """Return the largest timestamps of batches by row; {} if they cannot be decoded at once."""
        chosen = np.unique(rows[rows >= 0])
        batches = self._log.batches.take(chosen)
        plain = (batches.magic == layout.MAGIC_V2) & ~batches.is_control
        plain &= (batches.record_count > 0) & (batches.size < _DECODED_BYTES_MAX)
        chosen, batches = chosen[plain], batches.take(plain)
        if not len(chosen):
            return {}
        try:
            found = decode(
                self._log.view,
                batches,
                columns=("timestamp",),
                max_bytes=_DECOMPRESSED_BYTES_MAX // len(batches),
            )
        except (CorruptRecordError, UsageError):
            return {}
        starts = np.cumsum(batches.record_count) - batches.record_count
        largest = np.maximum.reduceat(found.timestamp.to_numpy(), starts)
        return dict(zip(chosen.tolist(), largest.tolist(), strict=True))

    def _judge_alone(self, timestamp: int, offset: int, position: int) -> None:
        for at, size, last in self._log.batches_from(position, FILE_BYTES_MAX):
            if last >= offset:
                largest = NO_TIMESTAMP
                if last == offset:
                    records = records_at(self._log.view, at, size)
                    largest = max([NO_TIMESTAMP, *(record.timestamp for record in records)])
                self._judge(timestamp, offset, last, largest)
                return
        self._judge(timestamp, offset, -1, NO_TIMESTAMP)

    def _judge(self, timestamp: int, offset: int, last: int, largest: int) -> None:
        found = self._findings
        if last != offset:
            found.not_found.setdefault(self._file, []).append((offset, last))
            return
        if largest != timestamp:
            found.time_mismatches.setdefault(self._file, []).append((timestamp, largest))
        if self._before >= timestamp:
            found.out_of_order.setdefault(self._file, []).append((timestamp, self._before))


class _OffsetLookup:
    """OffsetIndex.lookup: as AbstractIndex, it first searches the last ("warm") entries."""

    def __init__(self, file: DumpedFile, base: int) -> None:
        entries = _entries(file, OFFSET_DTYPE)
        self._offsets = (entries["offset"].astype(np.int64) + base).tolist()
        self._positions = entries["position"].tolist()

    def position(self, offset: int) -> int:
        """Return the position from which to search an offset; 0 if all entries are above it."""
        offsets = self._offsets
        if not offsets:
            return 0
        low, high = 0, max(0, len(offsets) - 1 - _WARM_ENTRIES)
        if offsets[high] < offset:
            low, high = high, len(offsets) - 1
        elif offsets[0] > offset:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            if offsets[middle] > offset:
                high = middle - 1
            elif offsets[middle] < offset:
                low = middle
            else:
                return int(self._positions[middle])
        return int(self._positions[low])


def _entries(file: DumpedFile, kind: "np.dtype[np.void]") -> NDArray[np.void]:
    """Return the entries of an index, without a part of an entry at its end."""
    view = byte_view(file.data)
    return view[: len(view) // kind.itemsize * kind.itemsize].view(kind)


def _used(relative: NDArray[np.int32]) -> int:
    """Return the number of entries in front of the zeros that fill the end of an index."""
    zeros = np.flatnonzero(relative[1:] == 0)
    return int(zeros[0]) + 1 if len(zeros) else len(relative)


def _check_offset_index(file: DumpedFile, offsets: Int64s) -> None:
    size = len(byte_view(file.data))
    if offsets[-1] < file.base_offset:
        raise CorruptRecordError(
            f"Corrupt index found, index file ({file.absolute}) has non-zero size but the last "
            f"offset is {offsets[-1]} which is less than the base offset {file.base_offset}"
        )
    if size % OFFSET_DTYPE.itemsize:
        raise CorruptRecordError(
            f"Index file {file.absolute} is corrupt, found {size} bytes which is neither positive "
            f"nor a multiple of {OFFSET_DTYPE.itemsize}"
        )


def _check_time_index(file: DumpedFile, timestamps: Int64s, offsets: Int64s) -> None:
    size = len(byte_view(file.data))
    start = f"Corrupt time index found, time index file ({file.absolute}) has non-zero size but the"
    if len(offsets) and timestamps[-1] < timestamps[0]:
        raise CorruptRecordError(
            f"{start} last timestamp is {timestamps[-1]} which is less than the first timestamp "
            f"{timestamps[0]}"
        )
    if len(offsets) and offsets[-1] < file.base_offset:
        raise CorruptRecordError(
            f"{start} last offset is {offsets[-1]} which is less than the first offset "
            f"{file.base_offset}"
        )
    if size % TIME_DTYPE.itemsize:
        raise CorruptRecordError(
            f"Time index file {file.absolute} is corrupt, found {size} bytes which is neither "
            f"positive nor a multiple of {TIME_DTYPE.itemsize}"
        )
