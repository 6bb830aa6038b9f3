"""An object store that a process is cut off from, after a request of the test's choice.

To the store that is the same as a process that was killed:

    proxy.steps, proxy.crash_at = 0, 3
    work(files)            CrashError: two writes are done; of the third the answer is lost
    proxy.crash_at = -1    the next process gets through

A step is a request that writes. A bulk delete is two of them, for a store may have done a part of
it. A request that never arrives leaves what the step before it leaves: so there are no more cases.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from sparklog.errors import StorageError
from sparklog.storage import Files, open_files
from sparklog.storage.files import FileStat
from sparklog.storage.objects.object_store import ObjectFiles
from sparklog.storage.settings import storage_options
from tests.metadata_logs import CrashError
from tests.s3 import S3LogDir
from tests.store_proxy import Answer, Fault, Request, StoreProxy

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from sparklog.record.batches import Buffer

HALF, WHOLE = "half", "whole"
STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "PUT": (WHOLE,),
    "DELETE": (WHOLE,),
    "POST": (HALF, WHOLE),
}
"""How much of a request the store has done at each of its steps. A POST is a bulk delete."""


class CuttingProxy(StoreProxy):
    """Loses the answer of step `crash_at`; nothing that comes later reaches the store."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.steps = 0
        self.crash_at = -1
        self._halved: Request | None = None

    @property
    def is_cut(self) -> bool:
        """True once the process is cut off from the store."""
        return self.steps == self.crash_at

    def fault_for(self, request: Request) -> Fault | None:
        """Count the request's steps. The requests of a process come one after another."""
        found = super().fault_for(request)
        if self.is_cut:
            return Fault(drop=True)
        for part in STEPS.get(request.method, ()):
            self.steps += 1
            if self.steps == self.crash_at:
                self._halved = request if part == HALF else None
                return Fault(drop=True, after=True)
        return found

    def answer(self, request: Request) -> Answer:
        """See `StoreProxy.answer`; of a bulk delete maybe for its second half alone."""
        return super().answer(second_half(request) if request is self._halved else request)


def second_half(request: Request) -> Request:
    """A bulk delete of the later names: the worst half for a reader that goes upwards."""
    names = re.findall(rb"<Object>.*?</Object>", request.body)
    body = b"<Delete>" + b"".join(names[len(names) // 2 :]) + b"</Delete>"
    of_the_body = {"content-length", "content-md5"}
    headers = {name: value for name, value in request.headers.items() if name not in of_the_body}
    return replace(request, headers=headers, body=body)


class CrashingObjectFiles(ObjectFiles):
    """The files of a process that ends once the proxy has cut it off; it tries nothing again.

    Without a `crash_at` it needs no proxy. `times` are the modification times (ms) that files have
    until they are overwritten.
    """

    def __init__(self, place: S3LogDir, proxy: CuttingProxy, times: Mapping[str, int]) -> None:
        super().__init__(place.uri, storage_options(place.options, {}))
        self.proxy = proxy
        self._behind = behind(proxy, place)
        self._times = dict(times)

    @property
    def store(self) -> "ObjectStore":
        """See `ObjectFiles.store`."""
        return super().store if self.proxy.crash_at < 0 else self._behind.store

    @contextmanager
    def errors(self, operation: str, path: str) -> Iterator[None]:
        """See `ObjectFiles.errors`; an error of a process that is cut off is its end."""
        try:
            with super().errors(operation, path):
                yield
        except StorageError:
            if self.proxy.is_cut:
                raise CrashError from None
            raise

    def overwrite(self, path: str, data: "Buffer") -> None:
        """See `Files.overwrite`."""
        super().overwrite(path, data)
        self._times.pop(path, None)

    def stat(self, path: str) -> FileStat | None:
        """See `Files.stat`."""
        found = super().stat(path)
        return found and self._timed(found)

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """See `Files.list`."""
        return map(self._timed, super().list(directory, recursive))

    def _timed(self, stat: FileStat) -> FileStat:
        return stat._replace(modified_ms=self._times.get(stat.path, stat.modified_ms))


def behind(proxy: StoreProxy, place: S3LogDir) -> ObjectFiles:
    """The files of a process that tries no request again, on the other side of a proxy."""
    options = {**place.options, "AWS_ENDPOINT_URL": proxy.endpoint, "MAX_RETRIES": "0"}
    return ObjectFiles(place.uri, storage_options(options, {}))


def copied(source: Files, place: S3LogDir, proxy: CuttingProxy) -> CrashingObjectFiles:
    """Copy a log dir into an empty one of the store, with its times; the store's own are of now."""
    target = open_files(place.uri, place.options)
    times: dict[str, int] = {}
    for stat in source.list(recursive=True):
        target.overwrite(stat.path, source.read(stat.path))
        times[stat.path] = stat.modified_ms
    return CrashingObjectFiles(place, proxy, times)


class Victim(Protocol):
    """A process, or what it stands on: it ends at step `crash_at`; -1 is none."""

    steps: int
    crash_at: int


def is_killed(victim: Victim, work: Callable[[], object], step: int) -> bool:
    """Do some work in a process that is killed at a step; return whether it was."""
    victim.steps, victim.crash_at = 0, step
    try:
        work()
    except CrashError:
        return True
    finally:
        victim.crash_at = -1
    return False
