"""Committers of one machine take turns, so that they queue up instead of colliding.

A turn is a lock (flock) on the directory of the entries. So it needs no file of its own, and ends
with its process. A turn only saves work: without it commits are still right, but take more tries.
That happens on a file system without locks, and while a process that holds the turn hangs.

The processes that wait form a line. The first one holds a lock on the parent directory; only this
process follows the log and tries to take the turn. The others only try to become the first, in no
order. A process that has not become the first after LINE_PATIENCE_MS ignores the line for
LINE_REST_MS, because the first process may have been stopped.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sparklog.clock import Clock
from sparklog.storage.files import Files

PATIENCE_MS: Final = 2_000
LINE_PATIENCE_MS: Final = 100
LINE_REST_MS: Final = 2_000
STAY_MS: Final = 10
"""For how long a process that has waited in line may take the turn again without the line.

To hand the turn to another process takes as long as a commit. And that process reads ten entries
together faster than one after another.
"""
_PAUSES_MS: Final = 0.05, 1.0
"""The first and the longest pause between two tries to take the turn."""
_LINE_PAUSES_MS: Final = 0.2, 4.0
"""The same for the line, where a process mostly waits for several others."""


class Turn:
    """The turn for a directory. The directory stays open, so that its replacement is noticed."""

    def __init__(self, files: Files, directory: str, clock: Clock) -> None:
        self._path = os.path.join(files.uri, directory) if files.is_local else None
        self._clock = clock
        self._handle: _Handle | None = None
        self._begun_ms = -STAY_MS
        self._line_from_ms = 0

    @contextmanager
    def taken(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[bool]:
        """Hold the turn while the block runs; yields whether it was taken.

        `meanwhile` is called again and again while another process holds the turn and this one is
        the first in line. A process that waited goes before the others for STAY_MS.
        """
        self.hold()
        handle = self._handle
        if handle is None:
            yield False
            return
        try:
            yield self._wait(handle, meanwhile)
        finally:
            _unlock(handle.descriptor)

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Hold the turn while the block runs, without waiting; yields False if another has it."""
        self.hold()
        handle = self._handle
        try:
            is_free = handle is None or _is_locked(handle.descriptor)
        except OSError:  # a file system without locks
            handle, is_free = None, True
        try:
            yield is_free
        finally:
            if handle is not None and is_free:
                _unlock(handle.descriptor)

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

    def _wait(self, handle: "_Handle", meanwhile: Callable[[], object]) -> bool:
        """Take the turn, within PATIENCE_MS; return whether it was taken."""
        now_ms = self._clock.boot_ms()
        try:
            if now_ms - self._begun_ms < STAY_MS and _is_locked(handle.descriptor):
                return True
            return self._wait_in_line(handle, now_ms, meanwhile)
        except OSError:
            return False

    def _wait_in_line(
        self, handle: "_Handle", now_ms: int, meanwhile: Callable[[], object]
    ) -> bool:
        try:
            if now_ms >= self._line_from_ms:
                line_until_ms = now_ms + LINE_PATIENCE_MS
                is_first = self._poll(handle.line, line_until_ms, _LINE_PAUSES_MS)
                self._line_from_ms = 0 if is_first else line_until_ms + LINE_REST_MS
            until_ms = now_ms + PATIENCE_MS
            is_taken = self._poll(handle.descriptor, until_ms, _PAUSES_MS, meanwhile)
        finally:
            _unlock(handle.line)
        self._begun_ms = self._clock.boot_ms()
        return is_taken

    def _poll(
        self,
        descriptor: int,
        deadline_ms: int,
        pauses_ms: tuple[float, float],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> bool:
        """Try until a directory is locked; return whether it is."""
        pause_ms, longest_ms = pauses_ms
        while not _is_locked(descriptor):
            if self._clock.boot_ms() >= deadline_ms:
                return False
            meanwhile()
            self._clock.sleep_ms(pause_ms)
            pause_ms = min(pause_ms * 1.5, longest_ms)
        return True


def _is_locked(descriptor: int) -> bool:
    """Lock a directory if it is free; return whether it is locked. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class _Handle:
    """An open directory. While it is open, no other directory can get its inode number."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.line = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        self.process = os.getpid()
        found = os.fstat(self.descriptor)
        self._identity = found.st_dev, found.st_ino

    def is_other(self, found: os.stat_result) -> bool:
        """Whether `found` is another directory."""
        return (found.st_dev, found.st_ino) != self._identity

    def __del__(self) -> None:
        for name in ("descriptor", "line"):
            if hasattr(self, name):
                os.close(getattr(self, name))
