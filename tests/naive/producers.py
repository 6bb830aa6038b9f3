"""The naive twin of `metadata.state.producers`: it keeps every batch it ever took."""

from sparklog.metadata.state.producers import SequencedBatch

SEQUENCES = 2**31


class NaiveProducer:
    """One producer of one partition."""

    def __init__(self) -> None:
        self.taken: list[SequencedBatch] = []
        self.marked = 0
        """The epoch of the newest marker."""

    def send(self, batch: SequencedBatch) -> str | int:
        """Return the first offset of a batch that is in the log by now, else why it is refused."""
        if not self.taken:
            return self._take(batch)
        epoch = max(self.marked, *(one.epoch for one in self.taken))
        if batch.epoch < epoch:
            return "epoch"
        of_epoch = [one for one in self.taken if one.epoch == batch.epoch]
        for one in of_epoch[-5:]:
            if one[2:4] == batch[2:4]:
                return first_offset(one)
        wanted = of_epoch[-1].last_sequence + 1 if of_epoch else 0
        return self._take(batch) if batch.first_sequence == wanted % SEQUENCES else "sequence"

    def mark(self, epoch: int) -> None:
        """Take a marker: batches of epochs below its own are refused from now on."""
        self.marked = epoch

    def _take(self, batch: SequencedBatch) -> int:
        self.taken.append(batch)
        return first_offset(batch)


def first_offset(batch: SequencedBatch) -> int:
    """The offset of a batch's first record."""
    last = batch.last_sequence
    if last < batch.first_sequence:
        last += SEQUENCES
    return batch.last_offset - (last - batch.first_sequence)
