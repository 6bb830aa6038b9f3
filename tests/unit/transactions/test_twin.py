"""Transactions in lock step with their naive twin: steps at random, of producers that fence others.

Two instances take the steps in turn. After each step every partition's end, last stable offset and
open transactions are compared, and every answer; at the end all that readers see.
"""

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.admin import AdminClient
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.errors import ErrorCode, SparklogError
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.plans.transactions import NOBODY, Producer, edit_of_ids
from tests.client_batches import NOW_MS
from tests.maintenance import run as verified
from tests.naive.transactions import LAST_EPOCH, NaiveTransactions
from tests.transactions import Client, Instance, new_log_dir

NAMES = ("a", "a", "b", "b")
VERSIONS = (13, 9, 9, 13)
"""Two producers of each id fence each other; one of each is of before KIP-890."""
GROUP = "g"
TOLD = {
    ErrorCode.PRODUCER_FENCED: "fenced",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "mapping",
    ErrorCode.INVALID_TXN_STATE: "state",
    ErrorCode.TRANSACTION_ABORTABLE: "state",
    ErrorCode.INVALID_PRODUCER_EPOCH: "epoch",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "sequence",
}
KINDS = {
    "InvalidTxnStateError": "state",
    "InvalidProducerEpochError": "epoch",
    "OutOfOrderSequenceError": "sequence",
}

producers = st.integers(0, len(NAMES) - 1)
partitions = st.integers(0, 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("init"), producers, st.sampled_from(["anew", "goes on", "of before"])),
        st.tuples(st.just("add"), producers, partitions),
        *[st.tuples(st.just("send"), producers, partitions, st.just(0))] * 3,
        st.tuples(st.just("send"), producers, partitions, st.sampled_from([-1, 1])),
        st.tuples(st.just("plain"), partitions),
        st.tuples(st.just("offset"), producers, partitions),
        *[st.tuples(st.just("end"), producers, st.booleans())] * 2,
        st.tuples(st.just("end again"), producers, st.booleans()),
        st.tuples(st.just("abort"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("time out"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("wear"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("expire")),
    ),
    min_size=1,
    max_size=30,
)


class World:
    """Two instances, the producers, and the twin."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir, self.twin = log_dir, NaiveTransactions()
        self.instances = [new_log_dir(log_dir, "t"), Instance(log_dir)]
        offsets_topic(self.instances[0].catalog, self.instances[0].catalog.clock, 1)
        self.clients = [
            Client(self.instances[0], name, version=version)
            for name, version in zip(NAMES, VERSIONS, strict=True)
        ]
        self.before = [NOBODY] * len(NAMES)
        """What each producer was before its last change."""
        self.first: int | None = None
        self.count = 0

    def step(self, name: str, *arguments: Any) -> None:
        """Take one step, at the instance whose turn it is, and compare."""
        self.count += 1
        for client in self.clients:
            client.instance = self.instances[self.count % 2]
        getattr(self, name.replace(" ", "_"))(*arguments)
        for number in range(2):
            log, naive = self.instances[0].log(partition=number), self.twin.log(("t", number))
            assert log.log_end_offset == len(naive.entries)
            assert log.last_stable_offset == naive.last_stable_offset
            found = {self.counted((one, 0))[0]: first for one, first in log.transactions}
            assert found == naive.open

    def counted(self, producer: tuple[int, int]) -> tuple[int, int]:
        """A producer as the twin counts it; the first one of a log dir is drawn at random."""
        if producer[0] < 0:
            return producer[0], producer[1]
        if self.first is None:
            self.first = producer[0]
        return producer[0] - self.first, producer[1]

    def answer(self, number: int, call: Any) -> Any:
        """What a producer is told."""
        before = self.clients[number].producer
        try:
            found = call()
        except SparklogError as error:
            return TOLD[ErrorCode(error.code)]
        if self.clients[number].producer != before:
            self.before[number] = before
        return self.counted(found) if isinstance(found, Producer) else found

    def init(self, number: int, how: str) -> None:
        client = self.clients[number]
        given = {"anew": NOBODY, "goes on": client.producer, "of before": self.before[number]}[how]
        expected = None if given == NOBODY else self.counted(given)
        found = self.answer(number, lambda: client.init(given))
        assert found == self.twin.init(client.name, expected)

    def add(self, number: int, partition: int) -> None:
        client = self.clients[number]
        mine = self.counted(client.producer)
        found = self.answer(number, lambda: client.add(partition))
        assert found == self.twin.add(client.name, mine, ("t", partition))

    def send(self, number: int, partition: int, skips: int) -> None:
        client, value = self.clients[number], str(self.count)
        sequence = client.next_sequence(partition) + skips
        if client.producer == NOBODY or sequence < 0:
            return
        mine, place = self.counted(client.producer), ("t", partition)
        found = client.produce(value, partition, skips=skips)
        found = found if isinstance(found, int) else KINDS[found.__name__]
        assert found == self.twin.produce(mine, place, sequence, value, client.version)

    def plain(self, partition: int) -> None:
        client, value = Client(self.instances[0]), str(self.count)
        found = client.produce(value, partition, attributes=0)
        assert found == self.twin.produce((-1, -1), ("t", partition), -1, value, 13)

    def offset(self, number: int, partition: int) -> None:
        client = self.clients[number]
        mine, place = self.counted(client.producer), ("t", partition)
        found = self.answer(number, lambda: client.offsets(GROUP, self.count, *place))
        assert found == self.twin.commit_offset(client.name, mine, place, self.count)

    def end(self, number: int, is_commit: bool) -> None:
        client = self.clients[number]
        mine, bumps = self.counted(client.producer), client.version > 11
        found = self.answer(number, client.commit if is_commit else client.abort)
        assert found == self.twin.end(client.name, mine, is_commit=is_commit, bumps=bumps)

    def end_again(self, number: int, is_commit: bool) -> None:
        """An end whose answer was lost is sent again, as the producer was before."""
        client, before = self.clients[number], self.before[number]
        transactions, bumps = client.instance.transactions, client.version > 11
        step = client.step._replace(producer=before)
        found = self.answer(
            number, lambda: transactions.end(step, is_commit=is_commit, bumps=bumps)
        )
        mine = self.counted(before)
        assert found == self.twin.end(client.name, mine, is_commit=is_commit, bumps=bumps)

    def abort(self, name: str) -> None:
        assert self.instances[1].transactions.abort(name) == self.twin.abort(name)

    def time_out(self, name: str) -> None:
        ids = self.instances[1].catalog.image().transactional_ids
        known = ids.get(name)
        number = 0 if known is None else known.number
        found = self.instances[1].transactions.time_out(name, number)
        assert found == self.twin.time_out(name)

    def wear(self, name: str) -> None:
        """Thousands of epochs pass: producers of the id that are up to date stay so."""
        naive = self.twin.ids.get(name)
        if naive is None or naive.is_open:
            return
        catalog = self.instances[0].catalog
        known = catalog.image().transactional_ids.by_id[name]
        newest = Producer(known.producer_id, known.epoch)
        worn = known._replace(epoch=LAST_EPOCH, last_producer_id=-1, last_epoch=-1)
        catalog.log.commit(lambda _: edit_of_ids("TEST", worn))
        naive.producer, naive.last = (naive.producer[0], LAST_EPOCH), None
        for client in self.clients:
            if client.producer == newest:
                client.goes_on(newest._replace(epoch=LAST_EPOCH))

    def expire(self) -> None:
        self.instances[0].transactions.expire(NOW_MS + 1)
        self.twin.expire()

    def compare(self) -> None:
        """Compare what readers see, states of ids, the group's offsets; verify finds nothing."""
        instance = Instance(self.log_dir)
        assert instance.values() == {n: self.twin.log(("t", n)).committed for n in range(2)}
        ids = instance.catalog.image().transactional_ids.by_id
        found = {one: self.counted((ids[one].producer_id, ids[one].epoch)) for one in ids}
        assert found == {one: self.twin.ids[one].producer for one in self.twin.ids}
        states = {one: str(ids[one].status) for one in ids}
        assert states == {one: self.twin.ids[one].status for one in self.twin.ids}
        offsets = AdminClient(self.log_dir).list_consumer_group_offsets(GROUP)
        assert {one: at.offset for one, at in offsets.items() if at} == self.twin.committed
        _, reports = verified(verify, self.log_dir, repair=False, records=False)
        assert [one.as_row()["problems"] for one in reports] == [[]] * len(reports)


BEGUN = [("init", 0, "anew"), ("init", 2, "anew")]
EXAMPLES: dict[str, list[Any]] = {
    "fenced": [("init", 1, "anew"), ("send", 0, 0, 0), ("end", 0, True), ("init", 0, "goes on")],
    "again": [("send", 0, 1, 0), ("end", 0, True), ("end again", 0, True), ("end again", 0, False)],
    "gone on": [("init", 0, "goes on"), ("init", 0, "of before"), ("send", 0, 0, 0)],
    "worn": [("wear", "a"), ("send", 0, 0, 0), ("wear", "a"), ("end", 0, True), ("send", 0, 0, 0)],
    "retried": [("send", 0, 0, 0), ("send", 0, 0, -1), ("send", 0, 0, 1), ("abort", "a")],
    "offsets": [("offset", 2, 0), ("end", 2, True), ("plain", 0), ("send", 0, 0, -1)],
    "older": [("send", 2, 0, 0), ("add", 2, 0), ("send", 2, 0, 0), ("end", 2, True)],
    "sent late": [("send", 0, 0, 0), ("init", 1, "anew"), ("send", 0, 0, 0), ("end", 2, False)],
    "timed out": [("send", 0, 0, 0), ("time out", "a"), ("send", 0, 0, 0), ("end", 0, False)],
    "overtaken": [("send", 0, 0, 1), ("send", 0, 0, 0), ("send", 0, 0, 0), ("end", 0, True)],
    "nobody": [("end", 0, False), ("end again", 1, False), ("end", 1, True), ("add", 1, 0)],
    "forgotten": [("expire",), ("send", 0, 0, 0), ("offset", 0, 0), ("wear", "a"), ("abort", "a")],
}


@settings(max_examples=60, deadline=None)
@given(steps=steps)
def test_transactions_are_those_of_their_twin(steps: list[Any]) -> None:
    """Goal: ends, last stable offsets, answers and committed records are Kafka's.

    Method: each step goes to an instance and to the twin, which keeps lists and looks at all.
    """
    run(steps)


@pytest.mark.parametrize("name", EXAMPLES)
def test_so_they_are_in_cases_that_matter(name: str) -> None:
    run(EXAMPLES[name])


def run(steps: list[Any]) -> None:
    """Take steps behind the first two producers' beginning, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(f"{folder}/log")
        for name, *arguments in (*BEGUN, *steps):
            world.step(name, *arguments)
        world.compare()
