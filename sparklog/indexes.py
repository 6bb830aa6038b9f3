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
from typing import Final

from sparklog.clock import Clock
from sparklog.config import TopicConfig
from sparklog.errors import CorruptIndexError, MissingFileError
from sparklog.log.indexer import Indexer, Indexes
from sparklog.log.key_index import KeyHashes, encode, have_same
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
from sparklog.metadata.edit import Done, TopicEdit
from sparklog.metadata.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files

SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, KEY_INDEX_SUFFIX)
"""The suffixes of the indexes that are rebuilt."""


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
        found = [
            rebuilt(catalog.files, catalog.clock, description, entry, interval_bytes)
            for entry in catalog.topic_image(description).segments(number)
        ]
        fresh = [entry for entry in found if entry is not None]
        rows += commit_indexes(catalog, description, fresh)
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
    """Write a segment's indexes anew, durably; return its row with them, not yet committed.

    Unless `force` is given, None if its indexes are right: then nothing is written. Raises as
    `indexes_of`.
    """
    directory = topic_directory(topic)
    indexes = indexes_of(files, directory, entry, interval_bytes)
    keys = None if entry.key_index_path is None else key_hashes_of_log(files, directory, entry)
    is_right = are_right(files, directory, entry, indexes) and (
        keys is None or key_index_problem(files, directory, entry, keys) is None
    )
    if is_right and not force:
        return None
    key_index = b"" if keys is None else encode(keys)
    uuid = uuid7(clock.now_ms(), os.urandom(10))
    written = {}
    for suffix, data in zip(SUFFIXES, (*indexes, key_index), strict=True):
        name = segment_name(entry.file_base_offset, uuid, suffix)
        path = f"{partition_dir(topic.name, entry.partition)}/{name}"
        if data:
            files.write_new(f"{directory}/{path}", data, durable=True)
            written[suffix] = path
    files.sync(f"{directory}/{path}" for path in written.values())
    return entry._replace(
        index_path=written.get(INDEX_SUFFIX),
        index_bytes=len(indexes.offset_index),
        time_index_path=written.get(TIME_INDEX_SUFFIX),
        time_index_bytes=len(indexes.time_index),
        key_index_path=written.get(KEY_INDEX_SUFFIX),
        key_index_bytes=len(key_index) or None,
    )


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
    catalog: Catalog, topic: TopicDescription, entries: Sequence[SegmentEntry]
) -> list[SegmentEntry]:
    """Swap the index paths of segments in one commit; return their rows as they are now.

    Segments that were removed meanwhile are left out.
    """
    swapped: list[SegmentEntry] = []

    def plan(image: TopicImage) -> TopicEdit | Done:
        live = image.find(entry.key for entry in entries)
        swapped[:] = [
            _with_indexes(live[entry.key], entry) for entry in entries if entry.key in live
        ]
        return TopicEdit(replace=swapped.copy()) if swapped else Done()

    if entries:
        catalog.commit(topic, plan, operation="BUILD INDEX")
    return swapped


def _with_indexes(entry: SegmentEntry, source: SegmentEntry) -> SegmentEntry:
    keys = entry if source.key_index_path is None else source
    return entry._replace(
        key_index_path=keys.key_index_path,
        key_index_bytes=keys.key_index_bytes,
        index_path=source.index_path,
        index_bytes=source.index_bytes,
        time_index_path=source.time_index_path,
        time_index_bytes=source.time_index_bytes,
    )


def are_right(files: Files, directory: str, entry: SegmentEntry, indexes: Indexes) -> bool:
    """Whether a segment's row and its index files agree with these indexes."""
    return _is_right(
        files, directory, entry.index_path, entry.index_bytes, indexes.offset_index
    ) and _is_right(
        files, directory, entry.time_index_path, entry.time_index_bytes, indexes.time_index
    )


def key_index_problem(
    files: Files, directory: str, entry: SegmentEntry, keys: KeyHashes
) -> str | None:
    """Return what is wrong with a segment's key index, which must have `keys`; None if nothing."""
    path = f"{directory}/{entry.key_index_path}"
    try:
        found = key_hashes(files, directory, entry)
    except CorruptIndexError as error:
        return str(error)
    except MissingFileError:
        return f"{path}: the file is missing"
    return None if have_same(found, keys) else f"{path}: its keys are not those of the log"


def _is_right(
    files: Files, directory: str, path: str | None, size: int | None, data: bytes
) -> bool:
    """Whether the row has the size of `data`, and the index file holds it; no path: no data."""
    if size != len(data):
        return False
    if path is None:
        return not data
    try:
        return files.read(f"{directory}/{path}") == data
    except MissingFileError:
        return False
