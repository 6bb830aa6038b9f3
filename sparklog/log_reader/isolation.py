"""isolation.level: whether a reader sees records of transactions that were aborted.

A segment's row knows the aborted transactions that reach into it, by producer and offsets. A
batch is theirs if it is transactional, of that producer, and lies in their span. Control batches
are never records. Kafka's default is read_uncommitted.
"""

from typing import Final

import numpy as np

from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"


def committed(batches: BatchTable, entry: SegmentEntry) -> BatchTable:
    """The batches of a segment, in the file's numbering, without those of aborted transactions."""
    if not entry.aborted or not len(batches):
        return batches
    delta = batches.base_offset - entry.file_base_offset
    aborted = np.zeros(len(batches), np.bool_)
    for span in entry.aborted:
        inside = (delta >= span.first_delta) & (delta <= span.last_delta)
        aborted |= inside & (batches.producer_id == span.producer_id)
    return batches.take(~(aborted & batches.is_transactional))
