"""CreateTopics, DeleteTopics, CreatePartitions: in every version, and with Kafka's error codes."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import StorageError
from sparklog.tokens import Grant, Principal, Scope
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway
from tests.wire.requests import SOON, body, newest, part, versions

CREATE, DELETE, GROW = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS


@pytest.fixture
def admin(running: RunningGateway) -> AdminClient:
    return running.server.gateway.admin


def new(
    name: str,
    count: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    version: int = newest(CREATE),
) -> Any:
    pairs = [
        part(CREATE, version, "CreatableTopicConfig", name=key, value=value)
        for key, value in (configs or {}).items()
    ]
    manual = [
        part(
            CREATE,
            version,
            "CreatableReplicaAssignment",
            partition_index=number,
            broker_ids=tuple(ids),
        )
        for number, ids in assignments
    ]
    fields: dict[str, Any] = {"num_partitions": count, "replication_factor": replicas}
    fields |= {"assignments": tuple(manual), "configs": tuple(pairs)}
    return part(CREATE, version, "CreatableTopic", name=name, **fields)


def create(client: Client, *topics: Any, version: int = newest(CREATE), **fields: Any) -> Any:
    asked = {"timeout": SOON, "validate_only": False, **fields, "topics": topics}
    return client.ask(body(CREATE, version, **asked)).topics


def delete(
    client: Client,
    *names: str,
    ids: Sequence[UUID | None] = (),
    version: int = newest(DELETE),
) -> Any:
    wanted = [(name, None) for name in names] + [(None, one) for one in ids]
    return delete_asked(client, wanted, version)


def delete_asked(client: Client, wanted: Sequence[Any], version: int = newest(DELETE)) -> Any:
    fields: dict[str, Any] = {"topic_names": tuple(name for name, _ in wanted)}
    if version >= 6:
        topics = [
            part(DELETE, version, "DeleteTopicState", name=name, topic_id=one)
            for name, one in wanted
        ]
        fields = {"topics": tuple(topics)}
    return client.ask(body(DELETE, version, timeout=SOON, **fields)).responses


def grow(
    client: Client,
    *wanted: tuple[str, int],
    assignments: Sequence[Sequence[int]] | None = None,
    version: int = newest(GROW),
    validate_only: bool = False,
) -> Any:
    manual = assignments and tuple(
        part(GROW, version, "CreatePartitionsAssignment", broker_ids=tuple(ids))
        for ids in assignments
    )
    topics = [
        part(GROW, version, "CreatePartitionsTopic", name=name, count=count, assignments=manual)
        for name, count in wanted
    ]
    fields = {"topics": tuple(topics), "timeout": SOON, "validate_only": validate_only}
    return client.ask(body(GROW, version, **fields)).results


def codes(answers: Sequence[Any]) -> dict[str, ErrorCode]:
    return {one.name: one.error_code for one in answers}


class TestCreateTopics:
    @pytest.mark.parametrize("version", versions(CREATE))
    def test_creates_a_topic(self, client: Client, admin: AdminClient, version: int) -> None:
        wanted = new("flights", 3, configs={"retention.ms": "5"}, version=version)
        [found] = create(client, wanted, version=version)
        [topic] = admin.describe_topics()
        assert (found.name, found.error_code) == ("flights", ErrorCode.none)
        assert (topic.num_partitions, topic.configs) == (3, {"retention.ms": "5"})
        if version >= 5:
            assert (found.num_partitions, found.replication_factor) == (3, 1)
            assert {one.name: one.config_source for one in found.configs}["retention.ms"] == 1
        if version >= 7:
            assert found.topic_id == uuid_of(topic.topic_id)

    def test_an_error_fits_into_the_older_encoding(self, client: Client) -> None:
        """Goal: the text repeats the value, and its size is an int16 there."""
        wanted = new("flights", configs={"retention.ms": "x" * 32_767}, version=2)
        [found] = create(client, wanted, version=2)
        assert found.error_code == ErrorCode.invalid_config
        assert found.error_message.endswith("xx …")

    def test_minus_one_is_the_default_of_the_gateway(self, client: Client) -> None:
        [found] = create(client, new("flights", -1, -1))
        assert (found.error_code, found.num_partitions) == (ErrorCode.none, 1)

    @pytest.mark.parametrize("factor", [1, 2, 3, 32767])
    def test_any_replication_factor_is_accepted(self, client: Client, factor: int) -> None:
        [found] = create(client, new("flights", 1, factor))
        assert (found.error_code, found.replication_factor) == (ErrorCode.none, 1)

    def test_a_manual_assignment_gives_the_number_of_partitions(self, client: Client) -> None:
        [found] = create(client, new("flights", -1, -1, assignments=[(0, [0]), (1, [0])]))
        assert (found.error_code, found.num_partitions) == (ErrorCode.none, 2)

    @pytest.mark.parametrize(
        ("wanted", "code"),
        [
            (new("no/good"), ErrorCode.invalid_topic_exception),
            (new(""), ErrorCode.invalid_topic_exception),
            (new("__cluster_metadata"), ErrorCode.invalid_topic_exception),
            (new("there"), ErrorCode.topic_already_exists),
            (new("a", 0), ErrorCode.invalid_partitions),
            (new("a", -2), ErrorCode.invalid_partitions),
            (new("a", 10_001), ErrorCode.policy_violation),
            (new("a", 1, 0), ErrorCode.invalid_replication_factor),
            (new("a", 1, -2), ErrorCode.invalid_replication_factor),
            (new("a", configs={"retention.ms": "x"}), ErrorCode.invalid_config),
            (new("a", configs={"retention.mss": "1"}), ErrorCode.invalid_config),
            (new("a", configs={"retention.ms": None}), ErrorCode.invalid_config),
            (new("a", configs={"sparklog.partitioner": "os:system"}), ErrorCode.invalid_config),
            (new("a", 1, -1, assignments=[(0, [0])]), ErrorCode.invalid_request),
            (new("a", -1, 1, assignments=[(0, [0])]), ErrorCode.invalid_request),
            (new("a", -1, -1, assignments=[(1, [0])]), ErrorCode.invalid_replica_assignment),
            (new("a", -1, -1, assignments=[(0, [7])]), ErrorCode.invalid_replica_assignment),
            (new("a", -1, -1, assignments=[(0, [])]), ErrorCode.invalid_replica_assignment),
        ],
    )
    def test_refuses(
        self, client: Client, admin: AdminClient, wanted: Any, code: ErrorCode
    ) -> None:
        admin.create_topics([NewTopic("there", 1)])
        [found] = create(client, wanted)
        assert found.error_code == code
        assert found.error_message
        assert admin.list_topics() == ["there"]

    def test_the_others_are_created_in_one_commit(self, client: Client, admin: AdminClient) -> None:
        before = admin._catalog.image().version
        found = create(client, new("a"), new("no/good"), new("b"), new("a.b"), new("a_b"))
        assert [one.error_code for one in found] == [0, 17, 0, 0, 17]
        assert admin.list_topics() == ["a", "a.b", "b"]
        assert admin._catalog.image().version == before + 1

    def test_a_wrong_count_makes_no_room_for_others(self, client: Client) -> None:
        found = create(client, new("a", 10_001), new("b", -2), validate_only=True)
        assert codes(found)["a"] == ErrorCode.policy_violation

    def test_a_name_that_comes_twice_is_refused(self, client: Client, admin: AdminClient) -> None:
        found = create(client, new("a"), new("b"), new("a"))
        assert codes(found) == {"a": ErrorCode.invalid_request, "b": ErrorCode.none}
        assert admin.list_topics() == ["b"]

    def test_validate_only_creates_nothing(self, client: Client, admin: AdminClient) -> None:
        found = create(client, new("a"), new("no/good"), validate_only=True)
        assert [one.error_code for one in found] == [0, 17]
        assert admin.list_topics() == []


class TestDeleteTopics:
    @pytest.mark.parametrize("version", versions(DELETE))
    def test_deletes_by_name(self, client: Client, admin: AdminClient, version: int) -> None:
        admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        found = delete(client, "a", "nowhere", version=version)
        assert codes(found) == {
            "a": ErrorCode.none,
            "nowhere": ErrorCode.unknown_topic_or_partition,
        }
        assert admin.list_topics() == ["b"]

    def test_deletes_by_id(self, client: Client, admin: AdminClient) -> None:
        [topic] = admin.create_topics([NewTopic("a", 1)])
        strange = UUID(int=77)
        found = delete(client, ids=[uuid_of(topic.topic_id), strange])
        assert [(one.name, one.error_code) for one in found] == [
            ("a", ErrorCode.none),
            (None, ErrorCode.unknown_topic_id),
        ]
        assert admin.list_topics() == []

    def test_a_topic_is_named_or_has_an_id(self, client: Client, admin: AdminClient) -> None:
        [topic] = admin.create_topics([NewTopic("a", 1)])
        found = delete_asked(client, [(None, None), ("a", uuid_of(topic.topic_id))])
        assert [one.error_code for one in found] == [ErrorCode.invalid_request] * 2
        assert admin.list_topics() == ["a"]

    def test_one_that_is_given_by_both_is_left_alone(
        self, client: Client, admin: AdminClient
    ) -> None:
        [topic] = admin.create_topics([NewTopic("a", 1)])
        found = delete_asked(client, [("a", None), (None, uuid_of(topic.topic_id))])
        assert [one.error_code for one in found] == [ErrorCode.invalid_request] * 2
        assert admin.list_topics() == ["a"]

    def test_a_failure_of_the_storage_is_told(
        self, client: Client, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin.create_topics([NewTopic("a", 1)])
        monkeypatch.setattr(
            "sparklog.admin.each.EachTopic.delete_topics", failing(StorageError, "no")
        )
        [found] = delete(client, "a")
        assert found.error_code == ErrorCode.kafka_storage_error

    def test_what_takes_longer_than_the_timeout_goes_on(
        self, client: Client, running: RunningGateway, admin: AdminClient
    ) -> None:
        busy = Event()
        running.server.gateway._admin.submit(busy.wait)
        [found] = create(client, new("a"), timeout=timedelta(milliseconds=1))
        assert found.error_code == ErrorCode.request_timed_out
        busy.set()
        running.server.gateway._admin.submit(lambda: None).result()
        assert admin.list_topics() == ["a"]

    def test_a_failure_after_the_timeout_is_logged(
        self,
        client: Client,
        running: RunningGateway,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(
            "sparklog.admin.each.EachTopic.create_topics", failing(StorageError, "the disk is gone")
        )
        busy = Event()
        running.server.gateway._admin.submit(busy.wait)
        [found] = create(client, new("a"), timeout=timedelta(milliseconds=1))
        assert found.error_code == ErrorCode.request_timed_out
        busy.set()
        until(lambda: "the disk is gone" in caplog.text)
        assert "Traceback" not in caplog.text


class TestCreatePartitions:
    @pytest.mark.parametrize("version", versions(GROW))
    def test_grows_a_topic(self, client: Client, admin: AdminClient, version: int) -> None:
        admin.create_topics([NewTopic("a", 1)])
        [found] = grow(client, ("a", 3), version=version)
        assert found.error_code == ErrorCode.none
        assert admin.describe_topics()[0].num_partitions == 3

    @pytest.mark.parametrize(
        ("wanted", "code"),
        [
            (("a", 2), ErrorCode.invalid_partitions),
            (("a", 1), ErrorCode.invalid_partitions),
            (("a", -1), ErrorCode.invalid_partitions),
            (("nowhere", 3), ErrorCode.unknown_topic_or_partition),
            (("a", 10_003), ErrorCode.policy_violation),
        ],
    )
    def test_refuses(
        self, client: Client, admin: AdminClient, wanted: tuple[str, int], code: ErrorCode
    ) -> None:
        admin.create_topics([NewTopic("a", 2)])
        [found] = grow(client, wanted)
        assert found.error_code == code
        assert admin.describe_topics()[0].num_partitions == 2

    def test_refuses_more_partitions_than_a_topic_may_have(
        self, client: Client, admin: AdminClient
    ) -> None:
        admin.create_topics([NewTopic("a", 100_000)])
        [found] = grow(client, ("a", 100_001))
        assert found.error_code == ErrorCode.invalid_partitions
        assert "a topic has 1 to 100000" in str(found.error_message)

    @pytest.mark.parametrize(
        ("replicas", "code"),
        [
            ([[0], [0]], ErrorCode.none),
            ([[0]], ErrorCode.invalid_replica_assignment),
            ([[0], [7]], ErrorCode.invalid_replica_assignment),
        ],
    )
    def test_a_manual_assignment_is_of_the_new_partitions(
        self, client: Client, admin: AdminClient, replicas: list[list[int]], code: ErrorCode
    ) -> None:
        admin.create_topics([NewTopic("a", 1)])
        [found] = grow(client, ("a", 3), assignments=replicas)
        assert found.error_code == code

    def test_validate_only_grows_nothing(self, client: Client, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("a", 1)])
        [found] = grow(client, ("a", 3), validate_only=True)
        assert found.error_code == ErrorCode.none
        assert admin.describe_topics()[0].num_partitions == 1


def restricted(running: RunningGateway, client: Client) -> None:
    """The client may administer topics that begin with "mine", and sees no others."""
    client.ask(body(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False))
    [connection] = running.server.gateway.connections
    grants = (Grant(prefix="mine", scopes=frozenset({Scope.ADMIN})),)
    connection.session.principal = Principal(name="me", grants=grants)


def test_what_may_not_be_administered_is_left_alone(
    running: RunningGateway, client: Client, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("mine.a", 1), NewTopic("yours", 1)])
    restricted(running, client)
    denied = ErrorCode.topic_authorization_failed
    found = create(client, new("mine.b"), new("theirs"))
    assert codes(found) == {"mine.b": ErrorCode.none, "theirs": denied}
    found = delete(client, "mine.a", "yours", "nowhere")
    assert codes(found) == {"mine.a": ErrorCode.none, "yours": denied, "nowhere": denied}
    found = grow(client, ("mine.b", 2), ("yours", 2))
    assert codes(found) == {"mine.b": ErrorCode.none, "yours": denied}
    assert admin.list_topics() == ["mine.b", "yours"]


def test_an_id_does_not_show_the_name_of_a_topic(
    running: RunningGateway, client: Client, admin: AdminClient
) -> None:
    [topic] = admin.create_topics([NewTopic("yours", 1)])
    restricted(running, client)
    [found] = delete(client, ids=[uuid_of(topic.topic_id)])
    assert found.error_code == ErrorCode.topic_authorization_failed
    assert "yours" not in f"{found.name} {found.error_message}"


def test_one_topic_does_not_show_how_many_partitions_another_has(
    running: RunningGateway, client: Client, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("mine", 1), NewTopic("yours", 2)])
    restricted(running, client)
    found = grow(client, ("mine", 2), ("yours", 10_002), validate_only=True)
    assert codes(found)["mine"] == ErrorCode.none
