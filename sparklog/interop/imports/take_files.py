"""Links, copies or writes the files of a broker's segment into the directory of a partition.

    sealed .log        a hard link (or a copy): a broker never changes it
    newest .log        a copy: a broker that starts again appends to it
    part of a .log     a copy of the batches from a position on
    indexes            always new files: a broker resizes its own in place

Every file gets a new name; its batches keep the log's offsets.
"""

import os
from typing import Final

from sparklog.interop.examine import Examined, Source
from sparklog.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_dir,
    segment_name,
    uuid7,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles

COPY_BYTES: Final = 8 * 1024 * 1024


class FileTaker:
    """Takes segments into one partition's directory; `paths` are the files that it has made."""

    def __init__(
        self,
        files: Files,
        topic: TopicDescription,
        partition: int,
        now_ms: int,
        *,
        link: bool,
        durable: bool = False,
    ) -> None:
        self._files = files
        self._topic = topic_directory(topic)
        self._folder = partition_dir(topic.name, partition)
        self._now_ms = now_ms
        self._link = link
        self._durable = durable
        self.paths: list[str] = []

    def take(self, source: Source, found: Examined) -> SegmentEntry:
        """Link, copy or write the files of a segment, and return its row."""
        summary, indexes = found.summary, found.indexes
        base, uuid = summary.file_base_offset, uuid7(self._now_ms, os.urandom(10))
        log = self._path(base, uuid, LOG_SUFFIX)
        self._bring(source, source.start + summary.log_bytes, f"{self._topic}/{log}")
        entry = summary.entry(
            base,
            self._now_ms,
            log,
            index_path=self._written(self._path(base, uuid, INDEX_SUFFIX), indexes.offset_index),
            time_index_path=self._written(
                self._path(base, uuid, TIME_INDEX_SUFFIX), indexes.time_index
            ),
            indexes=indexes,
        )
        if found.delete_horizon_ms is None:
            return entry
        return entry._replace(delete_horizon_ms=found.delete_horizon_ms)

    def _path(self, base: int, uuid: str, suffix: str) -> str:
        """Return the path of a file, relative to the topic's directory."""
        return f"{self._folder}/{segment_name(base, uuid, suffix)}"

    def _written(self, path: str, data: bytes) -> str | None:
        """Write a file and return its path; None, and no file, if `data` is empty."""
        if not data:
            return None
        self._files.write_new(f"{self._topic}/{path}", data, durable=self._durable)
        self.paths.append(f"{self._topic}/{path}")
        return path

    def _bring(self, source: Source, end: int, target: str) -> None:
        """Link a sealed `.log`, copy any other: bytes [source.start, end)."""
        is_whole = not source.is_newest and source.start == 0 and end == source.size
        self.paths.append(target)
        if is_whole and self._is_linked(source, target):
            return
        with self._files.create(target, durable=self._durable) as file:
            for start in range(source.start, end, COPY_BYTES):
                file.write(source.files.view(source.name, min(COPY_BYTES, end - start), start))

    def _is_linked(self, source: Source, target: str) -> bool:
        if not self._link or not isinstance(self._files, LocalFiles):
            return False
        return self._files.link_from(source.path, target)
