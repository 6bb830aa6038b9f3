"""What an operator asks of transactions: listed, described, and aborted by hand."""

from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.metadata.state.edit import OpenTransaction, TopicEdit
from sparklog.model import READ_COMMITTED
from sparklog.tokens import Principal
from sparklog.transactions.steps import Transactions
from sparklog.wire.gateway import STEPS_AT_ONCE, Gateway
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.transactions import TRANSACTIONAL
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway
from tests.wire.requests import body, part
from tests.wire.test_produce import produce_request
from tests.wire.test_transaction_steps import add, end, init


@pytest.fixture(autouse=True)
def topics(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])


def opened(client: Client, name: str = "id") -> Any:
    """A producer with a record in an open transaction."""
    producer = init(client, name)
    batch = client_batch(
        "x",
        times=[1_700_000_000_000],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    answer = client.ask(produce_request(12, "t", (0, batch), transactional_id=name))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    return producer


def described(client: Client, name: str = "id") -> Any:
    asked = body(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(name,))
    (found,) = client.ask(asked).transaction_states
    return found


def listed(client: Client, version: int = 2, **filters: Any) -> list[tuple[str, str]]:
    """Names and states."""
    fields = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1, **filters}
    fields = {"transactional_id_pattern": None, **fields}
    answer = client.ask(body(ApiKey.LIST_TRANSACTIONS, version, **fields))
    assert answer.error_code == ErrorCode.none
    return [(one.transactional_id, one.transaction_state) for one in answer.transaction_states]


def marker_of(
    producer_id: int, topic: str = "t", partition: int = 0, *, epoch: int = 0, commits: bool = False
) -> Any:
    """A WriteTxnMarkers with one marker."""
    key = ApiKey.WRITE_TXN_MARKERS
    named = part(key, 1, "WritableTxnMarkerTopic", name=topic, partition_indexes=(partition,))
    fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
    fields |= {"transaction_result": commits, "coordinator_epoch": 0, "topics": (named,)}
    return body(key, 1, markers=(part(key, 1, "WritableTxnMarker", **fields),))


def marker(client: Client, producer_id: int, *place: Any, **fields: Any) -> ErrorCode:
    """The code of WriteTxnMarkers."""
    answer = client.ask(marker_of(producer_id, *place, **fields))
    code: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
    return code


class TestDescribe:
    def test_an_open_transaction(self, client: Client) -> None:
        producer = opened(client)
        found = described(client)

        assert (found.error_code, found.transaction_state) == (ErrorCode.none, "Ongoing")
        assert (found.producer_id, found.producer_epoch) == (producer.producer_id, 0)
        assert [(one.topic, one.partitions) for one in found.topics] == [("t", (0,))]
        assert found.transaction_start_time is not None

    def test_one_that_is_ended(self, client: Client) -> None:
        end(client, opened(client))
        client.send(body(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("id",)))
        frame = client.receive_frame()

        # kio takes no negative time.
        assert frame[frame.index(b"CompleteCommit") + 14 + 4 :][:8] == b"\xff" * 8

    def test_an_unknown_one(self, client: Client) -> None:
        assert described(client, "no").error_code == ErrorCode.transactional_id_not_found

    def test_topics_are_those_the_client_sees(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened(client)
        monkeypatch.setattr(Principal, "sees", lambda _, name, resource: name != "t")

        assert described(client).topics == ()


class TestList:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_all(self, client: Client, version: int) -> None:
        opened(client)
        init(client, "other")

        assert listed(client, version) == [("id", "Ongoing"), ("other", "Empty")]

    def test_filtered(self, client: Client) -> None:
        producer = opened(client)
        init(client, "other")

        assert listed(client, state_filters=("Empty",)) == [("other", "Empty")]
        assert listed(client, producer_id_filters=(producer.producer_id,)) == [("id", "Ongoing")]
        assert listed(client, duration_filter=1_000_000) == []
        assert listed(client, transactional_id_pattern="o.*") == [("other", "Empty")]

    def test_an_unknown_state_is_told(self, client: Client) -> None:
        fields = {"producer_id_filters": (), "duration_filter": -1, "state_filters": ("Odd",)}
        answer = client.ask(body(ApiKey.LIST_TRANSACTIONS, 1, **fields))

        assert answer.unknown_state_filters == ("Odd",)

    @pytest.mark.parametrize("pattern", ["(", r"(a)\1"])
    def test_a_pattern_that_is_none_of_re2_is_refused(self, client: Client, pattern: str) -> None:
        """RE2 has no backreferences: it matches in linear time."""
        fields = {"state_filters": (), "producer_id_filters": (), "duration_filter": -1}
        asked = body(ApiKey.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern, **fields)

        assert client.ask(asked).error_code == 128


class TestAbort:
    def test_ends_the_whole_transaction(self, running: RunningGateway, client: Client) -> None:
        producer = opened(client)
        assert marker(client, producer.producer_id) == ErrorCode.none

        assert not running.server.gateway.transactions.describe("id").is_open
        assert end(client, producer).error_code == ErrorCode.producer_fenced

    def test_of_what_belongs_to_no_id_ends_it_in_the_partition(
        self, running: RunningGateway, client: Client
    ) -> None:
        catalog = running.server.gateway.catalog
        topic = catalog.topic("t")
        opened(client)
        transactions = {0: (OpenTransaction(5, 0),)}
        catalog.commit(topic, lambda _: TopicEdit(transactions=transactions), operation="TEST")
        assert marker(client, 5) == ErrorCode.none

        log = catalog.partition(topic, 0)
        assert (log.transactions, log.end_offset(READ_COMMITTED)) == ((), 2)
        assert marker(client, 5) == ErrorCode.none
        assert catalog.partition(topic, 0).log_end_offset == 2

    @pytest.mark.parametrize(("topic", "partition"), [("no", 0), ("t", 2)])
    def test_needs_a_partition(self, client: Client, topic: str, partition: int) -> None:
        assert marker(client, 5, topic, partition) == ErrorCode.unknown_topic_or_partition

    def test_nobody_else_commits(self, client: Client) -> None:
        producer = opened(client)

        assert marker(client, producer.producer_id, commits=True) == ErrorCode.invalid_request

    def test_is_refused_if_the_log_has_the_marker(
        self, running: RunningGateway, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = opened(client)
        end(client, producer)
        catalog = running.server.gateway.catalog
        said = {0: (OpenTransaction(producer.producer_id, 0),)}
        edit = TopicEdit(transactions=said)
        catalog.commit(catalog.topic("t"), lambda _: edit, operation="TEST")

        assert marker(client, producer.producer_id, epoch=1) == ErrorCode.invalid_txn_state
        assert "run sparklog verify --repair t" in caplog.text

    def test_slow_ones_hold_up_no_producer(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_end, steps, transact = Event(), list[Any](), Gateway.transact

        def noted(gateway: Gateway, step: Any, **given: Any) -> Any:
            steps.append(step)
            return transact(gateway, step, **given)

        producer = init(client)
        monkeypatch.setattr(Transactions, "abort_in", lambda *_: may_end.wait(30))
        with monkeypatch.context() as patch, ExitStack() as stack:
            stack.callback(may_end.set)
            patch.setattr(Gateway, "transact", noted)
            for _ in range(STEPS_AT_ONCE):
                stack.enter_context(Client(running.port)).send(marker_of(5))
            until(lambda: len(steps) == STEPS_AT_ONCE)
            client.socket.settimeout(10)

            assert add(client, producer, 0) == [ErrorCode.none]
