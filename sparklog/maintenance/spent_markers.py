"""Commit markers of transactions without a record left: compaction drops them.

    batches of one producer, as they stay   data  COMMIT  COMMIT  ABORT  COMMIT  data  COMMIT
                                                            ▲               ▲
                                                          spent           spent

A commit marker is spent if the batch of its producer before it, among the segments that are
rewritten together, is a marker, too: of its transaction no record is left. The first marker of a
producer stays, because records of its transaction may lie in an earlier segment. An abort marker
stays: consumers leave out the records of its producer up to it. So does the last batch of a round.

Kafka's cleaner (CleanedTransactionMetadata) reads all segments, so it drops also those two kinds,
delete.retention.ms later. Nobody needs a commit marker to read what is left.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.markers import COMMIT_RECORD
from sparklog.record.retain import Retained, without

Mask = NDArray[np.bool_]

_MARKER_BYTES: Final = layout.RECORDS + 17
"""The size of every marker of Kafka's, and of ours."""


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
        spent: Mask = batches.is_control & follows_marker & _are_commits(retained)
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


def _are_commits(retained: Retained) -> Mask:
    """Return for each batch whether it has the bytes of a commit marker."""
    batches = retained.batches
    found: Mask = batches.size == _MARKER_BYTES
    rows = np.flatnonzero(found)
    heads = batches.position[rows, np.newaxis] + layout.RECORDS + np.arange(len(COMMIT_RECORD))
    wanted = np.frombuffer(COMMIT_RECORD, np.uint8)
    found[rows] = (retained.data[heads] == wanted).all(axis=1)
    return found
