"""`sparklog transactions`: what kafka-transactions does, on a log dir."""

import pytest

from sparklog.metadata.state.edit import OpenTransaction, TopicEdit
from sparklog.metadata.state.producers import ProducerState
from tests.command_line import CommandLine
from tests.transactions import Client, Instance


@pytest.fixture
def instance(flights: CommandLine) -> Instance:
    return Instance(flights.log_dir)


@pytest.fixture
def opened(instance: Instance) -> Client:
    """A producer with an open transaction, beside one that has done nothing."""
    Client(instance, "idle").init()
    found = Client(instance)
    found.init()
    found.produce("x", 1, "flights")
    return found


class TestList:
    def test_ids_with_their_states(self, flights: CommandLine, opened: Client) -> None:
        head, *rows = [line.split() for line in flights.done("transactions", "list").lines[1:]]

        assert head == ["TRANSACTIONAL-ID", "PRODUCER-ID", "EPOCH", "STATE", "OPEN-FOR-S"]
        producer_id = str(opened.producer.producer_id)
        assert rows[0][1:4] == [producer_id, "0", "Ongoing"]
        assert rows[1][3:] == ["Empty", "-"]

    def test_of_states(self, flights: CommandLine, opened: Client) -> None:
        found = flights.done("transactions", "list", "--state", "Empty", "--format", "json").json

        assert [one["transactional_id"] for one in found] == ["idle"]
        lines = flights.done("transactions", "list", "--state", "ongoing").lines
        assert [line.split()[0] for line in lines[2:]] == ["id"]

    def test_of_an_unknown_state_are_refused(self, flights: CommandLine) -> None:
        outcome = flights("transactions", "list", "--state", "Open")

        assert outcome.code == 2
        assert "--state 'Open': allowed are Empty, Ongoing, CompleteCommit" in outcome.err


class TestDescribe:
    def test_an_open_one(self, flights: CommandLine, opened: Client) -> None:
        opened.offsets("g", 5, "flights")
        (found,) = flights.done("transactions", "describe", "id", "--format", "json").json
        assert (found["state"], found["partitions"]) == ("Ongoing", ["flights-1"])
        assert (found["groups"], found["timeout_ms"]) == (["g"], 60_000)

        lines = flights.done("transactions", "describe", "id").lines
        assert {"state: Ongoing", "partitions: flights-1", "groups: g"} <= set(lines)

    def test_what_is_not_there_is_a_dash(self, flights: CommandLine, opened: Client) -> None:
        assert "groups: -" in flights.done("transactions", "describe", "id").lines

    def test_an_unknown_one(self, flights: CommandLine) -> None:
        assert "it was never used" in flights("transactions", "describe", "no").err


class TestAbort:
    def test_by_id(self, flights: CommandLine, instance: Instance, opened: Client) -> None:
        done = flights.done("transactions", "abort", "id")

        assert done.lines == ["Aborted the transaction."]
        assert not instance.state().is_open
        assert "has no open transaction" in flights("transactions", "abort", "id").err

    def test_by_place(self, flights: CommandLine, instance: Instance, opened: Client) -> None:
        place = ["--topic", "flights", "--partition", 1]
        done = flights.done(
            "transactions", "abort", *place, "--start-offset", 1, "--format", "json"
        )

        assert done.json == [{"aborted": True}]
        assert not instance.state().is_open
        wrong = flights("transactions", "abort", *place, "--start-offset", 9)
        assert "no open transaction begins at offset 9; open ones begin at: none" in wrong.err

    @pytest.mark.parametrize("producers", [{}, {0: (ProducerState(5, 3),)}])
    def test_of_an_imported_log(
        self, flights: CommandLine, instance: Instance, producers: dict[int, tuple[ProducerState]]
    ) -> None:
        edit = TopicEdit(transactions={0: (OpenTransaction(5, 1),)}, producers=producers)
        topic = instance.catalog.topic("flights")
        instance.catalog.commit(topic, lambda _: edit, operation="IMPORT")
        flights.done("transactions", "abort", "--topic", "flights", "--start-offset", 1, "-q")

        assert instance.log("flights").transactions == ()
        assert instance.log("flights").last_stable_offset == 4

    @pytest.mark.parametrize("given", [[], ["id", "--topic", "flights"], ["--topic", "flights"]])
    def test_needs_to_know_which(self, flights: CommandLine, given: list[str]) -> None:
        assert flights("transactions", "abort", *given).code == 2
