"""Committers of one machine take turns, so that they queue up rather than collide.

A lock on the table's directory itself (no file of its own): it goes with the process, however that
ends. It saves work and nothing rests on it, so a file system without locks, or a holder that hangs,
costs only retries.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sparklog.clock import Clock
from sparklog.storage.files import Files

PATIENCE_MS = 2_000
_POLL_MS = 2.0


@contextmanager
def my_turn(files: Files, directory: str, clock: Clock) -> Iterator[bool]:
    """Hold the turn for `directory` while the block runs; yields whether it was had."""
    if not files.is_local:
        yield False
        return
    try:
        handle = os.open(os.path.join(files.uri, directory), os.O_RDONLY)
    except OSError:
        yield False  # a missing table is the commit's to report
        return
    try:
        yield _wait(handle, clock)
    finally:
        os.close(handle)


def _wait(handle: int, clock: Clock) -> bool:
    deadline_ms = clock.now_ms() + PATIENCE_MS
    while clock.now_ms() < deadline_ms:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            clock.sleep_ms(_POLL_MS)
        except OSError:
            return False
    return False
