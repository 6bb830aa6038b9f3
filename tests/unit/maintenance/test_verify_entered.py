"""Open transactions that the metadata do not have, or have from a later offset on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification import ended
from sparklog.maintenance.verification.ended import Ended, settle
from sparklog.maintenance.verification.walked import Walked, WalkWork, walked
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.transactions import TransactionStatus
from sparklog.record.markers import COMMIT
from tests.edits import edited
from tests.maintenance import run
from tests.transactions import Client, Instance, new_log_dir
from tests.unit.maintenance.test_verify_ended import check, reopen, sent, set_id

pytestmark = pytest.mark.slow

BY_HAND = "; nobody ends it: sparklog transactions abort --topic t --partition 0 --start-offset 0"
CHANGED = "has changed meanwhile, so repair again"


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t", partitions=1)


def two_open(instance: Instance) -> tuple[Client, Client]:
    """Two producers, each with a record, "a" and "b", in an open transaction."""
    client, other = sent(instance, "a"), Client(instance, "other")
    other.init()
    other.produce("b")
    return client, other


def lose(instance: Instance, *left: OpenTransaction) -> None:
    """Let the metadata say that only these transactions are open."""
    edited(instance.catalog, instance.catalog.topic("t"), transactions={0: left})


def lose_id(instance: Instance) -> None:
    """Let the transactional id have no open transaction."""
    set_id(instance, instance.state()._replace(status=TransactionStatus.EMPTY, partitions=()))


def said_of(client: Client, first: int, said: str = "it has none", *, has_id: bool = True) -> str:
    line = (
        f"t-0: producer {client.producer.producer_id} has an open transaction with a record at "
        f"offset {first}, and the metadata say that {said}"
    )
    return f"{line}; transactional id 'id' has a transaction open there" if has_id else line


def during_the_walk(monkeypatch: pytest.MonkeyPatch, event: Callable[[], object]) -> None:
    """Let something happen at the end of each walk."""

    def then(work: WalkWork) -> Walked:
        found = walked(work)
        event()
        return found

    monkeypatch.setattr(ended, "walked", then)


class TestEntered:
    def test_readers_wait_again(self, instance: Instance) -> None:
        client = sent(instance, "a", "b")
        before = instance.log().transactions
        lose(instance)
        assert instance.values()[0] == ["a", "b"]
        assert check(instance).problems == [said_of(client, 0)]
        outcome = check(instance, repair=True)

        assert (outcome.problems, outcome.counts["repaired"]) == ([], 1)
        assert outcome.notes == [f"{said_of(client, 0)}: entered"]
        assert (instance.log().transactions, instance.values()[0]) == (before, [])
        assert check(instance) == check(instance, repair=True)

    def test_from_its_first_record_on(self, instance: Instance) -> None:
        client = sent(instance, "a", "b")
        producer = client.producer.producer_id
        lose(instance, OpenTransaction(producer, 1))
        outcome = check(instance, repair=True)

        assert outcome.notes == [f"{said_of(client, 0, 'it begins at 1')}: entered"]
        assert instance.log().transactions == ((producer, 0),)

    @pytest.mark.parametrize(("end", "values"), [("commit", ["a"]), ("abort", [])])
    def test_its_producer_ends_it(self, instance: Instance, end: str, values: list[str]) -> None:
        client = sent(instance, "a")
        lose(instance)
        check(instance, repair=True)
        getattr(client, end)()

        assert (instance.values()[0], instance.log().log_end_offset) == (values, 2)
        assert check(instance).problems == []

    def test_without_an_id_an_abort_by_hand_ends_it(self, instance: Instance) -> None:
        client = sent(instance, "a")
        Client(instance).produce("p", attributes=0)
        lose_id(instance)
        lose(instance)
        outcome = check(instance, repair=True)
        assert (outcome.notes, outcome.counts["repaired"]) == ([], 1)
        assert outcome.problems == [f"{said_of(client, 0, has_id=False)}: entered{BY_HAND}"]
        AdminClient(instance.catalog.files.uri).abort_transaction_at(("t", 0), 0)

        assert (instance.values()[0], instance.log().transactions) == (["p"], ())
        assert check(instance).problems == []

    def test_beside_those_of_others(self, instance: Instance) -> None:
        client, other = two_open(instance)
        before = instance.log().transactions
        lose(instance, OpenTransaction(other.producer.producer_id, 1))
        check(instance, repair=True)

        assert instance.log().transactions == before
        client.commit()
        assert instance.values()[0] == ["a"]

    def test_its_producer_has_ended_it_during_the_walk(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = sent(instance, "a")
        lose(instance)
        during_the_walk(monkeypatch, client.commit)

        line = said_of(client, 0, has_id=False)
        assert check(instance, repair=True).problems == [f"{line}: entered{BY_HAND}"]
        assert instance.log().transactions == ((client.producer.producer_id, 0),)

    def test_with_the_end_of_one_that_holds_readers_back(self, instance: Instance) -> None:
        client, other = two_open(instance)
        client.commit()
        reopen(instance, (client.producer.producer_id, 0))
        outcome = check(instance, repair=True)

        assert [line.rsplit(": ", 1)[1] for line in outcome.notes] == ["closed", "entered"]
        assert instance.log().transactions == ((other.producer.producer_id, 1),)
        assert (outcome.problems, instance.values()[0]) == ([], ["a"])

    def test_that_only_the_walk_has_found(self, instance: Instance) -> None:
        client, _ = two_open(instance)
        client.commit()
        (known,) = reopen(instance, (client.producer.producer_id, 0))
        topic = instance.catalog.topic("t")
        context = JobContext(instance.catalog, LocalFleet())
        settled = settle(context, topic, [Ended(0, known, COMMIT, 2)], is_mending=True)

        assert [line.rsplit(": ", 1)[1] for line in settled.notes] == ["closed", "entered"]
        assert instance.values()[0] == ["a"]

    def test_below_the_log_start(self, instance: Instance) -> None:
        client = sent(instance, "a", "b")
        Client(instance).produce("p", attributes=0)
        lose(instance)
        run(merge_segments, instance.catalog.files.uri, seal=True)
        AdminClient(instance.catalog.files.uri).delete_records({("t", 0): 1})
        check(instance, repair=True)

        assert check(instance).problems == []
        assert instance.values()[0] == []
        client.commit()
        assert instance.values()[0] == ["b", "p"]


class TestNotEntered:
    def test_while_its_producer_writes(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = sent(instance, "a")
        lose(instance)
        with monkeypatch.context() as patch:
            during_the_walk(patch, lambda: client.produce("b"))
            (line,) = check(instance, repair=True).problems

        assert line == f"{said_of(client, 0)}; not entered: it {CHANGED}"
        assert instance.log().transactions == ((client.producer.producer_id, 1),)
        assert check(instance, repair=True).problems == []
        assert instance.log().transactions == ((client.producer.producer_id, 0),)

    def test_nor_is_another_of_the_partition_closed(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client, other = two_open(instance)
        client.commit()
        said = reopen(instance, (client.producer.producer_id, 0))
        with monkeypatch.context() as patch:
            during_the_walk(patch, lambda: other.produce("c"))
            reasons = [line.rsplit("; ", 1)[1] for line in check(instance, repair=True).problems]

        another = f"not closed: another open transaction of the partition {CHANGED}"
        assert sorted(reasons) == [another, f"not entered: it {CHANGED}"]
        assert said[0] in instance.log().transactions
        assert check(instance, repair=True).problems == []
        assert instance.log().transactions == ((other.producer.producer_id, 1),)
