"""One segment's files being written: its `.log`, then its indexes, then its row."""

import os

from sparklog.log import key_index
from sparklog.log.key_index import KeyHashes
from sparklog.log.names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_dir,
    segment_name,
    uuid7,
)
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.metadata.catalog import topic_directory
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.batches import BatchTable, Buffer
from sparklog.storage.files import Files


class SegmentFile:
    """A new segment of a topic: batches are appended, `close` returns its row for the metadata.

    With `flush` the bytes go to the disk while more bytes are written, so the sync takes less time.
    """

    def __init__(
        self,
        files: Files,
        topic: TopicDescription,
        builder: SegmentBuilder,
        now_ms: int,
        *,
        flush: bool = True,
    ) -> None:
        self.builder = builder
        self.paths: list[str] = []
        """The files that are complete, relative to the log dir: sync them, then commit."""
        self._files = files
        self._directory = topic_directory(topic)
        self._inside = partition_dir(topic.name, builder.partition)
        self._uuid = uuid7(now_ms, os.urandom(10))
        self._flush = flush
        self._log = files.create(f"{self._directory}/{self._path(LOG_SUFFIX)}", durable=flush)

    @property
    def bytes_written(self) -> int:
        """How many bytes of the `.log` are written so far."""
        return self._log.bytes_written

    def append(
        self, batches: BatchTable, data: Buffer, *, min_timestamp: int | None = None
    ) -> None:
        """Append whole batches. `data` has their bytes and no others, with offsets of the file.

        Raises CorruptRecordError as `SegmentBuilder.append`, and the errors of storage.
        """
        self.write(data)
        self.builder.append(batches, min_timestamp=min_timestamp, data=data)

    def write(self, data: Buffer) -> None:
        """Write bytes of batches that the builder knows already."""
        self._log.write(data)
        if self._flush:
            self._log.write_behind()

    def close(
        self, now_ms: int, *, is_indexed: bool = True, next_offset: int | None = None
    ) -> SegmentEntry:
        """Complete the files and return the segment's row, with the offsets of the file.

        With `is_indexed` False no index files are written. `next_offset` is the end of the segment,
        if it is above the end of the last batch, as after compaction.
        """
        self._log.close()
        self.paths.append(self._log.path)
        summary, indexes = self.builder.finish()
        entry = summary.entry(
            summary.file_base_offset,
            now_ms,
            self._path(LOG_SUFFIX),
            index_path=self._written(INDEX_SUFFIX, indexes.offset_index) if is_indexed else None,
            time_index_path=(
                self._written(TIME_INDEX_SUFFIX, indexes.time_index) if is_indexed else None
            ),
            indexes=indexes if is_indexed else None,
        )
        return entry if next_offset is None else entry._replace(next_offset=next_offset)

    def with_key_index(self, row: SegmentEntry, keys: KeyHashes) -> SegmentEntry:
        """Write the segment's key index; return its row from `close` with the new file."""
        data = key_index.encode(keys)
        path = self._written(KEY_INDEX_SUFFIX, data)
        return row._replace(key_index_path=path, key_index_bytes=len(data))

    def _written(self, suffix: str, data: bytes) -> str | None:
        if not data:
            return None
        path = self._path(suffix)
        self._files.write_new(f"{self._directory}/{path}", data, durable=self._flush)
        self.paths.append(f"{self._directory}/{path}")
        return path

    def abort(self) -> None:
        """Remove a file that is still being written; vacuum deletes a finished one."""
        self._log.abort()

    def _path(self, suffix: str) -> str:
        """Return the path of one of the segment's files, relative to the topic's directory."""
        name = segment_name(self.builder.file_base_offset, self._uuid, suffix)
        return f"{self._inside}/{name}"
