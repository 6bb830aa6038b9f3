"""The offset index of a segment (`.index`): the position of a batch, every few kilobytes.

    entry = relative offset int32 + position int32          big-endian, 4 + 4 bytes

    relative offset   last offset of the indexed batch - base offset of the file
    position          byte of the `.log` at which that batch begins

No header, no checksum; offsets and positions grow strictly. The first batch of a segment has no
entry, so no position is 0. Source: OffsetIndex.java, AbstractIndex.java.

An entry (O, P) means: a batch with an offset above O begins after P.
"""

from bisect import bisect_right
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparklog.log.index_view import IndexView, rises
from sparklog.model import OffsetPosition

ENTRY_BYTES: Final = 4 + 4

_ENTRY = Struct(">ii")
_DTYPE: Final = np.dtype(">i4")


def encode(relative_offsets: ArrayLike, positions: ArrayLike) -> bytes:
    """Return the bytes of the index; arguments are int32 arrays of one length; b"" if empty."""
    entries = np.stack((np.asarray(relative_offsets), np.asarray(positions)), axis=1)
    return entries.astype(_DTYPE).tobytes()


class OffsetIndex(IndexView):
    """A view of an offset index.

    A lookup takes about 21 steps in the largest index that Kafka writes by default (10 MiB).
    """

    __slots__ = ()

    kind = "offset"
    entry_bytes = ENTRY_BYTES

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below `offset`; (base offset, 0) if there is none.

        The batch that holds `offset` begins at the position of the entry, or behind it.
        """
        slot = bisect_right(range(self._count), offset - self.base_offset, key=self._relative) - 1
        return self._entry(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def lookup_position(self, position: int) -> OffsetPosition:
        """Return the last entry at or below `position`; (base offset, 0) if there is none."""
        slot = bisect_right(range(self._count), position, key=self._position) - 1
        return self._entry(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all (offsets, positions), int64; offsets are absolute, in the file's numbering."""
        table = np.frombuffer(self._buffer, _DTYPE, self._count * 2).reshape(-1, 2)
        columns = table.astype(np.int64)
        return columns[:, 0] + self.base_offset, columns[:, 1]

    def sanity_check(self) -> None:
        """Raise CorruptIndexError, with the first bad entry, if no writer can have written this.

        Kafka checks that entries are whole and not below the base offset. Here every entry must
        also be above the one before, which finds a file of zeros.
        """
        self._require_whole()
        offsets, positions = self.entries()
        self._require(offsets >= self.base_offset, f"an offset below the base {self.base_offset}")
        self._require(rises(offsets, -1), "an offset not above the one before")
        self._require(rises(positions, 0), "a position not above the one before")

    def _relative(self, slot: int) -> int:
        return int(_ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)[0])

    def _position(self, slot: int) -> int:
        return int(_ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)[1])

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = _ENTRY.unpack_from(self._buffer, slot * ENTRY_BYTES)
        return OffsetPosition(self.base_offset + relative, position)
