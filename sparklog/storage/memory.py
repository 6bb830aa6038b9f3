"""Files in memory that fail on request. They are the reference for the other implementations.

`lose_unsynced` is a power cut. After it

    a written file      is gone, unless the file was synced
    a durable put_new   is gone, unless its directory was synced
    another put_new     is gone, unless the file was synced
    a deleted file      is back, unless its directory was synced after the deletion
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sparklog.clock import Clock, ManualClock
from sparklog.errors import ExistingFileError, MissingFileError, StorageError, UsageError
from sparklog.storage.failures import failure
from sparklog.storage.files import FileStat, NewFile, Reader, flat_view, no_wait
from sparklog.storage.paths import check_directory, check_path, check_range, parents

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer

KINDS = frozenset(
    {"create", "write", "close", "abort", "read", "view", "keep", "stat", "list", "delete"}
    | {"delete_tree", "sync", "sync_directory", "put_new", "overwrite", "link_or_copy"}
)
"""The kinds of operation in the trace. `fail_next` can make each fail, except `abort`."""


class Operation(NamedTuple):
    """One step of a trace: its kind, its path, and how many bytes it wrote (0 for a read)."""

    kind: str
    path: str
    bytes: int = 0


class Stored(NamedTuple):
    """The content of one file."""

    data: bytes
    modified_ms: int


class MemoryFiles:
    """Files of one process (`Files`); a pickled copy has files of its own.

    A new file appears when it is closed, as in an object store, but its name is taken as soon as it
    is created. `trace` lists the operations in the order in which they began, also failed ones.
    """

    is_local = False

    def __init__(self, clock: Clock | None = None) -> None:
        self.uri = "memory://"
        self.options: Mapping[str, str] = {}
        self.trace: list[Operation] = []
        self._clock = clock or ManualClock()
        self._stored: dict[str, Stored] = {}
        self._durable: dict[str, Stored] = {}
        self._being_written: set[str] = set()
        self._without_durable_name: set[str] = set()
        self._faults: dict[str, list[StorageError | None]] = {}

    def fail_next(self, kind: str, error: StorageError | None = None, *, after: int = 0) -> None:
        """Let an operation of this kind fail, after `after` operations of the kind have succeeded.

        It raises `error`, or a plain StorageError. Faults of one kind queue up, and `after` counts
        from the fault before. Raises UsageError for an unknown kind.
        """
        if kind not in KINDS - {"abort"}:
            allowed = ", ".join(sorted(KINDS - {"abort"}))
            raise UsageError(f"no operation is called {kind!r}; allowed: {allowed}")
        fault = error or StorageError(f"{kind} was told to fail")
        self._faults.setdefault(kind, []).extend([*[None] * after, fault])

    def lose_unsynced(self) -> None:
        """Cut the power: keep the synced files, and forget those that are being written."""
        self._stored = dict(self._durable)
        self._being_written.clear()
        self._without_durable_name.clear()

    def create(
        self,
        path: str,
        *,
        durable: bool = False,  # noqa: ARG002 - sync is
        with_name: bool = False,  # noqa: ARG002 - sync is
    ) -> NewFile:
        self.record("create", check_path(path))
        self._reserve("create", path)
        return MemoryNewFile(path, self)

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:
        with self.create(path, durable=durable) as file:
            file.write(data)

    def put_new(
        self,
        path: str,
        data: "Buffer",
        *,
        durable: bool = True,
        ready: Callable[[], None] = no_wait,
    ) -> bool:
        """See `Files.put_new`; the trace has one operation."""
        ready()
        view = flat_view(data)
        self.record("put_new", check_path(path), view.nbytes)
        if path in self._stored or path in self._being_written:
            return False
        self.publish(path, bytes(view))
        if durable:
            self._without_durable_name.add(path)
        return True

    def overwrite(self, path: str, data: "Buffer") -> None:
        view = flat_view(data)
        self.record("overwrite", check_path(path), view.nbytes)
        self.publish(path, bytes(view))

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        return self._range("read", path, start, length)

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        return self._range("view", path, start, length)

    def keep(self, path: str) -> Reader:
        stored = self._range("keep", path, 0, None)

        def read(start: int, length: int) -> memoryview:
            check_range(start, length)
            self.record("read", path)
            return stored[start : start + length]

        return read

    def read_ahead(self, path: str, end: int) -> Reader:  # noqa: ARG002 - nothing is far
        """See `Files.read_ahead`; the trace has a `view` for each read."""
        return lambda start, length: self.view(path, length, start)

    def stat(self, path: str) -> FileStat | None:
        self.record("stat", check_path(path))
        found = self._stored.get(path)
        return found and FileStat(path, len(found.data), found.modified_ms)

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        self.record("list", check_directory(directory))
        prefix = f"{directory}/" if directory else ""
        for path in sorted(self._below(prefix)):
            if recursive or "/" not in path[len(prefix) :]:
                data, modified_ms = self._stored[path]
                yield FileStat(path, len(data), modified_ms)

    def delete(self, path: str) -> None:
        self.record("delete", check_path(path))
        self._stored.pop(path, None)
        self._without_durable_name.discard(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Files.delete_many`; the trace has one operation for each file."""
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        self.record("delete_tree", check_path(directory))
        for path in self._below(f"{directory}/"):
            del self._stored[path]
            self._without_durable_name.discard(path)

    def sync(self, paths: Iterable[str]) -> None:
        """See `Files.sync`; the trace has one operation for each file, then for each directory."""
        files = list(dict.fromkeys(paths))
        for path in files:
            self.record("sync", check_path(path))
            self._durable[path] = self._get("sync", path)
        for directory in parents(files):
            self.record("sync", directory)
            self._keep_names(directory)

    def sync_directory(self, directory: str) -> None:
        """See `Files.sync_directory`; a directory exists while there is a file below it."""
        self.record("sync_directory", check_directory(directory))
        if directory and not any(self._below(f"{directory}/")):
            raise failure(MissingFileError, "sync", directory, self.uri, "no such directory")
        self._keep_names(directory)

    def link_or_copy(self, source: str, target: str) -> None:
        self.record("link_or_copy", check_path(target))
        stored = self._get("link", check_path(source))
        self._reserve("link", target)
        self.publish(target, stored.data)

    def record(self, kind: str, path: str, size: int = 0) -> None:
        """Add an operation to the trace, and raise the fault that waits for it, if any."""
        self.trace.append(Operation(kind, path, size))
        waiting = self._faults.get(kind)
        fault = waiting.pop(0) if waiting else None
        if fault is not None:
            raise fault

    def publish(self, path: str, data: bytes) -> None:
        """Turn a reserved name into a file."""
        self.forget(path)
        self._stored[path] = Stored(data, self._clock.now_ms())

    def forget(self, path: str) -> None:
        """Give up a reserved name."""
        self._being_written.discard(path)

    def _keep_names(self, directory: str) -> None:
        """Make the names in a directory durable, and the deletions in it."""
        # Iterate over tuples: another thread may be putting files.
        for path in [path for path in tuple(self._durable) if os.path.dirname(path) == directory]:
            if path not in self._stored:
                del self._durable[path]
        unnamed = tuple(self._without_durable_name)
        for path in [path for path in unnamed if os.path.dirname(path) == directory]:
            self._durable[path] = self._stored[path]
            self._without_durable_name.discard(path)

    def _reserve(self, operation: str, path: str) -> None:
        if path in self._stored or path in self._being_written:
            raise failure(ExistingFileError, operation, path, self.uri, "it exists already")
        self._being_written.add(path)

    def _get(self, operation: str, path: str) -> Stored:
        if path not in self._stored:
            raise failure(MissingFileError, operation, path, self.uri, "no such file")
        return self._stored[path]

    def _range(self, kind: str, path: str, start: int, length: int | None) -> memoryview:
        check_range(start, length)
        self.record(kind, check_path(path))
        end = None if length is None else start + length
        return memoryview(self._get(kind, path).data)[start:end]

    def _below(self, prefix: str) -> Iterator[str]:
        return iter([path for path in self._stored if path.startswith(prefix)])


class MemoryNewFile(NewFile):
    """A new file, which `MemoryFiles` shows once it is closed."""

    def __init__(self, path: str, files: MemoryFiles) -> None:
        super().__init__(path)
        self._files = files
        self._data = bytearray()

    def _append(self, view: memoryview) -> None:
        self._files.record("write", self.path, view.nbytes)
        self._data += view

    def _complete(self) -> None:
        self._files.record("close", self.path, len(self._data))
        self._files.publish(self.path, bytes(self._data))

    def _discard(self) -> None:
        self._files.record("abort", self.path)
        self._files.forget(self.path)
