"""A committed segment's `.log`, window by window: whole batches, each where it must be.

A batch's checksum covers neither its base offset nor its length, so its offsets are held against
the batches around it: a batch begins where the one before it ends, and all lie between the
segment's first and last offset. Only where compaction has left gaps may one begin later; a damaged
base offset that stays within its gap is not noticed (nor does Kafka notice it).
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from sparklog.errors import CorruptIndexError, CorruptRecordError
from sparklog.log.names import INDEX_SUFFIX
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.time_index import TimeIndex
from sparklog.model import OffsetPosition, SegmentEntry
from sparklog.record.batches import BatchTable, Buffer
from sparklog.record.scan import scan_batches, told_size, verify_checksums

if TYPE_CHECKING:
    from sparklog.record.decode import DecodedRecords

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""How much of a file is mapped (or fetched) at once: it bounds a reader's memory."""
LOOKUP_BYTES: Final = 64 * 1024
"""An index leads to within about 4 KB and a batch, so most lookups are one read."""
BEGINNING: Final = OffsetPosition(0, 0)
"""Where to walk from without an index."""

Reader = Callable[[int, int], Buffer]
"""read(position, length) gives bytes, fewer where there are no more."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SegmentLog:
    """One segment: its row of the metadata, and its bytes as they are needed.

    Positions count from the segment's first byte, which is not the file's in a shared segment.
    """

    entry: SegmentEntry
    read: Reader
    """read(position, length) of the segment's bytes; fewer where they, or the file, end first."""
    offset_index: Callable[[], OffsetIndex | None] = lambda: None
    """None when there is none: the file is walked from its beginning."""
    time_index: Callable[[], TimeIndex | None] = lambda: None
    lookup_bytes: int = LOOKUP_BYTES
    """What a lookup reads at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The whole batches of one stretch of a file; their positions are positions in `data`."""

    entry: SegmentEntry
    position: int
    data: Buffer
    batches: BatchTable

    @property
    def next_offset(self) -> int:
        """The offset of the log behind the window's last."""
        return int(self.batches.last_offset[-1]) + 1 + self.entry.shift

    def needed(self, start: int, end: int | None = None) -> BatchTable:
        """The batches that may hold an offset of [start, end) of the log.

        Where only its checksum tells whether a batch's last offset is right, those below `start`
        are verified: CorruptRecordError.
        """
        shift = self.entry.shift
        first = int(np.searchsorted(self.batches.last_offset, start - shift))
        if not self.entry.is_dense:
            self.verify(self.batches.slice(0, first))
        rest = self.batches.slice(first)
        if end is None:
            return rest
        # A wrapper's first offset is not known before it is opened, but it lies above the last.
        begins = np.where(rest.is_wrapper, rest.due_offsets(start - shift), rest.base_offset)
        return rest.slice(0, int(np.searchsorted(begins, end - shift)))

    def verify(self, batches: BatchTable) -> None:
        """Raise CorruptRecordError with position and offset where a checksum is wrong."""
        try:
            verify_checksums(self.data, batches)
        except CorruptRecordError as error:
            raise self._placed(error) from None

    def decoded(
        self,
        columns: Collection[str],
        start: int,
        end: int | None,
        batches: BatchTable,
        max_bytes: int | None = None,
    ) -> "DecodedRecords":
        """The records of some of the batches within [start, end) of the log.

        Checksums are verified first. Raises CorruptRecordError with position and offset, also for a
        batch that decompresses to more than `max_bytes` (None: decode's own limit).
        """
        # Loaded with the first records: the kernels take a while, and a service answers before.
        from sparklog.record.decode import decode

        self.verify(batches)
        try:
            return decode(
                self.data,
                batches,
                columns=columns,
                shift=self.entry.shift,
                start_offset=start,
                end_offset=end,
                max_bytes=max_bytes,
            )
        except CorruptRecordError as error:
            raise self._placed(error) from None

    def _placed(self, error: CorruptRecordError) -> CorruptRecordError:
        """The same error, with its position in the file and its offset in the log."""
        position, offset = error.position or 0, error.offset or 0
        return type(error)(
            error.args[0], position=self.position + position, offset=offset + self.entry.shift
        )


def windows(
    segment: SegmentLog,
    floor: OffsetPosition = BEGINNING,
    size: int = WINDOW_BYTES,
    size_max: int | None = None,
    due: int | None = None,
) -> Iterator[Window]:
    """Yield the batches of a segment from an entry of its offset index on, or from its beginning.

    The first window is `size` bytes, each further one twice as many as the one before it, up to
    `size_max` (None: `size`); less where the file ends, more for a batch that alone is larger.
    `due` is the offset in the file at which the first batch must begin, where the caller knows it.

    A committed segment has no torn tail: a file that is shorter than the metadata says, bytes that
    are no batch, and a batch of other offsets than those due raise CorruptRecordError with
    position and offset (of the log), after everything before them was yielded. Checksums are not
    looked at. Raises CorruptIndexError when the entry does not name a batch.
    """
    entry, position, need = segment.entry, floor.position, size
    due = due if position else entry.file_base_offset
    while position < entry.log_bytes:
        left = entry.log_bytes - position
        data = segment.read(position, min(need, left))
        scan = scan_batches(data)
        in_place = count_in_place(scan.batches, entry, due)
        if len(scan.batches):
            if due is None and not _names_batch(floor, scan.batches, in_place):
                raise _index_error(floor, "no such batch begins there")
            if not in_place:
                raise _damage(entry, floor, position, due, _misplaced(entry, scan.batches))
            batches = scan.batches.slice(0, in_place)
            yield Window(entry, position, data, batches)
            position += int(batches.end_position[-1])
            due = int(batches.last_offset[-1]) + 1
            size = need = min(2 * size, size_max or size)
            continue
        problem = scan.problem or "the file ends here"
        if len(data) < min(need, left):
            problem += f"; the metadata says that it has {entry.log_bytes} bytes: it was cut"
        else:
            need = told_size(data)
            if len(data) < need <= left:
                continue  # a batch larger than the window
        raise _damage(entry, floor, position, due, problem)
    if due is not None and entry.is_dense and due != entry.file_next_offset:
        problem = f"the file ends before offset {entry.next_offset}"
        raise _damage(entry, floor, position, due, problem)


def count_in_place(batches: BatchTable, entry: SegmentEntry, due: int | None) -> int:
    """How many leading batches hold offsets that they may hold, in the file's numbering.

    `due` is the offset behind the batch before them, None when that is not known: the first is then
    right if it lies within the segment. Of a wrapper only the last offset is known. Of two batches
    that overlap, the first is in place only if it follows the batch before it without a gap.
    """
    first = entry.file_base_offset if due is None else due
    follows = batches.base_offset == batches.due_offsets(first)
    rises = batches.rises(first)
    holds = rises & (batches.last_offset < entry.file_next_offset)
    if entry.is_dense:
        exempt = batches.is_wrapper
        exempt[:1] |= due is None
        holds &= follows | exempt
    if holds.all():
        return len(batches)
    wrong = int(np.argmin(holds))
    overlaps = wrong > 0 and not rises[wrong] and not follows[wrong - 1]
    return wrong - overlaps


def _names_batch(floor: OffsetPosition, batches: BatchTable, in_place: int) -> bool:
    """Whether the batches at an entry's position are those that the entry means.

    Before Kafka 4 an entry held the position of the first batch of an append and the last offset of
    all its batches. If that offset lies beyond the window, it is enough that more than one batch is
    in its place.
    """
    lasts = batches.last_offset[:in_place]
    return floor.offset in lasts or (1 < in_place == len(batches) and lasts[-1] < floor.offset)


def _misplaced(entry: SegmentEntry, batches: BatchTable) -> str:
    first, last = (
        int(column[0]) + entry.shift for column in (batches.base_offset, batches.last_offset)
    )
    return f"the batch of offsets {first} to {last} does not fit between those around it"


def _damage(
    entry: SegmentEntry, floor: OffsetPosition, position: int, due: int | None, problem: str
) -> CorruptRecordError | CorruptIndexError:
    """Damage at `position`, where offset `due` of the file should be; or the index led astray."""
    if due is None:
        return _index_error(floor, problem)
    return CorruptRecordError(problem, position=position, offset=due + entry.shift)


def _index_error(floor: OffsetPosition, problem: str) -> CorruptIndexError:
    return CorruptIndexError(f"entry {tuple(floor)}: {problem}", suffix=INDEX_SUFFIX)
