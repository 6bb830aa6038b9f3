"""DescribeCluster, DescribeQuorum, and requests for things that a log dir never has.

There are no quotas, and no ACLs, because grants are in the file of tokens.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sparklog.errors import ErrorCode
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import cluster_operations
from sparklog.wire.protocol.writing import shortened
from sparklog.wire.security.authorization import DENIED

BROKERS: Final = 1
CONTROLLERS: Final = 2
ENTITIES: Final = ("user", "client-id", "ip")
"""The types of entities that a quota may be for (ClientQuotaEntity)."""
METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's name of the metadata log (Topic.CLUSTER_METADATA_TOPIC_NAME); it has one partition."""
NO_ELECTION: Final = 0
"""The leader epoch of a log whose leader was never elected."""


async def describe_cluster(call: Call) -> Reply:
    """Return the answer: the instances, the first of them as controller."""
    request = await call.request()
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        code, told = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "a broker was asked for the controllers"
        return call.answer({"error_code": code, "error_message": told})
    if endpoint_type != BROKERS:
        told = f"endpoint type {endpoint_type}: allowed is {BROKERS}, brokers"
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return call.answer({"error_code": code, "error_message": told})
    instances = call.instances
    fields = {
        "cluster_id": call.gateway.cluster_id,
        "controller_id": instances[0].node_id,
        "brokers": [
            {"broker_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in instances
        ],
    }
    if request.include_cluster_authorized_operations:
        fields["cluster_authorized_operations"] = cluster_operations(call)
    return call.answer(fields)


async def describe_quorum(call: Call) -> Reply:
    """Return the answer: one voter, which leads the metadata log up to the newest entry.

    Every instance writes entries, and the storage replicates them. So the voter is the instance
    that clients see as the controller, and no observer lags behind it.
    """
    topics = (await call.request()).topics
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER]})
    asked = [(one.topic_name, part.partition_index) for one in topics for part in one.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return await call.step(lambda: call.answer({"topics": [*map(_without_quorum, topics)]}))
    log_end = (await call.gateway.newest_image()).version + 1
    leader = call.instances[0]
    now_ms = call.gateway.clock.now_ms()
    voter = {
        "replica_id": leader.node_id,
        "log_end_offset": log_end,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    found = {
        "partition_index": 0,
        "leader_id": leader.node_id,
        "leader_epoch": NO_ELECTION,
        "high_watermark": log_end,
        "current_voters": [voter],
    }
    endpoint = {"name": call.session.listener.name, "host": leader.host, "port": leader.port}
    return call.answer(
        {
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [found]}],
            "nodes": [{"node_id": leader.node_id, "listeners": [endpoint]}],
        }
    )


def _without_quorum(topic: Any) -> Mapping[str, Any]:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [
        {"partition_index": one.partition_index, "error_code": code} for one in topic.partitions
    ]
    return {"topic_name": topic.topic_name, "partitions": partitions}


async def describe_acls(call: Call) -> Reply:
    """Return the answer of a broker without an authorizer."""
    await call.request()
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER]})
    told = "there are no ACLs: grants stand in the gateway's file of tokens"
    return call.answer({"error_code": ErrorCode.SECURITY_DISABLED, "error_message": told})


async def describe_client_quotas(call: Call) -> Reply:
    """Return the answer: there are none."""
    request = await call.request()
    problem = await call.step(lambda: _problem(request.components))
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER], "entries": None})
    if problem is not None:
        code = ErrorCode.UNSUPPORTED_VERSION
        return call.answer({"error_code": code, "error_message": problem, "entries": None})
    return call.answer({})


def _problem(components: Iterable[Any]) -> str | None:
    """Return the message about types of entities that there are not; None without such types."""
    unknown = sorted({one.entity_type for one in components}.difference(ENTITIES))
    told = f"entity types {unknown}: allowed are {', '.join(ENTITIES)}"
    return shortened(told) if unknown else None
