"""The naive twin of transactions: logs as lists, and each rule as Kafka's documents tell it.

    NaiveLog            a partition: records and markers; LSO, committed records: looks at all
    NaiveTransactions   the ids, their producers, and what they have open

Answers are texts for what is refused: fenced, mapping, state, epoch, sequence.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from sparklog.metadata.state.producers import SequencedBatch
from tests.naive.producers import NaiveProducer

LAST_EPOCH = 32_766
"""The last one that a client gets (Short.MAX_VALUE - 1)."""
ADDS_FROM = 12
"""The version of Produce from which on it adds its partition itself."""

Place = tuple[str, int]
Producer = tuple[int, int]


class Entry(NamedTuple):
    """A record of one offset, or a marker: then `value` is None."""

    producer_id: int
    value: str | None
    is_transactional: bool
    is_commit: bool = False


class NaiveLog:
    """One partition."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.producers: dict[int, NaiveProducer] = {}

    def end_of(self, offset: int) -> int | None:
        """The offset of the marker that ends the transaction of a record."""
        producer_id = self.entries[offset].producer_id
        found = (
            at
            for at in range(offset, len(self.entries))
            if self.entries[at].producer_id == producer_id and self.entries[at].value is None
        )
        return next(found, None)

    @property
    def open(self) -> dict[int, int]:
        """The first offset of each open transaction, by producer."""
        found: dict[int, int] = {}
        for offset, entry in enumerate(self.entries):
            is_data = entry.is_transactional and entry.value is not None
            if is_data and self.end_of(offset) is None:
                found.setdefault(entry.producer_id, offset)
        return found

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, the log's end without one."""
        return min(self.open.values(), default=len(self.entries))

    @property
    def committed(self) -> list[str]:
        """What a reader of committed records sees."""
        return [
            entry.value
            for offset, entry in enumerate(self.entries[: self.last_stable_offset])
            if entry.value is not None and self._is_committed(offset, entry)
        ]

    def _is_committed(self, offset: int, entry: Entry) -> bool:
        end = self.end_of(offset)
        return not entry.is_transactional or (end is not None and self.entries[end].is_commit)


@dataclass
class NaiveId:
    """A transactional id."""

    producer: Producer
    last: Producer | None = None
    status: str = "Empty"
    partitions: set[Place] = field(default_factory=set)
    offsets: dict[Place, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self.status == "Ongoing"


class NaiveTransactions:
    """The ids of a log dir. Producer ids are counted from 0."""

    def __init__(self) -> None:
        self.ids: dict[str, NaiveId] = {}
        self.logs: dict[Place, NaiveLog] = {}
        self.committed: dict[Place, int] = {}
        """The offsets of the one group that there is."""
        self._next_id = 0

    def log(self, place: Place) -> NaiveLog:
        """A partition."""
        return self.logs.setdefault(place, NaiveLog())

    def _fresh(self) -> Producer:
        self._next_id += 1
        return self._next_id - 1, 0

    def init(self, name: str, expected: Producer | None) -> Producer | str:
        """InitProducerId."""
        known = self.ids.get(name)
        if known is None:
            self.ids[name] = NaiveId(self._fresh())
            return self.ids[name].producer
        if expected is not None and expected not in (known.producer, known.last):
            return "fenced"
        if known.is_open:
            self.time_out(name)
        if expected is not None and expected == known.last:
            known.status = "Empty"
            return known.producer
        known.last = None if expected is None else known.producer
        known.status = "Empty"
        known.producer = self._after(known.producer)
        return known.producer

    def _after(self, producer: Producer) -> Producer:
        return self._fresh() if producer[1] >= LAST_EPOCH else (producer[0], producer[1] + 1)

    def _problem(self, name: str, producer: Producer) -> str | None:
        known = self.ids.get(name)
        ids = () if known is None else [one[0] for one in (known.producer, known.last) if one]
        if known is None or producer[0] not in ids:
            return "mapping"
        return None if producer == known.producer else "fenced"

    def add(self, name: str, producer: Producer, place: Place) -> str | None:
        """AddPartitionsToTxn."""
        problem = self._problem(name, producer)
        if problem is None:
            known = self.ids[name]
            known.status = "Ongoing"
            known.partitions.add(place)
        return problem

    def commit_offset(self, name: str, producer: Producer, place: Place, at: int) -> str | None:
        """TxnOffsetCommit."""
        problem = self._problem(name, producer)
        if problem is None:
            known = self.ids[name]
            known.status = "Ongoing"
            known.offsets[place] = at
        return problem

    def produce(
        self, producer: Producer, place: Place, sequence: int, value: str, version: int
    ) -> int | str:
        """Produce of one record in a transaction; a producer below 0 is in none."""
        log = self.log(place)
        if producer[0] < 0:
            log.entries.append(Entry(-1, value, False))
            return len(log.entries) - 1
        found = [one for one in self.ids.values() if one.producer[0] == producer[0]]
        if not found:
            return "state"
        [known] = found
        if known.producer != producer:
            return "epoch"
        if version < ADDS_FROM and not (known.is_open and place in known.partitions):
            return "state"
        state = log.producers.setdefault(producer[0], NaiveProducer())
        if version >= ADDS_FROM and sequence and not state.taken:
            return "sequence"
        at = len(log.entries)
        answer = state.send(SequencedBatch(*producer, sequence, sequence, at, 0))
        if answer == at:
            log.entries.append(Entry(producer[0], value, True))
            known.status = "Ongoing"
            known.partitions.add(place)
        return answer

    def end(self, name: str, producer: Producer, *, is_commit: bool, bumps: bool) -> Producer | str:
        """EndTxn."""
        problem = self._problem(name, producer)
        known, wanted = self.ids.get(name), "CompleteCommit" if is_commit else "CompleteAbort"
        if problem == "mapping" or known is None:
            return "mapping"
        if bumps and producer == known.last and known.status.startswith("Complete"):
            return known.producer if known.status == wanted else "state"
        if problem is not None:
            return problem
        if known.is_open or (bumps and not is_commit):
            epoch = known.producer[1] + bumps
            self._end(known, epoch, is_commit=is_commit)
            known.last = known.producer if bumps else None
            known.producer = self._after(known.producer) if bumps else known.producer
            return known.producer
        return known.producer if not bumps and known.status == wanted else "state"

    def time_out(self, name: str) -> bool:
        """An abort by a timeout: the producer may go on."""
        known = self.ids.get(name)
        if known is None or not known.is_open:
            return False
        self._end(known, known.producer[1] + 1, is_commit=False)
        known.last, known.producer = known.producer, self._after(known.producer)
        return True

    def abort(self, name: str) -> bool:
        """An abort by hand: it fences the producer."""
        was_open = self.time_out(name)
        if was_open:
            self.ids[name].last = None
        return was_open

    def _end(self, known: NaiveId, epoch: int, *, is_commit: bool) -> None:
        producer_id = known.producer[0]
        for log in self.logs.values():
            if producer_id in log.open:
                log.entries.append(Entry(producer_id, None, True, is_commit))
                log.producers[producer_id].mark(epoch)
        if is_commit:
            self.committed |= known.offsets
        known.status = "CompleteCommit" if is_commit else "CompleteAbort"
        known.partitions, known.offsets = set(), {}

    def expire(self) -> None:
        """Forget the ids without an open transaction."""
        self.ids = {name: one for name, one in self.ids.items() if one.is_open}
