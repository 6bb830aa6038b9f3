"""Files: one interface for local disks, object stores and memory.

A path is relative to the log dir; its parts are separated by "/" (`paths.check_path` refuses every
other form). A file is written once, front to back; its bytes never change, and no file is
renamed. So three steps are enough to write safely:

    create … write … close      the whole file; nothing refers to it yet
    sync(paths)                 files, and the directories that name them, survive a power cut
    (a commit)                  the metadata log refers to them; this package does not do that

On a local disk the writer may let others read a file that it goes on writing:

    create … write, expose, sync … write, expose, sync … abort

A commit itself is one small file. If several writers want its name, one of them gets it:

    put_new                     puts the whole file under its name, or nothing and returns False
    sync_directory              the name survives a power cut, too

`overwrite` replaces a small file that no reader has to trust (a hint, a gateway's sign of life). It
also replaces the meta.properties of a restored log dir.

A failure of the storage is a StorageError with the operation, the path and the log dir. A path that
is not allowed is a LogDirError, a negative position or length a UsageError.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, cast

from sparklog.errors import UsageError

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer


Reader = Callable[[int, int], memoryview]
"""read(start, length) of one file, both in bytes, as `Files.read`."""


def no_wait() -> None:
    """Return at once: there is nothing to wait for (`ready` of `Files.put_new`)."""


class FileStat(NamedTuple):
    """One file: its path, its size, and when it was last written (milliseconds since the epoch)."""

    path: str
    bytes: int
    modified_ms: int


class NewFile(ABC):
    """A file that is being written, front to back.

    Readers may rely on it only after `close`, or as far as it was exposed (`expose`).

    As a context manager it closes at the end, and aborts if its block raises.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes_written = 0
        self._state = "open"

    def write(self, data: "Buffer") -> None:
        """Append all of `data`. If the write fails, the file is aborted and StorageError raised.

        Raises UsageError if the file is closed or aborted.
        """
        self._require_open("write")
        view = flat_view(data)
        try:
            self._append(view)
        except BaseException:
            self.abort()
            raise
        self.bytes_written += view.nbytes

    def write_behind(self) -> None:  # noqa: B027 - most storages have nothing to do
        """Begin to write the data to disk, without waiting; for a file that will be synced.

        A hint: the storage may ignore it.
        """

    def expose(self) -> None:
        """Let others read the bytes written so far; the file stays open, and may grow.

        From now on `abort` leaves the file where it is. Raises UsageError if the file is closed or
        aborted, or if the storage has no files that grow (all but a local disk).
        """
        raise UsageError(f"{self.path}: a file of this storage cannot grow after it was read")

    def sync(self) -> None:
        """Make all bytes that have been written durable; the file stays open.

        `Files.sync` makes its name durable. Raises StorageError if bytes were lost (the file is
        aborted then), UsageError as `expose`.
        """
        raise UsageError(f"{self.path}: a file of this storage cannot be synced while it is open")

    @property
    def is_open(self) -> bool:
        """True until the file is closed or aborted."""
        return self._state == "open"

    def close(self) -> None:
        """Complete the file; on a closed file do nothing. If that fails, the file is aborted.

        The bytes may still be in the operating system's memory. `Files.sync` makes them durable, or
        raises the error that kept them from the disk. Raises StorageError, and UsageError if the
        file is aborted.
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
        """Remove this file, and never another one of its name; nothing if closed or aborted.

        A file that others may read already (`expose`) is closed and stays.
        """
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
    """The files of one log dir. It can be pickled, and so reach Spark's workers."""

    @property
    def uri(self) -> str:
        """The log dir, without credentials: an absolute path if it is local, else a URI."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Storage options by delta-rs's names; empty if local. The repr hides credentials."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether files are on this machine's file system, so that mapping and links work."""
        ...

    def create(self, path: str, *, durable: bool = False, with_name: bool = False) -> NewFile:
        """Begin a new file; make its directories.

        `durable` says that the file will be synced: then `close` begins the sync, on the descriptor
        that has written. With `with_name` it also begins the sync of the file's directory. Raises
        ExistingFileError if a local disk has a file of this name. An object store does not check
        that: there the uuid in the name keeps two writers apart.
        """
        ...

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:
        """Write a whole new file; `durable` as in `create`.

        Raises ExistingFileError, and writes nothing, if there is a file of this name.
        """
        ...

    def put_new(
        self,
        path: str,
        data: "Buffer",
        *,
        durable: bool = True,
        ready: Callable[[], None] = no_wait,
    ) -> bool:
        """Put a whole small file under a free name; make its directories.

        `ready` is called before the file gets its name, on a local disk after its bytes are synced.
        It waits for other files that these bytes name. If it raises, nothing is put.

        Returns True if the file was put, False if there is a file of this name. It may be the
        caller's own, so read it: an object store's client repeats a request that got no answer, and
        may find the file of its first try. Of several writers that put one name at the same moment,
        one gets True. If the call raises StorageError, the file may be there or not.

        The name never leads to a part of a file. With `durable` it never leads to bytes that a
        power cut can destroy; the name itself is durable after `sync_directory`.
        """
        ...

    def overwrite(self, path: str, data: "Buffer") -> None:
        """Put a whole small file under a name, free or not. Readers find the old or the new file.

        The bytes are synced before they get the name.
        """
        ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return the bytes [start, start + length) as a copy; to the end without `length`.

        The answer is shorter, or empty, if the file ends first. Raises MissingFileError.
        An object store gets one request.
        """
        ...

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """Return the same bytes as `read`, mapped if the storage can do that.

        Mapped pages count as memory of this process while the view lives: read a large file in
        windows.
        """
        ...

    def keep(self, path: str) -> Reader:
        """Open a file for many reads; return its reader, which works as `read`, in any thread.

        If the storage can, it holds the file open as long as the reader lives: a deletion frees the
        space only after that. Raises MissingFileError; if the file cannot be held open, the reader
        raises it.
        """
        ...

    def read_ahead(self, path: str, end: int) -> Reader:
        """Return a reader of a file from front to back, up to about `end`; it works as `view`.

        While one range is worked on, an object store is asked for the next ranges of the same
        length. Ranges may overlap, and lengths may change; one thread reads at a time. The reader
        raises MissingFileError.
        """
        ...

    def stat(self, path: str) -> FileStat | None:
        """Return a file's size and time; None if there is no such file, or it is a directory."""
        ...

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """Return the files of a directory, with `recursive` also those below it, sorted by path.

        "" is the log dir; a directory that does not exist has no files. Directories are not listed,
        as in an object store. A recursive listing is fetched while it is iterated: of an object
        store page by page, of a local disk directory by directory.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete one file; do nothing if it is gone already."""
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete files, many with one request if the storage can; some may be gone already."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and everything below it; do nothing if it is gone already."""
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make closed files durable, and the names that lead to them, from the log dir downwards.

        Raises MissingFileError for a file that is not there, and the StorageError that kept bytes
        from the disk. An object store has nothing to do: an acknowledged object is durable.
        """
        ...

    def sync_directory(self, directory: str) -> None:
        """Make the new names and the deletions in one directory durable; "" is the log dir.

        Raises MissingFileError without the directory. An object store has nothing to do.
        """
        ...

    def link_or_copy(self, source: str, target: str) -> None:
        """Give the bytes of `source` a second name: a hard link, or a copy where links do not work.

        Raises MissingFileError without `source`, ExistingFileError if `target` is there.
        """
        ...


def flat_view(data: "Buffer") -> memoryview:
    """Return the bytes of a contiguous buffer as a one-dimensional view of uint8, not copied."""
    # Before Python 3.12 type checkers do not know that numpy's arrays are buffers.
    view = memoryview(cast("bytes", data))
    # memoryview.cast refuses a shape with a zero in it.
    return view.cast("B") if view.nbytes else memoryview(b"")
