"""Slices of segments to ranges of files: the whole record batches that a fetch answers with.

    first batch   headers are walked from the index's floor entry, or from the end of the last fetch
    last batch    headers are walked from the last index entry within the limit of bytes
    range         the bytes from the first to the last batch; they are sent without being read

Offsets and sizes in headers are compared with those of the batches around them. Checksums are not
verified: the client that decodes the records does that. If a segment is not sealed, its batches are
copied and get the log's base offsets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log.lookup import floor_of
from sparklog.log.names import INDEX_SUFFIX
from sparklog.log.windows import SegmentLog
from sparklog.log_reader.opened import SMALL_BYTES, ask, log_path, opened, sliced
from sparklog.metadata.state.image import Slice
from sparklog.model import OffsetPosition, SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import byte_view, with_offsets_raised
from sparklog.record.scan import scan_batches
from sparklog.storage.files import Files, Reader, flat_view
from sparklog.storage.kept_file import KeptFile
from sparklog.storage.objects.read_ahead import Range, RangesAhead

FILES: Final = 256
"""How many files are kept open, of all topics."""
SEGMENTS: Final = 1024
"""How many segments are kept with their offset indexes, each of which is a memory map."""
POSITIONS: Final = 10_000
"""How many ends of answers are remembered: a client's next fetch begins at one of them."""
HEADERS_BYTES: Final = 4096
REMOTE_HEADERS_BYTES: Final = 64 * 1024
"""How many bytes one read of headers takes: of a local file, and of an object."""
RANGES_AHEAD: Final = 1024
"""How many ranges of an object store are fetched ahead at most, for one answer."""

_HEADER = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta; the delta is one of magic 2."""
_LEAST_LENGTHS: Final = {
    layout.MAGIC_V0: layout.LEGACY_MIN_LENGTH_V0,
    layout.MAGIC_V1: layout.LEGACY_MIN_LENGTH_V1,
    layout.MAGIC_V2: layout.BATCH_MIN_LENGTH,
}


@dataclass(frozen=True, slots=True, eq=False)
class FileRange:
    """Bytes of a local file that need not be read to be sent; the file stays open."""

    file: KeptFile
    start: int
    size: int

    def __len__(self) -> int:
        return self.size


Batches = memoryview | FileRange
"""Whole record batches, back to back, with the offsets of the log."""


class Wanted(NamedTuple):
    """Arguments of `find`; `directory` is the topic's."""

    directory: str
    slices: Iterable[Slice]
    max_bytes: int


class _Batch(NamedTuple):
    """A batch: position from the segment's first byte, size, first and last offset in the file."""

    position: int
    size: int
    first: int
    last: int

    @property
    def end(self) -> int:
        """The byte after the batch."""
        return self.position + self.size


class BatchRanges:
    """Finds batches in the files of a log dir, for several threads at once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._window = HEADERS_BYTES if files.is_local else REMOTE_HEADERS_BYTES
        self._kept = lru_cache(FILES)(files.keep)
        self.file_of: Callable[[str], Reader] = self._kept
        """Returns the reader of a file, by its path."""
        self._segment = lru_cache(SEGMENTS)(partial(opened, files))
        self._known: dict[tuple[str, int, int], int] = {}

    def let_go(self) -> None:
        """Close all files; ranges that were handed out keep theirs."""
        self._kept.cache_clear()
        self._segment.cache_clear()

    def ahead_of(self, wanted: Iterable[Wanted], max_bytes: int) -> "BatchRanges":
        """Return an object that finds the same, for one thread, which asks in this order.

        What it will read of an object store, about `max_bytes` at most, is fetched side by side
        before it is asked for.
        """
        if self._files.is_local:
            return self
        found = copy(self)
        ahead = islice(self._ranges_of(wanted, max_bytes), RANGES_AHEAD)
        found.file_of = RangesAhead(self._files, ahead).keep
        return found

    def _ranges_of(self, wanted: Iterable[Wanted], max_bytes: int) -> Iterator[Range]:
        """Yield what `find` will read, as far as that is known before."""
        for directory, slices, most in wanted:
            left = min(most, max_bytes)
            for one in slices:
                entry = one.segment
                begin = self._known_begin(entry, one.start - entry.shift)
                if begin is None and entry.log_bytes <= SMALL_BYTES:
                    begin = 0
                if begin is not None:
                    # Behind `left` may be the header that tells where the last batch ends.
                    size = min(entry.log_bytes - begin, left + self._window)
                    yield Range(log_path(directory, entry), entry.log_position + begin, size)
                taken = min(one.log_bytes, left)
                left, max_bytes = left - taken, max_bytes - taken
                if left <= 0:
                    break
            if max_bytes <= 0:
                break

    def find(
        self,
        directory: str,
        slices: Iterable[Slice],
        max_bytes: int,
        *,
        at_least_one: bool = False,
        at_once: bool = False,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Sequence[Batches]:
        """Return the batches that hold the offsets of slices, at most `max_bytes` of them.

        The first batch may begin before the first offset, the last one may end after the last
        offset. With `at_least_one` the first batch is returned even if it is larger than
        `max_bytes`. When batches are found and `is_late` returns True, no further slice is read.
        `directory` is the topic's. The batches before damage are returned; damage in the first
        batch raises CorruptRecordError, which names file, position and offset. Raises
        MissingFileError, and with `at_once` BlockingIOError if the call would wait for a disk.
        """
        found: list[Batches] = []
        left = max_bytes
        try:
            for one in slices:
                batches, is_whole = self._of_slice(directory, one, left, at_least_one, at_once)
                if batches is not None:
                    found.append(batches)
                    left -= len(batches)
                    at_least_one = False
                if not is_whole or left <= 0 or (found and is_late()):
                    break
        except CorruptRecordError:
            if not found:
                raise
        return found

    def _of_slice(
        self, directory: str, one: Slice, max_bytes: int, at_least_one: bool, at_once: bool
    ) -> tuple[Batches | None, bool]:
        """Return the batches of one slice (None: no batch), and whether all of them fit."""
        entry = one.segment
        if at_once and not self._files.is_local:
            raise BlockingIOError
        file = self.file_of(log_path(directory, entry))
        read = sliced(file.read_cached if at_once and isinstance(file, KeptFile) else file, entry)
        if isinstance(file, KeptFile) and not file.reaches(entry.log_position + entry.log_bytes):
            raise _cut(directory, entry, file.size)
        begin, end = 0, entry.log_bytes
        is_whole = one.start == entry.base_offset and one.end == entry.next_offset
        if not is_whole or end > max_bytes:
            question = partial(self._bounds, read, one, max_bytes, at_least_one)
            begin, end, is_all = ask(self._segment(directory, entry), directory, question)
        else:
            is_all = True
        if begin == end:
            return None, is_all
        if entry.shift:
            raised = _raised(directory, entry, begin, read(begin, end - begin))
            return raised, is_all and len(raised) == end - begin
        return self._range(file, entry.log_position + begin, end - begin, at_once), is_all

    def _range(self, file: Reader, start: int, size: int, at_once: bool) -> Batches:
        if not isinstance(file, KeptFile):
            return file(start, size)
        if not file.seems_cached(start, size):
            if at_once:
                raise BlockingIOError
            file.load(start, size)
        return FileRange(file, start, size)

    # ------------------------------------------------------------------------------------ positions

    def _bounds(
        self, read: Reader, one: Slice, max_bytes: int, at_least_one: bool, segment: SegmentLog
    ) -> tuple[int, int, bool]:
        """Return the positions where a slice's batches begin and end, and whether all of them fit.

        Positions count from the segment's first byte.
        """
        entry = segment.entry
        place = self._begin(read, segment, one.start - entry.shift)
        if place is None:
            return 0, 0, True
        begin, end = place.position, one.end - entry.shift
        if one.end == entry.next_offset and entry.log_bytes - begin <= max_bytes:
            return begin, entry.log_bytes, True
        stop, is_all = self._end(read, segment, place, end, max_bytes)
        if stop == begin and not is_all and at_least_one:
            first = next(self._walk(read, segment, place, place.offset))
            self._remember(entry, first.last + 1, first.end)
            stop = first.end
        return begin, stop, is_all

    def _begin(self, read: Reader, segment: SegmentLog, offset: int) -> OffsetPosition | None:
        """Return offset and position of the batch that holds `offset`, or of the next one.

        None if there is none. Offsets are the file's own.
        """
        entry = segment.entry
        known = self._known_begin(entry, offset)
        if known is not None:
            return OffsetPosition(max(offset, entry.file_base_offset), known)
        for batch in self._walk(read, segment, floor_of(segment, offset)):
            if batch.last >= offset:
                return OffsetPosition(batch.first, batch.position)
        return None

    def _known_begin(self, entry: SegmentEntry, offset: int) -> int | None:
        """Return the position of the batch that begins at `offset` of the file; None: not known."""
        if offset <= entry.file_base_offset:
            return 0
        return self._known.get((entry.log_path, entry.log_position, offset))

    def _end(
        self, read: Reader, segment: SegmentLog, place: OffsetPosition, end: int, max_bytes: int
    ) -> tuple[int, bool]:
        """Return the end of the last wanted batch within `max_bytes`, and whether all fit."""
        begin, index = place.position, segment.offset_index()
        floor: OffsetPosition = place
        due: int | None = place.offset
        if index is not None:
            near = index.lookup_position(begin + max_bytes)
            if end < segment.entry.file_next_offset:
                near = min(near, floor_of(segment, end - 1), key=lambda one: one.position)
            floor, due = (near, None) if near.position > begin else (floor, due)
        stop = floor.position
        try:
            for batch in self._walk(read, segment, floor, due):
                if batch.first >= end:
                    break
                if batch.end - begin > max_bytes:
                    self._remember(segment.entry, batch.first if due is None else due, stop)
                    return stop, False
                stop, due = batch.end, batch.last + 1
        except CorruptRecordError:
            if stop == begin:
                raise
            return stop, False
        return stop, True

    def _remember(self, entry: SegmentEntry, offset: int, position: int) -> None:
        """Remember the position of an offset of the file: the next fetch may begin there."""
        if len(self._known) >= POSITIONS:
            self._known.clear()
        self._known[entry.log_path, entry.log_position, offset] = position

    def _walk(
        self, read: Reader, segment: SegmentLog, floor: OffsetPosition, due: int | None = None
    ) -> Iterator[_Batch]:
        """Yield the batches from a position on; the first begins at `due`, or after a gap.

        Without `due` the position is from an index. Raises CorruptIndexError if no batch begins
        there at or below the index entry's offset, and CorruptRecordError.
        """
        entry, position = segment.entry, floor.position
        first, behind, log_bytes = entry.file_base_offset, entry.file_next_offset, entry.log_bytes
        due = due if position else first
        origin, data = position, memoryview(b"")
        while position < log_bytes:
            if position + _HEADER.size > origin + len(data):
                origin, data = position, read(position, self._window)
            batch = _batch_at(data, position - origin, position, due)
            end = position + batch.size
            is_inside = position < end <= log_bytes and first <= batch.first <= batch.last < behind
            if not (is_inside and _is_due(batch, entry, due, floor)):
                raise _misplaced(batch, entry, due, floor)
            yield batch
            position, due = end, batch.last + 1


def _batch_at(data: memoryview, at: int, position: int, due: int | None) -> _Batch:
    """Return the batch whose header begins at `at` of the data; size 0 if the bytes are none."""
    head = bytes(data[at : at + _HEADER.size]).ljust(_HEADER.size, b"\0")
    base, length, magic, delta = _HEADER.unpack(head)
    least = _LEAST_LENGTHS.get(magic)
    size = layout.LOG_OVERHEAD + length if least is not None and length >= least else 0
    if magic == layout.MAGIC_V2:
        return _Batch(position, size, base, base + delta)
    if not head[layout.LEGACY_ATTRIBUTES] & layout.CODEC_MASK:
        return _Batch(position, size, base, base)
    # A wrapper's own offset is that of its last message; the first is not known.
    return _Batch(position, size, base if due is None else min(due, base), base)


def _is_due(batch: _Batch, entry: SegmentEntry, due: int | None, floor: OffsetPosition) -> bool:
    if due is None:
        return batch.first <= floor.offset
    return batch.first == due if entry.is_dense else batch.first >= due


def _misplaced(
    batch: _Batch, entry: SegmentEntry, due: int | None, floor: OffsetPosition
) -> CorruptIndexError | CorruptRecordError:
    if due is None:
        problem = f"entry {tuple(floor)}: no such batch begins there"
        return CorruptIndexError(problem, suffix=INDEX_SUFFIX)
    first, last = batch.first + entry.shift, batch.last + entry.shift
    return CorruptRecordError(
        f"a batch of {batch.size} bytes, offsets {first} to {last}, does not fit here",
        position=batch.position,
        offset=due + entry.shift,
    )


def _cut(directory: str, entry: SegmentEntry, size: int) -> CorruptRecordError:
    return CorruptRecordError(
        f"the file has {size} bytes; the metadata says {entry.log_position + entry.log_bytes}: "
        f"it was cut",
        file=log_path(directory, entry),
        position=size,
        offset=entry.base_offset,
    )


def _raised(directory: str, entry: SegmentEntry, begin: int, data: memoryview) -> memoryview:
    """Return batches with the offsets of the log, up to the first damaged one."""
    view = byte_view(data)
    scan = scan_batches(view)
    if not len(scan.batches):
        raise CorruptRecordError(
            scan.problem or "no batch",
            file=log_path(directory, entry),
            position=entry.log_position + begin,
            offset=entry.base_offset,
        )
    return flat_view(with_offsets_raised(view, scan.batches, entry.shift))
