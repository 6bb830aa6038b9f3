"""DescribeCluster, and requests for things that a log dir never has.

There are no reassignments, because no broker holds a partition; no ACLs, because grants are in the
file of tokens; and no quotas.
"""

from typing import Final

from sparklog.errors import ErrorCode
from sparklog.tokens import Resource, Scope
from sparklog.wire.authorization import DENIED
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.operations import cluster_operations

BROKERS: Final = 1
CONTROLLERS: Final = 2
ENTITIES: Final = ("user", "client-id", "ip")
"""What a quota may be for (ClientQuotaEntity)."""


async def describe_cluster(call: Call) -> Reply:
    """Return the answer: the instances, the first of them as controller."""
    request = call.request()
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        return call.answer(
            {
                "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "error_message": "a broker was asked for the controllers",
            }
        )
    if endpoint_type != BROKERS:
        return call.answer(
            {
                "error_code": ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                "error_message": f"endpoint type {endpoint_type}: allowed is {BROKERS}, brokers",
            }
        )
    listener = call.session.listener.name
    instances = [one.at(listener) for one in call.gateway.instances.alive]
    fields = {
        "cluster_id": call.gateway.cluster_id,
        "controller_id": min(one.node_id for one in instances),
        "brokers": [
            {"broker_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in instances
        ],
    }
    if request.include_cluster_authorized_operations:
        fields["cluster_authorized_operations"] = cluster_operations(call)
    return call.answer(fields)


async def list_partition_reassignments(call: Call) -> Reply:
    """Return the answer: there are none."""
    call.request()
    return call.answer({})


async def describe_acls(call: Call) -> Reply:
    """Return the answer of a broker without an authorizer."""
    call.request()
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER]})
    return call.answer(
        {
            "error_code": ErrorCode.SECURITY_DISABLED,
            "error_message": "there are no ACLs: grants stand in the gateway's file of tokens",
        }
    )


async def describe_client_quotas(call: Call) -> Reply:
    """Return the answer: there are none."""
    unknown = [
        one.entity_type for one in call.request().components if one.entity_type not in ENTITIES
    ]
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER], "entries": None})
    if unknown:
        return call.answer(
            {
                "error_code": ErrorCode.UNSUPPORTED_VERSION,
                "error_message": f"entity types {unknown}: allowed are {', '.join(ENTITIES)}",
                "entries": None,
            }
        )
    return call.answer({})
