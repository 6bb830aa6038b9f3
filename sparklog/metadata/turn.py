"""Committers of one machine take turns, so that they queue up rather than collide.

A turn is a lock on the directory of the entries, without a file of its own. It ends with its
process, however the process ends. It only saves work, so a file system without locks, or a holder
that hangs, costs only retries.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sparklog.clock import Clock
from sparklog.storage.files import Files

PATIENCE_MS = 2_000
_FIRST_PAUSE_MS = 0.05
_LONGEST_PAUSE_MS = 0.5


class Turn:
    """The turn for one directory of a log dir, which stays open, so a replacement is noticed."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._path = os.path.join(files.uri, directory) if files.is_local else None
        self._clock = clock
        self._handle: _Handle | None = None

    @contextmanager
    def taken(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[bool]:
        """Hold the turn while the block runs; yields whether it was had.

        `meanwhile` is called again and again while others have it.
        """
        self.hold()
        handle = self._handle
        if handle is None:
            yield False
            return
        try:
            yield self._wait(handle.descriptor, meanwhile)
        finally:
            with suppress(OSError):
                fcntl.flock(handle.descriptor, fcntl.LOCK_UN)

    def hold(self) -> None:
        """Open the directory, unless it is open; a missing one is the commit's to report."""
        # A lock is the open file's, so a forked process needs a file of its own.
        if self._path is not None and (self._handle is None or self._handle.process != os.getpid()):
            with suppress(OSError):
                self._handle = _Handle(self._path)

    def forget(self) -> None:
        """Let go of the directory: the one that has its name from now on is the right one."""
        self._handle = None

    def is_replaced(self) -> bool:
        """Whether the directory that is held is no longer the one of its name."""
        if self._path is None or self._handle is None:
            return False
        try:
            return self._handle.is_other(os.stat(self._path))
        except OSError:
            return True

    def _wait(self, descriptor: int, meanwhile: Callable[[], object]) -> bool:
        deadline_ms = self._clock.boot_ms() + PATIENCE_MS
        pause_ms = _FIRST_PAUSE_MS
        while self._clock.boot_ms() < deadline_ms:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                meanwhile()
                self._clock.sleep_ms(pause_ms)
                pause_ms = min(pause_ms * 1.5, _LONGEST_PAUSE_MS)
            except OSError:
                return False
        return False


class _Handle:
    """A directory held open: as long as it is, no other directory has its inode number."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.process = os.getpid()
        found = os.fstat(self.descriptor)
        self._identity = found.st_dev, found.st_ino

    def is_other(self, found: os.stat_result) -> bool:
        """Whether that is another directory."""
        return (found.st_dev, found.st_ino) != self._identity

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)
