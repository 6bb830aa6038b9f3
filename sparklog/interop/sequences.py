"""The producers of a broker's partition, and their last batches, from its snapshot and its log.

A broker writes a snapshot of its producers when it rolls a segment, and when it stops. When it
starts, it reads the newest snapshot and the batches behind it
(ProducerStateManager.truncateAndReload). An import does the same, so producers go on with their
sequences. An export writes a snapshot.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from sparklog.interop.broker_files.producer_snapshot import ProducerState as SnapshotState
from sparklog.metadata.state import producers
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.record.batches import BatchTable
from sparklog.record.scan import BatchHeader

NO_OFFSET: Final = -1
"""The last offset of a producer without batches (ProducerStateEntry.lastDataOffset)."""
NO_COORDINATOR: Final = -1


class Sequences:
    """Follows the producers of one partition; `known` are those before the first batch.

    If there are more than PRODUCERS_MAX, those that wrote last stay.
    """

    def __init__(self, known: Iterable[ProducerState] = ()) -> None:
        self._states = {one.producer_id: one for one in sorted(known, key=_end)}

    def add(self, batches: BatchTable) -> None:
        """Take the next batches of the log."""
        rows = np.flatnonzero(batches.producer_id >= 0)
        ids = batches.producer_id[rows]
        order = np.argsort(ids, kind="stable")
        cuts = np.flatnonzero(np.diff(ids[order])) + 1
        # Only the last batches of a producer are kept; a log has millions.
        last = [group[-producers.BATCHES_MAX :] for group in np.split(order, cuts)]
        chosen = batches.take(rows[np.sort(np.concatenate(last))])
        for row in zip(
            chosen.producer_id.tolist(),
            chosen.producer_epoch.tolist(),
            chosen.base_sequence.tolist(),
            (chosen.last_offset - chosen.base_offset).tolist(),
            chosen.last_offset.tolist(),
            chosen.max_timestamp.tolist(),
            strict=True,
        ):
            self._add(*row)

    def _add(
        self, producer_id: int, epoch: int, first: int, span: int, last_offset: int, time_ms: int
    ) -> None:
        known = self._states.pop(producer_id, None)
        batches = known.batches if known is not None and known.epoch == epoch else ()
        if first >= 0:  # a marker has no sequence
            added = ProducerBatch(first, (first + span) % producers.SEQUENCES, last_offset, time_ms)
            batches = (*batches, added)[-producers.BATCHES_MAX :]
        self._states[producer_id] = ProducerState(producer_id, epoch, batches)
        if len(self._states) > producers.PRODUCERS_MAX:
            del self._states[next(iter(self._states))]

    def ended(self, snapshot: Iterable[SnapshotState], offset: int) -> tuple[ProducerState, ...]:
        """Return the states at the log's end; the producers that wrote last come last.

        `snapshot` has the states at `offset`. A producer that is not in the snapshot and has no
        batch from `offset` on is left out: the broker has forgotten it.
        """
        found = {one.producer_id: state_of(one) for one in snapshot}
        for producer_id, state in self._states.items():
            known = found.get(producer_id)
            is_newer = _end(state) >= offset if known is None else _place(state) >= _place(known)
            if is_newer:
                found[producer_id] = state
        return tuple(sorted(found.values(), key=_end)[-producers.PRODUCERS_MAX :])


def _end(state: ProducerState) -> int:
    return state.batches[-1].last_offset if state.batches else NO_OFFSET


def _place(state: ProducerState) -> tuple[int, int]:
    return state.epoch, _end(state)


def state_of(one: SnapshotState) -> ProducerState:
    """Return the state of a snapshot's entry, which has one batch at most."""
    if one.last_offset < 0:
        return ProducerState(one.producer_id, one.producer_epoch)
    batch = ProducerBatch(one.first_sequence, one.last_sequence, one.last_offset, one.timestamp)
    return ProducerState(one.producer_id, one.producer_epoch, (batch,))


def state_by(header: BatchHeader) -> ProducerState:
    """Return the state of a batch's producer, as if the batch were its only one."""
    first, span = header.base_sequence, header.last_offset_delta
    last = (first + span) % producers.SEQUENCES
    batch = ProducerBatch(first, last, header.last_offset, header.max_timestamp)
    return ProducerState(header.producer_id, header.producer_epoch, (batch,))


def entry_of(state: ProducerState) -> SnapshotState:
    """Return the entry of a snapshot for a state: its last batch."""
    head = state.producer_id, state.epoch
    if not state.batches:
        return SnapshotState(*head, -1, NO_OFFSET, 0, state.used_ms, NO_COORDINATOR, NO_OFFSET)
    last = state.batches[-1]
    span = last.last_offset - last.first_offset
    at = last.last_sequence, last.last_offset, span, last.timestamp_ms
    return SnapshotState(*head, *at, NO_COORDINATOR, NO_OFFSET)
