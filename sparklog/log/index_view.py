"""What both indexes of a segment have in common (AbstractIndex.java): entries of one size, sorted.

Each entry holds an offset relative to the base offset of the file. The picture of the bytes stands
in `offset_index` and `time_index`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError


def rises(values: NDArray[np.int64], before: int) -> NDArray[np.bool_]:
    """Whether each value is above the one before it, the first above `before`.

    A difference would overflow between -1 and 2^63 - 1.
    """
    return values > np.concatenate(([before], values[:-1]))


class IndexView(ABC):
    """A view of an index: nothing is copied, so `buffer` may be a memory map.

    Bytes after the last whole entry are not looked at, as in Kafka; `sanity_check` reports them.
    """

    __slots__ = ("_buffer", "_count", "base_offset")

    kind: ClassVar[str]
    entry_bytes: ClassVar[int]

    def __init__(self, buffer: bytes | memoryview, base_offset: int) -> None:
        self._buffer = memoryview(buffer)
        self._count = len(self._buffer) // self.entry_bytes
        self.base_offset = base_offset

    def __len__(self) -> int:
        return self._count

    def truncate_to(self, offset: int) -> memoryview:
        """The bytes of the entries below `offset`, as a slice of this index."""
        count = bisect_left(range(self._count), offset - self.base_offset, key=self._relative)
        return self._buffer[: count * self.entry_bytes]

    def _require_whole(self) -> None:
        if len(self._buffer) % self.entry_bytes:
            raise CorruptIndexError(
                f"{self.kind} index of {len(self._buffer)} bytes is no multiple of "
                f"{self.entry_bytes}"
            )

    def _require(self, holds: NDArray[np.bool_], problem: str) -> None:
        if not holds.all():
            slot = int(np.argmin(holds))
            raise CorruptIndexError(
                f"{self.kind} index entry {slot} {tuple(self._entry(slot))}: {problem}"
            )

    @abstractmethod
    def _relative(self, slot: int) -> int:
        """The relative offset of an entry."""

    @abstractmethod
    def _entry(self, slot: int) -> tuple[int, int]:
        """An entry, its offset absolute."""
