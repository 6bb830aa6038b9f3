"""Files of an object store, through pyarrow.fs.

What differs from a file system:

- A new file appears when it is closed, all at once. pyarrow cannot drop an upload, so `abort` lets
  it appear and deletes it again; nobody refers to it in between, its name being a fresh uuid.
- Nothing tells two writers of one name apart at once: `create` relies on the uuid in the name,
  `write_new` and `link_or_copy` look first.
- `sync` has nothing to do: what the store acknowledged is durable.
- A bucket that does not exist looks like an empty one. A read or a listing that finds nothing
  therefore asks whether there is one: the first topic makes a log dir, but never a bucket.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StoragePermissionError,
)
from sparklog.storage.failures import KINDS, failure
from sparklog.storage.files import FileStat, NewFile, Reader, flat_view
from sparklog.storage.paths import check_directory, check_path, check_range
from sparklog.storage.settings import StorageOptions, arrow_arguments

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer

DENIED = (
    "ACCESS_DENIED",
    "AccessDenied",
    "INVALID_ACCESS_KEY_ID",
    "InvalidAccessKeyId",
    "SIGNATURE_DOES_NOT_MATCH",
    "SignatureDoesNotMatch",
    "INVALID_CLIENT_TOKEN_ID",
    "HTTP status 401",
    "HTTP status 403",
)
"""What S3's answers that mean "not allowed" look like in pyarrow's messages, which have no code."""

NO_BUCKET = "there is no such bucket"


class ArrowFiles:
    """The objects below one prefix of a bucket, or any pyarrow file system.

    Connects at first use, in the process that uses it. `filesystem`, when given, is one whose root
    is the log dir and exists.
    """

    is_local = False

    def __init__(self, uri: str, options: StorageOptions, filesystem: Any = None) -> None:
        self.uri = uri
        self.options = options
        self._given = filesystem
        self._opened = filesystem

    def __repr__(self) -> str:
        return f"ArrowFiles({self.uri!r}, {self.options!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowFiles, (self.uri, self.options, self._given)

    def create(self, path: str) -> NewFile:
        """See `Files.create`; never tells that a file exists (module docstring)."""
        check_path(path)
        with self.errors("create", path):
            return ArrowNewFile(path, self, self._open_new(path))

    def write_new(self, path: str, data: "Buffer") -> None:
        """See `Files.write_new`; of two writers at the same moment the later one wins."""
        self._refuse_existing("write", path)
        with self.create(path) as file:
            file.write(data)

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Files.read`: a HEAD and one ranged GET."""
        check_range(start, length)
        with self.errors("read", path), self.filesystem.open_input_file(check_path(path)) as file:
            left = max(0, file.size() - start)
            file.seek(file.size() - left)
            # A buffer of Arrow's is not copied into bytes once more.
            buffer = file.read_buffer(left if length is None else min(left, length))
            return flat_view(buffer).toreadonly()

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """See `Files.view`: fetched, for nothing can be mapped here."""
        return self.read(path, start, length)

    def keep(self, path: str) -> Reader:
        """See `Files.keep`: the HEAD is made now, and each read is a ranged GET alone."""
        with self.errors("read", path):
            file = self.filesystem.open_input_file(check_path(path))
            size = file.size()

        def read(start: int, length: int) -> memoryview:
            check_range(start, length)
            with self.errors("read", path):
                left = max(0, size - start)
                return memoryview(file.read_at(min(length, left), size - left))

        return read

    def stat(self, path: str) -> FileStat | None:
        """See `Files.stat`."""
        with self.errors("look up", path):
            return _file_stat(self.filesystem.get_file_info(check_path(path)))

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """See `Files.list`."""
        selector = fs.FileSelector(
            check_directory(directory), recursive=recursive, allow_not_found=True
        )
        with self.errors("list", directory):
            found = sorted(filter(None, map(_file_stat, self.filesystem.get_file_info(selector))))
        if not found and not self._has_bucket():
            raise failure(StorageError, "list", directory, self.uri, NO_BUCKET)
        return iter(found)

    def delete(self, path: str) -> None:
        """See `Files.delete`."""
        with self.errors("delete", path), suppress(FileNotFoundError):
            self.filesystem.delete_file(check_path(path))

    def delete_tree(self, directory: str) -> None:
        """See `Files.delete_tree`."""
        with self.errors("delete", directory), suppress(FileNotFoundError):
            self.filesystem.delete_dir(check_path(directory))

    def sync(self, paths: Iterable[str]) -> None:
        """See `Files.sync`: checks the paths, and that is all there is to do."""
        for path in paths:
            check_path(path)

    def link_or_copy(self, source: str, target: str) -> None:
        """See `Files.link_or_copy`: a copy inside the store."""
        if self.stat(source) is None:
            raise failure(MissingFileError, "copy", source, self.uri, "no such file")
        self._refuse_existing("copy to", target)
        with self.errors("copy to", target):
            self._make_parent(target)
            self.filesystem.copy_file(source, target)

    @property
    def filesystem(self) -> Any:
        """The pyarrow file system whose root is the log dir."""
        if self._opened is None:
            bucket = self.uri.partition("://")[2]
            # Not in the background: parts would queue up in memory, without limit, as fast as they
            # are written.
            store = fs.S3FileSystem(
                **arrow_arguments(self.options), allow_delayed_open=True, background_writes=False
            )
            self._opened = fs.SubTreeFileSystem(bucket, store)
        return self._opened

    @contextmanager
    def errors(self, operation: str, path: str) -> Iterator[None]:
        """Raise what pyarrow raises as a StorageError, without secrets."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            kind, reason = _kind(error), self.options.redact(str(error))
            if kind is MissingFileError and not self._has_bucket():
                kind, reason = StorageError, NO_BUCKET
            # Not chained: the reason says all that the cause does, and the cause is not redacted.
            raise failure(kind, operation, path, self.uri, reason) from None

    def _has_bucket(self) -> bool:
        """Whether there is a bucket; one that may not be asked for is taken to be there."""
        if self._given is not None:
            return True
        bucket = self.uri.partition("://")[2].partition("/")[0]
        try:
            found = self.filesystem.base_fs.get_file_info(bucket)
        except (OSError, pa.ArrowException):
            return True
        return bool(found.type != fs.FileType.NotFound)

    def _open_new(self, path: str) -> Any:
        try:
            return self.filesystem.open_output_stream(path)
        except FileNotFoundError:
            self._make_parent(path)
            return self.filesystem.open_output_stream(path)

    def _make_parent(self, path: str) -> None:
        """Make the directory, except where directories are only the beginnings of names."""
        directory = path.rpartition("/")[0]
        if self._given is not None and directory:
            self.filesystem.create_dir(directory, recursive=True)

    def _refuse_existing(self, operation: str, path: str) -> None:
        if self.stat(path) is not None:
            raise failure(ExistingFileError, operation, path, self.uri, "it exists already")


class ArrowNewFile(NewFile):
    """An upload; large parts of it leave while it is written, and what remains when it is closed.

    Up to a part (10 MiB) is held in memory meanwhile.
    """

    def __init__(self, path: str, files: ArrowFiles, stream: Any) -> None:
        super().__init__(path)
        self._files = files
        self._stream = stream

    def _append(self, view: memoryview) -> None:
        with self._files.errors("write", self.path):
            self._stream.write(view)

    def _complete(self) -> None:
        with self._files.errors("close", self.path):
            self._stream.close()

    def _discard(self) -> None:
        # What cannot be deleted is an object that nobody refers to: vacuum's work. The error that
        # led here is the one to see.
        with suppress(OSError, pa.ArrowException):
            self._stream.close()
        with suppress(StorageError):
            self._files.delete(self.path)


def _file_stat(info: Any) -> FileStat | None:
    if info.type != fs.FileType.File:
        return None
    return FileStat(info.path, info.size, info.mtime_ns // 1_000_000)


def _kind(error: Exception) -> type[StorageError]:
    if isinstance(error, FileNotFoundError):
        return MissingFileError
    if any(word in str(error) for word in DENIED):
        return StoragePermissionError
    number = getattr(error, "errno", None)
    return KINDS.get(number or errno.EIO, StorageError)
