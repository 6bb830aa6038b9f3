"""DescribeCluster, and what a log dir never has: reassignments, ACLs, quotas."""

import pytest
from kio.schema.errors import ErrorCode

from sparklog.tokens import Grant, Principal, Resource, Scope
from sparklog.wire.versions import ApiKey
from tests.wire.gateways import Client, RunningGateway
from tests.wire.requests import SOON, body, part, versions

CLUSTER, ACLS = ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_ACLS
QUOTAS, MOVES = ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.LIST_PARTITION_REASSIGNMENTS
ALL_OPERATIONS, NO_OPERATIONS = 8096, -(2**31)
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


def test_no_partition_is_ever_moved(client: Client) -> None:
    found = client.ask(body(MOVES, 0, topics=None, timeout=SOON))
    assert (found.error_code, found.topics) == (ErrorCode.none, ())


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


def test_a_client_without_a_grant_for_the_cluster_is_told_less(
    running: RunningGateway, client: Client
) -> None:
    asked = body(CLUSTER, 1, include_cluster_authorized_operations=True)
    client.ask(asked)
    [connection] = running.server.gateway.connections
    topics = Grant(prefix="", scopes=frozenset(Scope))
    connection.session.principal = Principal(name="me", grants=(topics,))
    assert client.ask(asked).cluster_authorized_operations == 0
    denied = ErrorCode.cluster_authorization_failed
    assert client.ask(body(ACLS, 3, **ACL_FILTER)).error_code == denied
    assert client.ask(body(QUOTAS, 1, components=(), strict=False)).error_code == denied
    cluster = Grant(prefix="", scopes=frozenset({Scope.READ}), resource=Resource.CLUSTER)
    connection.session.principal = Principal(name="me", grants=(cluster,))
    assert client.ask(asked).cluster_authorized_operations == 1 << 8 | 1 << 10
