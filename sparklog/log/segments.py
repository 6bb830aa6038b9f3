"""The segments of one partition, in the order of their offsets: found in microseconds.

The columns that lookups need are int64 arrays; an entry is made when it is asked for. Segment `i`
holds the offsets [base_offset, next_offset); between two segments there may be a gap, never an
overlap.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptMetadataError
from sparklog.model import NO_TIMESTAMP, SegmentEntry

_SCAN_STEP: Final = 4096
ENTRIES: Final = 16
"""Entries that are kept once made: a lookup comes back to the same segments."""


class SegmentList:
    """An immutable list of the live segments of one partition, sorted by base offset.

    A miss is None everywhere: no segment answers.
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

        `max_timestamp` is -1 for a segment without any. Raises CorruptMetadataError naming the
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
        """Everything the metadata says of segment `slot` (0 .. len - 1)."""
        return self._entry_of(slot)

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments' batches."""
        return int(self.log_bytes.sum())

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of all segments; NO_TIMESTAMP when there is none."""
        return int(self._newest_before[-1]) if len(self) else NO_TIMESTAMP

    def first_ending_after(self, offset: int) -> int | None:
        """The first segment with an offset at or above `offset`: where a read from there begins."""
        slot = int(self.next_offset.searchsorted(offset, "right"))
        return slot if slot < len(self) else None

    def range(self, start: int, end: int) -> range:
        """The segments that overlap the offsets [start, end); empty when none does."""
        first = int(self.next_offset.searchsorted(start, "right"))
        last = int(self.base_offset.searchsorted(end, "left"))
        return range(first, last if start < end else first)

    def first_with_timestamp(self, timestamp: int, from_offset: int = 0) -> int | None:
        """The first segment with a record at or after `timestamp` (ms, >= 0).

        Segments that end at or below `from_offset` are passed over, so that a search whose match
        lies below the log start goes on behind it. A segment without timestamps never matches
        (Kafka falls back on the file's mtime, and then finds nothing in it).
        """
        slot = int(self._newest_before.searchsorted(timestamp, "left"))
        first = int(self.next_offset.searchsorted(from_offset, "right"))
        if slot < first:
            # The running maximum was reached below: only segments themselves can tell.
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
