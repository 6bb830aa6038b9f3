"""Requests of transactional producers, in every version, and the codes of what is refused."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from sparklog.admin import NewTopic
from sparklog.coordinator.commits.offsets import offset_records
from sparklog.errors import CommitOutcomeUnknownError, StorageError
from sparklog.tokens import Grant, Resource, Scope
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.failing import failing
from tests.wire.gateways import Client, RunningGateway, grant_only
from tests.wire.grouping import GroupMember
from tests.wire.requests import body, part, versions
from tests.wire.test_produce import answers, produce_request

MINUTE = i32Timedelta.parse(timedelta(minutes=1))
STEPS = Grant(prefix="", scopes=frozenset({Scope.WRITE}), resource=Resource.TRANSACTIONAL_ID)


@pytest.fixture(autouse=True)
def topics(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 2)])


def init(client: Client, name: str | None = "id", version: int = 4, **fields: Any) -> Any:
    """The answer to InitProducerId."""
    given = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": MINUTE, **fields}
    return client.ask(body(ApiKey.INIT_PRODUCER_ID, version, transactional_id=name, **given))


def add(
    client: Client, producer: Any, *partitions: int, version: int = 3, topic: str = "t"
) -> list[ErrorCode]:
    """The codes of AddPartitionsToTxn, by partition."""
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    fields = {
        "v3_and_below_transactional_id": "id",
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
    }
    named = part(key, version, "AddPartitionsToTxnTopic", name=topic, partitions=partitions)
    answer = client.ask(body(key, version, v3_and_below_topics=(named,), **fields))
    (found,) = answer.results_by_topic_v3_and_below
    return [one.partition_error_code for one in found.results_by_partition]


def end(client: Client, producer: Any, version: int = 4, *, committed: bool = True) -> Any:
    """The answer to EndTxn."""
    fields = {"transactional_id": "id", "producer_id": producer.producer_id}
    fields |= {"producer_epoch": producer.producer_epoch, "committed": committed}
    return client.ask(body(ApiKey.END_TXN, version, **fields))


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_a_producer_gets_the_next_epoch(client: Client, version: int) -> None:
    first, second = init(client, version=version), init(client, version=version)

    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert first.producer_id == second.producer_id


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_partitions_are_added(running: RunningGateway, client: Client, version: int) -> None:
    assert add(client, init(client), 0, 1, version=version) == [ErrorCode.none] * 2
    assert len(running.server.gateway.transactions.describe("id").partitions) == 2


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
def test_a_transaction_is_ended(client: Client, version: int) -> None:
    producer = init(client)
    add(client, producer, 0)

    assert end(client, producer, version).error_code == ErrorCode.none


def test_partitions_are_added_all_or_none(client: Client) -> None:
    found = add(client, init(client), 1, 2)

    assert found == [ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition]


def test_the_topic_must_be_there(client: Client) -> None:
    assert add(client, init(client), 0, topic="no") == [ErrorCode.unknown_topic_or_partition]


def test_the_topic_must_be_granted(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = init(client)
    grant_only(monkeypatch, STEPS)
    with Client(running.port) as other:
        assert add(other, producer, 0) == [ErrorCode.topic_authorization_failed]


class TestProduce:
    """A batch of a transaction, and the transactional id that its request names."""

    def produced(self, client: Client, producer: Any, name: str | None, version: int = 12) -> Any:
        fields = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        batch = client_batch("x", base_sequence=0, attributes=0x10, **fields)
        plain = client_batch("y")
        asked = produce_request(version, "t", (0, batch), (1, plain), transactional_id=name)
        return [code for _, code, _ in answers(client.ask(asked))]

    @pytest.mark.parametrize("version", [9, 11, 12])
    def test_are_of_one_producer(self, client: Client, version: int) -> None:
        producer = init(client)
        init(client, "other")
        add(client, producer, 0)

        refused = ErrorCode.invalid_producer_id_mapping
        assert self.produced(client, producer, "other", version) == [refused, ErrorCode.none]
        assert self.produced(client, producer, "id", version) == [ErrorCode.none] * 2

    def test_must_be_named(self, client: Client) -> None:
        refused = ErrorCode.transactional_id_authorization_failed
        assert self.produced(client, init(client), None) == [refused] * 2

    def test_must_be_granted(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = init(client)
        grant_only(monkeypatch, Grant(prefix="", scopes=frozenset(Scope)))
        with Client(running.port) as other:
            refused = ErrorCode.transactional_id_authorization_failed
            assert self.produced(other, producer, "id") == [refused] * 2
            plain = produce_request(12, "t", (0, client_batch("y")), transactional_id="id")
            assert answers(other.ask(plain)) == [(0, ErrorCode.none, 0)]


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(
    client: Client, version: int
) -> None:
    producer = init(client)
    init(client)
    told = ErrorCode.producer_fenced if version > 1 else ErrorCode.invalid_producer_epoch

    assert end(client, producer, version).error_code == told


def test_an_empty_id_is_none(client: Client) -> None:
    assert init(client, "").error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("name", ["id", None])
@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 3}])
def test_a_producer_has_both_an_id_and_an_epoch(
    client: Client, name: str | None, half: dict[str, int]
) -> None:
    assert init(client, name, **half).error_code == ErrorCode.invalid_request


def test_a_timeout_may_be_too_long(client: Client) -> None:
    week = i32Timedelta.parse(timedelta(days=7))
    answer = init(client, transaction_timeout=week)

    assert answer.error_code == ErrorCode.invalid_transaction_timeout
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def pending(
    client: Client, producer: Any, offset: int = 5, version: int = 5, **member: Any
) -> ErrorCode:
    """The code of TxnOffsetCommit of an offset of t-0."""
    key = ApiKey.TXN_OFFSET_COMMIT
    fields = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    kinds = "TxnOffsetCommitRequestPartition", "TxnOffsetCommitRequestTopic"
    one = part(key, version, kinds[0], committed_metadata="m", **fields)
    topics = (part(key, version, kinds[1], name="t", partitions=(one,)),)
    named = {"generation_id": -1, "member_id": "", "group_instance_id": None, **member}
    named |= {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    asked = body(key, version, transactional_id="id", group_id="g", topics=topics, **named)
    code: ErrorCode = client.ask(asked).topics[0].partitions[0].error_code
    return code


def group_added(client: Client, producer: Any, version: int = 4) -> ErrorCode:
    """The code of AddOffsetsToTxn."""
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    asked = body(ApiKey.ADD_OFFSETS_TO_TXN, version, transactional_id="id", group_id="g", **fields)
    code: ErrorCode = client.ask(asked).error_code
    return code


def committed(client: Client, *, is_stable: bool = True, is_all: bool = False) -> Any:
    """The partition in the answer of OffsetFetch."""
    key = ApiKey.OFFSET_FETCH
    topic = part(key, 9, "OffsetFetchRequestTopics", name="t", partition_indexes=(0,))
    fields: dict[str, Any] = {"group_id": "g", "member_id": None, "member_epoch": -1}
    fields |= {"topics": None if is_all else (topic,)}
    group = part(key, 9, "OffsetFetchRequestGroup", **fields)
    (found,) = client.ask(body(key, 9, groups=(group,), require_stable=is_stable)).groups
    return found.topics[0].partitions[0]


class TestOffsets:
    @pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
    def test_are_committed_with_the_transaction(self, client: Client, version: int) -> None:
        producer = init(client)
        assert group_added(client, producer) == ErrorCode.none
        assert pending(client, producer, version=version) == ErrorCode.none
        assert committed(client, is_stable=False).committed_offset == -1
        end(client, producer)

        assert committed(client).committed_offset == 5
        assert committed(client, is_all=True).committed_offset == 5

    def test_of_an_open_transaction_are_unstable(self, client: Client) -> None:
        producer = init(client)
        pending(client, producer)
        assert committed(client).error_code == ErrorCode.unstable_offset_commit
        end(client, producer, committed=False)

        assert committed(client).error_code == ErrorCode.none
        assert committed(client).committed_offset == -1

    @pytest.mark.parametrize("version", versions(ApiKey.ADD_OFFSETS_TO_TXN))
    def test_a_group_is_added(self, running: RunningGateway, client: Client, version: int) -> None:
        assert group_added(client, init(client), version) == ErrorCode.none
        assert running.server.gateway.transactions.describe("id").groups == ("g",)

    def test_an_older_client_adds_its_group_first(self, client: Client) -> None:
        assert pending(client, init(client), version=3) == ErrorCode.invalid_txn_state
        assert pending(client, init(client), version=4) == ErrorCode.transaction_abortable

    def test_of_another_generation_are_refused(self, client: Client) -> None:
        found = pending(client, init(client), member_id="m", generation_id=3)

        assert found == ErrorCode.illegal_generation

    def test_of_a_generation_that_ends_meanwhile_are_refused(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else its successor could have read the offsets before these."""
        producer, transactions = init(client), running.server.gateway.transactions
        commit = transactions.commit_offsets
        with Client(running.port) as other:
            member = GroupMember(other, "g")
            member.join()

            def leaves_before(*args: Any, **fields: Any) -> None:
                member.leave()
                commit(*args, **fields)

            monkeypatch.setattr(transactions, "commit_offsets", leaves_before)
            named: dict[str, Any] = {
                "member_id": member.member_id,
                "generation_id": member.generation,
            }
            assert pending(client, producer, **named) == ErrorCode.unknown_member_id

    def test_are_encoded_once_to_judge_their_size(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoded = Mock(side_effect=offset_records)
        monkeypatch.setattr("sparklog.coordinator.shard.offset_records", encoded)
        assert pending(client, init(client)) == ErrorCode.none
        assert [len(one.args[1]) for one in encoded.mock_calls] == [1, 0]

    def test_of_a_fenced_producer_are_refused(self, client: Client) -> None:
        producer = init(client)
        init(client)

        assert pending(client, producer) == ErrorCode.invalid_producer_epoch

    def test_groups_and_ids_must_be_granted(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = init(client)
        grant_only(monkeypatch, STEPS)
        with Client(running.port) as other:
            assert group_added(other, producer) == ErrorCode.group_authorization_failed
            assert pending(other, producer) == ErrorCode.group_authorization_failed


class TestTimeouts:
    def test_what_takes_too_long_is_aborted(self, running: RunningGateway, client: Client) -> None:
        instance = running.server.gateway
        producer = init(client, transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=1)))
        add(client, producer, 0)
        running.run(instance.transaction_ends.look())
        while instance.transactions.describe("id").is_open:
            running.run(instance.transaction_ends.look())

        assert end(client, producer).error_code == ErrorCode.producer_fenced
        found = end(client, producer, 5, committed=False)
        assert (found.error_code, found.producer_epoch) == (ErrorCode.none, 1)

    @pytest.mark.parametrize("kind", [StorageError, TypeError])
    def test_trouble_is_told_to_the_log(
        self,
        kind: type[Exception],
        running: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(
            running.server.gateway.transactions, "expire", failing(kind, "the disk is gone")
        )
        running.run(running.server.gateway.transaction_ends.forget())

        assert "transactions were not looked after" in caplog.text
        assert "the disk is gone" in caplog.text


def test_trouble_with_the_storage_may_pass(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        running.server.gateway.transactions, "init", failing(StorageError, "the disk is gone")
    )

    assert init(client).error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", [4, 5])
def test_a_commit_that_may_have_landed_is_repeated(
    running: RunningGateway, client: Client, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_durable(_: int) -> None:
        monkeypatch.undo()
        raise CommitOutcomeUnknownError("the entry could not be made durable")

    producer = init(client)
    add(client, producer, 0)
    monkeypatch.setattr(running.server.gateway.catalog.log, "sync", not_durable)

    codes = [end(client, producer, version).error_code for _ in range(2)]
    assert codes == [ErrorCode.coordinator_not_available, ErrorCode.none]
