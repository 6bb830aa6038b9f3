"""Retries, races, crashes and folds at random: the log is that of a dictionary of lists.

Two instances append over one log dir. Every group goes to a naive twin, too, in the order in which
the groups land; then all answers and all records are compared.
"""

import tempfile
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from sparklog.metadata.upkeep.fold import fold
from tests.appends import Appender
from tests.client_batches import client_batch
from tests.logs import FOREVER, values
from tests.metadata_logs import CrashError, CrashingLocalFiles

TOPIC = "t"
PARTITIONS = 2


class Sent(NamedTuple):
    """One batch of a producer (-1: of none): its records are told apart by their texts."""

    partition: int
    producer: int
    epoch: int
    sequence: int
    records: tuple[str, ...]

    def encoded(self) -> tuple[str, int, bytes]:
        """As an Appender takes it."""
        data = client_batch(
            *self.records,
            producer_id=self.producer,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        return TOPIC, self.partition, data


class Twin:
    """The log as lists of records, and of each producer all batches of its epoch."""

    def __init__(self) -> None:
        self.records: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        self.landed: dict[tuple[int, int], tuple[int, list[tuple[Sent, int]]]] = {}

    def append(self, sent: Sent) -> Any:
        """The offset that the batch gets, or got, or the kind of the error."""
        log, place = self.records[sent.partition], (sent.partition, sent.producer)
        if sent.producer >= 0:
            epoch, batches = self.landed.get(place, (sent.epoch, None))
            if sent.epoch < epoch:
                return InvalidProducerEpochError
            batches = [] if batches is not None and sent.epoch > epoch else batches
            for known, offset in (batches or [])[-5:]:
                if (known.sequence, len(known.records)) == (sent.sequence, len(sent.records)):
                    return offset
            last = batches[-1][0] if batches else None
            due = last.sequence + len(last.records) if last else 0
            if batches is not None and sent.sequence != due:
                return OutOfOrderSequenceError
            self.landed[place] = sent.epoch, [*(batches or []), (sent, len(log))]
        log += sent.records
        return len(log) - len(sent.records)


class Client:
    """A producer that numbers its batches, and sends some of them again, or wrongly."""

    def __init__(self, number: int, partition: int, texts: "count[int]") -> None:
        self.number, self.partition, self.texts = number, partition, texts
        self.epoch = self.sequence = 0
        self.sent: list[Sent] = []

    def batch(self, kind: str, size: int) -> Sent:
        """The next batch, or one of the other kinds."""
        if kind == "retry" and self.sent:
            return self.sent[-(1 + size % len(self.sent))]
        if kind == "epoch":
            self.epoch, self.sequence = self.epoch + 1, 0
        epoch = self.epoch - (kind == "fenced")
        sequence = self.sequence + (kind == "gap")
        records = tuple(str(next(self.texts)) for _ in range(size))
        found = Sent(self.partition, self.number, max(epoch, 0), sequence, records)
        if kind not in ("gap", "fenced"):
            self.sequence += size
            self.sent.append(found)
        return found


kinds = st.sampled_from(["next", "next", "next", "retry", "retry", "gap", "epoch", "fenced"])
batches = st.lists(
    st.tuples(st.integers(-1, 1), st.integers(0, PARTITIONS - 1), kinds, st.integers(1, 3)),
    min_size=1,
    max_size=6,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("group"), st.integers(0, 1), batches),
        st.tuples(st.just("race"), st.integers(0, 1), batches, batches),
        st.tuples(st.just("crash"), st.integers(0, 1), batches, st.integers(0, 5)),
        st.tuples(st.just("fold"), st.integers(0, 1)),
    ),
    min_size=1,
    max_size=8,
)


class World:
    """Two instances, the twin, and the clients."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir, self.twin, texts = log_dir, Twin(), count()
        AdminClient(log_dir).create_topics([NewTopic(TOPIC, PARTITIONS, FOREVER)])
        self.instances = [self.started(), self.started()]
        self.clients = {
            (number, partition): Client(number, partition, texts)
            for number in range(-1, 2)
            for partition in range(PARTITIONS)
        }

    def started(self) -> Appender:
        return Appender(self.log_dir, CrashingLocalFiles(self.log_dir))

    def drawn(self, kinds: Sequence[tuple[int, int, str, int]]) -> list[Sent]:
        return [self.clients[number, at].batch(kind, size) for number, at, kind, size in kinds]

    def compare(self, sent: Sequence[Sent], found: Sequence[Any]) -> None:
        assert list(found) == [self.twin.append(one) for one in sent]

    def group(self, at: int, kinds: Any) -> None:
        sent = self.drawn(kinds)
        self.compare(sent, self.instances[at].append(*(one.encoded() for one in sent)))

    def race(self, at: int, first: Any, second: Any) -> None:
        """The other instance lands its group while this one has written its own."""
        winner, loser = self.drawn(first), self.drawn(second)
        won: list[Any] = []

        def other_lands() -> None:
            won.extend(self.instances[1 - at].append(*(one.encoded() for one in winner)))

        self.instances[at].meanwhile.append(other_lands)
        lost = self.instances[at].append(*(one.encoded() for one in loser))
        self.compare(winner, won)
        self.compare(loser, lost)

    def crash(self, at: int, kinds: Any, steps: int) -> None:
        """The instance is killed; its clients send all of it to the other one."""
        sent, files = self.drawn(kinds), self.instances[at].catalog.files
        assert isinstance(files, CrashingLocalFiles)
        files.crash_at = files.steps + steps
        before = self.ends()
        try:
            found = self.instances[at].append(*(one.encoded() for one in sent))
        except CrashError:
            if self.ends() != before:
                for one in sent:
                    self.twin.append(one)
        else:
            self.compare(sent, found)
        self.instances[at] = self.started()
        again = self.instances[1 - at].append(*(one.encoded() for one in sent))
        self.compare(sent, again)

    def fold(self, at: int) -> None:
        fold(self.instances[at].catalog.log)
        self.instances[1 - at] = self.started()

    def ends(self) -> list[int]:
        found = self.instances[0].catalog
        topic = found.topic(TOPIC)
        return [found.partition(topic, number).log_end_offset for number in range(PARTITIONS)]


@settings(max_examples=40)
@given(steps=steps)
def test_the_log_is_that_of_lists(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(f"{folder}/log")
        for name, *arguments in steps:
            getattr(world, name)(*arguments)

        records = {number: found for number, found in world.twin.records.items() if found}
        assert values(world.log_dir, TOPIC) == records
