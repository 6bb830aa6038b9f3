"""Read a file of an object store from front to back, and fetch the next ranges meanwhile.

    asked for      |------|
    under way             |------|------|

Each range is one request on its own connection: if one connection is the limit, two bring twice the
bytes. The ranges that a caller asks for may overlap (it reads a batch again that the last range cut
off) and may grow; no byte is fetched twice.
"""

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Final

from sparklog.storage.files import Reader
from sparklog.storage.paths import check_range

AHEAD: Final = 2
"""How many ranges are fetched while the caller works on one; each is as long as that one."""
THREADS: Final = 32
"""How many ranges this process may fetch at once."""


class ReadAhead:
    """Reads ranges through `read`; threads fetch the next ones, up to about the position `end`."""

    def __init__(self, read: Reader, end: int) -> None:
        self._read = read
        self._end = end
        self._start = 0
        """The position in the file where `_data` begins."""
        self._data = memoryview(b"")
        self._under_way: deque[Future[memoryview]] = deque()
        """The ranges under way, in the order of the file; they follow `_data`."""
        self._next = 0
        """The position where the last range under way ends."""

    def __call__(self, start: int, length: int) -> memoryview:
        """Return the bytes [start, start + length), fewer where the file ends first."""
        check_range(start, length)
        if not self._start <= start <= self._start + len(self._data):
            self._begin_at(start)
        self._ask_up_to(start + length, length)
        pieces = [self._data[start - self._start :]]
        held = len(pieces[0])
        while held < length and self._under_way:
            piece = self._taken()
            pieces.append(piece)
            held += len(piece)
        self._start, self._data = start, _joined(pieces)
        return self._data[:length]

    def _begin_at(self, start: int) -> None:
        self._under_way.clear()
        self._start = self._next = start
        self._data = memoryview(b"")

    def _ask_up_to(self, end: int, length: int) -> None:
        """Ask for the bytes up to `end` and, before the end of the file, AHEAD ranges more."""
        last = max(end, min(self._end, end + AHEAD * length))
        while self._next < last:
            size = min(length, last - self._next)
            self._under_way.append(_threads().submit(self._read, self._next, size))
            self._next += size

    def _taken(self) -> memoryview:
        try:
            return self._under_way.popleft().result()
        except BaseException:
            # After an error the next read begins anew.
            self._begin_at(0)
            raise


def _joined(pieces: list[memoryview]) -> memoryview:
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:
        return filled[0] if filled else memoryview(b"")
    return memoryview(b"".join(filled))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "read-ahead")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
