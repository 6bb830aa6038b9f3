"""The leader epochs of a partition, from its checkpoint and its batches.

The first batch with a higher epoch than all earlier batches begins this epoch. A new epoch replaces
all known epochs that begin at its start offset or above (LeaderEpochFileCache.assign).
"""

from collections.abc import Iterable

import numpy as np

from sparklog.metadata.state.edit import EpochStart
from sparklog.record.batches import BatchTable


class Epochs:
    """Follows the leader epochs of one partition; `starts` are the known ones, oldest first."""

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self.starts: list[EpochStart] = []
        for start in starts:
            self.assign(start)

    @property
    def newest(self) -> int:
        """The newest epoch, -1 if none is known."""
        return self.starts[-1].epoch if self.starts else -1

    def assign(self, start: EpochStart) -> None:
        """Take an epoch; one that is not newer than all known ones is ignored."""
        if start.epoch <= self.newest:
            return
        while self.starts and self.starts[-1].start_offset >= start.start_offset:
            self.starts.pop()
        self.starts.append(start)

    def add(self, batches: BatchTable) -> None:
        """Take the next batches of the log, in its own offsets."""
        highest = np.maximum.accumulate(np.maximum(batches.leader_epoch, self.newest))
        for row in np.flatnonzero(np.diff(highest, prepend=self.newest)).tolist():
            self.assign(EpochStart(int(highest[row]), int(batches.base_offset[row])))

    def below(self, end_offset: int) -> tuple[EpochStart, ...]:
        """Return the epochs that begin below the log's end."""
        return tuple(one for one in self.starts if one.start_offset < end_offset)


def epochs_from(starts: Iterable[EpochStart], start_offset: int) -> list[EpochStart]:
    """Return the epochs of a log that begins at an offset (LeaderEpochFileCache.truncateFromStart).

    The epoch of this offset then begins at the offset; earlier epochs are left out.
    """
    kept: list[EpochStart] = []
    for one in starts:
        if one.start_offset <= start_offset:
            kept = [EpochStart(one.epoch, start_offset)]
        else:
            kept.append(one)
    return kept
