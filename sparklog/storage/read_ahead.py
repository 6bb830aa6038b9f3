"""A file of an object store, read from front to back: the next ranges are on their way meanwhile.

    asked for      |------|
    under way             |------|------|

A range is asked for by one request on a connection of its own, so that two in flight bring twice
the bytes where a connection is the limit. Ranges that a reader asks for may overlap (a batch that
was cut at the end of the last one) and may grow; no byte is fetched twice.
"""

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Final

from sparklog.storage.files import Reader
from sparklog.storage.paths import check_range

AHEAD: Final = 2
"""How many ranges of the length asked for are under way while one is worked on."""
THREADS: Final = 32
"""How many ranges are under way in this process at most."""


class ReadAhead:
    """Reads ranges through `read`, and asks it for the next ones in threads, up to about `end`."""

    def __init__(self, read: Reader, end: int) -> None:
        self._read = read
        self._end = end
        self._start = 0
        """Where the bytes in `_data` begin in the file."""
        self._data = memoryview(b"")
        self._under_way: deque[Future[memoryview]] = deque()
        """The ranges behind `_data` that are under way, in the order of the file."""
        self._next = 0
        """Where the last of those ends."""

    def __call__(self, start: int, length: int) -> memoryview:
        """Return bytes [start, start + length), fewer where the file ends first."""
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
        """Ask for the bytes up to `end` and, before the end of the scan, for AHEAD ranges more."""
        last = max(end, min(self._end, end + AHEAD * length))
        while self._next < last:
            size = min(length, last - self._next)
            self._under_way.append(_threads().submit(self._read, self._next, size))
            self._next += size

    def _taken(self) -> memoryview:
        try:
            return self._under_way.popleft().result()
        except BaseException:
            # The next read begins anew.
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
