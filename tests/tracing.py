"""Files that write down what is done to them: to prove that syncs come where they must."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sparklog.storage.files import Files, FileStat, NewFile, Reader
from sparklog.storage.memory import Operation

if TYPE_CHECKING:
    from sparklog.record.batches import Buffer


class TracingFiles:
    """Passes everything on to `inner` and keeps `trace`, the operations in the order they ended.

    A failed operation leaves no entry. Others may append steps of their own (a commit, say) to
    `trace`, which may be shared.
    """

    def __init__(self, inner: Files, trace: list[Operation] | None = None) -> None:
        self.inner = inner
        self.trace = [] if trace is None else trace

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def options(self) -> Mapping[str, str]:
        return self.inner.options

    @property
    def is_local(self) -> bool:
        return self.inner.is_local

    def create(self, path: str, **options: bool) -> NewFile:
        file = self.inner.create(path, **options)
        self._done("create", path)
        return TracingNewFile(file, self.trace)

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:
        self.inner.write_new(path, data, durable=durable)
        self._done("write_new", path, memoryview(bytes(data)).nbytes)

    def put_new(self, path: str, data: "Buffer", *, durable: bool = True, **options: Any) -> bool:
        """An operation of the trace even when the name was taken."""
        is_put = self.inner.put_new(path, data, durable=durable, **options)
        self._done("put_new", path, memoryview(bytes(data)).nbytes)
        return is_put

    def overwrite(self, path: str, data: "Buffer") -> None:
        self.inner.overwrite(path, data)
        self._done("overwrite", path, memoryview(bytes(data)).nbytes)

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        data = self.inner.read(path, start, length)
        self._done("read", path, data.nbytes)
        return data

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        data = self.inner.view(path, length, start)
        self._done("view", path, data.nbytes)
        return data

    def keep(self, path: str) -> Reader:
        read = self.inner.keep(path)
        self._done("keep", path)

        def traced(start: int, length: int) -> memoryview:
            data = read(start, length)
            self._done("read", path, data.nbytes)
            return data

        return traced

    def read_ahead(self, path: str, end: int) -> Reader:
        read = self.inner.read_ahead(path, end)

        def traced(start: int, length: int) -> memoryview:
            data = read(start, length)
            self._done("view", path, data.nbytes)
            return data

        return traced

    def stat(self, path: str) -> FileStat | None:
        found = self.inner.stat(path)
        self._done("stat", path)
        return found

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        found = self.inner.list(directory, recursive)
        self._done("list", directory)
        return found

    def delete(self, path: str) -> None:
        self.inner.delete(path)
        self._done("delete", path)

    def delete_many(self, paths: Iterable[str]) -> None:
        gone = tuple(paths)
        self.inner.delete_many(gone)
        for path in gone:
            self._done("delete", path)

    def delete_tree(self, directory: str) -> None:
        self.inner.delete_tree(directory)
        self._done("delete_tree", directory)

    def sync(self, paths: Iterable[str]) -> None:
        """One operation per path, in the order given."""
        files = tuple(paths)
        self.inner.sync(files)
        for path in files:
            self._done("sync", path)

    def sync_directory(self, directory: str) -> None:
        self.inner.sync_directory(directory)
        self._done("sync_directory", directory)

    def link_or_copy(self, source: str, target: str) -> None:
        self.inner.link_or_copy(source, target)
        self._done("link_or_copy", target)

    def _done(self, kind: str, path: str, size: int = 0) -> None:
        self.trace.append(Operation(kind, path, size))


class TracingNewFile(NewFile):
    """A new file of `TracingFiles`."""

    def __init__(self, inner: NewFile, trace: list[Operation]) -> None:
        super().__init__(inner.path)
        self._inner = inner
        self._trace = trace

    def _append(self, view: memoryview) -> None:
        self._inner.write(view)
        self._trace.append(Operation("write", self.path, view.nbytes))

    def expose(self) -> None:
        self._inner.expose()
        self._trace.append(Operation("expose", self.path, self._inner.bytes_written))

    def sync(self) -> None:
        self._inner.sync()
        self._trace.append(Operation("sync", self.path))

    def _complete(self) -> None:
        self._inner.close()
        self._trace.append(Operation("close", self.path, self._inner.bytes_written))

    def _discard(self) -> None:
        self._inner.abort()
        self._trace.append(Operation("abort", self.path))
