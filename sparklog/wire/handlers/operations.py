"""The authorized operations of a client, for the answers to metadata requests: a bit for each.

The numbers of the bits are those of AclOperation.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call

NO_OPERATIONS: Final = -(2**31)
"""The value if the request does not ask for the operations."""


class Operation(IntEnum):
    """Kafka's operations on topics, on groups and on the cluster (AclOperation)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


_Scopes = Mapping[Scope, tuple[Operation, ...]]

_OF_TOPIC: Final[_Scopes] = {
    Scope.READ: (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    Scope.WRITE: (Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    Scope.ADMIN: (
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
}
_OF_GROUP: Final[_Scopes] = {
    Scope.READ: (Operation.READ, Operation.DESCRIBE),
    Scope.WRITE: (Operation.DESCRIBE,),
    Scope.ADMIN: (Operation.DELETE, Operation.DESCRIBE),
}
_OF_CLUSTER: Final[_Scopes] = {
    Scope.READ: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    Scope.WRITE: (Operation.DESCRIBE_CONFIGS,),
    Scope.ADMIN: (
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
    ),
}


def topic_operations(call: Call, topic: str) -> int:
    """Return the bits of the operations that the client may do on a topic."""
    return _bits(call, _OF_TOPIC, Resource.TOPIC, topic)


def group_operations(call: Call, group_id: str) -> int:
    """Return the bits of the operations that the client may do on a group."""
    return _bits(call, _OF_GROUP, Resource.GROUP, group_id)


def cluster_operations(call: Call) -> int:
    """Return the bits of the operations that the client may do on the cluster.

    Two of them depend on grants for topics: to create any topic, and to be an idempotent producer.
    """
    bits = _bits(call, _OF_CLUSTER, Resource.CLUSTER, "")
    bits |= call.allows(Scope.ADMIN, "") << Operation.CREATE
    return bits | call.allows_somewhere(Scope.WRITE) << Operation.IDEMPOTENT_WRITE


def _bits(call: Call, of_scopes: _Scopes, resource: Resource, name: str) -> int:
    allowed = [scope for scope in Scope if call.allows(scope, name, resource)]
    bits = 0
    for scope in allowed:
        for operation in of_scopes[scope]:
            bits |= 1 << operation
    return bits
