"""Transactions that are open in the metadata, although the log has their markers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import (
    CommitConflictError,
    CorruptRecordError,
    SparklogError,
    TopicClosedError,
)
from sparklog.maintenance.job import Outcome
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification import ended
from sparklog.maintenance.verification.verify import verify
from sparklog.maintenance.verification.walked import Walked, WalkWork, walked
from sparklog.metadata.catalog import Catalog, Landed, TopicPlan
from sparklog.metadata.state.edit import Edit, OpenTransaction, TopicEdit
from sparklog.metadata.state.transactions import TransactionalId
from sparklog.model import TopicDescription
from tests.maintenance import outcome_of, run
from tests.transactions import Client, Instance, new_log_dir, ready

pytestmark = pytest.mark.slow


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens, each once, between the walk and the commit."""
    events: list[Callable[[], object]] = []

    def then(work: WalkWork) -> Walked:
        found = walked(work)
        events.pop()()
        return found

    monkeypatch.setattr(ended, "walked", then)
    return events


def check(instance: Instance, *, repair: bool = False) -> Outcome:
    return outcome_of(verify, instance.catalog.files.uri, repair=repair, records=False)


def reopen(
    instance: Instance,
    *opened: tuple[int, int],
    partition: int = 0,
    since: int | None = None,
    **edit: Any,
) -> list[OpenTransaction]:
    """Let the metadata say that these transactions are open: producer, first offset.

    No row says of transactions behind the first of them, or behind `since`, that they were aborted.
    """
    said = [OpenTransaction(*one) for one in opened]
    first = min(one.first_offset for one in said) if since is None else since
    rows = [
        row._replace(aborted=tuple(one for one in row.aborted if row.base_offset + one[1] < first))
        for row in instance.log(partition=partition).entries(first)
        if row.key not in edit.get("remove", ())
    ]
    of_topic = TopicEdit(transactions={partition: tuple(said)}, replace=rows, **edit)
    topic_id = instance.catalog.topic("t").topic_id
    instance.catalog.log.commit(lambda _: Edit(operation="TEST", topics={topic_id: of_topic}))
    return said


def set_id(instance: Instance, known: TransactionalId) -> None:
    """Let the metadata say something else of a transactional id."""
    ids = {known.transactional_id: known}
    instance.catalog.log.commit(lambda _: Edit(operation="TEST", transactional_ids=ids))


def sent(instance: Instance, *values: str) -> Client:
    """A producer that has sent records in a transaction, each at the next offset of t-0."""
    client = ready(instance)
    for value in values:
        assert isinstance(client.produce(value), int)
    return client


def wrongly_open(instance: Instance, *values: str, end: str = "commit") -> Client:
    """A producer whose transaction has ended, though the metadata say that it is open from 0 on."""
    client = sent(instance, *values)
    getattr(client, end)()
    reopen(instance, (client.producer.producer_id, 0))
    return client


def refuse(monkeypatch: pytest.MonkeyPatch, error: SparklogError) -> None:
    """Let every commit fail."""

    def fail(*_: object, **__: object) -> Landed:
        raise error

    monkeypatch.setattr(Catalog, "commit", fail)


def said_of(client: Client, first: int, marker: str) -> str:
    producer = client.producer.producer_id
    return (
        f"t-0: the metadata say that producer {producer} has an open transaction from offset "
        f"{first} on; the first marker found behind it is the {marker}"
    )


class TestReport:
    @pytest.mark.parametrize(("end", "kind"), [("commit", "COMMIT"), ("abort", "ABORT")])
    def test_names_the_marker(self, instance: Instance, end: str, kind: str) -> None:
        client = sent(instance, "a", "b")
        getattr(client, end)()
        said = reopen(instance, (client.producer.producer_id, 0))

        assert check(instance).problems == [said_of(client, 0, f"{kind} at 2")]
        assert instance.log().transactions == (*said,)

    def test_names_the_first_marker(self, instance: Instance) -> None:
        client = ready(instance)
        for value, end in (("a", client.abort), ("b", client.commit), ("c", client.abort)):
            client.produce(value)
            end()
        run(merge_segments, instance.catalog.files.uri, seal=True)
        reopen(instance, (client.producer.producer_id, 2))

        assert check(instance).problems == [said_of(client, 2, "COMMIT at 3")]

    def test_names_the_transactional_id(self, instance: Instance) -> None:
        client = sent(instance, "a")
        known = instance.state()
        client.commit()
        reopen(instance, (client.producer.producer_id, 0))
        set_id(instance, known)

        (line,) = check(instance).problems
        has_open = "transactional id 'id' has a transaction open there"
        assert line == said_of(client, 0, f"COMMIT at 1; {has_open}")


class TestRepair:
    def test_shows_what_was_committed(self, instance: Instance) -> None:
        client = wrongly_open(instance, "a", "b")
        assert instance.values() == {0: [], 1: []}
        version = instance.catalog.image().version
        outcome = check(instance, repair=True)

        assert (outcome.problems, outcome.counts["repaired"]) == ([], 1)
        assert outcome.notes == [f"{said_of(client, 0, 'COMMIT at 2')}: closed"]
        assert instance.catalog.image().version == version + 1
        assert (instance.log().transactions, instance.values()[0]) == ((), ["a", "b"])
        assert check(instance) == check(instance, repair=True)

    def test_hides_what_was_aborted(self, instance: Instance) -> None:
        client = sent(instance, "a", "b")
        client.abort()
        before = instance.log().entries()
        reopen(instance, (client.producer.producer_id, 0))
        Client(instance).produce("p", attributes=0)
        outcome = check(instance, repair=True)

        assert (outcome.problems, len(outcome.notes)) == ([], 1)
        assert instance.log().entries()[:3] == before
        assert instance.values()[0] == ["p"]
        assert check(instance).problems == []

    def test_goes_on_with_the_next_transaction(self, instance: Instance) -> None:
        client = sent(instance, "a")
        client.commit()
        client.produce("b")
        client.produce("c")
        reopen(instance, (client.producer.producer_id, 0))
        check(instance, repair=True)

        assert instance.log().transactions == ((client.producer.producer_id, 2),)
        client.abort()
        assert instance.values()[0] == ["a"]
        assert check(instance).problems == []

    def test_hides_what_others_have_aborted(self, instance: Instance) -> None:
        client, other = sent(instance, "a"), Client(instance, "other")
        other.init()
        other.produce("b")
        other.abort()
        client.commit()
        reopen(instance, (client.producer.producer_id, 0))
        (shown,) = check(instance, repair=True).problems

        assert "offset 1: a record of producer" in shown
        assert instance.values()[0] == ["a"]
        assert check(instance).problems == []

    def test_leaves_the_partitions_without_a_marker_to_their_id(self, instance: Instance) -> None:
        client = sent(instance, "a")
        client.produce("b", 1)
        known, producer = instance.state(), client.producer
        client.commit()
        reopen(instance, (producer.producer_id, 0))
        lost = instance.log(partition=1).entries(1)[0].key
        reopen(instance, (producer.producer_id, 0), partition=1, remove=[lost])
        set_id(instance, known)
        assert len(check(instance, repair=True).notes) == 2  # one is of the lost offset

        assert instance.values() == {0: ["a"], 1: []}
        client.producer = producer
        client.commit()
        assert instance.values() == {0: ["a"], 1: ["b"]}
        assert [instance.log(partition=one).log_end_offset for one in (0, 1)] == [2, 3]

    def test_lets_an_abort_of_the_id_hide_nothing(self, instance: Instance) -> None:
        client = sent(instance, "a")
        known = instance.state()
        client.commit()
        reopen(instance, (client.producer.producer_id, 0))
        set_id(instance, known)
        check(instance, repair=True)

        assert instance.transactions.abort("id")
        assert (instance.values()[0], instance.log().log_end_offset) == (["a"], 2)

    def test_leaves_a_later_one_whose_marker_may_be_lost(self, instance: Instance) -> None:
        client = ready(instance)
        for value in "abc":
            client.produce(value)
            client.commit()
        lost = instance.log().entries()[3].key
        producer = client.producer.producer_id
        reopen(instance, (producer, 0), remove=[lost])
        check(instance, repair=True)

        assert (instance.log().transactions, instance.values()[0]) == (((producer, 2),), ["a"])
        assert "not closed: a marker may have" in check(instance, repair=True).problems[0]
        AdminClient(instance.catalog.files.uri).abort_transaction_at(("t", 0), 2)
        assert (instance.log().transactions, instance.values()[0]) == ((), ["a"])

    def test_also_behind_one_whose_marker_may_be_lost(self, instance: Instance) -> None:
        client, other = sent(instance, "a"), Client(instance, "other")
        client.commit()
        other.init()
        for value in "bc":
            other.produce(value)
            other.commit()
        lost = instance.log().entries()[3].key
        producers = client.producer.producer_id, other.producer.producer_id
        reopen(instance, (producers[0], 0), (producers[1], 4), remove=[lost])
        outcome = check(instance, repair=True)

        assert (outcome.problems, len(outcome.notes)) == ([], 3)  # one is of the lost offset
        assert instance.values()[0] == ["a", "b", "c"]

    def test_begins_at_the_log_start(self, instance: Instance) -> None:
        client = sent(instance, "a", "b")
        client.abort()
        first = instance.log().entries()[0]
        reopen(instance, (client.producer.producer_id, 0), partitions={0: (1, 3, 0, 0, 0)})
        assert first.base_offset < instance.log().log_start_offset
        check(instance, repair=True)

        assert (instance.log().transactions, instance.values()[0]) == ((), [])


class TestNotRepaired:
    def test_with_a_gap_behind_a_record(self, instance: Instance) -> None:
        client = ready(instance)
        for value, end in (("a", client.commit), ("b", client.abort)):
            client.produce(value)
            end()
        lost = instance.log().entries()[1].key
        said = reopen(instance, (client.producer.producer_id, 0), remove=[lost])
        (line,) = check(instance, repair=True).problems

        assert line.startswith(said_of(client, 0, "ABORT at 3; not closed: a marker may have"))
        assert instance.log().transactions == (*said,)

    def test_while_its_producer_writes(
        self, instance: Instance, meanwhile: list[Callable[[], object]]
    ) -> None:
        client = sent(instance, "a")
        client.commit()
        said = reopen(instance, (client.producer.producer_id, 0))
        meanwhile += [lambda: None, lambda: client.produce("b")]
        (line,) = check(instance, repair=True).problems

        assert line.endswith("at 1; not closed: it has changed meanwhile, so repair again")
        assert instance.log().transactions == (*said,)
        assert check(instance, repair=True).problems == []
        assert instance.log().transactions == ((client.producer.producer_id, 2),)

    def test_that_timed_out_meanwhile(
        self, instance: Instance, meanwhile: list[Callable[[], object]]
    ) -> None:
        client = sent(instance, "a")
        known = instance.state()
        client.abort()
        reopen(instance, (client.producer.producer_id, 0))
        set_id(instance, known)
        meanwhile.append(lambda: instance.transactions.time_out("id", known.number))

        assert len(check(instance, repair=True).problems) == 1
        assert (instance.log().transactions, instance.values()[0]) == ((), [])

    def test_that_another_run_has_closed(
        self, instance: Instance, meanwhile: list[Callable[[], object]]
    ) -> None:
        wrongly_open(instance, "a")
        meanwhile += [lambda: None, lambda: check(instance, repair=True)]
        outcome = check(instance, repair=True)

        assert (outcome.counts["repaired"], len(outcome.problems)) == (0, 1)
        assert check(instance).problems == []

    def test_of_a_log_that_cannot_be_read(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def damaged(_: object) -> Walked:
            raise CorruptRecordError("a byte has turned")

        client = wrongly_open(instance, "a")
        monkeypatch.setattr(ended, "walked", damaged)

        assert check(instance, repair=True).problems == [
            "t-0: a byte has turned",
            said_of(client, 0, "COMMIT at 1"),
        ]

    def test_by_a_commit_that_fails(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = wrongly_open(instance, "a")
        refuse(monkeypatch, CommitConflictError("others landed first"))
        found = check(instance, repair=True)

        why = "COMMIT at 1; the commit failed: others landed first"
        assert found.problems == [said_of(client, 0, why)]
        assert (found.counts["segments"], found.notes) == (2, [])

    def test_of_a_topic_that_vacuum_erases(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrongly_open(instance, "a")
        refuse(monkeypatch, TopicClosedError("t is being erased"))

        assert check(instance, repair=True) == Outcome(counts={"conflicts": 1})


def test_the_rows_are_those_of_the_commit(
    instance: Instance, meanwhile: list[Callable[[], object]]
) -> None:
    wrongly_open(instance, "a", "b", end="abort")
    meanwhile.append(lambda: run(merge_segments, instance.catalog.files.uri, seal=True))
    check(instance, repair=True)

    (row,) = instance.log().entries()
    assert (row.offset_span, len(row.aborted)) == (3, 1)
    assert instance.values()[0] == []
    assert check(instance).problems == []


def test_a_plan_that_is_made_again_tells_once(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Catalog.commit

    def commit_late(
        catalog: Catalog, topic: TopicDescription, plan: TopicPlan, *, operation: str
    ) -> Landed:
        assert isinstance(plan(catalog.topic_image(topic)), TopicEdit)
        return commit(catalog, topic, plan, operation=operation)

    wrongly_open(instance, "a")
    monkeypatch.setattr(Catalog, "commit", commit_late)

    assert check(instance, repair=True).counts["repaired"] == 1
