"""Markers of transactions without a record left: compaction drops them.

    batches of one producer, as they stay   data  COMMIT  COMMIT  ABORT  COMMIT  data  COMMIT
                                                            ▲       ▲       ▲
                                                          spent   spent   spent

A marker is spent if the batch of its producer before it, among the segments that are rewritten
together, is a marker, too: of its transaction no record is left. The first marker of a producer
stays, because records of its transaction may lie in an earlier segment. Consumers need an abort
marker there: they leave out the records of its producer up to it. The last batch of a round stays.

Kafka's cleaner (CleanedTransactionMetadata) reads all segments, so it drops also the first marker,
delete.retention.ms later. Nobody needs a spent marker to read what is left: the row of the new
segment has no span of an aborted transaction, so a fetch names none that would end there.
"""

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.markers import NO_MARKER, marker_kinds
from sparklog.record.retain import Retained, without

Mask = NDArray[np.bool_]


class SpentMarkers:
    """The markers of one group of segments, window after window, in offset order."""

    def __init__(self, end_offset: int) -> None:
        """The batch before `end_offset` stays."""
        self._end_offset = end_offset
        self._ended: dict[int, bool] = {}
        """By producer id, whether its last batch so far is a marker."""

    def without_spent(self, retained: Retained) -> Retained:
        """Return the batches of a window without the markers that are spent."""
        batches = retained.batches
        follows_marker = self._follows_marker(batches)
        spent: Mask = follows_marker & (marker_kinds(retained.data, batches) != NO_MARKER)
        spent &= batches.last_offset + 1 != self._end_offset
        return without(retained, spent) if spent.any() else retained

    def _follows_marker(self, batches: BatchTable) -> Mask:
        """Return for each batch whether the one of its producer before it is a marker."""
        follows = np.zeros(len(batches), np.bool_)
        rows = np.flatnonzero(batches.producer_id >= 0)
        order = rows[np.argsort(batches.producer_id[rows], kind="stable")]
        producers, ends = batches.producer_id[order], batches.is_control[order]
        is_first = np.diff(producers, prepend=layout.NO_PRODUCER_ID) != 0
        follows[order[1:]] = ends[:-1]
        first = np.flatnonzero(is_first)
        names = producers[first].tolist()
        follows[order[first]] = [self._ended.get(name, False) for name in names]
        last = np.append(first[1:], len(order)) - 1 if len(first) else first
        self._ended.update(zip(names, ends[last].tolist(), strict=True))
        return follows
