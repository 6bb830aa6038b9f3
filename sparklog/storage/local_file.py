"""A new file of a local file system: written, written back and synced through one descriptor.

The kernel tells an error of the write-back to the descriptors that are open when it happens; a
descriptor that is opened later may never hear of it (fsync(2)). So a durable file is synced by the
descriptor that wrote it:

    close       hands the descriptor to a thread, which syncs and closes it
    finish      waits for that thread and raises its error; `LocalFiles.sync` calls it

A writer of many partitions has more files open than the process may have descriptors. The files
that are not being written at the moment are in `_IDLE`; beyond a quarter of the limit, the one
that was written longest ago is parked: synced, closed, and opened again by its next write.
"""

import errno
import os
import resource
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, partial
from threading import Lock
from typing import Final

from sparklog.storage.at_once import begin
from sparklog.storage.failures import os_errors
from sparklog.storage.files import NewFile
from sparklog.storage.write_back import begin_write_back

WRITE_BEHIND_BYTES: Final = 4 * 1024 * 1024
"""How many bytes wait before their write-out is begun (2 to 32 MiB make no difference)."""

FINISHED_MAX: Final = 10_000
"""How many closed and not yet synced files without an error are remembered."""

_IDLE: "OrderedDict[LocalNewFile, int]" = OrderedDict()
"""Open files that nobody is writing at the moment, the one written longest ago first; with their
descriptors."""
_IDLE_LOCK: Final = Lock()

_DONE: "Future[None]" = Future()
"""The parking of a file that was never parked."""
_DONE.set_result(None)

_FINISHED: "dict[str, Future[None]]" = {}
"""The syncs of closed durable files, by absolute path, until somebody asks for them."""


class LocalNewFile(NewFile):
    """A file opened exclusively, written without a buffer of our own."""

    def __init__(self, path: str, target: str, log_dir: str, *, durable: bool = False) -> None:
        """Make the file `target`, an absolute path; raises OSError."""
        super().__init__(path)
        self._target = target
        self._log_dir = log_dir
        self._durable = durable
        self._descriptor: int | None = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
        )
        self._parked = _DONE
        self._identity = os.fstat(self._descriptor)
        self._begun_bytes = 0
        _FINISHED.pop(target, None)
        self._rest()

    def write_behind(self) -> None:
        """See `NewFile.write_behind`: write-out begins every WRITE_BEHIND_BYTES."""
        waiting = self.bytes_written - self._begun_bytes
        if waiting < WRITE_BEHIND_BYTES:
            return
        self._wake()
        if self._descriptor is not None:
            begin_write_back(self._descriptor, self._begun_bytes, waiting)
        self._begun_bytes = self.bytes_written
        self._rest()

    def _append(self, view: memoryview) -> None:
        with os_errors("write", self.path, self._log_dir):
            self._wake()
            if self._descriptor is None:
                self._descriptor = self._opened_again()
            # One call takes 2 GiB at most, and less when the disk is about to be full.
            while view:
                view = view[os.write(self._descriptor, view) :]
            self._rest()

    def _complete(self) -> None:
        with os_errors("close", self.path, self._log_dir):
            self._wake()
            descriptor, self._descriptor = self._descriptor, None
            if self._durable:
                if descriptor is not None:
                    self._parked = begin(partial(_sync_and_close, descriptor))
                _remember(self._target, self._parked)
            elif descriptor is not None:
                os.close(descriptor)
            else:
                self._parked.result()

    def _discard(self) -> None:
        # No row names the file, so vacuum will unlink it if this cannot; the error that
        # led here is the one to see.
        self._wake()
        with suppress(OSError):
            if self._is_same(os.lstat(self._target)):
                os.unlink(self._target)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _wake(self) -> None:
        """Take the file out of those that may be parked."""
        with _IDLE_LOCK:
            _IDLE.pop(self, None)

    def _rest(self) -> None:
        """Let the file be parked, and park those beyond the limit."""
        if self._descriptor is None:
            return
        with _IDLE_LOCK:
            _IDLE[self] = self._descriptor
            while len(_IDLE) > idle_max():
                file, descriptor = _IDLE.popitem(last=False)
                file.park(descriptor)

    def park(self, descriptor: int) -> None:
        """Give the descriptor away until the next write; only while no write is in progress."""
        self._descriptor = None
        let_go = _sync_and_close if self._durable else os.close
        self._parked = begin(partial(let_go, descriptor))

    def _opened_again(self) -> int:
        """Open the parked file at its end; raises the error of parking it, if there was one."""
        self._parked.result()
        descriptor = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if not self._is_same(os.fstat(descriptor)):
            os.close(descriptor)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return descriptor

    def _is_same(self, found: os.stat_result) -> bool:
        """Whether it is this file, by its number; when nothing holds that, by its size as well."""
        is_held = self._descriptor is not None
        is_as_left = is_held or found.st_size == self.bytes_written
        return os.path.samestat(self._identity, found) and is_as_left


def finish(target: str) -> bool:
    """Wait for the sync that a `close` began of the file at this absolute path.

    False if none did. Raises OSError, and again at every call: bytes that were not written out are
    lost, and a later fsync would not say so.
    """
    call = _FINISHED.get(target)
    if call is None:
        return False
    call.result()
    _FINISHED.pop(target, None)
    return True


@cache
def idle_max() -> int:
    """How many files that are being written may keep their descriptors while they rest."""
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


def _remember(target: str, call: "Future[None]") -> None:
    if len(_FINISHED) >= FINISHED_MAX:
        # Where all went well, the sync that comes after all opens the file and finds it clean.
        for path in [path for path, one in list(_FINISHED.items()) if _has_succeeded(one)]:
            _FINISHED.pop(path, None)
    _FINISHED[target] = call


def _has_succeeded(call: "Future[None]") -> bool:
    return call.done() and call.exception() is None


def _sync_and_close(descriptor: int) -> None:
    # fsync, not fdatasync: the inode is new, so its metadata must be written in either case.
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Threads do not survive a fork, and their work is the parent's.
os.register_at_fork(
    before=_IDLE_LOCK.acquire,
    after_in_parent=_IDLE_LOCK.release,
    after_in_child=_IDLE_LOCK.release,
)
os.register_at_fork(after_in_child=_FINISHED.clear)
