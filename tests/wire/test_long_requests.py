"""A long request, or one with a long answer, holds up no other client: it is worked on beside them.

Each step stands still in turn, while another client is answered.
"""

from importlib import import_module
from threading import Event
from typing import Any

import pytest

from sparklog.admin import NewTopic
from sparklog.coordinator.requests import PROTOCOLS_MAX, JoinRequest
from sparklog.errors import ErrorCode
from sparklog.wire.gateway import LONG_AT_ONCE
from sparklog.wire.groups.coordinators import Coordinators
from sparklog.wire.handlers.call import LONG_BYTES, Call
from sparklog.wire.handlers.partitions import QUICK
from sparklog.wire.handlers.transactional import transactions
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.fetching import Part, fetch_request
from tests.wire.gateways import Client, RunningGateway, check_others_are_answered
from tests.wire.requests import SOON, body, newest, part

fetch = import_module("sparklog.wire.handlers.records.fetch")
NUMBERS = tuple(range(LONG_BYTES // 4))
NAMES = tuple(f"name-{number:05}" for number in NUMBERS)
FETCH = fetch_request(12, "flights", *map(Part, NUMBERS))


def asked(api: ApiKey, **fields: Any) -> Any:
    """A request in the newest version."""
    return body(api, newest(api), **fields)


def topic(api: ApiKey, kind: str, **fields: Any) -> Any:
    """The array of topics of a request: one topic."""
    return (part(api, newest(api), kind, name="flights", topic="flights", **fields),)


def partitions(api: ApiKey, kind: str, each: str) -> Any:
    """The same with a struct for each partition."""
    fields = {"offset": 0, "replicas": (), "committed_offset": 0, "committed_metadata": None}
    some = [part(api, newest(api), each, partition_index=one, **fields) for one in NUMBERS]
    return topic(api, kind, partitions=tuple(some))


def of_a_member(api: ApiKey) -> Any:
    """A JoinGroup or SyncGroup of more than LONG_BYTES."""
    if api == ApiKey.JOIN_GROUP:
        return joining(1, bytes(LONG_BYTES))
    kind = "SyncGroupRequestAssignment"
    some = [part(api, newest(api), kind, member_id=one, assignment=b"") for one in NAMES]
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    return asked(api, **fields, assignments=tuple(some))


def joining(count: int, metadata: bytes) -> Any:
    """A JoinGroup with so many protocols."""
    api, kind = ApiKey.JOIN_GROUP, "JoinGroupRequestProtocol"
    protocol = part(api, newest(api), kind, name="range", metadata=metadata)
    return asked(
        api,
        group_id="g",
        member_id="",
        session_timeout=SOON,
        rebalance_timeout=SOON,
        protocol_type="consumer",
        protocols=(protocol,) * count,
    )


def long_request(api: ApiKey) -> Any:
    """A request of more than LONG_BYTES."""
    match api:
        case ApiKey.ELECT_LEADERS:
            return asked(
                api,
                election_type=0,
                topic_partitions=topic(api, "TopicPartitions", partitions=NUMBERS),
                timeout=SOON,
            )
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            some = partitions(api, "ReassignableTopic", "ReassignablePartition")
            return asked(api, timeout=SOON, topics=some)
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            some = topic(api, "AlterReplicaLogDirTopic", partitions=NUMBERS)
            moved = part(api, newest(api), "AlterReplicaLogDir", path="/", topics=some)
            return asked(api, dirs=(moved,))
        case ApiKey.DELETE_RECORDS:
            some = partitions(api, "DeleteRecordsTopic", "DeleteRecordsPartition")
            return asked(api, timeout=SOON, topics=some)
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            users = tuple(part(api, newest(api), "UserName", name=one) for one in NAMES)
            return asked(api, users=users)
        case ApiKey.JOIN_GROUP | ApiKey.SYNC_GROUP:
            return of_a_member(api)
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            return asked(
                api,
                v3_and_below_transactional_id="etl",
                v3_and_below_producer_id=1,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=topic(api, "AddPartitionsToTxnTopic", partitions=NUMBERS),
            )
        case ApiKey.OFFSET_FETCH:
            some = topic(api, "OffsetFetchRequestTopics", partition_indexes=NUMBERS)
            group = part(api, newest(api), "OffsetFetchRequestGroup", group_id="g", topics=some)
            return asked(api, groups=(group,), require_stable=False)
        case ApiKey.OFFSET_COMMIT:
            kinds = "OffsetCommitRequestTopic", "OffsetCommitRequestPartition"
            return asked(
                ApiKey.OFFSET_COMMIT,
                group_id="readers",
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=partitions(ApiKey.OFFSET_COMMIT, *kinds),
            )
        case _:
            return of_an_administrator(api)


def of_an_administrator(api: ApiKey) -> Any:
    """Another request of more than LONG_BYTES."""
    match api:
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return asked(api, transactional_ids=NAMES)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            kind = "ScramCredentialDeletion"
            gone = tuple(part(api, newest(api), kind, name=one, mechanism=1) for one in NAMES)
            return asked(api, deletions=gone, upsertions=())
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            fields = {"entity_type": "user", "match_type": 0, "match": "x" * 5}
            return asked(
                api,
                components=(part(api, newest(api), "ComponentData", **fields),) * len(NUMBERS),
                strict=False,
            )
        case ApiKey.WRITE_TXN_MARKERS:
            some = topic(api, "WritableTxnMarkerTopic", partition_indexes=NUMBERS)
            fields = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
            marker = part(
                api,
                newest(api),
                "WritableTxnMarker",
                transaction_result=True,
                topics=some,
                **fields,
            )
            return asked(api, markers=(marker,))
        case ApiKey.DESCRIBE_GROUPS:
            return asked(api, groups=("g" * LONG_BYTES,), include_authorized_operations=True)
        case _:
            kinds = "OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition"
            return asked(api, group_id="readers", topics=partitions(api, *kinds))


@pytest.mark.parametrize(
    ("api", "module", "step"),
    [
        (ApiKey.ELECT_LEADERS, "sparklog.wire.protocol.messages", "checked_items"),
        (ApiKey.ELECT_LEADERS, "sparklog.wire.handlers.admin.replicas", "_topic_of"),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            "sparklog.wire.handlers.admin.replicas",
            "_topic_of",
        ),
        (ApiKey.ALTER_REPLICA_LOG_DIRS, "sparklog.wire.handlers.admin.log_dirs", "_code"),
        (ApiKey.DELETE_RECORDS, "sparklog.wire.handlers.records.delete_records", "check_admin"),
        (ApiKey.DELETE_RECORDS, "sparklog.wire.handlers.records.delete_records", "_answered"),
        (
            ApiKey.DESCRIBE_TRANSACTIONS,
            "sparklog.wire.handlers.transactional.transaction_admin",
            "_described",
        ),
        (
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            "sparklog.wire.handlers.admin.users",
            "_described",
        ),
        (ApiKey.JOIN_GROUP, "sparklog.wire.handlers.groups.group_members", "_joining"),
        (ApiKey.SYNC_GROUP, "sparklog.wire.handlers.groups.group_members", "_syncing"),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            "sparklog.wire.handlers.transactional.transactions",
            "_code",
        ),
        (ApiKey.OFFSET_FETCH, "sparklog.wire.handlers.groups.group_offsets", "_told"),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "sparklog.wire.handlers.admin.users", "_refused"),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "sparklog.wire.handlers.admin.users", "_changes"),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "sparklog.wire.handlers.admin.users", "_answered"),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, "sparklog.wire.handlers.admin.cluster", "_problem"),
        (
            ApiKey.WRITE_TXN_MARKERS,
            "sparklog.wire.handlers.transactional.transaction_admin",
            "_code_or_step",
        ),
        (
            ApiKey.WRITE_TXN_MARKERS,
            "sparklog.wire.handlers.transactional.transaction_admin",
            "_answered",
        ),
        (ApiKey.DESCRIBE_GROUPS, "sparklog.wire.handlers.groups.group_admin", "tell_operations"),
        (ApiKey.OFFSET_DELETE, "sparklog.wire.handlers.groups.group_deletes", "_codes"),
        (
            ApiKey.OFFSET_COMMIT,
            "sparklog.wire.handlers.groups.offset_commit",
            "read_commit_request",
        ),
        (ApiKey.OFFSET_COMMIT, "sparklog.wire.handlers.groups.offset_commit", "_judged"),
        (
            ApiKey.OFFSET_COMMIT,
            "sparklog.wire.handlers.groups.offset_commit",
            "written_commit_answer",
        ),
    ],
)
@pytest.mark.usefixtures("topic")
def test_a_long_request(
    running: RunningGateway,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    api: ApiKey,
    module: str,
    step: str,
) -> None:
    slow, wanted = (import_module(module), step), long_request(api)
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(wanted))
    assert client.receive(api, newest(api))


@pytest.mark.parametrize("step", ["read_fetch_request", "fetch_answer"])
@pytest.mark.usefixtures("topic")
def test_a_fetch_of_many_partitions(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    check_others_are_answered(running, monkeypatch, (fetch, step), lambda: client.send(FETCH))
    assert len(client.receive(ApiKey.FETCH, 12).responses[0].partitions) == len(NUMBERS)


def test_no_long_request_waits_for_answers_to_administrators(
    running: RunningGateway, client: Client
) -> None:
    """Such an answer may take seconds, and a member of a group that waits is fenced."""
    may_end = Event()
    for _ in range(2 * LONG_AT_ONCE):
        running.begin(running.server.gateway.at_length(may_end.wait))
    try:
        assert client.ask(FETCH)
    finally:
        may_end.set()


def test_keeps_its_bytes_until_it_is_read(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts in queued.max.request.bytes: memory that is in use, and no waiting consumer."""
    limits, read, held = running.server.gateway.limits, fetch.read_fetch_request, list[int]()

    def noting(*given: Any) -> Any:
        held.append(limits.request_bytes)
        return read(*given)

    monkeypatch.setattr(fetch, "read_fetch_request", noting)
    client.ask(FETCH)
    assert held[0] > LONG_BYTES
    assert limits.request_bytes == 0


@pytest.mark.parametrize(
    ("api", "module", "step", "fields"),
    [
        (
            ApiKey.METADATA,
            "metadata",
            "_written",
            {"topics": None, "include_topic_authorized_operations": False},
        ),
        (
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            "topic_partitions",
            "_described",
            {"topics": (), "response_partition_limit": 2_000, "cursor": None},
        ),
    ],
)
def test_a_short_request_with_a_long_answer(
    running: RunningGateway,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    api: ApiKey,
    module: str,
    step: str,
    fields: dict[str, Any],
) -> None:
    running.server.gateway.admin.create_topics([NewTopic("wide", QUICK * QUICK)])
    slow = import_module(f"sparklog.wire.handlers.admin.{module}"), step
    wanted = asked(api, **fields)
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(wanted))
    assert client.receive(api, newest(api)).topics


@pytest.mark.usefixtures("topic")
def test_a_list_of_all_resources(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = import_module("sparklog.wire.handlers.admin.describe_configs"), "_resource"
    api = ApiKey.LIST_CONFIG_RESOURCES
    wanted = asked(api, resource_types=())
    check_others_are_answered(running, monkeypatch, slow, lambda: client.send(wanted))
    assert len(client.receive(api, newest(api)).config_resources) == 2


def test_a_step_of_a_transaction_looks_before_its_request_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a long request waits to be read, the client may begin its next transaction."""
    look, parsed, order = transactions.image_in_time, Call.parsed, list[str]()

    async def looking(call: Call) -> Any:
        order.append("look")
        return await look(call)

    def reading(call: Call) -> Any:
        order.append("read")
        return parsed(call)

    monkeypatch.setattr(transactions, "image_in_time", looking)
    monkeypatch.setattr(Call, "parsed", reading)
    client.ask(long_request(ApiKey.ADD_PARTITIONS_TO_TXN))
    client.ask(
        asked(
            ApiKey.ADD_OFFSETS_TO_TXN,
            transactional_id="etl",
            producer_id=1,
            producer_epoch=0,
            group_id="readers",
        )
    )
    assert order == ["look", "read"] * 2


def test_of_far_too_many_protocols_one_too_many_is_looked_at(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[JoinRequest]()
    ask = Coordinators.ask

    async def noting(self: Coordinators, request: Any, *given: Any) -> Any:
        found.append(request)
        return await ask(self, request, *given)

    monkeypatch.setattr(Coordinators, "ask", noting)
    answer = client.ask(joining(PROTOCOLS_MAX + 9, b""))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert [len(one.protocols) for one in found] == [PROTOCOLS_MAX + 1]
