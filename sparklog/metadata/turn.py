"""Committers of one machine take turns, so that they queue up instead of colliding.

A turn is a lock on the directory of the entries; it needs no file of its own. It ends with its
process, however that ends. A turn only saves work: without it, on a file system without locks or
behind a holder that hangs, commits only take more tries.
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
    """The turn for a directory, which stays open, so that its replacement is noticed."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._path = os.path.join(files.uri, directory) if files.is_local else None
        self._clock = clock
        self._handle: _Handle | None = None

    @contextmanager
    def taken(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[bool]:
        """Hold the turn while the block runs; yields whether it was taken.

        `meanwhile` is called again and again while another process holds it.
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
        """Open the directory, unless it is open; if it is missing, the commit will report that."""
        # A lock belongs to the open file, so a forked process opens the directory for itself.
        if self._path is not None and (self._handle is None or self._handle.process != os.getpid()):
            with suppress(OSError):
                self._handle = _Handle(self._path)

    def forget(self) -> None:
        """Close the directory: it was replaced, and the next `hold` opens the new one."""
        self._handle = None

    def is_replaced(self) -> bool:
        """Whether the directory's name now leads to another directory than the open one."""
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
    """An open directory. While it is open, no other directory can get its inode number."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.process = os.getpid()
        found = os.fstat(self.descriptor)
        self._identity = found.st_dev, found.st_ino

    def is_other(self, found: os.stat_result) -> bool:
        """Whether `found` is another directory."""
        return (found.st_dev, found.st_ino) != self._identity

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)
