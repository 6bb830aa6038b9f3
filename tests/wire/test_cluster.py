"""DescribeCluster, DescribeQuorum, and what a log dir never has: ACLs, quotas."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.tokens import Grant, Principal, Resource, Scope
from sparklog.wire.handlers.operations import Operation
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway
from tests.wire.requests import body, newest, part, versions

CLUSTER, ACLS = ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_ACLS
QUOTAS, QUORUM = ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_QUORUM
ALL_OPERATIONS, NO_OPERATIONS = 8096, -(2**31)
ON_CLUSTER = {"resource": Resource.CLUSTER}
ACL_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


class TestDescribeCluster:
    @pytest.mark.parametrize("version", versions(CLUSTER))
    @pytest.mark.parametrize(
        ("asked", "operations"), [(True, ALL_OPERATIONS), (False, NO_OPERATIONS)]
    )
    def test_tells_the_instances(
        self, running: RunningGateway, client: Client, version: int, asked: bool, operations: int
    ) -> None:
        fields = {"include_cluster_authorized_operations": asked, "include_fenced_brokers": False}
        found = client.ask(body(CLUSTER, version, **fields))
        [broker] = found.brokers
        assert found.cluster_id == running.server.gateway.cluster_id
        assert (found.controller_id, broker.broker_id, broker.port) == (0, 0, running.port)
        assert found.cluster_authorized_operations == operations

    @pytest.mark.parametrize(
        ("kind", "code"),
        [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
    )
    def test_has_no_controllers(self, client: Client, kind: int, code: ErrorCode) -> None:
        fields = {"include_cluster_authorized_operations": False, "endpoint_type": kind}
        found = client.ask(body(CLUSTER, 1, **fields))
        assert (found.error_code, found.brokers) == (code, ())


def quorum(
    client: Client,
    topic: str = "__cluster_metadata",
    numbers: tuple[int, ...] = (0,),
    version: int = newest(QUORUM),
) -> Any:
    """The answer about the quorum of these partitions."""
    wanted = tuple(part(QUORUM, version, "PartitionData", partition_index=one) for one in numbers)
    asked = part(QUORUM, version, "TopicData", topic_name=topic, partitions=wanted)
    return client.ask(body(QUORUM, version, topics=(asked,)))


class TestDescribeQuorum:
    @pytest.mark.parametrize("version", versions(QUORUM))
    def test_tells_the_end_of_the_metadata_log(
        self, running: RunningGateway, client: Client, version: int
    ) -> None:
        found = running.server.gateway
        for name in ("a", "b"):
            found.admin.create_topics([NewTopic(name, 1)])
            answer = quorum(client, version=version)
            [[one]] = [topic.partitions for topic in answer.topics]
            log_end = found.catalog.log.image().version + 1
            assert (answer.error_code, one.error_code) == (ErrorCode.none, ErrorCode.none)
            assert (one.leader_id, one.leader_epoch, one.high_watermark) == (0, 0, log_end)
            [voter] = one.current_voters
            assert (voter.replica_id, voter.log_end_offset, one.observers) == (0, log_end, ())
            if version >= 1:
                assert voter.last_caught_up_timestamp == voter.last_fetch_timestamp > 0

    def test_tells_where_its_leader_is(self, running: RunningGateway, client: Client) -> None:
        [node] = quorum(client).nodes
        [endpoint] = node.listeners
        assert (node.node_id, endpoint.name, endpoint.port) == (0, "PLAINTEXT", running.port)

    @pytest.mark.usefixtures("running")
    @pytest.mark.parametrize(
        ("topic", "numbers"), [("flights", (0,)), ("__cluster_metadata", (0, 1))]
    )
    def test_no_other_log_has_one(
        self, client: Client, topic: str, numbers: tuple[int, ...]
    ) -> None:
        answer = quorum(client, topic, numbers)
        assert answer.error_code == ErrorCode.none
        [found] = answer.topics
        assert found.topic_name == topic
        assert [(one.partition_index, one.error_code) for one in found.partitions] == [
            (number, ErrorCode.unknown_topic_or_partition) for number in numbers
        ]


@pytest.mark.parametrize("version", versions(ACLS))
def test_there_are_no_acls(client: Client, version: int) -> None:
    found = client.ask(body(ACLS, version, **ACL_FILTER))
    assert found.error_code == ErrorCode.security_disabled


@pytest.mark.parametrize("version", versions(QUOTAS))
def test_there_are_no_quotas(client: Client, version: int) -> None:
    user = part(QUOTAS, version, "ComponentData", entity_type="user", match_type=2, match=None)
    found = client.ask(body(QUOTAS, version, components=(user,), strict=False))
    assert (found.error_code, found.entries) == (ErrorCode.none, ())


def test_a_quota_is_for_what_kafka_knows(client: Client) -> None:
    what = part(QUOTAS, 1, "ComponentData", entity_type="shoes", match_type=2, match=None)
    found = client.ask(body(QUOTAS, 1, components=(what,), strict=False))
    assert (found.error_code, found.entries) == (ErrorCode.unsupported_version, None)


def given(running: RunningGateway, client: Client, *scopes: Scope, **fields: Any) -> None:
    """Give the client one grant, for topics unless told; it had all."""
    client.ask(body(ACLS, 3, **ACL_FILTER))
    [connection] = running.server.gateway.connections
    grant = Grant(**{"prefix": "", **fields}, scopes=frozenset(scopes))
    connection.session.principal = Principal(name="me", grants=(grant,))


def test_a_client_without_a_grant_for_the_cluster_is_told_less(
    running: RunningGateway, client: Client
) -> None:
    given(running, client, *Scope)
    denied = ErrorCode.cluster_authorization_failed
    assert client.ask(body(ACLS, 3, **ACL_FILTER)).error_code == denied
    assert client.ask(body(QUOTAS, 1, components=(), strict=False)).error_code == denied


CLUSTER_ADMIN = [
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
]


@pytest.mark.parametrize(
    ("scope", "fields", "operations"),
    [
        (Scope.READ, {}, []),
        (Scope.WRITE, {"prefix": "a"}, [Operation.IDEMPOTENT_WRITE]),
        (Scope.ADMIN, {"prefix": "a"}, []),
        (Scope.ADMIN, {}, [Operation.CREATE]),
        (Scope.READ, ON_CLUSTER, [Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]),
        (Scope.WRITE, ON_CLUSTER, [Operation.DESCRIBE_CONFIGS]),
        (Scope.ADMIN, ON_CLUSTER, CLUSTER_ADMIN),
    ],
)
def test_a_client_is_told_what_its_grant_allows(
    running: RunningGateway,
    client: Client,
    scope: Scope,
    fields: dict[str, Any],
    operations: list[Operation],
) -> None:
    given(running, client, scope, **fields)
    found = client.ask(body(CLUSTER, 1, include_cluster_authorized_operations=True))
    assert found.cluster_authorized_operations == sum(1 << one for one in operations)
