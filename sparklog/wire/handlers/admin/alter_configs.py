"""AlterConfigs and IncrementalAlterConfigs, for topics only: a broker's configs are its settings.

AlterConfigs replaces all configs of a topic; Kafka keeps it for old clients. A DELETE of a config
that no topic has does nothing, as in Kafka (ConfigurationControlManager): MirrorMaker 2 sends one
for each config of a topic of an older cluster.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sparklog.admin import AlterConfigOp, OpType
from sparklog.admin.changes import check_named_once
from sparklog.config import TOPIC_CONFIG_KEYS
from sparklog.errors import ErrorCode
from sparklog.log.names import validate_topic_name
from sparklog.tokens import Resource, Scope
from sparklog.wire.configs import BROKER, TOPIC
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.outcomes import (
    check_admin,
    check_values,
    error_fields,
    outcomes,
    refused,
)
from sparklog.wire.security.authorization import DENIED

OPERATIONS: Final = (OpType.SET, OpType.DELETE, OpType.APPEND, OpType.SUBTRACT)
"""Operations by their number (AlterConfigOp.OpType)."""
_Resource = tuple[int, str]
"""The type and the name of a resource."""


async def alter_configs(call: Call) -> Reply:
    """Return the answer."""
    each = call.gateway.admin.each

    def prepare(resource: _Resource, given: Any) -> Mapping[str, str]:
        _check(call, resource, [one.name for one in given.configs])
        values = {one.name: one.value for one in given.configs}
        check_values(values, ErrorCode.INVALID_REQUEST)
        return values

    return await _altered(call, prepare, each.replace_configs)


async def incremental_alter_configs(call: Call) -> Reply:
    """Return the answer."""
    each = call.gateway.admin.each

    def prepare(resource: _Resource, given: Any) -> list[AlterConfigOp]:
        _check(call, resource, [one.name for one in given.configs])
        ops = [_operation(one) for one in given.configs]
        values = {op.name: op.value for op in ops if op.op is not OpType.DELETE}
        check_values(values, ErrorCode.INVALID_REQUEST)
        return [op for op in ops if op.name in values or op.name in TOPIC_CONFIG_KEYS]

    return await _altered(call, prepare, each.incremental_alter_configs)


async def _altered(
    call: Call,
    prepare: Callable[[_Resource, Any], Any],
    alter: Callable[..., Iterable[object]],
) -> Reply:
    request = await call.request()

    def do(wanted: dict[_Resource, Any]) -> Iterable[object]:
        changes = {name: one for (_, name), one in wanted.items()}
        return alter(changes, validate_only=request.validate_only)

    entries = [((one.resource_type, one.resource_name), one) for one in request.resources]
    found = await outcomes(call, entries, prepare, do)

    def answered() -> Reply:
        responses = [
            {"resource_type": kind, "resource_name": name, **error_fields(one)}
            for (kind, name), one in found.items()
        ]
        return call.answer({"responses": responses})

    return await call.step(answered)


def _check(call: Call, resource: _Resource, keys: Sequence[str]) -> None:
    """Raise SparklogError unless the client may alter these configs of the resource."""
    kind, name = resource
    if kind != TOPIC:
        raise _not_a_topic(call, kind, name)
    check_admin(call, name)
    validate_topic_name(name)
    check_named_once(name, keys)


def _not_a_topic(call: Call, kind: int, name: str) -> Exception:
    if kind == BROKER and not call.allows(Scope.ADMIN, resource=Resource.CLUSTER):
        return refused(DENIED[Resource.CLUSTER], "the client may not administer brokers")
    if kind == BROKER:
        return refused(
            ErrorCode.INVALID_REQUEST,
            f"broker {name!r}: its configs are settings of `sparklog gateway`, read when it starts",
        )
    return refused(ErrorCode.INVALID_REQUEST, f"resource type {kind}: allowed is {TOPIC} (topic)")


def _operation(given: Any) -> AlterConfigOp:
    if not 0 <= given.config_operation < len(OPERATIONS):
        allowed = ", ".join(f"{number} ({one})" for number, one in enumerate(OPERATIONS))
        raise refused(
            ErrorCode.INVALID_REQUEST,
            f"{given.name}: operation {given.config_operation}; allowed are {allowed}",
        )
    return AlterConfigOp(given.name, given.value, OPERATIONS[given.config_operation])
