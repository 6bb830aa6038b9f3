"""The segments of one partition in offset order, searched in microseconds.

The columns that searches need are int64 arrays. The entry of a segment is made when a caller asks
for it. Segment `i` holds the offsets [base_offset, next_offset). Segments may have gaps between
them, and never overlap.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptMetadataError
from sparklog.model import SegmentEntry

_SCAN_STEP: Final = 4096
ENTRIES: Final = 16
"""How many entries are cached: lookups mostly ask for the same segments again."""


class SegmentList:
    """An immutable list of the live segments of one partition, sorted by base offset.

    A search returns the number of a segment; a miss is None.
    """

    __slots__ = (
        "_entry_of",
        "_newest_before",
        "base_offset",
        "log_bytes",
        "max_timestamp",
        "next_offset",
    )

    def __init__(
        self,
        base_offset: NDArray[np.int64],
        next_offset: NDArray[np.int64],
        max_timestamp: NDArray[np.int64],
        log_bytes: NDArray[np.int64],
        entry_of: Callable[[int], SegmentEntry],
    ) -> None:
        """Take int64 arrays of one length, sorted; `entry_of(i)` makes the entry of segment `i`.

        `max_timestamp` (ms) is -1 for a segment without any. Raises CorruptMetadataError, with the
        first segment that is empty or overlaps the one before it.
        """
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.log_bytes = log_bytes
        self._entry_of = lru_cache(ENTRIES)(entry_of)
        self._newest_before = np.maximum.accumulate(max_timestamp)
        self._check()

    def __len__(self) -> int:
        return len(self.base_offset)

    def __iter__(self) -> Iterator[SegmentEntry]:
        return (self.entry(slot) for slot in range(len(self)))

    def entry(self, slot: int) -> SegmentEntry:
        """Return the row of segment `slot` (0 .. len - 1)."""
        return self._entry_of(slot)

    @property
    def total_bytes(self) -> int:
        """The size of all segments in bytes."""
        return int(self.log_bytes.sum())

    def first_ending_after(self, offset: int) -> int | None:
        """Return the first segment that ends above `offset`: a read from there begins in it."""
        slot = int(self.next_offset.searchsorted(offset, "right"))
        return slot if slot < len(self) else None

    def range(self, start: int, end: int) -> range:
        """Return the numbers of the segments that overlap [start, end); empty if none does."""
        first = int(self.next_offset.searchsorted(start, "right"))
        last = int(self.base_offset.searchsorted(end, "left"))
        return range(first, last if start < end else first)

    def first_with_timestamp(self, timestamp: int, from_offset: int = 0) -> int | None:
        """Return the first segment with a record at or after `timestamp` (ms, >= 0).

        Segments that end at or below `from_offset`, such as the log start offset, are skipped. A
        segment without timestamps is never returned. (Kafka takes the file's modification time for
        it, and then finds no record.)
        """
        slot = int(self._newest_before.searchsorted(timestamp, "left"))
        first = int(self.next_offset.searchsorted(from_offset, "right"))
        if slot < first:
            # A skipped segment has reached the running maximum: compare each segment's own.
            slot = self._scan(timestamp, first)
        return slot if slot < len(self) else None

    def _scan(self, timestamp: int, first: int) -> int:
        for start in range(first, len(self), _SCAN_STEP):
            matches = self.max_timestamp[start : start + _SCAN_STEP] >= timestamp
            if matches.any():
                return start + int(matches.argmax())
        return len(self)

    def _check(self) -> None:
        holds = self.next_offset > self.base_offset
        holds[1:] &= self.base_offset[1:] >= self.next_offset[:-1]
        if not holds.all():
            slot = int(holds.argmin())
            before = f" behind one that ends at {self.next_offset[slot - 1]}" if slot else ""
            raise CorruptMetadataError(
                f"segment of offsets [{self.base_offset[slot]}, {self.next_offset[slot]}){before}:"
                " segments hold at least one offset and do not overlap"
            )
