"""Files of a local file system, or of a mounted one that behaves like it.

`sync` makes files survive a power cut: a file's bytes by an fsync of the file, its name by an fsync
of its directory, that directory's name by an fsync of the directory above, up to the log dir.
The name of a directory is synced once, and again after any directory was made or any tree deleted.
The directories above the log dir are synced when the log dir is made.
"""

import errno
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sparklog.errors import StorageError
from sparklog.storage.at_once import each_at_once
from sparklog.storage.failures import failure, os_errors
from sparklog.storage.files import FileStat, NewFile, Reader, flat_view, no_wait
from sparklog.storage.kept_file import KeptFile, end_of_range, pread_to, pread_whole
from sparklog.storage.listing import file_stat, walk
from sparklog.storage.local_file import (
    LocalNewFile,
    finish,
    is_with_name,
    sync_path,
    write_all,
    write_at_once,
)
from sparklog.storage.paths import check_directory, check_path, check_range, parents

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer

T = TypeVar("T")

SEQUENTIAL_VIEW_BYTES = 16 * 1024 * 1024
"""A view of at least this size is read front to back, as a `.log` is; smaller ones are searched.

Reading ahead would slow a search of an index down; an index has 10 MiB at most by default.
"""

TEMPORARY = ".tmp-"
"""Prefix of a file that `put_new` or `overwrite` has written but not yet given its name."""

NO_HARD_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of a hard link where a copy may work."""


class LocalFiles:
    """The files below one directory of this machine (`Files`)."""

    is_local = True

    def __init__(self, root: str) -> None:
        # Absolute, because a worker that unpickles this has another working directory.
        self.uri = os.path.abspath(root)
        self.options: Mapping[str, str] = {}
        self._named: set[str] = {""}
        """Directories whose own names, and the names of all directories above them, are durable."""
        self._was_there = os.path.isdir(self.uri)
        """True once this object, or the one that it is a copy of, has seen the log dir.

        The log dir is not made again then."""

    def __repr__(self) -> str:
        return f"LocalFiles({self.uri!r})"

    def create(self, path: str, *, durable: bool = False, with_name: bool = False) -> NewFile:
        """See `Files.create`; the file is visible while it is being written."""
        target = self._target(path)
        make = partial(LocalNewFile, path, target, self.uri, durable=durable, with_name=with_name)
        with os_errors("create", path, self.uri):
            return self._named_by(target, make)

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:
        if durable:
            with self.create(path, durable=True) as file:
                file.write(data)
            return
        target = self._target(path)
        with os_errors("create", path, self.uri):
            descriptor = self._named_by(target, partial(os.open, target, _NEW, 0o666))
        with os_errors("write", path, self.uri):
            write_at_once(descriptor, target, flat_view(data))

    def _named_by(self, target: str, make: Callable[[], T]) -> T:
        """Call `make`, which makes the file `target`; make its directory if that is missing."""
        try:
            made = make()
        except FileNotFoundError:
            self._make_directories(os.path.dirname(target))
            made = make()
        self._was_there = True
        return made

    def put_new(
        self,
        path: str,
        data: "Buffer",
        *,
        durable: bool = True,
        ready: Callable[[], None] = no_wait,
    ) -> bool:
        """See `Files.put_new`: written without a name, or under another one, then linked."""
        target = self._target(path)
        with os_errors("put", path, self.uri):
            if os.access(target, os.F_OK):
                return False
            is_named = _put_unnamed(target, data, durable, ready)
            if is_named is not None:
                self._was_there = True
                return is_named
            with self._written_aside(target, data, durable) as aside:
                ready()
                return self._named_once(path, aside, target)

    def overwrite(self, path: str, data: "Buffer") -> None:
        """See `Files.overwrite`: written under another name, synced, then renamed."""
        target = self._target(path)
        with (
            os_errors("overwrite", path, self.uri),
            self._written_aside(target, data, durable=True) as aside,
        ):
            os.replace(aside, target)

    @contextmanager
    def _written_aside(self, target: str, data: "Buffer", durable: bool) -> Iterator[str]:
        """Write a file beside `target` and yield its path; at the end of the block unlink it."""
        aside = f"{os.path.dirname(target)}/{TEMPORARY}{os.urandom(12).hex()}"
        descriptor = self._named_by(aside, partial(os.open, aside, _NEW, 0o666))
        try:
            _write_whole(descriptor, flat_view(data), durable)
            yield aside
        finally:
            with suppress(OSError):
                os.unlink(aside)

    def _named_once(self, path: str, aside: str, target: str) -> bool:
        try:
            os.link(aside, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_HARD_LINK:
                raise
            reason = (
                f"{os.strerror(error.errno)}: this file system makes no hard links, and a commit "
                "needs them; allowed: ext4, XFS, Btrfs, or another that makes them"
            )
            raise failure(StorageError, "put", path, self.uri, reason) from error
        return True

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        check_range(start, length)
        target = self._target(path)
        try:
            descriptor = os.open(target, os.O_RDONLY)
            # Without a context manager: it would take as long as a lookup's read of a few KB.
            try:
                if length is None and not start:
                    return memoryview(pread_whole(descriptor))
                return memoryview(
                    pread_to(descriptor, start, end_of_range(descriptor, start, length))
                )
            finally:
                os.close(descriptor)
        except OSError:
            with os_errors("read", path, self.uri):
                raise

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """See `Files.view`: mapped, read-only. The view outlives the file's deletion."""
        check_range(start, length)
        with self._reading(path) as descriptor:
            end = end_of_range(descriptor, start, length)
            if end <= start:
                return memoryview(b"")
            origin = start - start % mmap.ALLOCATIONGRANULARITY
            pages = mmap.mmap(descriptor, end - origin, access=mmap.ACCESS_READ, offset=origin)
            if end - start >= SEQUENTIAL_VIEW_BYTES:
                pages.madvise(mmap.MADV_SEQUENTIAL)
            return memoryview(pages)[start - origin :]

    def keep(self, path: str) -> Reader:
        """See `Files.keep`: the reader has a descriptor, which is closed when it is gone."""
        with os_errors("read", path, self.uri):
            return KeptFile(path, self.uri, os.open(self._target(path), os.O_RDONLY))

    def read_ahead(self, path: str, end: int) -> Reader:  # noqa: ARG002 - the kernel reads ahead
        """See `Files.read_ahead`: the reader maps, as `view`."""
        return lambda start, length: self.view(path, length, start)

    def stat(self, path: str) -> FileStat | None:
        target = self._target(path)
        with os_errors("look up", path, self.uri):
            try:
                found = os.stat(target)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if stat.S_ISDIR(found.st_mode):
            return None
        return file_stat(path, found)

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """See `Files.list`; symbolic links to directories are not followed."""
        return walk(self.uri, check_directory(directory), recursive=recursive)

    def delete(self, path: str) -> None:
        target = self._target(path)
        try:
            os.unlink(target)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            with os_errors("delete", path, self.uri):
                raise

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        """See `Files.delete_tree`; another process may be deleting the same tree."""
        top = self._target(directory)
        self._named = {""}
        with os_errors("delete", directory, self.uri):
            while os.path.lexists(top):
                with suppress(FileNotFoundError):
                    shutil.rmtree(top)

    def sync(self, paths: Iterable[str]) -> None:
        """See `Files.sync`; files and directories are synced side by side, in no order."""
        files = [check_path(path) for path in dict.fromkeys(paths)]
        above = parents(files)
        unnamed = [directory for directory in above if directory not in self._named]
        if not unnamed and all(is_with_name(f"{self.uri}/{path}") for path in files):
            for path in files:
                self._sync(path)
            return
        directories = sorted({os.path.dirname(path) for path in (*files, *unnamed)})
        self._sync_all(files, directories)
        self._named.update(above)

    def _sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        each_at_once(self._sync, [*files, *directories])

    def sync_directory(self, directory: str) -> None:
        check_directory(directory)
        with os_errors("sync", directory, self.uri):
            sync_path(os.path.join(self.uri, directory))

    def _sync(self, path: str) -> None:
        target = os.path.join(self.uri, path)
        with os_errors("sync", path, self.uri):
            if finish(target):
                os.stat(target)
            else:
                sync_path(target)

    def link_or_copy(self, source: str, target: str) -> None:
        old, new = self._target(source), self._target(target)
        with os_errors(f"link {source} as", target, self.uri):
            os.stat(old)  # `_is_linked` would take a missing file for a missing directory
            if self._is_linked(old, new):
                return
        self.write_new(target, self.view(source))

    def link_from(self, source: str, target: str) -> bool:
        """Give a file of this machine a second name in the log dir, by a hard link.

        `source` is an absolute path, inside the log dir or not; a symbolic link is not followed.
        Returns True; False, and does nothing, if no hard link is possible. Raises MissingFileError
        without `source`, ExistingFileError if `target` is there.
        """
        new = self._target(target)
        with os_errors(f"link {source} as", target, self.uri):
            return self._is_linked(source, new)

    def _is_linked(self, source: str, new: str) -> bool:
        """Make a hard link, if that is possible; return whether it was made. Raises OSError."""
        try:
            self._named_by(new, partial(os.link, source, new, follow_symlinks=False))
        except OSError as error:
            if error.errno not in NO_HARD_LINK:
                raise
            return False
        return True

    def _target(self, path: str) -> str:
        return f"{self.uri}/{check_path(path)}"

    @contextmanager
    def _reading(self, path: str) -> Iterator[int]:
        target = self._target(path)
        with os_errors("read", path, self.uri):
            descriptor = os.open(target, os.O_RDONLY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _make_directories(self, directory: str) -> None:
        """Make `directory`. If the log dir or a directory above it is made, its name is synced.

        Raises FileNotFoundError if the log dir was there and is gone: whoever has moved it away
        would find another directory in its place.
        """
        if self._was_there:
            os.stat(self.uri)
        missing = []
        path = self.uri
        while not os.path.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        self._named = {""}
        for path in reversed(missing):
            sync_path(os.path.dirname(path))


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def _write_whole(descriptor: int, view: memoryview, durable: bool) -> None:
    """Write a new file, and close its descriptor."""
    try:
        _write(descriptor, view, durable)
    finally:
        os.close(descriptor)


def _write(descriptor: int, view: memoryview, durable: bool) -> None:
    write_all(descriptor, view)
    if durable:
        os.fdatasync(descriptor)


def _put_unnamed(
    target: str, data: "Buffer", durable: bool, ready: Callable[[], None]
) -> bool | None:
    """Write a file without a name and link it to `target`; return False if that name is taken.

    Puts nothing and returns None if this is impossible: on a system other than Linux, on some file
    systems, without /proc, or without the directory. A temporary name would change the directory
    two more times.
    """
    try:
        descriptor = os.open(os.path.dirname(target), _UNNAMED, 0o666)
    except OSError:
        return None
    try:
        _write(descriptor, flat_view(data), durable)
        ready()
        # With src_dir_fd, which the absolute path ignores, Python calls linkat.
        os.link(f"{_DESCRIPTORS}/{descriptor}", target, src_dir_fd=descriptor)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
        return None
    finally:
        os.close(descriptor)
    return True


_UNNAMED = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", os.O_DIRECTORY)
"""O_TMPFILE; where it does not exist O_DIRECTORY, with which no file can be opened for writing."""
_DESCRIPTORS = "/proc/self/fd"
_NO_UNNAMED = NO_HARD_LINK | {errno.ENOENT}
