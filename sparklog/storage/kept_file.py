"""A local file that stays open: to read with one system call, or to send with sendfile.

If the file is deleted meanwhile, its bytes stay on disk until the KeptFile is gone.
"""

import os
from typing import Final

from sparklog.storage.failures import os_errors
from sparklog.storage.paths import check_range

PROBE_BYTES: Final = 256 * 1024
"""How far apart `seems_cached` probes: the kernel reads ahead and drops pages in such groups."""
AT_ONCE_BYTES: Final = 8192
"""A file is read up to here before its size is asked for; most entries of the log are smaller."""
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Linux's flag of preadv2: read only what is in memory. 0, no flag, on other systems."""


class KeptFile:
    """One open file, by its path in the log dir.

    `size` is the size in bytes that was seen last; the file may be longer.
    """

    __slots__ = ("_descriptor", "_uri", "path", "size")

    def __init__(self, path: str, uri: str, descriptor: int) -> None:
        """Take over `descriptor`, which is open for reading."""
        self._descriptor = descriptor
        self.path = path
        self._uri = uri
        self.size = os.fstat(descriptor).st_size

    def fileno(self) -> int:
        """Return the descriptor, which is open until this object is gone."""
        return self._descriptor

    def reaches(self, end: int) -> bool:
        """Return True if the file has at least `end` bytes by now."""
        if self.size < end:
            with os_errors("read", self.path, self._uri):
                self.size = os.fstat(self._descriptor).st_size
        return self.size >= end

    def __call__(self, start: int, length: int) -> memoryview:
        """See `files.Reader`."""
        check_range(start, length)
        with os_errors("read", self.path, self._uri):
            return memoryview(pread_to(self._descriptor, start, self._end(start + length)))

    def read_cached(self, start: int, length: int) -> memoryview:
        """Return the bytes of a range without waiting for the disk.

        Raises BlockingIOError if one of them is not in memory.
        """
        data = bytearray(max(self._end(start + length) - start, 0))
        if data and _pread_cached(self._descriptor, data, start) < len(data):
            raise BlockingIOError
        return memoryview(data)

    def _end(self, wanted: int) -> int:
        """Return the end of a range: `wanted`, or the end of the file if that comes first."""
        # Another thread may have noted a smaller size after `reaches` has seen the larger one.
        if wanted <= self.size:
            return wanted
        with os_errors("read", self.path, self._uri):
            return end_of_range(self._descriptor, 0, wanted)

    def seems_cached(self, start: int, length: int) -> bool:
        """Whether every PROBE_BYTES-th byte of a range and its last one are in memory."""
        descriptor, one, end = self._descriptor, [bytearray(1)], start + length
        try:
            for position in range(start, end, PROBE_BYTES):
                os.preadv(descriptor, one, position, _NOWAIT)
            os.preadv(descriptor, one, end - 1, _NOWAIT)
        except OSError:
            return False
        return True

    def load(self, start: int, length: int) -> None:
        """Read a range into memory, and wait until it is there. Raises StorageError."""
        with os_errors("read", self.path, self._uri):
            os.posix_fadvise(self._descriptor, start, length, os.POSIX_FADV_WILLNEED)
            for position in range(start, start + length, PROBE_BYTES):
                os.pread(self._descriptor, 1, position)
            os.pread(self._descriptor, 1, start + length - 1)

    def __del__(self) -> None:
        os.close(self._descriptor)


def _pread_cached(descriptor: int, data: bytearray, start: int) -> int:
    """Read bytes that are in memory into `data`; return how many.

    Raises BlockingIOError if the first byte is not in memory, and on any error of the system.
    """
    try:
        return os.preadv(descriptor, [data], start, _NOWAIT)
    except OSError:
        raise BlockingIOError from None


def pread_to(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes [start, end) of a file, fewer where it ends first. Raises OSError."""
    parts = []
    # One call returns 2 GiB at most.
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def pread_whole(descriptor: int) -> bytes:
    """Return all bytes of a file. A small one is read without asking its size. Raises OSError."""
    data = os.pread(descriptor, AT_ONCE_BYTES, 0)
    if len(data) < AT_ONCE_BYTES and not os.pread(descriptor, 1, len(data)):
        return data
    return pread_to(descriptor, 0, end_of_range(descriptor, 0, None))


def end_of_range(descriptor: int, start: int, length: int | None) -> int:
    """Return where a range ends: behind `length` bytes from `start`, or at the file's end."""
    size = os.fstat(descriptor).st_size
    return size if length is None else min(size, start + length)
