"""Where bytes live: the one door to files, whatever keeps them.

A path is relative to the log dir, its parts separated by "/" (`paths.check_path` refuses all
others). A file is written once, front to back, and never changes afterwards: there is no append, no
rename and no overwriting. So three things are enough to write safely:

    create … write … close      the whole file, or none that anybody refers to
    sync(paths)                 files, and the directories that name them, survive a power cut
    (a commit to a manifest)    somebody refers to them; not a matter of this package

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

        The bytes may still be in the operating system's memory: `Files.sync` makes them durable.
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

    def create(self, path: str) -> NewFile:
        """Begin a new file; its directories are made.

        ExistingFileError when there is one already, where the storage can tell at once. An object
        store cannot: there the uuid in the name must keep two writers apart.
        """
        ...

    def write_new(self, path: str, data: "Buffer") -> None:
        """Write a whole new file. ExistingFileError, and nothing written, when there is one."""
        ...

    def put_new(self, path: str, data: "Buffer", *, durable: bool = True) -> bool:
        """Put a whole small file under a name nobody has, atomically; False when somebody has it.

        No reader ever finds a part of it. `durable`: the bytes are synced before they get the name;
        the name is durable after `sync_directory`. A StorageError of a local file system means that
        the file is not there; an object store's may come after it is.
        """
        ...

    def overwrite(self, path: str, data: "Buffer") -> None:
        """Put a whole small file, in place of the one of this name; a reader finds either."""
        ...

    def sync_directory(self, directory: str) -> None:
        """Make the names in one directory durable; an object store has nothing to do."""
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """Bytes [start, start + length) as a copy, to the end without `length`.

        Shorter, down to empty, where the file ends first. MissingFileError when there is no file.
        """
        ...

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """As `read`, with the range told the other way round, but mapped where that is possible.

        Mapped pages count as memory of this process while the view lives: walk a large file in
        windows.
        """
        ...

    def keep(self, path: str) -> Reader:
        """Open a file for many reads; the answer reads it as `read` does, also in several threads.

        The file stays open as long as the answer lives. If it is deleted meanwhile, its space on
        disk is given back after that. Raises MissingFileError when there is no file.
        """
        ...

    def stat(self, path: str) -> FileStat | None:
        """The file's size and time, or None when there is no such file; a directory is none."""
        ...

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """The files in a directory, or below it, sorted by path; none when there is no directory.

        "" is the log dir. Directories are not listed, as in an object store.
        """
        ...

    def delete(self, path: str) -> None:
        """Unlink one file; does nothing when it is gone already."""
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
