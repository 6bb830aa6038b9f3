"""Steps of a transaction at an instance that is held up between their arrival and their plan."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.clock import ManualClock
from sparklog.metadata.plans.transactions import Producer, Step
from sparklog.transactions.steps import Transactions
from sparklog.wire.standstill import STILL_MS
from tests.wire.gateways import Client, RunningGateway
from tests.wire.test_transaction_steps import add, end, group_added, init, pending


@pytest.fixture(autouse=True)
def topics(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])


def ended_and_begun(transactions: Transactions, producer: Any) -> None:
    """End the transaction and begin the next one, as its client does at another instance."""
    step = Step("id", Producer(producer.producer_id, producer.producer_epoch))
    transactions.end(step, is_commit=False, bumps=False)
    transactions.add_group(step, "g")


class TestLateSteps:
    @pytest.mark.parametrize("version", [1, 4])
    def test_an_end_of_an_older_client_does_not_end_the_next(
        self, running: RunningGateway, client: Client, version: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = init(client)
        add(client, producer, 0)
        gateway = running.server.gateway
        join = gateway.appends.join

        async def held_up(asked: Any) -> Any:
            await gateway.transact(lambda: ended_and_begun(gateway.transactions, producer))
            return await join(asked)

        monkeypatch.setattr(gateway.appends, "join", held_up)
        assert end(client, producer, version).error_code == ErrorCode.invalid_txn_state

        found = gateway.transactions.describe("id")
        assert (found.number, found.is_open) == (2, True)

    def test_is_not_taken_after_a_long_look(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A client that waited for the storage may have taken the step at another instance."""
        gateway, clock = running.server.gateway, ManualClock()
        producer, newest = init(client), gateway.newest_image
        add(client, producer, 0)

        async def slow() -> Any:
            clock.advance(STILL_MS)
            return await newest()

        monkeypatch.setattr(gateway, "clock", clock)
        monkeypatch.setattr(gateway, "newest_image", slow)
        late = ErrorCode.coordinator_not_available
        assert add(client, producer, 1) == [late]
        assert group_added(client, producer) == late
        assert pending(client, producer, version=4) == late
        assert end(client, producer).error_code == late

        found = gateway.transactions.describe("id")
        assert (found.is_open, len(found.partitions), found.groups) == (True, 1, ())
        assert end(client, producer, 5).error_code == ErrorCode.none  # its epoch is enough

    @pytest.mark.parametrize(
        ("version", "code"),
        [(2, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)],
    )
    def test_offsets_of_an_older_client_do_not_join_the_next(
        self,
        running: RunningGateway,
        client: Client,
        version: int,
        code: ErrorCode,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The step is bound before the group is asked, which may wait for the storage."""
        gateway, producer = running.server.gateway, init(client)
        group_added(client, producer)
        ask = gateway.coordinators.ask

        async def held_up(*given: Any) -> Any:
            await gateway.transact(lambda: ended_and_begun(gateway.transactions, producer))
            return await ask(*given)

        monkeypatch.setattr(gateway.coordinators, "ask", held_up)
        assert pending(client, producer, version=version) == code

    def test_connections_of_before_a_standstill_are_closed_unread(
        self, running: RunningGateway, client: Client
    ) -> None:
        async def stands_still() -> None:
            gateway.standstill.seen_ms -= STILL_MS + 1
            [connection] = gateway.connections
            connection.buffer_updated(0)

        gateway, producer = running.server.gateway, init(client)
        add(client, producer, 0)
        running.run(stands_still())
        with pytest.raises((ConnectionError, AssertionError)):
            end(client, producer)
        assert gateway.transactions.describe("id").is_open

        with Client(running.port) as again:
            assert end(again, producer).error_code == ErrorCode.none
