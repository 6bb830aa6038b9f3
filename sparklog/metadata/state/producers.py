"""Idempotent producers of a partition: their last batches, and the rule for the next one.

    sequenced(state, batch) -> ProducerState | Duplicate      raises if the batch does not follow

A partition's log has a `ProducerState` for each producer id (ProducerStateManager). So a batch that
is sent twice lands once, even if two processes get it. The rules are those of Kafka 4.1.1's
ProducerAppendInfo and ProducerStateEntry.

A state that was not used for long is forgotten. If a partition has more than PRODUCERS_MAX states,
the least recently used tenth is forgotten. The partition's `ProducerMark` says which states are
forgotten, so that runs need no rows that remove them one by one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from immutables import Map

from sparklog.errors import InvalidProducerEpochError, OutOfOrderSequenceError

BATCHES_MAX: Final = 5
"""How many batches of a producer are kept (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""

PRODUCERS_MAX: Final = 10_000
"""How many producers of a partition are kept."""

SEQUENCES: Final = 2**31
"""How many sequence numbers there are: after 2^31 - 1 comes 0."""


class ProducerBatch(NamedTuple):
    """A batch of a producer in the log; it has one offset for each of its sequences."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - (self.last_sequence - self.first_sequence) % SEQUENCES


class ProducerState(NamedTuple):
    """One producer of a partition: its epoch, and its last batches of that epoch, oldest first.

    `used_ms` is the time of the entry that used it last; applying an edit sets it.
    """

    producer_id: int
    epoch: int
    batches: tuple[ProducerBatch, ...] = ()
    used_ms: int = 0


class SequencedBatch(NamedTuple):
    """A producer's batch before it is in the log, with the offset its last record would get."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    last_offset: int
    timestamp_ms: int


class Duplicate(NamedTuple):
    """The answer for a batch that is in the log already: its first offset there, and its time."""

    first_offset: int
    timestamp_ms: int


class ProducerMark(NamedTuple):
    """States with a smaller (time of last use, producer id) are forgotten."""

    used_ms: int = 0
    producer_id: int = 0


_NO_MARK: Final = ProducerMark()

States = Map[int, ProducerState]
_NO_STATES: Final[States] = Map()

Use = tuple[Sequence[ProducerState], int]
"""The states that one entry sets, and the entry's time."""


def sequenced(state: ProducerState | None, batch: SequencedBatch) -> ProducerState | Duplicate:
    """Return the state after a batch that follows the last one; Duplicate for a known batch.

    A producer without a state may begin with any sequence; a new epoch must begin with 0. Raises
    InvalidProducerEpochError for an epoch below the state's, OutOfOrderSequenceError for a gap.
    """
    added = ProducerBatch._make(batch[2:])
    if state is None:
        return ProducerState(batch.producer_id, batch.epoch, (added,))
    if batch.epoch < state.epoch:
        raise InvalidProducerEpochError(
            f"producer {batch.producer_id}: a batch of epoch {batch.epoch}; the producer has epoch "
            f"{state.epoch} now"
        )
    batches = state.batches if batch.epoch == state.epoch else ()
    first, last = batch.first_sequence, batch.last_sequence
    for known in batches:
        if known.first_sequence == first and known.last_sequence == last:
            return Duplicate(known.first_offset, known.timestamp_ms)
    expected = (batches[-1].last_sequence + 1) % SEQUENCES if batches else 0
    if first != expected:
        raise OutOfOrderSequenceError(
            f"producer {batch.producer_id}, epoch {batch.epoch}: a batch that begins with sequence "
            f"{first} where {expected} is next"
        )
    return ProducerState(
        batch.producer_id, batch.epoch, (*batches, added)[-BATCHES_MAX:], state.used_ms
    )


class Producers:
    """The states of one partition by producer id, without those before the mark.

    Most readers never ask for the states, so they may be given as a function that reads them.
    """

    __slots__ = ("_states", "mark")

    def __init__(
        self,
        states: States | Callable[[], Iterable[ProducerState]] = _NO_STATES,
        mark: ProducerMark = _NO_MARK,
    ) -> None:
        self._states = states
        self.mark = mark

    @property
    def states(self) -> States:
        """The states that are remembered."""
        found = self._states
        if not isinstance(found, Map):
            kept = ((one.producer_id, one) for one in found() if place_of(one) >= self.mark)
            self._states = found = Map(kept)
        return found

    def after(self, uses: Iterable[Use]) -> "Producers":
        """Return the states after entries that set some, one entry after another."""
        result = self
        for used, used_ms in uses:
            states = result.states
            for producer_id, epoch, batches, _ in used:
                state = ProducerState(producer_id, epoch, batches, used_ms)
                states = states.set(producer_id, state)
            result = Producers(states, result.mark)
            if len(states) > PRODUCERS_MAX:
                result = result.without_oldest(used_ms)
        return result

    def without_oldest(self, now_ms: int) -> "Producers":
        """Return the states without the oldest tenth; not one by one, so that searches are rare.

        States used in the present entry's millisecond stay: a later entry of the same millisecond
        may use a producer that comes before them.
        """
        old = sorted(place_of(one) for one in self.states.values() if one.used_ms < now_ms)
        count = len(self.states) - (PRODUCERS_MAX - PRODUCERS_MAX // 10)
        # The mark is the place of the first that stays: an id one above that of the last that goes
        # may not fit an int64.
        return self.since(old[count] if count < len(old) else ProducerMark(now_ms))

    def since(self, mark: ProducerMark) -> "Producers":
        """Return the states that are not before a mark."""
        if mark <= self.mark:
            return self
        left = self.states.mutate()
        for producer_id, state in self.states.items():
            if place_of(state) < mark:
                del left[producer_id]
        return Producers(left.finish(), mark)


NO_PRODUCERS: Final = Producers()


def place_of(state: ProducerState) -> ProducerMark:
    """Return the place of a state in the order in which states are forgotten."""
    return ProducerMark(state.used_ms, state.producer_id)
