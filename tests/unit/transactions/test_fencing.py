"""The newest producer of an id fences the others; a late step is not of the next transaction."""

from unittest.mock import Mock

import pytest

from sparklog.errors import (
    CommitConflictError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    UsageError,
)
from sparklog.metadata.plans.transactions import Step, bound
from sparklog.metadata.state.transactions import EPOCH_MAX, PendingOffset
from sparklog.transactions.ending import Decision
from tests.transactions import Client, Instance, with_epoch


class TestInit:
    def test_each_time_raises_the_epoch(self, client: Client) -> None:
        first = client.producer

        assert client.init() == first._replace(epoch=first.epoch + 1)

    def test_ids_have_producers_of_their_own(self, instance: Instance, client: Client) -> None:
        other = Client(instance, "other").init()

        assert other.producer_id != client.producer.producer_id

    def test_aborts_what_is_open_and_fences_its_producer(
        self, instance: Instance, client: Client
    ) -> None:
        client.produce("1")
        later = Client(instance)
        later.init()

        assert later.producer.epoch == client.producer.epoch + 2
        assert instance.log().last_stable_offset == 2
        assert client.produce("2") is InvalidProducerEpochError
        with pytest.raises(ProducerFencedError):
            client.commit()

    def test_one_that_goes_on_gets_the_next_epoch(self, client: Client) -> None:
        before = client.producer

        assert client.init(before) == before._replace(epoch=before.epoch + 1)
        assert client.init(before) == client.producer

    def test_one_that_goes_on_aborts_its_open_transaction(self, client: Client) -> None:
        client.produce("x")
        client.init(client.producer)
        client.produce("y")
        client.commit()

        assert client.instance.values()[0] == ["y"]

    def test_one_that_goes_on_may_ask_again(self, client: Client) -> None:
        """Its first answer is lost, or the instance dies between the abort and the answer."""
        before = client.producer
        client.produce("x")

        assert client.init(before) == before._replace(epoch=before.epoch + 1)
        assert client.init(before) == client.producer

    def test_one_that_is_not_the_newest_is_fenced(self, client: Client) -> None:
        before = client.producer
        client.init()
        client.produce("x")

        with pytest.raises(ProducerFencedError, match=f"producer {before.producer_id} of epoch 0"):
            Client(client.instance).init(before)
        assert client.instance.state().is_open

    def test_behind_the_last_epoch_there_is_another_producer(self, client: Client) -> None:
        before = with_epoch(client, EPOCH_MAX - 1)
        after = client.init(before)

        assert (after.producer_id == before.producer_id + 1, after.epoch) == (True, 0)

    @pytest.mark.parametrize("timeout_ms", [0, 900_001])
    def test_a_timeout_out_of_bounds_is_refused(self, instance: Instance, timeout_ms: int) -> None:
        with pytest.raises(UsageError, match="allowed are 1 to 900000"):
            instance.transactions.init("id", timeout_ms)

    def test_gives_up_when_others_keep_beginning(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.produce("x")
        monkeypatch.setattr(client.instance.transactions.ends, "end", lambda _: None)

        with pytest.raises(CommitConflictError, match="kept beginning"):
            client.init()

    def test_one_that_is_overtaken_aborts_nothing_of_its_successor(
        self, instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Client(Instance(instance.catalog.files.uri))
        end = instance.transactions.ends.end

        def overtaken(decide: Decision) -> object:
            other.init()
            other.produce("theirs")
            return end(decide)

        client.produce("lost")
        monkeypatch.setattr(instance.transactions.ends, "end", overtaken)
        with pytest.raises(ProducerFencedError):
            client.init(client.producer)
        other.commit()

        assert instance.values()[0] == ["theirs"]

    def test_one_whose_transaction_ends_meanwhile_goes_on(
        self, instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = client.producer
        end = instance.transactions.ends.end

        def ended(decide: Decision) -> object:
            Instance(instance.catalog.files.uri).transactions.end(client.step, is_commit=True)
            return end(decide)

        client.produce("kept")
        monkeypatch.setattr(instance.transactions.ends, "end", ended)

        assert client.init(before) == before._replace(epoch=1)
        assert instance.values()[0] == ["kept"]

    def test_another_conflict_aborts_nothing(
        self, instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client.produce("x")
        busy = Mock(side_effect=CommitConflictError("other commits landed first"))
        monkeypatch.setattr(instance.catalog.log, "commit", busy)

        with pytest.raises(CommitConflictError, match="landed first"):
            client.init()
        assert instance.state().is_open


class TestTimeOut:
    """A transaction takes too long: its producer may abort it, and go on, as in Kafka 4.1.1."""

    def test_it_goes_on_when_it_has_aborted(self, instance: Instance, client: Client) -> None:
        client.produce("late")
        before = client.producer
        instance.transactions.time_out("id", 1)
        assert client.produce("later") is InvalidProducerEpochError
        with pytest.raises(InvalidTxnStateError):
            client.commit()

        assert client.abort() == before._replace(epoch=before.epoch + 1)
        client.produce("next")
        client.commit()
        assert instance.values()[0] == ["next"]

    def test_one_of_before_kip_890_is_fenced(self, instance: Instance, old: Client) -> None:
        old.add(0)
        instance.transactions.time_out("id", 1)

        with pytest.raises(ProducerFencedError):
            old.abort()

    def test_its_successor_fences_it(self, instance: Instance, client: Client) -> None:
        client.produce("late")
        instance.transactions.time_out("id", 1)
        Client(instance).init()

        with pytest.raises(ProducerFencedError):
            client.abort()

    def test_an_abort_by_hand_fences_it(self, instance: Instance, client: Client) -> None:
        client.produce("x")
        instance.transactions.abort("id")

        with pytest.raises(ProducerFencedError):
            client.abort()

    @pytest.mark.parametrize("epoch", [EPOCH_MAX - 1, EPOCH_MAX])
    def test_behind_the_last_epoch_there_is_another_producer(
        self, instance: Instance, client: Client, epoch: int
    ) -> None:
        """An imported transaction may have the very last one (KAFKA-20090)."""
        before = with_epoch(client, epoch)
        client.produce("x")
        instance.transactions.time_out("id", 1)

        assert client.abort() == before._replace(producer_id=before.producer_id + 1, epoch=0)
        assert instance.log().last_stable_offset == 2


class TestBinding:
    """Steps of clients from before KIP-890, which a paused instance takes when all is over."""

    def arrived(self, old: Client, *, ends: bool = False) -> Step:
        """A step as it is bound when it arrives."""
        return bound(old.instance.catalog.image(), old.step, ends=ends)

    def goes_on(self, old: Client) -> None:
        """The client has asked another instance: it ends its transaction and begins the next."""
        if old.instance.state().is_open:
            old.commit()
        old.add(0)
        old.produce("next")

    def test_a_late_end_does_not_end_the_next_transaction(
        self, instance: Instance, old: Client
    ) -> None:
        old.add(0)
        late = self.arrived(old, ends=True)
        self.goes_on(old)

        with pytest.raises(InvalidTxnStateError, match="a step of its transaction 1, which is ove"):
            instance.transactions.end(late, is_commit=True, bumps=False)
        assert (instance.state().number, instance.state().is_open) == (2, True)

    def test_nor_does_one_that_was_sent_again(self, instance: Instance, old: Client) -> None:
        old.add(0)
        old.commit()
        late = self.arrived(old, ends=True)
        assert instance.transactions.end(late, is_commit=True, bumps=False) == old.producer
        self.goes_on(old)

        with pytest.raises(InvalidTxnStateError):
            instance.transactions.end(late, is_commit=True, bumps=False)

    def test_late_offsets_are_not_those_of_the_next(self, instance: Instance, old: Client) -> None:
        old.add(0)
        late = self.arrived(old)
        self.goes_on(old)
        pending = [PendingOffset("g", "t", 0, 5)]

        with pytest.raises(InvalidTxnStateError):
            instance.transactions.commit_offsets(late, "g", pending)
        with pytest.raises(InvalidTxnStateError):
            instance.transactions.add_group(late, "g")
        assert instance.state().offsets == ()

    def test_a_late_partition_begins_no_transaction(self, instance: Instance, old: Client) -> None:
        late = self.arrived(old)
        self.goes_on(old)
        place = instance.state().partitions
        old.commit()

        with pytest.raises(InvalidTxnStateError):
            instance.transactions.add_partitions(late, place)
        assert not instance.state().is_open

    def test_steps_that_come_together_are_of_one(self, instance: Instance, old: Client) -> None:
        first, second = self.arrived(old), self.arrived(old)
        instance.transactions.add_group(first, "g")
        instance.transactions.add_group(second, "h")

        assert (instance.state().groups, instance.state().number) == (("g", "h"), 1)

    def test_of_an_unknown_id_are_of_none(self, instance: Instance, old: Client) -> None:
        old.name = "unknown"

        assert self.arrived(old) == old.step
