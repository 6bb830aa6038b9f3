"""A segment's files, each opened when it is first read.

The small segments of an object store are fetched side by side before a reader comes to them:

    slices      a │ b c │ d e f g │ LARGE │ h …
    fetched     1 │  2  │    4    │       │ …      up to TOGETHER; a large one as it is read

An index file that is missing, cut or damaged is not used. A warning names it, and the segment is
walked from its beginning instead, so no record is lost.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Final, TypeVar

from sparklog.errors import CorruptIndexError, CorruptRecordError, MissingFileError, SparklogWarning
from sparklog.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.log.offset_index import OffsetIndex
from sparklog.log.time_index import TimeIndex
from sparklog.log.windows import SegmentLog
from sparklog.metadata.state.image import Slice
from sparklog.model import SegmentEntry
from sparklog.record.batches import Buffer
from sparklog.storage.files import Files
from sparklog.storage.objects.read_ahead import Range, RangesAhead

Answer = TypeVar("Answer")
Data = TypeVar("Data", bound=Buffer)

SMALL_BYTES: Final = 1024 * 1024
"""A segment of up to so many bytes is fetched as a whole."""
TOGETHER: Final = 16
"""How many small segments of an object store are fetched at once at most."""


def log_path(directory: str, entry: SegmentEntry) -> str:
    """Return the path in the log dir of the file that holds a segment's batches.

    `directory` is the topic's. A shared segment lies beside the topics.
    """
    if entry.is_shared:
        return entry.log_path
    return f"{directory}/{entry.log_path}"


def sliced(read: Callable[[int, int], Data], entry: SegmentEntry) -> Callable[[int, int], Data]:
    """Return a reader of a segment: read(position, length), made of a reader of its file.

    Positions count from the segment's first byte. The reader returns fewer bytes if the segment
    ends first.
    """
    first, size = entry.log_position, entry.log_bytes

    def read_slice(position: int, length: int) -> Data:
        return read(first + position, max(min(length, size - position), 0))

    return read_slice


def opened(files: Files, directory: str, entry: SegmentEntry) -> SegmentLog:
    """Return a segment whose bytes are views of its files; opens no file yet.

    `directory` is the topic's. An index raises CorruptIndexError if its file is missing, or does
    not have the size that the metadata says.
    """
    path = log_path(directory, entry)
    return SegmentLog(
        entry=entry,
        read=sliced(lambda position, length: files.view(path, length, position), entry),
        offset_index=cache(partial(_offset_index, files, directory, entry)),
        time_index=cache(partial(_time_index, files, directory, entry)),
    )


def opened_ahead(
    files: Files, directory: str, slices: Iterable[Slice]
) -> Iterator[tuple[Slice, SegmentLog]]:
    """Yield slices with their segments, as `opened`, to be read in this order.

    Of an object store no more segments are fetched ahead than were read before: the reader may
    stop at any time.
    """
    if files.is_local:
        for one in slices:
            yield one, opened(files, directory, one.segment)
        return
    for group in _groups(slices):
        whole = [_whole(directory, one.segment) for one in group if _is_small(one.segment)]
        ahead = RangesAhead(files, whole)
        for one in group:
            entry = one.segment
            read = sliced(ahead.keep(log_path(directory, entry)), entry)
            yield one, replace(opened(files, directory, entry), read=read)


def _groups(slices: Iterable[Slice]) -> Iterator[list[Slice]]:
    """Yield the slices in their order, in groups of 1, 2, 4 and so on; a large one ends a group."""
    group: list[Slice] = []
    count = 1
    for one in slices:
        group.append(one)
        if len(group) == count or not _is_small(one.segment):
            yield group
            group, count = [], min(2 * count, TOGETHER)
    if group:
        yield group


def _is_small(entry: SegmentEntry) -> bool:
    return entry.log_bytes <= SMALL_BYTES


def _whole(directory: str, entry: SegmentEntry) -> Range:
    return Range(log_path(directory, entry), entry.log_position, entry.log_bytes)


def scanned(
    files: Files, directory: str, segment: SegmentLog, position: int, end_offset: int
) -> SegmentLog:
    """Return a segment to be read from front to back, from `position` up to an offset of the log.

    While one part of it is worked on, the next parts are fetched from an object store, up to about
    the position of `end_offset`. That is estimated: as if all offsets took the same bytes. A small
    segment is read as it was opened: it is one part.
    """
    entry = segment.entry
    if entry.log_bytes <= SMALL_BYTES:
        return segment
    wanted = min(end_offset, entry.next_offset) - entry.base_offset
    share = wanted / max(1, entry.next_offset - entry.base_offset)
    end = max(position, min(entry.log_bytes, int(share * entry.log_bytes)))
    ahead = files.read_ahead(log_path(directory, entry), entry.log_position + end)
    return replace(segment, read=sliced(ahead, entry))


def scanned_whole(files: Files, directory: str, entry: SegmentEntry) -> SegmentLog:
    """Return a segment to be read from its first byte to its last, as `scanned`."""
    segment = opened(files, directory, entry)
    return scanned(files, directory, segment, 0, entry.next_offset)


@contextmanager
def damage_in(directory: str, entry: SegmentEntry) -> Iterator[None]:
    """Let a CorruptRecordError of the block name the segment's file; `directory` is the topic's."""
    try:
        yield
    except CorruptRecordError as error:
        raise error.in_file(log_path(directory, entry), entry.log_position) from None


def ask(segment: SegmentLog, directory: str, question: Callable[[SegmentLog], Answer]) -> Answer:
    """Return `question(segment)`; if an index is wrong, ask again without that index.

    `directory` is the topic's. A SparklogWarning names the wrong index. Raises CorruptRecordError,
    which names file, position and offset, and MissingFileError.
    """
    while True:
        try:
            return question(segment)
        except CorruptIndexError as error:
            segment = _without(segment, error)
        except CorruptRecordError as error:
            entry = segment.entry
            raise error.in_file(log_path(directory, entry), entry.log_position) from None


def _without(segment: SegmentLog, error: CorruptIndexError) -> SegmentLog:
    is_offset_index = vars(error)["suffix"] == INDEX_SUFFIX
    entry = segment.entry
    path = entry.index_path if is_offset_index else entry.time_index_path
    warnings.warn(
        f"{path}: {error}; the segment is scanned instead (rebuild its indexes)",
        SparklogWarning,
        stacklevel=3,
    )
    if is_offset_index:
        return replace(segment, offset_index=lambda: None)
    return replace(segment, time_index=lambda: None)


def _offset_index(files: Files, directory: str, entry: SegmentEntry) -> OffsetIndex | None:
    if entry.index_path is None:
        return None
    data = _bytes(files, f"{directory}/{entry.index_path}", entry.index_bytes, INDEX_SUFFIX)
    return OffsetIndex(data, entry.file_base_offset)


def _time_index(files: Files, directory: str, entry: SegmentEntry) -> TimeIndex | None:
    if entry.time_index_path is None:
        return None
    path = f"{directory}/{entry.time_index_path}"
    data = _bytes(files, path, entry.time_index_bytes, TIME_INDEX_SUFFIX)
    return TimeIndex(data, entry.file_base_offset)


def _bytes(files: Files, path: str, size: int | None, suffix: str) -> memoryview:
    try:
        data = files.view(path)
    except MissingFileError:
        raise CorruptIndexError("the file is missing", suffix=suffix) from None
    if size is not None and len(data) != size:
        problem = f"it has {len(data)} bytes, the metadata says {size}"
        raise CorruptIndexError(problem, suffix=suffix)
    return data
