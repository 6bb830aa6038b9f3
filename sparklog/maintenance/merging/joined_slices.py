"""Joins slices of shared segments: each group commit leaves a slice of a few KB in a partition.

    slice │ slice │ …        from several files; their batches count offsets within the file
    batch │ batch │ …        joined: scanned once, every checksum verified, with the log's offsets

Copying a single slice takes as long as copying a megabyte. Slices whose bytes do not agree with
their rows are not joined. The caller copies them one by one, so that the error names batch and
file.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.maintenance.merging.spans import Spans
from sparklog.model import SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import BatchTable, put_offsets
from sparklog.record.checksum import crc32c, verify_checksums
from sparklog.record.scan import scan_batches

JOINED_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of slices that are joined at once; a larger slice is copied alone.

With more, the system would provide new memory for each join, which takes longer than it saves.
"""


class Joined(NamedTuple):
    """The batches of slices, one after another; `data` has their bytes, with the log's offsets."""

    batches: BatchTable
    data: NDArray[np.uint8]
    min_timestamp: int


def runs(group: Sequence[SegmentEntry]) -> Iterator[list[SegmentEntry]]:
    """Yield a group in order, as runs of slices that may be joined; other segments are alone."""
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


def joined(spans: Spans, run: Sequence[SegmentEntry]) -> Joined | None:
    """Return the batches of slices that follow each other in the log; `spans` read them.

    Returns None if the bytes of a slice do not agree with its row, and for message sets (magic 0
    and 1). Raises MissingFileError.
    """
    if any(one.next_offset != other.base_offset for one, other in pairwise(run)):
        return None
    return joined_bytes(run, [spans.bytes_of(one) for one in run])


def joined_bytes(
    slices: Sequence[SegmentEntry], read: Sequence[bytes | memoryview]
) -> Joined | None:
    """Return the batches of slices, also of several partitions; `read` has the bytes of each.

    Gaps between slices are allowed. Returns None in the same cases as `joined`.
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
    moved = batches.raised(shifts)
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
