"""Begin to write a file's dirty pages to disk, without waiting: Linux's sync_file_range(2).

If a file is synced only at its end, the disk is idle while the file is written, and the writer is
idle while the file is synced. RocksDB's `bytes_per_sync` exists for the same reason.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

_SYNC_FILE_RANGE_WRITE: Final = 2
"""Start the write-out of those dirty pages of the range that are not being written yet."""


def begin_write_back(descriptor: int, start: int, length: int) -> None:
    """Ask for the write-out of the bytes [start, start + length) of an open file.

    The call is a hint, so its result is ignored. The kernel reports an error of the disk at the
    next fsync. A system without sync_file_range does nothing.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, start, length, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    found: Callable[[int, int, int, int], int] | None = call
    return found
