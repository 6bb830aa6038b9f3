"""A new file of a local file system: written, written back and synced through one descriptor.

The kernel reports a failed write-back to the descriptors that are open when it fails; a descriptor
that is opened later may never learn of it (fsync(2)). So a durable file is synced through the
descriptor that wrote it:

    close       hands the descriptor to a thread, which syncs and closes it, and may also sync the
                directory: one commit of the journal for both
    finish      waits for that thread and raises its error; `LocalFiles.sync` calls it
    sync        syncs a file that stays open and grows (`expose`), in the caller's thread

A writer of many partitions has more files open than the process may have descriptors. `_IDLE` has
the open files that no call is writing at the moment. If there are more than a quarter of the
descriptor limit, the file that was written longest ago is parked: synced (if it is durable) and
closed. Its next write opens it again.
"""

import errno
import os
import resource
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from functools import cache, partial
from threading import Lock
from typing import Final

from sparklog.storage.at_once import begin
from sparklog.storage.failures import os_errors
from sparklog.storage.files import NewFile
from sparklog.storage.write_back import begin_write_back

WRITE_BEHIND_BYTES: Final = 4 * 1024 * 1024
"""How many bytes are written before their write-back begins (2 to 32 MiB make no difference)."""

FINISHED_MAX: Final = 10_000
"""How many syncs `_FINISHED` keeps; at this number, those that have succeeded are dropped."""

_IDLE: "OrderedDict[LocalNewFile, int]" = OrderedDict()
"""Open files that no call is writing, the one written longest ago first, and their descriptors."""
_IDLE_LOCK: Final = Lock()

_DONE: "Future[None]" = Future()
"""`_parked` of a file that was never parked."""
_DONE.set_result(None)

_FINISHED: "dict[str, Future[None]]" = {}
"""The syncs of closed durable files, by absolute path, until `finish` has returned their result."""

_WITH_NAME: set[str] = set()
"""The files in `_FINISHED` whose directories are synced behind them."""


class LocalNewFile(NewFile):
    """A file opened exclusively (O_EXCL) and written without a buffer in this process."""

    def __init__(
        self, path: str, target: str, log_dir: str, *, durable: bool, with_name: bool
    ) -> None:
        """Make the file `target`, an absolute path. Raises FileExistsError, OSError."""
        super().__init__(path)
        self._target = target
        self._log_dir = log_dir
        self._durable = durable
        self._with_name = with_name
        self._descriptor: int | None = os.open(
            target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
        )
        self._parked = _DONE
        self._identity = os.fstat(self._descriptor)
        self._begun_bytes = 0
        self._is_exposed = False
        _forget(target)
        self._rest()

    def write_behind(self) -> None:
        """See `NewFile.write_behind`: write-back begins after every WRITE_BEHIND_BYTES."""
        if self.bytes_written - self._begun_bytes >= WRITE_BEHIND_BYTES:
            self._begin_write_back()

    def expose(self) -> None:
        """See `NewFile.expose`; if the file is durable, the write-out of its bytes begins.

        The first time its name is new, too: a thread syncs both, and `finish` waits for that.
        """
        self._require_open("expose")
        is_first, self._is_exposed = not self._is_exposed, True
        if self._durable and is_first:
            with os_errors("sync", self.path, self._log_dir):
                self._begin_sync(os.dup(self._opened()))
            self._rest()
        elif self._durable:
            self._begin_write_back()

    def sync(self) -> None:
        """See `NewFile.sync`."""
        self._require_open("sync")
        try:
            with os_errors("sync", self.path, self._log_dir):
                os.fdatasync(self._opened())
        except BaseException:
            self.abort()  # the error is reported once: a later sync would seem to succeed
            raise
        self._rest()

    def _begin_write_back(self) -> None:
        waiting = self.bytes_written - self._begun_bytes
        self._wake()
        if self._descriptor is not None:
            begin_write_back(self._descriptor, self._begun_bytes, waiting)
        self._begun_bytes = self.bytes_written
        self._rest()

    def _append(self, view: memoryview) -> None:
        with os_errors("write", self.path, self._log_dir):
            write_all(self._opened(), view)
            self._rest()

    def _opened(self) -> int:
        """Return the descriptor; a parked file gets a new one. It is not parked until `_rest`."""
        self._wake()
        if self._descriptor is None:
            self._descriptor = self._opened_again()
        return self._descriptor

    def _complete(self) -> None:
        with os_errors("close", self.path, self._log_dir):
            self._wake()
            descriptor, self._descriptor = self._descriptor, None
            if self._durable and descriptor is not None:
                self._begin_sync(descriptor)
            elif self._durable:
                _remember(self._target, self._parked)
            elif descriptor is not None:
                os.close(descriptor)
            else:
                self._parked.result()

    def _begin_sync(self, descriptor: int) -> None:
        """Sync the file in a thread, which closes the descriptor; `finish` waits for it."""
        directory = os.path.dirname(self._target) if self._with_name else None
        self._parked = begin(partial(_sync_and_close, descriptor, directory))
        if directory is not None:
            _WITH_NAME.add(self._target)
        _remember(self._target, self._parked)

    def _discard(self) -> None:
        # No row names the file, so vacuum unlinks it if this fails. The caller has to see the
        # error that made it abort, not one of these.
        self._wake()
        with suppress(OSError):
            if not self._is_exposed and self._is_same(os.lstat(self._target)):
                os.unlink(self._target)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _wake(self) -> None:
        """Take the file out of `_IDLE`, so that it is not parked."""
        with _IDLE_LOCK:
            _IDLE.pop(self, None)

    def _rest(self) -> None:
        """Put the file into `_IDLE`; park the oldest files there beyond `idle_max`."""
        if self._descriptor is None:
            return
        with _IDLE_LOCK:
            _IDLE[self] = self._descriptor
            while len(_IDLE) > idle_max():
                file, descriptor = _IDLE.popitem(last=False)
                file.park(descriptor)

    def park(self, descriptor: int) -> None:
        """Close the descriptor in a thread; called only while no write of the file is going on."""
        self._descriptor = None
        let_go = _sync_and_close if self._durable else os.close
        self._parked = begin(partial(let_go, descriptor))

    def _opened_again(self) -> int:
        """Open the parked file at its end. Raises OSError, also the one that parking it met."""
        self._parked.result()
        descriptor = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if not self._is_same(os.fstat(descriptor)):
            os.close(descriptor)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return descriptor

    def _is_same(self, found: os.stat_result) -> bool:
        """Whether `found` is this file, by inode; while it is closed, also by its size.

        A closed file may have been unlinked and its inode number given to another file.
        """
        is_held = self._descriptor is not None
        is_as_left = is_held or found.st_size == self.bytes_written
        return os.path.samestat(self._identity, found) and is_as_left


def write_all(descriptor: int, view: memoryview) -> None:
    """Write all bytes of a view. Raises OSError."""
    # One call writes 2 GiB at most, and less when the disk is about to be full.
    while view:
        view = view[os.write(descriptor, view) :]


def write_at_once(descriptor: int, target: str, view: memoryview) -> None:
    """Write the new file `target` and close its descriptor; remove it if that fails.

    For small files without a sync: a LocalNewFile takes three times as long. Raises OSError.
    """
    _forget(target)
    try:
        write_all(descriptor, view)
    except BaseException:
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(target)):
                os.unlink(target)
        raise
    finally:
        os.close(descriptor)


def finish(target: str) -> bool:
    """Wait for the sync that `close` began for the file at the absolute path `target`.

    Returns True if it succeeded, False if there is none. Raises its OSError, again at every call:
    the bytes that could not be written are lost, and a later fsync would not report that.
    """
    call = _FINISHED.get(target)
    if call is None:
        return False
    error = call.exception()
    if error is not None:
        # A copy: `call` stays, and a raised error keeps the callers' frames with all their objects.
        raise copy(error)
    _forget(target)
    return True


def is_with_name(target: str) -> bool:
    """Whether `finish` waits for the sync of the directory of this file, too."""
    return target in _WITH_NAME


def _forget(target: str) -> None:
    _FINISHED.pop(target, None)
    _WITH_NAME.discard(target)


@cache
def idle_max() -> int:
    """How many files that no call is writing may keep their descriptors."""
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


def _remember(target: str, call: "Future[None]") -> None:
    if len(_FINISHED) >= FINISHED_MAX:
        # `LocalFiles.sync` opens such a file and finds that its pages are clean.
        calls = list(_FINISHED.items())
        for path in [path for path, one in calls if one.done() and one.exception() is None]:
            _forget(path)
    _FINISHED[target] = call


def _sync_and_close(descriptor: int, directory: str | None = None) -> None:
    # fsync, not fdatasync: the inode is new, so its metadata must be written in either case.
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if directory is not None:
        sync_path(directory)


def sync_path(path: str) -> None:
    """Sync a directory, or a file that this process has not written. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Threads do not survive a fork; the parent's threads go on with its files.
os.register_at_fork(
    before=_IDLE_LOCK.acquire,
    after_in_parent=_IDLE_LOCK.release,
    after_in_child=_IDLE_LOCK.release,
)
os.register_at_fork(after_in_child=_FINISHED.clear)
os.register_at_fork(after_in_child=_WITH_NAME.clear)
