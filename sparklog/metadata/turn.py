"""Committers of one machine take turns, so that they queue up rather than collide.

A lock on the directory of the entries (no file of its own): it goes with the process, however that
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
_FIRST_PAUSE_MS = 0.05
_LONGEST_PAUSE_MS = 2.0


class Turn:
    """The turn for one directory of a log dir."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """Hold the turn while the block runs; yields whether it was had."""
        if not self._files.is_local:
            yield False
            return
        try:
            handle = os.open(os.path.join(self._files.uri, self._directory), os.O_RDONLY)
        except OSError:
            yield False  # a missing directory is the commit's to report
            return
        try:
            yield self._wait(handle)
        finally:
            os.close(handle)

    def _wait(self, handle: int) -> bool:
        deadline_ms = self._clock.boot_ms() + PATIENCE_MS
        pause_ms = _FIRST_PAUSE_MS
        while self._clock.boot_ms() < deadline_ms:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                self._clock.sleep_ms(pause_ms)
                pause_ms = min(pause_ms * 1.5, _LONGEST_PAUSE_MS)
            except OSError:
                return False
        return False
