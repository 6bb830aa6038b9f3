"""The steps of transactions: records are added, committed, aborted; an end may be sent again."""

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    UnknownTopicError,
    UsageError,
)
from sparklog.metadata.plans.transactions import Producer, Step
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.transactions import EPOCH_MAX, TransactionPartition, TransactionStatus
from sparklog.model import READ_UNCOMMITTED
from tests.transactions import OLD, Client, Instance, with_epoch


class TestEnd:
    def test_a_commit_shows_the_records_of_all_topics(
        self, instance: Instance, client: Client
    ) -> None:
        for topic in ("t", "u"):
            for partition in (0, 1):
                client.produce(f"{topic}{partition}", partition, topic)
        assert instance.values() == {0: [], 1: []}
        version = instance.catalog.image().version
        client.commit()

        assert instance.catalog.image().version == version + 1
        assert instance.values("t") == {0: ["t0"], 1: ["t1"]}
        assert instance.values("u") == {0: ["u0"], 1: ["u1"]}

    def test_an_abort_shows_none(self, instance: Instance, client: Client) -> None:
        client.produce("1")
        client.abort()
        client.produce("2")
        client.commit()

        assert instance.values() == {0: ["2"], 1: []}
        assert instance.values(isolation=READ_UNCOMMITTED) == {0: ["1", "2"], 1: []}

    def test_partitions_of_one_epoch_name_one_marker(
        self, instance: Instance, client: Client
    ) -> None:
        for topic in ("t", "u"):
            client.produce("x", 1, topic)
        client.commit()
        rows = [instance.log(topic, 1).entries()[-1] for topic in ("t", "u")]

        assert {row.log_path for row in rows} == {rows[0].log_path}
        assert {(row.log_position, row.log_bytes) for row in rows} == {(0, 78)}

    def test_a_partition_without_records_gets_no_marker(
        self, instance: Instance, old: Client
    ) -> None:
        old.add(0, 1)
        old.produce("x", 0)
        old.commit()

        assert [instance.log(partition=one).log_end_offset for one in (0, 1)] == [2, 0]

    def test_a_later_transaction_of_another_producer_waits_for_the_former(
        self, instance: Instance, client: Client
    ) -> None:
        other = Client(instance, "other")
        other.init()
        client.produce("first")
        other.produce("second")
        other.commit()
        assert instance.values()[0] == []
        client.commit()

        assert instance.values()[0] == ["first", "second"]

    def test_a_topic_that_is_gone_is_left_out(self, instance: Instance, client: Client) -> None:
        from sparklog.admin import AdminClient

        client.produce("x", topic="t")
        client.produce("y", topic="u")
        AdminClient(instance.catalog.files.uri).delete_topics(["u"])
        topic_id = instance.catalog.topic("t").topic_id
        assert instance.state().partitions == ((topic_id, 0),)
        client.commit()

        assert instance.values("t")[0] == ["x"]

    def test_what_was_ended_so_is_ended(self, client: Client) -> None:
        client.produce("x")
        step = client.step
        after = client.commit()

        assert client.instance.transactions.end(step, is_commit=True) == after

    def test_what_was_ended_otherwise_is_not(self, client: Client) -> None:
        client.produce("x")
        step = client.step
        client.commit()

        with pytest.raises(InvalidTxnStateError, match="CompleteCommit, it cannot become"):
            client.instance.transactions.end(step, is_commit=False)

    def test_nothing_cannot_be_committed(self, client: Client) -> None:
        with pytest.raises(InvalidTxnStateError):
            client.commit()

    def test_nothing_may_be_aborted_and_raises_the_epoch(self, client: Client) -> None:
        before = client.producer

        assert client.abort() == before._replace(epoch=before.epoch + 1)

    def test_of_an_older_client_keeps_the_epoch(self, old: Client) -> None:
        before = old.producer
        old.add(0)
        old.produce("x")

        assert (old.commit(), old.commit()) == (before, before)
        with pytest.raises(InvalidTxnStateError):
            old.abort()

    def test_sequences_of_an_older_client_go_on(self, instance: Instance, old: Client) -> None:
        for value in ("1", "2"):
            old.add(0)
            old.produce(value)
            old.commit()

        assert instance.values()[0] == ["1", "2"]

    def test_the_last_epoch_is_followed_by_another_producer(self, client: Client) -> None:
        before = with_epoch(client, EPOCH_MAX - 1)
        client.produce("x")
        after = client.commit()

        assert (after.producer_id != before.producer_id, after.epoch) == (True, 0)
        assert client.instance.transactions.end(Step("id", before), is_commit=True) == after
        assert client.produce("y") == 2

    def test_an_open_transaction_has_the_time_of_its_begin(
        self, instance: Instance, client: Client
    ) -> None:
        began_ms = instance.catalog.clock.now_ms()
        client.produce("x")
        instance.catalog.clock.advance(70)  # type: ignore[attr-defined] # it is a ManualClock
        client.produce("y")
        state = instance.state()

        assert (state.started_ms, state.used_ms, state.number) == (began_ms, began_ms, 1)
        client.commit()
        assert (instance.state().started_ms, instance.state().used_ms) == (0, began_ms + 70)


def test_a_topic_that_was_deleted_is_not_added(instance: Instance, client: Client) -> None:
    place = TransactionPartition(instance.catalog.topic("t").topic_id, 0)
    AdminClient(instance.catalog.files.uri).delete_topics(["t"])

    with pytest.raises(UnknownTopicError, match="unknown topic id"):
        instance.transactions.add_partitions(client.step, [place])


class TestProduce:
    def test_adds_its_partition(self, instance: Instance, client: Client) -> None:
        client.produce("x", 1)
        topic_id = instance.catalog.topic("t").topic_id

        assert instance.state().partitions == ((topic_id, 1),)
        assert instance.state().status is TransactionStatus.ONGOING
        assert instance.log(partition=1).transactions == (
            OpenTransaction(client.producer.producer_id, 0),
        )

    @pytest.mark.parametrize("version", [OLD, 11])
    def test_of_an_older_client_needs_its_partition(self, instance: Instance, version: int) -> None:
        client = Client(instance, version=version)
        client.init()
        client.add(1)

        assert client.produce("x", 0) is InvalidTxnStateError
        assert client.produce("x", 1) == 0

    def test_of_a_transaction_begins_at_sequence_0(
        self, instance: Instance, client: Client
    ) -> None:
        """A batch that overtakes the first one, to another instance, must not land before it."""
        assert client.produce("second", skips=1) is OutOfOrderSequenceError
        assert (client.produce("first"), client.produce("second")) == (0, 1)
        old = Client(instance, "old", version=OLD)
        old.init()
        old.add(1)
        assert old.produce("any", 1, skips=5) == 0

    def test_of_a_producer_without_an_id_is_refused(self, instance: Instance) -> None:
        client = Client(instance)
        client.producer = Producer(77, 0)
        assert client.produce("x") is InvalidTxnStateError

        client.producer = Producer()
        assert client.produce("x") is InvalidTxnStateError

    def test_outside_of_its_open_transaction_is_refused(self, client: Client) -> None:
        client.produce("x")

        assert client.produce("y", attributes=0) is InvalidTxnStateError
        assert client.produce("y", 1, attributes=0) == 0

    def test_that_comes_behind_the_end_is_refused(self, client: Client) -> None:
        client.produce("x")
        late = client.producer
        client.commit()
        client.producer = late

        assert client.produce("y") is InvalidProducerEpochError

    def test_what_a_topic_refuses_opens_nothing(self, instance: Instance, client: Client) -> None:
        from sparklog.admin import AdminClient

        topic_id = instance.catalog.topic("t").topic_id
        AdminClient(instance.catalog.files.uri).delete_topics(["t"])
        from sparklog.group_commit.append_slots import Append, Slot
        from tests.client_batches import client_batch

        batch = client_batch("x", producer_id=client.producer.producer_id, attributes=0x10)
        instance.writer.write([Slot(Append(topic_id, 0, batch))])

        assert not instance.state().is_open


class TestSteps:
    def test_are_of_the_producer_of_the_id(self, client: Client) -> None:
        client.producer = Producer(5, 0)

        with pytest.raises(ProducerFencedError, match="'id' has no producer 5"):
            client.add(0)

    def test_of_nobody_are_of_no_id(self, client: Client) -> None:
        client.produce("x")
        client.instance.transactions.abort("id")
        client.producer = Producer()

        with pytest.raises(ProducerFencedError, match="'id' has no producer -1"):
            client.abort()

    def test_are_of_its_epoch(self, client: Client) -> None:
        client.producer = client.producer._replace(epoch=3)

        with pytest.raises(ProducerFencedError, match="epoch 3 of producer .*; it is 0 of"):
            client.add(0)

    def test_that_change_nothing_commit_nothing(self, client: Client) -> None:
        client.add(0)
        version = client.instance.catalog.image().version
        client.add(0)

        assert client.instance.catalog.image().version == version

    def test_ids_are_listed_by_name(self, instance: Instance, client: Client) -> None:
        Client(instance, "a").init()

        assert [one.transactional_id for one in instance.transactions.list()] == ["a", "id"]

    def test_an_unknown_id_is_not_found(self, instance: Instance) -> None:
        with pytest.raises(UsageError, match="'x' is unknown: it was never used"):
            instance.state("x")

    def test_a_timeout_is_that_of_one_transaction(self, client: Client) -> None:
        transactions = client.instance.transactions
        assert not transactions.time_out("id", 0)
        client.produce("x")

        assert not transactions.time_out("id", 2)
        assert transactions.time_out("id", 1)
        assert client.produce("y") is InvalidProducerEpochError
