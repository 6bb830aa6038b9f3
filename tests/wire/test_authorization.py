"""Every API answers a client without grants with its code of authorization."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.metadata.history.read import history
from sparklog.tokens import EVERYBODY
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.wire.fetching import fetched
from tests.wire.gateways import Client, RunningGateway, grant_only, request
from tests.wire.grouping import GroupMember
from tests.wire.requests import body, part
from tests.wire.test_cluster import ACL_FILTER, quorum
from tests.wire.test_consumer_protocol import beats
from tests.wire.test_consumer_protocol import described as consumers_described
from tests.wire.test_list_offsets import list_request
from tests.wire.test_metadata import topics_asked
from tests.wire.test_partitions import delete as delete_records
from tests.wire.test_partitions import describe, log_dirs
from tests.wire.test_produce import produce_request
from tests.wire.test_replicas import elect, elected, move, moved, moves, put
from tests.wire.test_topics import create, delete, grow, new
from tests.wire.test_users import alter_users, setting

TOPIC = "flights"
OPEN_TO_ALL = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_CLUSTER,
}
"""APIs that ask nobody: what they tell belongs to no resource."""


def produced(client: Client) -> Any:
    return client.ask(produce_request(9, TOPIC, (0, b""))).responses[0].partition_responses[0]


def described(client: Client) -> Any:
    return client.ask(topics_asked(12, TOPIC)).topics[0]


def read(client: Client) -> Any:
    return fetched(client, TOPIC, version=12)[0]


def offsets_listed(client: Client) -> Any:
    return client.ask(list_request(10, (TOPIC, 0, -1))).topics[0].partitions[0]


def epoch_asked(client: Client) -> Any:
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    fields = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    topic = part(
        key,
        4,
        "OffsetForLeaderTopic",
        topic=TOPIC,
        partitions=(part(key, 4, "OffsetForLeaderPartition", **fields),),
    )
    return client.ask(body(key, 4, topics=(topic,))).topics[0].partitions[0]


def producer_id(client: Client, transactional_id: str | None) -> Any:
    from datetime import timedelta

    from kio.static.primitive import i32Timedelta

    fields: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}
    timeout = i32Timedelta.parse(timedelta(seconds=1))
    fields |= {"transactional_id": transactional_id, "transaction_timeout": timeout}
    return client.ask(request(ApiKey.INIT_PRODUCER_ID, 4, **fields))


def created(client: Client) -> Any:
    return create(client, new(TOPIC))[0]


def deleted(client: Client) -> Any:
    return delete(client, TOPIC)[0]


def grown(client: Client) -> Any:
    return grow(client, (TOPIC, 3))[0]


def configs(client: Client, kind: int, name: str) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    asked = part(ApiKey.DESCRIBE_CONFIGS, 4, "DescribeConfigsResource", **resource)
    return client.ask(body(ApiKey.DESCRIBE_CONFIGS, 4, resources=(asked,))).results[0]


def altered(client: Client, key: ApiKey, kind: int) -> Any:
    fields = {"resource_type": kind, "resource_name": TOPIC, "configs": ()}
    resource = part(key, 1, "AlterConfigsResource", **fields)
    return client.ask(body(key, 1, resources=(resource,), validate_only=False)).responses[0]


def acls(client: Client) -> Any:
    return client.ask(body(ApiKey.DESCRIBE_ACLS, 3, **ACL_FILTER))


def quotas(client: Client) -> Any:
    return client.ask(body(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=(), strict=False))


def users(client: Client) -> Any:
    return client.ask(body(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None))


def user_added(client: Client) -> Any:
    return alter_users(client, setting("alice"))[0]


def producers(client: Client) -> Any:
    key = ApiKey.DESCRIBE_PRODUCERS
    topic = part(key, 0, "TopicRequest", name=TOPIC, partition_indexes=(0,))
    return client.ask(body(key, 0, topics=(topic,))).topics[0].partitions[0]


def resources(client: Client) -> Any:
    return client.ask(body(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=()))


def coordinator(client: Client) -> Any:
    asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("g",), key_type=0)
    return client.ask(asked).coordinators[0]


def group_described(client: Client) -> Any:
    asked = body(ApiKey.DESCRIBE_GROUPS, 6, groups=("g",), include_authorized_operations=False)
    return client.ask(asked).groups[0]


def group_deleted(client: Client) -> Any:
    return client.ask(body(ApiKey.DELETE_GROUPS, 2, groups_names=("g",))).results[0]


def of_member(client: Client, key: ApiKey, version: int) -> Any:
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    fields |= {"protocol_type": None, "protocol_name": None, "assignments": (), "members": ()}
    return client.ask(body(key, version, **fields))


def committed(client: Client) -> Any:
    fields = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    one = part(
        ApiKey.OFFSET_COMMIT,
        9,
        "OffsetCommitRequestPartition",
        committed_metadata=None,
        **fields,
    )
    topic = part(ApiKey.OFFSET_COMMIT, 9, "OffsetCommitRequestTopic", name=TOPIC, partitions=(one,))
    named: dict[str, Any] = {"group_id": "g", "member_id": "", "group_instance_id": None}
    asked = body(
        ApiKey.OFFSET_COMMIT, 9, generation_id_or_member_epoch=-1, topics=(topic,), **named
    )
    return client.ask(asked).topics[0].partitions[0]


def fetched_offsets(client: Client) -> Any:
    fields = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": None}
    group = part(ApiKey.OFFSET_FETCH, 9, "OffsetFetchRequestGroup", **fields)
    return client.ask(body(ApiKey.OFFSET_FETCH, 9, groups=(group,), require_stable=False)).groups[0]


def offsets_deleted(client: Client) -> Any:
    return client.ask(body(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=()))


REFUSED_GROUP = ErrorCode.group_authorization_failed


def partition_added(client: Client, name: str = "id") -> Any:
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    fields: dict[str, Any] = {"v3_and_below_transactional_id": name}
    topic = part(key, 3, "AddPartitionsToTxnTopic", name=TOPIC, partitions=(0,))
    fields |= {"v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0}
    answer = client.ask(body(key, 3, v3_and_below_topics=(topic,), **fields))
    [[found]] = [one.results_by_partition for one in answer.results_by_topic_v3_and_below]
    return Answered(found.partition_error_code)


class Answered:
    """An answer whose error code has another name or place."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code


def ended(client: Client) -> Any:
    fields = {"transactional_id": "id", "producer_id": 1, "producer_epoch": 0}
    return client.ask(body(ApiKey.END_TXN, 4, committed=True, **fields))


def offsets_added(client: Client) -> Any:
    fields = {"transactional_id": "id", "producer_id": 1, "producer_epoch": 0, "group_id": "g"}
    return client.ask(body(ApiKey.ADD_OFFSETS_TO_TXN, 4, **fields))


def offsets_left(client: Client) -> Any:
    key = ApiKey.TXN_OFFSET_COMMIT
    fields = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    kinds = "TxnOffsetCommitRequestPartition", "TxnOffsetCommitRequestTopic"
    one = part(key, 5, kinds[0], committed_metadata=None, **fields)
    named: dict[str, Any] = {"transactional_id": "id", "group_id": "g", "member_id": ""}
    named |= {"producer_id": 1, "producer_epoch": 0, "generation_id": -1}
    topics = (part(key, 5, kinds[1], name=TOPIC, partitions=(one,)),)
    answer = client.ask(body(key, 5, topics=topics, group_instance_id=None, **named))
    return answer.topics[0].partitions[0]


def transaction_described(client: Client) -> Any:
    asked = body(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=("id",))
    return client.ask(asked).transaction_states[0]


def marker_written(client: Client) -> Any:
    key = ApiKey.WRITE_TXN_MARKERS
    topic = part(key, 1, "WritableTxnMarkerTopic", name=TOPIC, partition_indexes=(0,))
    fields = {"producer_id": 1, "producer_epoch": 0, "transaction_result": False}
    named = {**fields, "coordinator_epoch": 0, "topics": (topic,)}
    answer = client.ask(body(key, 1, markers=(part(key, 1, "WritableTxnMarker", **named),)))
    return answer.markers[0].topics[0].partitions[0]


def transaction_coordinator(client: Client) -> Any:
    asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("id",), key_type=1)
    return client.ask(asked).coordinators[0]


ASKED: dict[ApiKey, list[tuple[Callable[[Client], Any], ErrorCode]]] = {
    ApiKey.PRODUCE: [(produced, ErrorCode.topic_authorization_failed)],
    ApiKey.FETCH: [(read, ErrorCode.topic_authorization_failed)],
    ApiKey.LIST_OFFSETS: [(offsets_listed, ErrorCode.topic_authorization_failed)],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [(epoch_asked, ErrorCode.topic_authorization_failed)],
    ApiKey.DESCRIBE_PRODUCERS: [(producers, ErrorCode.topic_authorization_failed)],
    ApiKey.LIST_CONFIG_RESOURCES: [(resources, ErrorCode.cluster_authorization_failed)],
    ApiKey.METADATA: [(described, ErrorCode.topic_authorization_failed)],
    ApiKey.CREATE_TOPICS: [(created, ErrorCode.topic_authorization_failed)],
    ApiKey.DELETE_TOPICS: [(deleted, ErrorCode.topic_authorization_failed)],
    ApiKey.CREATE_PARTITIONS: [(grown, ErrorCode.topic_authorization_failed)],
    ApiKey.DESCRIBE_CONFIGS: [
        (lambda client: configs(client, 2, TOPIC), ErrorCode.topic_authorization_failed),
        (lambda client: configs(client, 4, "0"), ErrorCode.cluster_authorization_failed),
    ],
    ApiKey.ALTER_CONFIGS: [
        (
            lambda client: altered(client, ApiKey.ALTER_CONFIGS, 2),
            ErrorCode.topic_authorization_failed,
        ),
    ],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [
        (
            lambda client: altered(client, ApiKey.INCREMENTAL_ALTER_CONFIGS, 2),
            ErrorCode.topic_authorization_failed,
        ),
        (
            lambda client: altered(client, ApiKey.INCREMENTAL_ALTER_CONFIGS, 4),
            ErrorCode.cluster_authorization_failed,
        ),
    ],
    ApiKey.DESCRIBE_ACLS: [(acls, ErrorCode.cluster_authorization_failed)],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [(quotas, ErrorCode.cluster_authorization_failed)],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [(users, ErrorCode.cluster_authorization_failed)],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [(user_added, ErrorCode.cluster_authorization_failed)],
    ApiKey.DESCRIBE_QUORUM: [(quorum, ErrorCode.cluster_authorization_failed)],
    ApiKey.ELECT_LEADERS: [
        (lambda client: elect(client, is_all=True), ErrorCode.cluster_authorization_failed),
        (
            lambda client: Answered(*elected(elect(client, (TOPIC, [0]))).values()),
            ErrorCode.cluster_authorization_failed,
        ),
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [
        (move, ErrorCode.cluster_authorization_failed),
        (
            lambda client: Answered(*moved(move(client, (TOPIC, 0, [0])))),
            ErrorCode.cluster_authorization_failed,
        ),
    ],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [(moves, ErrorCode.cluster_authorization_failed)],
    ApiKey.DESCRIBE_LOG_DIRS: [(log_dirs, ErrorCode.cluster_authorization_failed)],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        (
            lambda client: Answered(*put(client, ("/", TOPIC, [0])).values()),
            ErrorCode.cluster_authorization_failed,
        )
    ],
    ApiKey.DELETE_RECORDS: [
        (
            lambda client: delete_records(client, (TOPIC, 0, 0))[0][1],
            ErrorCode.topic_authorization_failed,
        )
    ],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
        (lambda client: describe(client, TOPIC).topics[0], ErrorCode.topic_authorization_failed)
    ],
    ApiKey.OFFSET_COMMIT: [(committed, REFUSED_GROUP)],
    ApiKey.OFFSET_FETCH: [(fetched_offsets, REFUSED_GROUP)],
    ApiKey.OFFSET_DELETE: [(offsets_deleted, REFUSED_GROUP)],
    ApiKey.FIND_COORDINATOR: [
        (coordinator, REFUSED_GROUP),
        (transaction_coordinator, ErrorCode.transactional_id_authorization_failed),
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        (partition_added, ErrorCode.transactional_id_authorization_failed)
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [(offsets_added, ErrorCode.transactional_id_authorization_failed)],
    ApiKey.TXN_OFFSET_COMMIT: [(offsets_left, ErrorCode.transactional_id_authorization_failed)],
    ApiKey.DESCRIBE_TRANSACTIONS: [
        (transaction_described, ErrorCode.transactional_id_authorization_failed)
    ],
    ApiKey.WRITE_TXN_MARKERS: [(marker_written, ErrorCode.cluster_authorization_failed)],
    ApiKey.END_TXN: [(ended, ErrorCode.transactional_id_authorization_failed)],
    ApiKey.DESCRIBE_GROUPS: [(group_described, REFUSED_GROUP)],
    ApiKey.DELETE_GROUPS: [(group_deleted, REFUSED_GROUP)],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [(beats, REFUSED_GROUP)],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [(consumers_described, REFUSED_GROUP)],
    ApiKey.JOIN_GROUP: [
        (
            lambda client: client.ask(GroupMember(client, "g").join_request()),
            REFUSED_GROUP,
        )
    ],
    ApiKey.SYNC_GROUP: [
        (
            lambda client: of_member(client, ApiKey.SYNC_GROUP, 5),
            REFUSED_GROUP,
        )
    ],
    ApiKey.HEARTBEAT: [
        (
            lambda client: of_member(client, ApiKey.HEARTBEAT, 4),
            REFUSED_GROUP,
        )
    ],
    ApiKey.LEAVE_GROUP: [
        (
            lambda client: of_member(client, ApiKey.LEAVE_GROUP, 5),
            REFUSED_GROUP,
        )
    ],
    ApiKey.INIT_PRODUCER_ID: [
        (lambda client: producer_id(client, None), ErrorCode.cluster_authorization_failed),
        (
            lambda client: producer_id(client, "t"),
            ErrorCode.transactional_id_authorization_failed,
        ),
    ],
}
CASES = [(key, *case) for key, cases in ASKED.items() for case in cases]


@pytest.mark.parametrize(("key", "ask", "code"), CASES)
@pytest.mark.parametrize("is_there", [True, False])
def test_refuses_a_client_without_grants(
    running: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    key: ApiKey,
    ask: Callable[[Client], Any],
    code: ErrorCode,
    is_there: bool,
) -> None:
    if is_there:
        running.server.gateway.admin.create_topics([NewTopic(TOPIC, 1)])
    grant_only(monkeypatch)
    with Client(running.port) as client:
        assert ask(client).error_code == code


def test_the_history_names_the_client(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant_only(monkeypatch, *EVERYBODY.grants)
    with Client(running.port) as client:
        create(client, new("a"))
    log = running.server.gateway.catalog.log
    told = {one.operation: one.parameters.get("principal") for one in history(log)}

    assert (told["CREATE TOPICS"], told["REGISTER BROKER"]) == ("alice", None)


def test_every_api_is_asked() -> None:
    assert set(ASKED) | OPEN_TO_ALL == set(APIS)
