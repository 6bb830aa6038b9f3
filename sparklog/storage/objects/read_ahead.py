"""Read files of an object store, and fetch the next ranges meanwhile.

    ReadAhead       one file from front to back, whose ranges a reader asks for one by one
    RangesAhead     ranges of any files that are known before

Each range is one request on its own connection: if one connection is the limit, two bring twice the
bytes, and if the way to the store is long, sixteen wait for it together.
"""

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Final, NamedTuple

from sparklog.storage.files import Files, Reader
from sparklog.storage.paths import check_range

AHEAD: Final = 2
"""How many ranges of a file are fetched while the caller works on one; each is as long as that
one."""
THREADS: Final = 32
"""How many ranges this process may fetch at once."""
AT_ONCE: Final = 16
"""How many requests of one RangesAhead are under way at once."""
JOINED_BYTES: Final = 8 * 1024 * 1024
"""A request of more bytes takes no further range: so large answers come on several connections."""


class ReadAhead:
    """Reads ranges through `read`; threads fetch the next ones, up to about the position `end`.

        asked for      |------|
        under way             |------|------|

    The ranges that a caller asks for may overlap (it reads a batch again that the last range cut
    off) and may grow; no byte is fetched twice.
    """

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


class Range(NamedTuple):
    """Bytes of a file."""

    path: str
    start: int
    length: int

    @property
    def end(self) -> int:
        """The position behind the last byte."""
        return self.start + self.length


class RangesAhead:
    """Reads files; the ranges that will be read are fetched before they are asked for.

        wanted      a 0..9   b 5..7   a 9..20   c 0..4     in the order of their need
        requests    a 0..20  b 5..7   c 0..4               AT_ONCE of them under way

    Ranges of a file that lie back to back are one request. All bytes fetched are kept. For one
    thread.
    """

    def __init__(self, files: Files, wanted: Iterable[Range]) -> None:
        self._files = files
        self._requests = _requests(wanted)
        self._begun: list[Future[memoryview]] = []
        """Those of the first requests."""
        self._places: dict[str, list[tuple[int, int]]] = {}
        """By file, the start and the number of each request, by start."""
        for number, one in sorted(enumerate(self._requests), key=lambda item: item[1]):
            self._places.setdefault(one.path, []).append((one.start, number))

    def keep(self, path: str) -> Reader:
        """See `Files.keep`. A read outside of the wanted ranges is a request of its own."""
        return partial(self.read, path)

    def read(self, path: str, start: int, length: int) -> memoryview:
        """See `Files.read`."""
        places = self._places.get(path, [])
        slot = bisect_right(places, start, key=lambda place: place[0])
        if slot:
            first, number = places[slot - 1]
            if start + length <= self._requests[number].end:
                return self._fetched(number)[start - first : start - first + length]
        return self._files.read(path, start, length)

    def _fetched(self, number: int) -> memoryview:
        for one in self._requests[len(self._begun) : number + AT_ONCE]:
            self._begun.append(_threads().submit(self._files.read, *one))
        return self._begun[number].result()


def _requests(wanted: Iterable[Range]) -> list[Range]:
    """Return the requests for ranges, those first that are needed first."""
    order = {one: number for number, one in reversed([*enumerate(wanted)])}
    found: list[tuple[int, Range]] = []
    for one in sorted(order):
        need, last = found[-1] if found else (0, Range("", 0, 0))
        end = max(one.end, last.end)
        if one.path == last.path and one.start <= last.end <= last.start + JOINED_BYTES:
            found[-1] = min(need, order[one]), last._replace(length=end - last.start)
        else:
            found.append((order[one], one))
    return [one for _, one in sorted(found)]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "read-ahead")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
