"""Begin to write a file's dirty pages back, without waiting: Linux's sync_file_range(2).

A file that is synced only when it is complete leaves the disk idle while it is written, and its
writer idle while it is synced. RocksDB's `bytes_per_sync` does the same for the same reason.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final

_SYNC_FILE_RANGE_WRITE: Final = 2
"""Start write-out of the range's dirty pages that are not being written yet."""


def begin_write_back(descriptor: int, start: int, length: int) -> None:
    """Ask for the write-out of [start, start + length) of an open file.

    The call is a hint, so its result is ignored. The kernel keeps an error of the disk for the next
    fsync. On a system without this call nothing is done.
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
