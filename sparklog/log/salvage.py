"""Every sound batch of a damaged `.log`: the walk goes on behind the damage.

    sound │ sound │ damage … │ sound │ …
                  P          Q

P is the position where the walk of `log.windows` ends, or that of the first batch with a wrong
checksum. Q is the next position of a whole batch with a right checksum and with offsets that may
follow. To find Q, the end of the batch at P is tried first, as its header gives it: the batch there
must continue the offsets. If it does not, every byte behind P is tried. The bytes between P and Q
are lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.log.windows import BEGINNING, WINDOW_BYTES, SegmentLog, Window, windows
from sparklog.model import OffsetPosition
from sparklog.record import layout
from sparklog.record.batches import byte_view
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches, size_in_header

SEARCH_BYTES: Final = 1 << 20
"""How many bytes are searched at once; the search takes about ten times as much memory."""

_LEAST_LENGTH: Final = layout.LEGACY_MIN_LENGTH_V0


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The bytes [position, end_position) of a `.log`, which hold no sound batch.

    `start_offset` and `end_offset` are the log's: only offsets between them can have been there.
    """

    problem: str
    position: int
    end_position: int
    start_offset: int
    end_offset: int


class _Found(NamedTuple):
    """A sound batch: its offsets in the file's numbering, and its position."""

    base_offset: int
    last_offset: int
    position: int


def sound_windows(segment: SegmentLog, size: int = WINDOW_BYTES) -> Iterator[Window | Damage]:
    """Yield the sound batches of a segment, with checksums verified, and the damage between them.

    Both come in file order. A sound segment yields no damage. A file that ends too early ends in
    damage. Raises StorageError.
    """
    entry = segment.entry
    floor, position, due = BEGINNING, 0, entry.file_base_offset
    while True:
        problem: CorruptRecordError | None = None
        try:
            for window in windows(segment, floor, size, due=due):
                count, problem = _sound(window)
                if count:
                    batches = window.batches.slice(0, count)
                    yield Window(entry, window.position, window.data, batches)
                    position = window.position + int(batches.end_position[-1])
                    due = int(batches.last_offset[-1]) + 1
                if problem is not None:
                    break
        except CorruptRecordError as error:
            problem = error
        if problem is None:
            return
        found = _behind(segment, position, due)
        yield Damage(
            problem=str(problem.args[0]),
            position=position,
            end_position=entry.log_bytes if found is None else found.position,
            start_offset=due + entry.shift,
            end_offset=entry.next_offset if found is None else found.base_offset + entry.shift,
        )
        if found is None:
            return
        floor = OffsetPosition(found.last_offset, found.position)
        position, due = found.position, found.base_offset


def _sound(window: Window) -> tuple[int, CorruptRecordError | None]:
    """Return how many leading batches have a right checksum, and the problem of the next one."""
    batches, problem = window.batches, None
    while True:
        try:
            verify_checksums(window.data, batches)
        except CorruptRecordError as error:
            # Each format is verified by itself, so an earlier batch may be wrong as well.
            problem = error
            batches = batches.slice(0, int(np.searchsorted(batches.position, error.position or 0)))
        else:
            return len(batches), problem


def _behind(segment: SegmentLog, position: int, due: int) -> _Found | None:
    """Return the next sound batch behind the damaged one at `position`; None if there is none."""
    size = _size_at(segment, position)
    if size is not None:
        batches = scan_batches(segment.read(position, size)).batches
        found = _batch_at(segment, position + size, due)
        if found is not None and found.base_offset - 1 in batches.last_offset[:1]:
            return found
    for candidate in _candidates(segment, position + 1, due):
        found = _batch_at(segment, candidate, due)
        if found is not None:
            return found
    return None


def _size_at(segment: SegmentLog, position: int) -> int | None:
    """Return the size that the header at `position` gives; None if no batch has such a size."""
    head = byte_view(segment.read(position, layout.HEADER_PREFIX))
    if len(head) < layout.HEADER_PREFIX or head[layout.MAGIC] > layout.MAGIC_V2:
        return None
    size, left = size_in_header(head), segment.entry.log_bytes - position
    return size if layout.LOG_OVERHEAD + _LEAST_LENGTH <= size <= left else None


def _batch_at(segment: SegmentLog, position: int, due: int) -> _Found | None:
    """Return the batch at `position` if it is whole and its checksum and offsets are right."""
    size = _size_at(segment, position)
    if size is None:
        return None
    data = segment.read(position, size)
    batches = scan_batches(data).batches.slice(0, 1)
    if not len(batches):
        return None
    base_offset, last_offset = int(batches.base_offset[0]), int(batches.last_offset[0])
    if not due <= base_offset <= last_offset < segment.entry.file_next_offset:
        return None
    try:
        verify_checksums(data, batches)
    except CorruptRecordError:
        return None
    return _Found(base_offset, last_offset, position)


def _candidates(segment: SegmentLog, start: int, due: int) -> Iterator[int]:
    """Yield, ascending, the positions at which magic, length and base offset can be a batch's."""
    entry = segment.entry
    for origin in range(start, entry.log_bytes, SEARCH_BYTES):
        data = byte_view(segment.read(origin, SEARCH_BYTES + layout.HEADER_PREFIX - 1))
        count = len(data) - layout.HEADER_PREFIX + 1
        if count <= 0:
            return
        first = np.arange(count)
        first = first[data[layout.MAGIC : layout.MAGIC + count] <= layout.MAGIC_V2]
        length = _numbers(data, first + layout.LENGTH, ">i4")
        left = entry.log_bytes - origin - first - layout.LOG_OVERHEAD
        first = first[(length >= _LEAST_LENGTH) & (length <= left)]
        offset = _numbers(data, first + layout.BASE_OFFSET, ">i8")
        first = first[(offset >= due) & (offset < entry.file_next_offset)]
        yield from (origin + first).tolist()


def _numbers(data: NDArray[np.uint8], at: NDArray[np.int64], dtype: str) -> NDArray[np.int64]:
    """Return the big-endian numbers that begin at the positions `at` of `data`, as int64."""
    size = np.dtype(dtype).itemsize
    digits = data[at[:, None] + np.arange(size)]
    numbers: NDArray[np.int64] = digits.view(dtype).reshape(-1).astype(np.int64)
    return numbers
