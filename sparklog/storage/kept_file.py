"""A local file that stays open: read with one call of the system, or sent without being read.

A file that is deleted meanwhile keeps its bytes until the last use of it ends.
"""

import os
from typing import Final

from sparklog.storage.failures import os_errors
from sparklog.storage.paths import check_range

PROBE_BYTES: Final = 256 * 1024
"""How far apart `is_at_hand` looks: the kernel reads as much ahead, and drops pages in groups."""
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Linux reads with it what is in memory, and nothing else."""


class KeptFile:
    """One file. `size` is its length when it was opened: files never change."""

    __slots__ = ("_descriptor", "_path", "_uri", "size")

    def __init__(self, path: str, uri: str, descriptor: int) -> None:
        """Take a descriptor over."""
        self._descriptor = descriptor
        self._path = path
        self._uri = uri
        self.size = os.fstat(descriptor).st_size

    def fileno(self) -> int:
        """Return the descriptor; it is closed with the last use of this."""
        return self._descriptor

    def __call__(self, start: int, length: int) -> memoryview:
        """See `files.Reader`."""
        check_range(start, length)
        with os_errors("read", self._path, self._uri):
            return memoryview(pread_to(self._descriptor, start, min(self.size, start + length)))

    def at_once(self, start: int, length: int) -> memoryview:
        """Return the same if it is in memory. Raises BlockingIOError if a disk has to be read."""
        data = bytearray(max(min(self.size, start + length) - start, 0))
        if data and _read_cached(self._descriptor, data, start) < len(data):
            raise BlockingIOError
        return memoryview(data)

    def is_at_hand(self, start: int, length: int) -> bool:
        """Whether a range seems to be in memory: bytes of it are, PROBE_BYTES apart."""
        one = bytearray(1)
        try:
            for position in range(start, start + length, PROBE_BYTES):
                _read_cached(self._descriptor, one, position)
            _read_cached(self._descriptor, one, start + length - 1)
        except BlockingIOError:
            return False
        return True

    def bring(self, start: int, length: int) -> None:
        """Have a range read into memory, and wait for that."""
        with os_errors("read", self._path, self._uri):
            os.posix_fadvise(self._descriptor, start, length, os.POSIX_FADV_WILLNEED)
            for position in range(start, start + length, PROBE_BYTES):
                os.pread(self._descriptor, 1, position)
            os.pread(self._descriptor, 1, start + length - 1)

    def __del__(self) -> None:
        os.close(self._descriptor)


def _read_cached(descriptor: int, data: bytearray, start: int) -> int:
    """Read what is in memory. Raises BlockingIOError when the first byte is not, or on failure."""
    try:
        return os.preadv(descriptor, [data], start, _NOWAIT)
    except OSError:
        raise BlockingIOError from None


def pread_to(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a file, fewer where it ends first."""
    parts = []
    # One call hands over 2 GiB at most.
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)
