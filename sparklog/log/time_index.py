"""The time index of a segment (`.timeindex`): for a time, the offset where later records begin.

    entry = timestamp int64 + relative offset int32         big-endian, 8 + 4 bytes

    timestamp         largest timestamp (ms) from the segment's start to the indexed batch
    relative offset   last offset of the first batch with that timestamp - base offset of the file

No header, no checksum; timestamps and offsets grow strictly. The last entry has the segment's
largest timestamp. Source: TimeIndex.java.

An entry (T, O) means: every record with a timestamp above T has an offset above O.
"""

from bisect import bisect_right
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparklog.log.index_view import IndexView, rises
from sparklog.model import NO_TIMESTAMP, TimestampOffset

ENTRY_BYTES: Final = 8 + 4

_ENTRY = Struct(">qi")
_DTYPE: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


def encode(timestamps: ArrayLike, relative_offsets: ArrayLike) -> bytes:
    """Return the bytes of the index; arguments are int64 and int32 arrays of one length."""
    timestamps = np.asarray(timestamps)
    table = np.empty(len(timestamps), _DTYPE)
    table["timestamp"] = timestamps
    table["relative_offset"] = relative_offsets
    return table.tobytes()


class TimeIndex(IndexView):
    """A view of a time index."""

    __slots__ = ()

    kind = "time"
    entry_bytes = ENTRY_BYTES

    def around(self, timestamp: int) -> tuple[TimestampOffset, TimestampOffset | None]:
        """Return the last entry with a time at or below `timestamp` (ms), and the entry after it.

        The first record at or after `timestamp` is in the batch of the first entry's offset, or
        behind that batch. A miss is (-1, base offset) for the first entry, None for the second.
        """
        slot = bisect_right(range(self._count), timestamp, key=self._timestamp)
        found = self._entry(slot - 1) if slot else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return found, self._entry(slot) if slot < self._count else None

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all (timestamps, offsets), int64; offsets absolute, in the file's numbering."""
        table = np.frombuffer(self._buffer, _DTYPE, self._count)
        offsets = table["relative_offset"].astype(np.int64) + self.base_offset
        return table["timestamp"].astype(np.int64), offsets

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the first bad entry, if no writer can have written this.

        Kafka checks that entries are whole and that the last entry is neither below the base offset
        nor older than the first. Here every entry must also be above the one before, in both
        columns.
        """
        self._require_whole()
        timestamps, offsets = self.entries()
        self._require(offsets >= self.base_offset, f"an offset below the base {self.base_offset}")
        self._require(timestamps >= 0, "a negative timestamp")
        self._require(rises(timestamps, -1), "a timestamp not above the one before")
        self._require(rises(offsets, -1), "an offset not above the one before")

    def _timestamp(self, slot: int) -> int:
        return int(_ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)[0])

    def _relative(self, slot: int) -> int:
        return int(_ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)[1])

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = _ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)
        return TimestampOffset(timestamp, self.base_offset + relative)
