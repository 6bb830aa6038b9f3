"""Joins slices of shared segments: a group commit leaves one of a few KB in each partition.

    slice │ slice │ …        from several files, each with the offsets of its file's numbering
    batch │ batch │ …        one scan, every checksum verified, the log's own offsets

To copy a slice alone costs as much as to copy a megabyte. Slices that do not agree with their rows
are not joined here: the caller copies them one by one, and its error names the batch and the file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.log_reader.opened import log_path
from sparklog.model import SegmentEntry
from sparklog.pace import rested
from sparklog.record import layout
from sparklog.record.batches import BatchTable, put_offsets
from sparklog.record.checksum import crc32c
from sparklog.record.scan import scan_batches, verify_checksums
from sparklog.storage.files import Files

JOINED_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of slices that are joined at once; a larger slice is copied alone.

More memory would come fresh from the system each time, and cost more than it spares.
"""


class Joined(NamedTuple):
    """The batches of slices, one after another; `data` has their bytes, with the log's offsets."""

    batches: BatchTable
    data: NDArray[np.uint8]
    min_timestamp: int


def runs(group: Sequence[SegmentEntry]) -> Iterator[list[SegmentEntry]]:
    """Yield the segments of a group in order: runs of slices that may be joined, others singly."""
    run: list[SegmentEntry] = []
    size = 0
    for entry in group:
        size += entry.log_bytes
        if run and not (_may_join(run[0]) and _may_join(entry) and size <= JOINED_BYTES_MAX):
            yield run
            run, size = [], entry.log_bytes
        run.append(entry)
    if run:
        yield run


def _may_join(entry: SegmentEntry) -> bool:
    return entry.is_shared and entry.is_dense and entry.min_timestamp is not None


def joined(files: Files, directory: str, run: Sequence[SegmentEntry]) -> Joined | None:
    """Return the batches of slices that follow each other in the log.

    Returns None if the bytes of a slice do not agree with its row, and for message sets (magic 0
    and 1). `directory` is the topic's. Raises MissingFileError.
    """
    if any(one.next_offset != other.base_offset for one, other in pairwise(run)):
        return None
    read = (
        files.read(log_path(directory, one), one.log_position, one.log_bytes) for one in rested(run)
    )
    return joined_bytes(run, list(read))


def joined_bytes(
    slices: Sequence[SegmentEntry], read: Sequence[bytes | memoryview]
) -> Joined | None:
    """Return the batches of slices, of any partitions; `read` has the bytes of each.

    A gap between two slices is no fault here. Returns None as `joined`.
    """
    ends = np.cumsum([entry.log_bytes for entry in slices])
    for entry, found in zip(slices, read, strict=True):
        if len(found) != entry.log_bytes or entry.log_crc32c not in (None, crc32c(found)):
            return None
    data = np.frombuffer(bytearray().join(read), np.uint8)
    batches = scan_batches(data).batches
    last = np.searchsorted(batches.end_position, ends)
    if not (_ends_at(batches, last, ends) and (batches.magic == layout.MAGIC_V2).all()):
        return None
    try:
        verify_checksums(data, batches)
    except CorruptRecordError:
        return None
    counts = np.diff(last, prepend=-1)
    shifts = np.repeat([entry.shift for entry in slices], counts)
    moved = replace(
        batches,
        base_offset=batches.base_offset + shifts,
        last_offset=batches.last_offset + shifts,
    )
    due = moved.due_offsets(0)
    due[last - counts + 1] = [entry.base_offset for entry in slices]
    is_due = moved.base_offset == due
    if not is_due.all() or moved.next_offset[last].tolist() != [one.next_offset for one in slices]:
        return None
    least = min(entry.min_timestamp for entry in slices if entry.min_timestamp is not None)
    put_offsets(data, moved.position, moved.base_offset)
    return Joined(moved, data, least)


def _ends_at(batches: BatchTable, last: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Whether a batch ends at the end of each slice, and no batch follows the last."""
    if last[-1] != len(batches) - 1:
        return False
    return bool((batches.end_position[last] == ends).all())
