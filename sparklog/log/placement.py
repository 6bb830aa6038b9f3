"""Whether batches are where they must be: what no checksum tells.

A batch's checksum covers neither its base offset nor its length, so its offsets are held against
what is known otherwise: a batch begins where the one before it ends, and all lie between the
segment's first and last offset. Only where compaction has left gaps may one begin later; a damaged
base offset that stays within its gap is not told from a sound one (nor does Kafka).
"""

import numpy as np
from numpy.typing import NDArray

from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable


def is_dense(entry: SegmentEntry) -> bool:
    """Whether every offset has its record, so that batches follow each other without a gap.

    False also where the manifest does not know how many records there are.
    """
    return entry.record_count == entry.offset_span


def file_next_offset(entry: SegmentEntry) -> int:
    """The offset behind the segment's last, in the file's own numbering."""
    return entry.file_base_offset + entry.offset_span


def dues(batches: BatchTable, first: int) -> NDArray[np.int64]:
    """Where each batch would begin if there were no gaps, the first at `first`; int64."""
    return np.concatenate(([first], batches.last_offset + 1))[: len(batches)]


def count_in_place(batches: BatchTable, entry: SegmentEntry, due: int | None) -> int:
    """How many leading batches hold offsets that they may hold, in the file's numbering.

    `due` is the offset behind the batch before them, None when that is not known: the first is then
    right if it lies within the segment. Of a wrapper only the last offset is known. Of two batches
    that overlap, the first is in place only if it follows what is before it without a gap.
    """
    lowest = dues(batches, entry.file_base_offset if due is None else due)
    follows = batches.base_offset == lowest
    rises = (batches.base_offset >= lowest) & (batches.last_offset >= batches.base_offset)
    holds = rises & (batches.last_offset < file_next_offset(entry))
    if is_dense(entry):
        exempt = batches.is_wrapper
        exempt[:1] |= due is None
        holds &= follows | exempt
    if holds.all():
        return len(batches)
    wrong = int(np.argmin(holds))
    overlaps = wrong > 0 and not rises[wrong] and not follows[wrong - 1]
    return wrong - overlaps
