"""ABORT markers for open transactions that have no producer to end them.

A transaction that was open when its log was imported is open here: readers of committed records end
at it. A broker that mounts the log knows no open transaction (it was stopped cleanly, and the
snapshot of producers that it gets has none), and would show its records as committed. So a marker
for each follows behind the log's end.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sparklog.log.windows import windows
from sparklog.log_reader.opened import opened
from sparklog.metadata.image import PartitionLog
from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record.markers import ABORT, encode_marker
from sparklog.storage.files import Files


class AbortMarker(NamedTuple):
    """The end that an open transaction gets: its producer's, and the transaction's first offset."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def abort_markers(files: Files, directory: str, log: PartitionLog) -> list[AbortMarker]:
    """Return a marker for each open transaction of a log, by producer.

    `directory` is the topic's. A transaction of which deletion or compaction has left no batch
    needs no marker. Reads headers until it has seen a batch of each. Raises the errors of reading.
    """
    missing = dict(log.transactions)
    markers: list[AbortMarker] = []
    if missing:
        entries = log.entries(max(min(missing.values()), log.log_start_offset))
        for producer, epoch, offset in _batches(files, directory, entries, list(missing)):
            if offset >= missing.get(producer, offset + 1):
                markers.append(AbortMarker(producer, epoch, missing.pop(producer)))
                if not missing:
                    break
    return sorted(markers)


def _batches(
    files: Files, directory: str, entries: Iterable[SegmentEntry], producers: list[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield producer id, producer epoch and offset of each transactional batch of producers."""
    for entry in entries:
        if entry.producer_ids is not None and set(producers).isdisjoint(entry.producer_ids):
            continue
        for window in windows(opened(files, directory, entry)):
            batches = window.batches
            chosen = batches.take(
                np.isin(batches.producer_id, producers) & batches.is_transactional
            )
            offsets = (chosen.base_offset + entry.shift).tolist()
            columns = (chosen.producer_id.tolist(), chosen.producer_epoch.tolist(), offsets)
            yield from zip(*columns, strict=True)


def encode_abort(marker: AbortMarker, offset: int, leader_epoch: int) -> bytes:
    """Return the control batch that aborts a transaction, at an offset of the log."""
    producer = (marker.producer_id, marker.producer_epoch)
    return encode_marker(ABORT, *producer, NO_TIMESTAMP, offset, leader_epoch)
