"""ABORT markers that an export writes for open transactions.

Here, a read_committed reader stops at an open transaction. A broker that mounts the exported log
would show its records as committed: its producer snapshot names no open transaction, and a broker
that was stopped cleanly does not search the log for one. So the export appends an ABORT marker for
each open transaction at the end of the log.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sparklog.log.windows import windows
from sparklog.log_reader.opened import opened
from sparklog.metadata.state.image import PartitionLog
from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record.markers import ABORT, encode_marker
from sparklog.storage.files import Files


class AbortMarker(NamedTuple):
    """The ABORT of an open transaction: its producer, and its first offset."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def abort_markers(files: Files, directory: str, log: PartitionLog) -> list[AbortMarker]:
    """Return a marker for each open transaction of a log, sorted by producer id.

    `directory` is the topic's. If deletion or compaction has removed all batches of a transaction,
    it needs no marker. Batch headers are read until each transaction was seen. Raises the errors of
    reading.
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
    """Yield producer id, producer epoch and offset of each transactional batch of `producers`."""
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
