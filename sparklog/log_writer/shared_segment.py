"""A shared segment being written: the batches of many partitions in one file.

    __shared/<uuid>.log      partition after partition, each one's batches back to back

A row of the metadata names the file, the position and the size of each partition's slice. Slices
have no index files: they are small, and merge_segments soon copies them into the partition's
directory.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Final, cast

from sparklog.clock import Clock
from sparklog.log.names import LOG_SUFFIX, uuid7
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.model import SHARED_PREFIX, SegmentEntry
from sparklog.record.batches import Buffer
from sparklog.storage.files import Files, NewFile

HELD_BYTES_MAX: Final = 1024 * 1024
"""How many bytes are written at once, about: a call for each small partition would take longer."""
ALONE_BYTES: Final = 64 * 1024
"""Batches of this size are written by themselves: to copy them would take longer than a call."""


class SharedSegment:
    """One shared segment, made when the first slice comes; for the writers of one commit.

    It is made durable if one of its writers asks for that.
    """

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._file: NewFile | None = None
        self._is_durable = False
        self._held: list[Buffer] = []
        self._end = 0

    def add(
        self, builder: SegmentBuilder, batches: Sequence[Buffer], *, flush: bool
    ) -> SegmentEntry:
        """Append the batches of one partition; return their row, with offsets as in the file."""
        path, position = self.put(batches, flush=flush)
        summary, _ = builder.finish()
        entry = summary.entry(summary.file_base_offset, self._clock.now_ms(), path)
        return entry._replace(log_position=position)

    def put(self, batches: Iterable[Buffer], *, flush: bool) -> tuple[str, int]:
        """Append batches; return the path, and where the first of them begins in the file.

        Small ones are held, and written together, so they must not change meanwhile.
        """
        if self._file is None:
            name = uuid7(self._clock.now_ms(), os.urandom(10))
            self._file = self._files.create(
                f"{SHARED_PREFIX}{name}{LOG_SUFFIX}", durable=flush, with_name=flush
            )
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
        """Complete the file, durably if one of its writers asked for that."""
        self.complete()
        self.sync()

    def complete(self) -> None:
        """Complete the file. It is made durable meanwhile; `sync` waits for that."""
        if self._file is not None:
            self._write(self._file)
            self._file.close()

    def sync(self) -> None:
        """Wait until the file is durable, if one of its writers asked for that; once."""
        if self._file is not None and self._is_durable:
            self._files.sync([self._file.path])
            self._is_durable = False

    def abort(self) -> None:
        """Drop the file if it is still being written."""
        if self._file is not None:
            self._file.abort()
