"""A committed segment's `.log`, window by window: whole batches, with their offsets checked.

A batch's checksum covers neither its base offset nor its length. So its offsets are compared with
those of the batches around it: each batch begins where the batch before it ends, and all batches
are between the segment's first and last offset. In a segment with gaps, which compaction leaves, a
batch may begin later. As in Kafka, a wrong base offset inside such a gap is not noticed.
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
from sparklog.record.batches import BatchTable, Buffer, byte_view
from sparklog.record.checksum import extend_crc32c, verify_checksums
from sparklog.record.scan import scan_batches, size_in_header

if TYPE_CHECKING:
    from sparklog.record.decode import DecodedRecords

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""How much of a file is mapped or fetched at once: this limits a reader's memory."""
LOOKUP_BYTES: Final = 64 * 1024
"""How many bytes a lookup reads at first: mostly the batch is within 4 KB of its index entry."""
BEGINNING: Final = OffsetPosition(0, 0)
"""The entry from which a walk begins without an index."""

Reader = Callable[[int, int], Buffer]
"""read(position, length), both in bytes; it returns fewer bytes if the file ends first."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SegmentLog:
    """One segment: its row of the metadata, and functions that read its bytes.

    Positions count from the segment's first byte; in a shared segment that is not the file's first.
    """

    entry: SegmentEntry
    read: Reader
    """Reads the segment's bytes; fewer if the segment or the file ends first."""
    offset_index: Callable[[], OffsetIndex | None] = lambda: None
    """Returns the index; None if there is none: then the file is walked from its beginning."""
    time_index: Callable[[], TimeIndex | None] = lambda: None
    lookup_bytes: int = LOOKUP_BYTES
    """How many bytes a lookup reads at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The whole batches of one part of a file; their positions are positions in `data`."""

    entry: SegmentEntry
    position: int
    data: Buffer
    batches: BatchTable

    @property
    def next_offset(self) -> int:
        """The offset (of the log) behind the last batch of the window."""
        return int(self.batches.last_offset[-1]) + 1 + self.entry.shift

    def needed(self, start: int, end: int | None = None) -> BatchTable:
        """Return the batches that may hold an offset in [start, end) of the log.

        In a segment with gaps only its checksum tells whether a batch's last offset is right. There
        the batches below `start` are verified. Raises CorruptRecordError.
        """
        shift = self.entry.shift
        first = int(np.searchsorted(self.batches.last_offset, start - shift))
        if not self.entry.is_dense:
            self.verify(self.batches.slice(0, first))
        rest = self.batches.slice(first)
        if end is None:
            return rest
        # A wrapper's first offset is not known before it is opened: take the smallest possible.
        begins = np.where(rest.is_wrapper, rest.due_offsets(start - shift), rest.base_offset)
        return rest.slice(0, int(np.searchsorted(begins, end - shift)))

    def verify(self, batches: BatchTable) -> None:
        """Raise CorruptRecordError, with position and offset, if a batch's checksum is wrong."""
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
        """Return the records of `batches` within [start, end) of the log.

        `batches` are some of the window's. Their checksums are verified first. Raises
        CorruptRecordError, with position and offset, also for a batch that decompresses to more
        than `max_bytes` (None: the limit of `decode`).
        """
        # Imported when records are first decoded, so that a service starts without the kernels.
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
        """Return the same error with its position in the segment and its offset in the log."""
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
    """Yield the batches of a segment, from its beginning or from an entry of its offset index.

    The first window has `size` bytes, each further one twice as many as the one before it, up to
    `size_max` (None: `size`). A window has fewer bytes if the file ends, and more if one batch is
    larger. `due` is the offset (of the file) at which the first batch behind `floor` must begin, if
    the caller knows it.

    A committed segment has no torn tail. Raises CorruptRecordError, with the position and the
    offset of the log, for a file that is shorter than the metadata says, for bytes that are no
    batch, and for a batch with other offsets than those due; all batches before were yielded then.
    Raises CorruptIndexError if no batch begins at the entry. Checksums are not verified.
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
            need = size_in_header(data)
            if len(data) < need <= left:
                continue  # a batch larger than the window
        raise _damage(entry, floor, position, due, problem)
    if due is not None and entry.is_dense and due != entry.file_next_offset:
        problem = f"the file ends before offset {entry.next_offset}"
        raise _damage(entry, floor, position, due, problem)


def checked_windows(segment: SegmentLog) -> Iterator[Window]:
    """Yield the windows of a whole segment, verified; at the end compare the row's checksum.

    The row's checksum also covers base offsets and leader epochs; a batch's checksum does not. So a
    copy of the segment needs this check: it gets a new row with a new checksum, which would hide
    such damage. Raises as `windows`, and CorruptRecordError for a wrong checksum.
    """
    crc, expected = 0, segment.entry.log_crc32c
    for window in windows(segment):
        window.verify(window.batches)
        crc = extend_crc32c(crc, byte_view(window.data)[: int(window.batches.end_position[-1])])
        yield window
    if expected not in (None, crc):
        raise CorruptRecordError(f"the CRC-32C of the file is {crc}, its row says {expected}")


def count_in_place(batches: BatchTable, entry: SegmentEntry, due: int | None) -> int:
    """Return how many leading batches have the offsets that are due, in the file's numbering.

    `due` is the offset behind the batch before them. If it is None (not known), the first batch
    must only be inside the segment. Only the last offset of a wrapper is known. If two batches
    overlap, the first of them counts only if it follows the batch before it without a gap.
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
    """Return True if an entry of the offset index fits the batches at its position.

    Before Kafka 4 an entry had the position of the first batch of an append, and the last offset of
    the whole append. If that offset is behind the window, the window must have several batches, all
    in place.
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
    """Return the error for damage at `position`, the place of `due`; without `due` the index's."""
    if due is None:
        return _index_error(floor, problem)
    return CorruptRecordError(problem, position=position, offset=due + entry.shift)


def _index_error(floor: OffsetPosition, problem: str) -> CorruptIndexError:
    return CorruptIndexError(f"entry {tuple(floor)}: {problem}", suffix=INDEX_SUFFIX)
