"""Rebuild the indexes of segments from their `.log` alone, byte for byte as a broker does.

A segment that compaction has written also has a key index, which no broker knows.

    read      the log, and verify every checksum
    write     new index files, durably
    commit    the new paths, in one entry

A file never changes, so a rebuilt index has a new name, and vacuum deletes the old file. Meanwhile
readers go on with the old index, or without one.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from sparklog.clock import Clock
from sparklog.config import TopicConfig
from sparklog.errors import CorruptIndexError, MissingFileError
from sparklog.log.indexer import Indexer, Indexes
from sparklog.log.key_index import encode
from sparklog.log.names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_dir,
    segment_name,
    uuid7,
)
from sparklog.log.windows import windows
from sparklog.log_reader.key_hashes import key_hashes, key_hashes_of_log
from sparklog.log_reader.opened import damage_in, scanned_whole
from sparklog.metadata.catalog import Catalog, check_partition, topic_directory
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files

COLUMNS: Final = {
    INDEX_SUFFIX: ("index_path", "index_bytes"),
    TIME_INDEX_SUFFIX: ("time_index_path", "time_index_bytes"),
    KEY_INDEX_SUFFIX: ("key_index_path", "key_index_bytes"),
}
"""The indexes that are rebuilt, by suffix: the columns of a row that name file and size."""
Rebuilt = tuple[SegmentEntry, SegmentEntry]
"""A segment's row as it was read, and the row with the indexes that were built."""


def rebuild_indexes(
    catalog: Catalog, topic: str, partition: int | None = None
) -> list[SegmentEntry]:
    """Rebuild all indexes of a topic, or of one partition, that are missing or wrong.

    Returns the new rows of these segments. Each partition is one commit. Raises UnknownTopicError,
    MissingFileError, and CorruptRecordError, which names file, position and offset, if a log is
    damaged; the partitions before it are committed then.
    """
    description = catalog.topic(topic)
    if partition is not None:
        check_partition(description, partition)
    interval_bytes = TopicConfig.parse(description.configs).index_interval_bytes
    rows: list[SegmentEntry] = []
    for number in range(description.num_partitions) if partition is None else [partition]:
        made: list[Rebuilt] = []
        for entry in catalog.topic_image(description).segments(number):
            new = rebuilt(catalog.files, catalog.clock, description, entry, interval_bytes)
            made += [] if new is None else [(entry, new)]
        rows += commit_indexes(catalog, description, made)
    return rows


def rebuilt(
    files: Files,
    clock: Clock,
    topic: TopicDescription,
    entry: SegmentEntry,
    interval_bytes: int,
    *,
    force: bool = False,
) -> SegmentEntry | None:
    """Write a segment's wrong indexes anew, durably; return its row with them, not yet committed.

    A right index keeps its file; None if all are right. `force`: all are written. Raises as
    `indexes_of`, and `key_hashes_of_log` if the key index is written.
    """
    directory = topic_directory(topic)
    indexes = indexes_of(files, directory, entry, interval_bytes)
    needed = _by_suffix(indexes) if force else wrong_indexes(files, directory, entry, indexes)
    if entry.key_index_path is not None and (force or key_index_problem(files, directory, entry)):
        needed[KEY_INDEX_SUFFIX] = encode(key_hashes_of_log(files, directory, entry))
    if not needed:
        return None
    uuid = uuid7(clock.now_ms(), os.urandom(10))
    columns: dict[str, Any] = {}
    paths: list[str] = []
    for suffix, data in needed.items():
        name = segment_name(entry.file_base_offset, uuid, suffix)
        path = f"{partition_dir(topic.name, entry.partition)}/{name}" if data else None
        if path is not None:
            paths.append(f"{directory}/{path}")
            files.write_new(paths[-1], data, durable=True)
        columns |= zip(COLUMNS[suffix], (path, len(data)), strict=True)
    files.sync(paths)
    return entry._replace(**columns)


def indexes_of(files: Files, directory: str, entry: SegmentEntry, interval_bytes: int) -> Indexes:
    """Return the right indexes of a segment (LogSegment.recover); `directory` is the topic's.

    `interval_bytes` is index.interval.bytes. Every checksum is verified. Memory holds one window of
    the log and the indexes. Raises CorruptRecordError, which names file, position and offset, and
    MissingFileError.
    """
    indexer = Indexer(entry.file_base_offset, interval_bytes)
    with damage_in(directory, entry):
        for window in windows(scanned_whole(files, directory, entry)):
            window.verify(window.batches)
            indexer.append(window.batches)
    return indexer.finish()


def commit_indexes(
    catalog: Catalog, topic: TopicDescription, made: Sequence[Rebuilt]
) -> list[SegmentEntry]:
    """Swap the paths of indexes in one commit; return the rows of their segments as they are now.

    Segments that were removed meanwhile are left out. An index that was not built keeps the path
    that it has by now.
    """
    swapped: list[SegmentEntry] = []

    def plan(image: TopicImage) -> TopicEdit | Done:
        live = image.find(entry.key for entry, _ in made)
        swapped[:] = [
            _with_built(live[entry.key], entry, new) for entry, new in made if entry.key in live
        ]
        return TopicEdit(replace=swapped.copy()) if swapped else Done()

    if made:
        catalog.commit(topic, plan, operation="BUILD INDEX")
    return swapped


def _with_built(live: SegmentEntry, read: SegmentEntry, new: SegmentEntry) -> SegmentEntry:
    """Return the live row with those indexes of `new` that `read` did not have."""
    before, after = read._asdict(), new._asdict()
    built = [pair for pair in COLUMNS.values() if any(before[one] != after[one] for one in pair)]
    return live._replace(**{one: after[one] for pair in built for one in pair})


def wrong_indexes(
    files: Files, directory: str, entry: SegmentEntry, indexes: Indexes
) -> dict[str, bytes]:
    """Return those of the right indexes, by suffix, that a segment's row and files do not have."""
    return {
        suffix: data
        for suffix, data in _by_suffix(indexes).items()
        if not _is_right(files, directory, entry, suffix, data)
    }


def _by_suffix(indexes: Indexes) -> dict[str, bytes]:
    return {INDEX_SUFFIX: indexes.offset_index, TIME_INDEX_SUFFIX: indexes.time_index}


def key_index_problem(files: Files, directory: str, entry: SegmentEntry) -> str | None:
    """Return what is wrong with the size, the form or a checksum of a segment's key index, or None.

    Its keys are not compared with those of the log.
    """
    path, size = f"{directory}/{entry.key_index_path}", entry.key_index_bytes
    stat = files.stat(path)
    if stat is None or stat.bytes != size:
        found = "the file is missing" if stat is None else f"it has {stat.bytes} bytes"
        return f"{path}: {found}, its row says {size} bytes"
    try:
        key_hashes(files, directory, entry)
    except (CorruptIndexError, MissingFileError) as error:  # it may go after the first look
        return str(error)
    return None


def _is_right(files: Files, directory: str, entry: SegmentEntry, suffix: str, data: bytes) -> bool:
    """Whether the row has the size of `data`, and the index file holds it; no path: no data."""
    path, size = (getattr(entry, column) for column in COLUMNS[suffix])
    if size != len(data):
        return False
    if path is None:
        return not data
    try:
        return files.read(f"{directory}/{path}") == data
    except MissingFileError:
        return False
