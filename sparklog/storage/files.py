"""Files: one interface for local disks, object stores and memory.

A path is relative to the log dir, its parts separated by "/" (`paths.check_path` refuses all
others). A file is written once, front to back, and never changes afterwards: there is no append and
no rename. (Only hints, small files that may be lost, are replaced: `overwrite`.) So three things
are enough to write safely:

    create … write … close      the whole file, or none that anything refers to
    sync(paths)                 files, and the directories that name them, survive a power cut
    (a commit)                  the metadata log refers to them; not a matter of this package

A commit itself is one small file, whose name must go to one of several writers:

    put_new                     the whole file under its name, or nothing and False
    sync_directory              the name survives a power cut, too

Errors are those under StorageError and name the operation, the path and the log dir.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, cast

from sparklog.errors import UsageError

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer


Reader = Callable[[int, int], memoryview]
"""read(start, length) of one file, as `Files.read`."""


class FileStat(NamedTuple):
    """One file: its path, its size, and when it was last written (milliseconds since the epoch)."""

    path: str
    bytes: int
    modified_ms: int


class NewFile(ABC):
    """One file being written, front to back; readers may count on it after `close` only.

    As a context manager it closes at the end and aborts when the block raises.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes_written = 0
        self._state = "open"

    def write(self, data: "Buffer") -> None:
        """Append all of `data`. A write that fails has aborted the file before it raises."""
        self._require_open("write")
        view = flat_view(data)
        try:
            self._append(view)
        except BaseException:
            self.abort()
            raise
        self.bytes_written += view.nbytes

    def write_behind(self) -> None:  # noqa: B027 - most storages have nothing to do
        """Let the storage begin to make durable what was written; for files that will be synced.

        A hint, which promises nothing.
        """

    def close(self) -> None:
        """Complete the file; closing again does nothing. A close that fails has aborted the file.

        The bytes may still be in the operating system's memory: `Files.sync` makes them durable,
        and raises the error if they could not be written out.
        """
        if self._state == "closed":
            return
        self._require_open("close")
        try:
            self._complete()
        except BaseException:
            self.abort()
            raise
        self._state = "closed"

    def abort(self) -> None:
        """Drop what was written, and never anything else; does nothing once closed or aborted."""
        if self._state == "open":
            self._state = "aborted"
            self._discard()

    def _require_open(self, operation: str) -> None:
        if self._state != "open":
            raise UsageError(f"cannot {operation} {self.path}: the new file is {self._state}")

    @abstractmethod
    def _append(self, view: memoryview) -> None: ...

    @abstractmethod
    def _complete(self) -> None: ...

    @abstractmethod
    def _discard(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Files(Protocol):
    """The files of one log dir. Picklable, so that it travels to Spark's workers."""

    @property
    def uri(self) -> str:
        """The log dir: an absolute path when local, else a URI; without credentials."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Storage options under delta-rs's names; empty when local. Its repr hides credentials."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether paths are files of this machine's file system (mapping and hard links work)."""
        ...

    def create(self, path: str, *, durable: bool = False) -> NewFile:
        """Begin a new file; its directories are made.

        `durable` says that the file will be synced: then `close` begins the sync, through the
        descriptor that has written. ExistingFileError when there is a file already, where the
        storage can tell at once. An object store cannot: there the uuid in the name must keep two
        writers apart.
        """
        ...

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:
        """Write a whole new file; `durable` as in `create`.

        ExistingFileError, and nothing written, when there is one.
        """
        ...

    def put_new(self, path: str, data: "Buffer", *, durable: bool = True) -> bool:
        """Put a whole small file under a name that is free; its directories are made.

        True when it is put, False when a file of that name is there. Of several that put the same
        name at once, one gets True. The name never leads to half of a file, and with `durable`
        never to one whose bytes a power cut could take; the name itself is durable after
        `sync_directory`. A failure does not tell whether it is put. Over an object store False does
        not say whose the file is: the client asks again when it got no answer, and may find the
        file that it has put itself. So read the file.
        """
        ...

    def overwrite(self, path: str, data: "Buffer") -> None:
        """Put a whole small file in place of the one of this name, if any; a reader finds either.

        The bytes are synced before they get the name.
        """
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """Bytes [start, start + length) as a copy, to the end without `length`.

        Shorter, down to empty, where the file ends first. MissingFileError when there is no file.
        One request to an object store.
        """
        ...

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """Bytes [start, start + length), as `read` gives them, but mapped where that is possible.

        Mapped pages count as memory of this process while the view lives: walk a large file in
        windows.
        """
        ...

    def keep(self, path: str) -> Reader:
        """Open a file for many reads; the answer reads it as `read` does, also in several threads.

        The file stays open as long as the answer lives. If it is deleted meanwhile, its space on
        disk is given back after that. MissingFileError when there is no file: now, or from the
        first read where a file cannot be held open.
        """
        ...

    def read_ahead(self, path: str, end: int) -> Reader:
        """Return a reader of a file from front to back, up to about `end`; it reads as `view`.

        An object store is asked for the next ranges, of the same length, while one is worked on.
        Ranges may overlap and lengths change; one thread reads at a time. MissingFileError comes
        from the first read.
        """
        ...

    def stat(self, path: str) -> FileStat | None:
        """The file's size and time, or None when there is no such file; a directory is none."""
        ...

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """The files in a directory, or below it, sorted by path; none when there is no directory.

        "" is the log dir. Directories are not listed, as in an object store. What an object store
        lists recursively is fetched as it is asked for, a page at a time.
        """
        ...

    def delete(self, path: str) -> None:
        """Unlink one file; does nothing when it is gone already."""
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Unlink files, many with a request where the store can; those that are gone are fine."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Unlink a directory and all below it; does nothing when it is gone already."""
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make closed files durable, and the names that lead to them from the log dir on.

        MissingFileError when a file is not there. An object store has nothing to do: what it
        acknowledged is durable.
        """
        ...

    def sync_directory(self, directory: str) -> None:
        """Make the names in one directory durable, and those that are gone; "" is the log dir.

        MissingFileError when there is no such directory. An object store has nothing to do.
        """
        ...

    def link_or_copy(self, source: str, target: str) -> None:
        """Give `source`'s bytes a second name: a hard link, or a copy where there are none.

        MissingFileError without `source`, ExistingFileError when `target` is there.
        """
        ...


def flat_view(data: "Buffer") -> memoryview:
    """The bytes of any contiguous buffer as a one-dimensional view of uint8, without copying."""
    # Until Python 3.12 type checkers do not know that numpy's arrays are buffers.
    view = memoryview(cast("bytes", data))
    # memoryview.cast refuses a shape with a zero in it.
    return view.cast("B") if view.nbytes else memoryview(b"")
