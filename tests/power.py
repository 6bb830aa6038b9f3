"""Local files whose power can be cut, and the files that are left.

    a name      survives when its directory was synced after it appeared; otherwise by chance
    the bytes   survive when the file was synced, under whichever of its names; of those that were
                written since: all, some first pages, or none

Of the names in the metadata log those survive that appeared before some moment, as with a file
system that has a journal. A file that was put in place of another may be either, until its
directory was synced.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sparklog.record.batches import Buffer
from sparklog.storage.files import NewFile, flat_view
from sparklog.storage.local import LocalFiles

PAGE_BYTES = 4096


class PowerCutError(BaseException):
    """The power is gone: nobody may bear this, so it is no Exception."""


class CuttableFiles(LocalFiles):
    """Local files that count their steps and lose power before step `cut_at`.

    Steps are the creation of a file, each file and each directory of a sync, and what others mark
    with `step`. Nothing is really synced, which makes it fast.
    """

    def __init__(self, root: str, cut_at: int, draw: random.Random) -> None:
        super().__init__(root)
        self._draw = draw
        self._steps_left = cut_at
        self._created: list[NewFile] = []
        self._bytes: dict[str, bytes] = {}
        self._durable: dict[str, bytes] = {}
        self._names: dict[str, set[str]] = {}
        self._replaced: dict[str, bytes] = {}
        self._left: dict[str, bytes] | None = None

    def cut_after(self, steps: int) -> None:
        """Lose power before the step that follows `steps` others from now on."""
        self._steps_left = steps

    def step(self) -> None:
        """Count a step; raises PowerCutError at the one that does not happen, and at all later."""
        if self._steps_left == 0:
            self.survivors()
            raise PowerCutError
        self._steps_left -= 1

    def survivors(self) -> dict[str, bytes]:
        """What is there when the power is back, by path; the power goes now if it did not before.

        What a dying process tidies up afterwards makes no difference.
        """
        if self._left is None:
            self._left = dict(self._drawn())
            for file in self._created:
                file.abort()
        return self._left

    def create(self, path: str, **_: bool) -> NewFile:
        """See `Files.create`; nothing is really synced, however durable."""
        self.step()
        self._created.append(_CuttableFile(super().create(path), self))
        return self._created[-1]

    def sync_open(self, path: str) -> None:
        """Sync the bytes of a file that is being written: a step."""
        self._sync_all([path], [])

    def write_new(self, path: str, data: Buffer, *, durable: bool = False) -> None:
        """See `Files.write_new`: as `create`, a step."""
        with self.create(path, durable=durable) as file:
            file.write(data)

    def put_new(self, path: str, data: Buffer, *, durable: bool = True, **options: Any) -> bool:
        """See `Files.put_new`: a step of its own; the bytes are as durable as they are meant to."""
        self.step()
        is_put = super().put_new(path, data, durable=False, **options)
        if is_put and durable:
            self._bytes[path] = bytes(flat_view(data))
        return is_put

    def overwrite(self, path: str, data: Buffer) -> None:
        """See `Files.overwrite`: a step; until the name is synced, the old file may stay."""
        self.step()
        if path in self._durable:
            self._replaced[path] = self._durable[path]
        super().overwrite(path, data)
        self._bytes[path] = bytes(flat_view(data))

    def sync_directory(self, directory: str) -> None:
        """See `Files.sync_directory`."""
        self._sync_all([], [directory])

    def _sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        for path in files:
            self.step()
            self._bytes[path] = self._on_disk(path)
        for directory in directories:
            self.step()
            names = {entry.name for entry in Path(self.uri, directory).iterdir()}
            self._names[directory] = names
            paths = {f"{directory}/{name}".lstrip("/") for name in names}
            self._durable |= {path: self._bytes[path] for path in paths & self._bytes.keys()}
            for path in paths:
                self._replaced.pop(path, None)

    def _on_disk(self, path: str) -> bytes:
        return Path(self.uri, path).read_bytes()

    def _drawn(self) -> Iterator[tuple[str, bytes]]:
        found = [path for path in sorted(Path(self.uri).rglob("*")) if path.is_file()]
        times = [path.stat().st_ctime_ns for path in found]
        moment = self._draw.choice([0, *times])
        for file, time in zip(found, times, strict=True):
            path = str(file.relative_to(self.uri))
            possible = self._possible(path, time <= moment)
            if possible:
                yield path, self._draw.choice(possible)

    def _possible(self, path: str, is_early: bool) -> list[bytes]:
        """The bytes that a file may have; none when it is not there."""
        data = self._on_disk(path)
        if path in self._replaced and not is_early:
            return [self._replaced[path]]  # the file that took its name did not last
        is_lucky = is_early if "/_delta_log/" in path else self._draw.random() < 0.5
        if not (is_lucky or self._is_named(path)):
            return []
        synced = self._bytes.get(path, b"")
        if synced == data:
            return [data]
        return [data, synced, data[: max(len(synced), len(data) // 2 // PAGE_BYTES * PAGE_BYTES)]]

    def _is_named(self, path: str) -> bool:
        parts = path.split("/")
        return all(
            name in self._names.get("/".join(parts[:depth]), set())
            for depth, name in enumerate(parts)
        )


class _CuttableFile(NewFile):
    """A new file of `CuttableFiles`."""

    def __init__(self, inner: NewFile, files: CuttableFiles) -> None:
        super().__init__(inner.path)
        self._inner = inner
        self._files = files

    def expose(self) -> None:
        self._inner.expose()

    def sync(self) -> None:
        self._files.sync_open(self.path)

    def _append(self, view: memoryview) -> None:
        self._inner.write(view)

    def _complete(self) -> None:
        self._inner.close()

    def _discard(self) -> None:
        self._inner.abort()
