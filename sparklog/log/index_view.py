"""The base of a segment's two indexes (AbstractIndex.java): sorted entries of one size.

Each entry has an offset relative to the base offset of the file. `offset_index` and `time_index`
show the layout of an entry.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError


def rises(values: NDArray[np.int64], before: int) -> NDArray[np.bool_]:
    """Return, for each value, whether it is above the one before it; the first, above `before`.

    Values are compared, not subtracted: the difference of -1 and 2^63 - 1 would overflow.
    """
    return values > np.concatenate(([before], values[:-1]))


class IndexView(ABC):
    """A view of an index; it copies nothing, so `buffer` may be a memory map.

    It ignores bytes after the last whole entry, as Kafka does; `sanity_check` reports them.
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
        """Return the bytes of the entries below `offset` (absolute), not copied."""
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
        """Return the relative offset of an entry."""

    @abstractmethod
    def _entry(self, slot: int) -> tuple[int, int]:
        """Return an entry, with its offset absolute."""
