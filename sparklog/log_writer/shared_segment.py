"""A shared segment being written: the batches of many partitions in one file.

    __shared/<uuid>.log      commit after commit, in each slice after slice; a slice has batches of
                             one partition, which may have several slices

The metadata has a row for each slice: the file, the slice's position and its size. Slices have no
index files: they are small, and merge_segments soon copies them into the partition's directory. On
a local disk a writer that commits again and again (`SharedSegments`) appends the commits of a
second to one file, because making a file takes time. An object cannot grow, so in an object store
each commit has a file of its own, or several if it writes more than FULL_BYTES.
"""

import os
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final, cast

from sparklog.clock import Clock
from sparklog.log.names import LOG_SUFFIX, uuid7, uuid7_ms
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.metadata.state.image import Image
from sparklog.model import SHARED_PREFIX, SegmentEntry
from sparklog.record.batches import Buffer
from sparklog.storage.files import Files, NewFile

HELD_BYTES_MAX: Final = 1024 * 1024
"""About how many bytes one write has: a write for each small partition would take longer."""
ALONE_BYTES: Final = 64 * 1024
"""Batches of this size or more are written alone: to copy them would take longer than a write."""
FULL_BYTES: Final = 1024 * 1024 * 1024
"""From this size on the slices of a commit go into a further file. An object of S3 has at most
10,000 parts, and a file stays until its last slice is merged. It is the default of segment.bytes;
the config itself does not serve, because the topics of a commit may differ in it."""
GROWS_BYTES: Final = 16 * 1024 * 1024
"""From this size on a shared segment is not appended to."""
GROWS_MS: Final = 1000
"""From this age on a shared segment is not appended to."""


class SharedSegment:
    """The shared segment of the writers of one commit; its file is made with the first slice.

    A full file is followed by another one. The files are made durable if one of the writers asks
    for that. If the segment `grows`, it has one file, which takes the slices of further commits:
    each commit ends with `complete` and `sync`, and `abort` closes the file after the last one.
    """

    def __init__(self, files: Files, clock: Clock, *, grows: bool = False) -> None:
        """Only a local file can grow."""
        self._files = files
        self._clock = clock
        self._grows = grows
        self._born_ms = clock.boot_ms()
        self._file: NewFile | None = None
        self._paths: list[str] = []
        self._is_durable = False
        self._has_durable_name = False
        self._failure: Exception | None = None
        self._completed = 0
        self._held: list[Buffer] = []
        self._end = 0

    def add(
        self, builder: SegmentBuilder, batches: Sequence[Buffer], *, flush: bool
    ) -> SegmentEntry:
        """Append the batches of one partition; return their row, with the offsets of the file."""
        path, position = self.put(batches, flush=flush)
        summary, _ = builder.finish()
        entry = summary.entry(summary.file_base_offset, self._clock.now_ms(), path)
        return entry._replace(log_position=position)

    def put(self, batches: Iterable[Buffer], *, flush: bool) -> tuple[str, int]:
        """Append batches; return the file's path, and the position of the first batch in it.

        Small batches are held and written together, so their bytes must not change until then.
        """
        if self._end >= FULL_BYTES and not self._grows:
            self.complete()
            self._file, self._end = None, 0
        if self._file is None:
            name = uuid7(self._clock.now_ms(), os.urandom(10))
            self._file = self._files.create(
                f"{SHARED_PREFIX}{name}{LOG_SUFFIX}", durable=flush, with_name=flush
            )
            self._paths.append(self._file.path)
        self._is_durable = self._is_durable or flush
        position = self._end
        for data in batches:
            if len(data) >= ALONE_BYTES:
                self._write(self._file)
                self._file.write(data)
            else:
                self._held.append(data)
            self._end += len(data)
            if self._end - self._file.bytes_written >= HELD_BYTES_MAX:
                self._write(self._file)
        return self._file.path, position

    def _write(self, file: NewFile) -> None:
        held, self._held = self._held, []
        if held:
            file.write(b"".join(cast("list[bytes]", held)))

    def close(self) -> None:
        """Complete the files; make them durable if one of the writers asked for that."""
        self.complete()
        self.sync()

    def complete(self) -> None:
        """Write all bytes of a commit, and let others read them. `sync` makes them durable."""
        if self._file is None:
            return
        self._write(self._file)
        self._completed += 1
        if self._grows:
            self._file.expose()
        else:
            self._file.close()

    def sync(self) -> None:
        """Wait until all slices are durable, if a writer of one of them asked for that.

        After a failure every call fails, and the file takes no more slices: the system reports only
        once that it has lost bytes or a name.
        """
        if self._failure is not None:
            raise copy(self._failure)
        if self._file is None or not self._is_durable:
            return
        try:
            self._make_durable(self._file)
        except Exception as error:
            self._failure = copy(error)  # without the frames, which hold the requests
            self.abort()
            raise
        self._is_durable = False

    def _make_durable(self, file: NewFile) -> None:
        if not self._has_durable_name:
            self._files.sync(self._paths)
            self._has_durable_name = True
        if self._grows and self._completed > 1:
            file.sync()

    def abort(self) -> None:
        """Close the file if it is still being written; remove it unless others may read it.

        Files that are full stay; vacuum deletes them.
        """
        self._held = []
        if self._file is not None:
            self._file.abort()

    def takes_more(self, image: Image) -> bool:
        """Whether the file may take the slices of one more commit; `image` is the newest image.

        False if the file has no live slice: vacuum may delete it (`metadata.state.check`), and
        `erase` does not search it.
        """
        if self._file is None:
            return True
        known = image.shared.get(self._file.path)
        is_in_use = known is not None and known.slice_count > 0
        is_young = self._clock.boot_ms() - self._born_ms < GROWS_MS
        return self._file.is_open and is_in_use and is_young and self._end < GROWS_BYTES


def grows_until_ms(path: str) -> int:
    """Return the time (ms) from which on no slice is appended to a shared segment."""
    return uuid7_ms(path.removeprefix(SHARED_PREFIX).removesuffix(LOG_SUFFIX)) + GROWS_MS


class SharedSegments:
    """The shared segments of a writer that commits again and again, one commit after the other."""

    def __init__(self, files: Files, clock: Clock, *, grow: bool = True) -> None:
        """With `grow` (only a local file can), call `close` after the last commit."""
        self._grow = grow and files.is_local
        self._files = files
        self._clock = clock
        self._growing: SharedSegment | None = None

    def next(self, image: Image, *, anew: bool = False) -> SharedSegment:
        """Return the segment for the next commit; `image` is the newest one known.

        With `anew` it is always a new one, for slices that are written again.
        """
        if not self._grow:
            return SharedSegment(self._files, self._clock)
        if self._growing is None or anew or not self._growing.takes_more(image):
            self.close()
            self._growing = SharedSegment(self._files, self._clock, grows=True)
        return self._growing

    def close(self) -> None:
        """Close the file that grows; `next` goes on with a new one."""
        if self._growing is not None:
            self._growing.abort()
            self._growing = None
