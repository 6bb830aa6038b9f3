"""Which batches of a segment get index entries: the rule of LogSegment.append since Kafka 4.0.

The rule walks the file batch by batch. `since` is the number of bytes from the start of the last
indexed batch (at first: of the file) to the start of this one:

    1. if the batch's maximum timestamp is larger than all before it, the batch becomes the newest:
       (its maximum timestamp, its last offset);
    2. if since > index.interval.bytes: offset entry (its last offset, its position), time entry of
       the newest, since = 0;
    3. since += size of the batch.

At the end of the segment: one more time entry of the newest. A time entry is left out unless its
timestamp is above the last entry's. So the first batch has no offset entry, and both files are a
pure function of the `.log` (LogSegment.recover gives the same bytes).
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.log import offset_index, time_index
from sparklog.log.index_view import rises
from sparklog.model import NO_TIMESTAMP
from sparklog.record.batches import BatchTable

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of index.interval.bytes."""
SEGMENT_INDEX_BYTES: Final = 10 * 1024 * 1024
"""Kafka's default of segment.index.bytes."""


class Indexes(NamedTuple):
    """The bytes of a segment's two index files; b"" for an index without entries."""

    offset_index: bytes
    time_index: bytes


class Added(NamedTuple):
    """The index entries that some batches add: int64 arrays of shape (entries,).

    Offsets are the file's own.
    """

    batches: NDArray[np.int64]
    """Indices of the batches that get an offset entry, ascending."""
    positions: NDArray[np.int64]
    """Where these batches begin in the file."""
    time_batches: NDArray[np.int64]
    """Indices of the batches at which a time entry is added, too; all are in `batches`."""
    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    newest: tuple[int, int]
    """(largest timestamp so far, last offset of the first batch that has it)."""


class Indexer:
    """Collects the index entries of one segment while its batches are appended.

    `base_offset` is the file's own first offset; `interval_bytes` is index.interval.bytes and
    `index_bytes_max` segment.index.bytes.
    """

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int = INDEX_INTERVAL_BYTES,
        index_bytes_max: int = SEGMENT_INDEX_BYTES,
    ) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.newest = (NO_TIMESTAMP, base_offset)
        self.bytes = 0
        self._slots = index_bytes_max // offset_index.ENTRY_BYTES
        # One slot stays free for the entry that finish() adds (TimeIndex.isFull).
        self._time_slots = index_bytes_max // time_index.ENTRY_BYTES - 1
        self._offset_columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._time_columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._count = self._time_count = 0
        self._indexed_position = 0
        self._indexed_timestamp = NO_TIMESTAMP

    @property
    def is_full(self) -> bool:
        """Whether either index has no room for another entry: the segment must roll."""
        return self._count >= self._slots or self._time_count >= self._time_slots

    def append(self, batches: BatchTable) -> None:
        """Take the next batches of the file; their `position` is ignored, only their sizes count.

        The caller checks that offsets grow. Vectorised, with a step in Python for each index entry.
        """
        added = self.preview(batches)
        if len(added.batches):
            offsets = batches.last_offset[added.batches]
            self._offset_columns.append((offsets - self.base_offset, added.positions))
            self._count += len(added.batches)
            self._indexed_position = int(added.positions[-1])
        if len(added.timestamps):
            self._time_columns.append((added.timestamps, added.offsets - self.base_offset))
            self._time_count += len(added.timestamps)
            self._indexed_timestamp = int(added.timestamps[-1])
        self.newest = added.newest
        self.bytes += int(batches.size.sum())

    def room(self, batches: BatchTable) -> int:
        """Return how many leading batches may be appended before an index is full.

        0 if one is full already: as in LogSegment.shouldRoll, the segment rolls before the next
        batch, not after the last one.
        """
        if self.is_full:
            return 0
        free, time_free = self._slots - self._count, self._time_slots - self._time_count
        if len(batches) < min(free, time_free):
            return len(batches)
        added = self.preview(batches)
        limits = [len(batches)]
        if len(added.batches) >= free:
            limits.append(int(added.batches[free - 1]) + 1)
        if len(added.time_batches) >= time_free:
            limits.append(int(added.time_batches[time_free - 1]) + 1)
        return min(limits)

    def preview(self, batches: BatchTable) -> Added:
        """Return the entries that `append` would add; changes nothing."""
        ends = self.bytes + np.cumsum(batches.size)
        positions = ends - batches.size
        chosen = self._choose(positions)
        newest, offsets = self._running_newest(batches)
        # A time entry needs a timestamp above all indexed before it (TimeIndex.maybeAppend).
        times = newest[chosen]
        fresh = rises(times, self._indexed_timestamp)
        return Added(
            batches=chosen,
            positions=positions[chosen],
            time_batches=chosen[fresh],
            timestamps=times[fresh],
            offsets=offsets[chosen][fresh],
            newest=(int(newest[-1]), int(offsets[-1])) if len(batches) else self.newest,
        )

    def finish(self) -> Indexes:
        """Return the two index files of all batches so far; more may be appended after that."""
        times = self._time_columns
        if self.newest[0] > self._indexed_timestamp:
            last = np.array([self.newest], np.int64)
            times = [*times, (last[:, 0], last[:, 1] - self.base_offset)]
        return Indexes(
            offset_index.encode(*_joined(self._offset_columns)),
            time_index.encode(*_joined(times)),
        )

    def _choose(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the batches that get an offset entry (rule 2)."""
        if not len(positions):
            return np.empty(0, np.int64)
        first = np.searchsorted(positions, self._indexed_position + self.interval_bytes, "right")
        # For each batch: the batch that is indexed next, if this one is indexed.
        successor = np.searchsorted(positions, positions + self.interval_bytes, "right").tolist()
        chosen, at = [], int(first)
        while at < len(successor):
            chosen.append(at)
            at = successor[at]
        return np.array(chosen, np.int64)

    def _running_newest(self, batches: BatchTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (timestamps, offsets), int64: for each batch the newest one up to it (rule 1)."""
        timestamps = np.maximum(np.maximum.accumulate(batches.max_timestamp), self.newest[0])
        risen = rises(timestamps, self.newest[0])
        holder = np.maximum.accumulate(np.where(risen, np.arange(len(batches)), -1))
        offsets = np.where(holder >= 0, batches.last_offset[holder], self.newest[1])
        return timestamps, offsets


def _joined(
    columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    empty = np.empty(0, np.int64)
    return (
        np.concatenate([empty, *(first for first, _ in columns)]),
        np.concatenate([empty, *(second for _, second in columns)]),
    )
