"""DescribeConfigs, ListConfigResources: every config of a topic or of a broker, with its sources.

An instance knows only its own settings, so a client must ask the broker whose configs it wants. The
default of all brokers (resource name "") has no configs: no setting holds for all instances.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparklog.config import TopicConfig
from sparklog.errors import ErrorCode, SparklogError, UnknownTopicError
from sparklog.log.names import validate_topic_name
from sparklog.metadata.state.image import Image
from sparklog.tokens import Resource
from sparklog.wire.broker_configs import broker_configs
from sparklog.wire.configs import BROKER, TOPIC, Config, topic_configs
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.outcomes import error_fields, refused
from sparklog.wire.security.authorization import DENIED

CLIENT_METRICS: Final = 16
RESOURCE_TYPES: Final = {TOPIC, BROKER, 8, CLIENT_METRICS, 32}
"""The types that there are (ConfigResource.Type): 8 is BROKER_LOGGER, 32 GROUP."""


async def describe_configs(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    image = await call.gateway.image()
    # A resource that comes twice is described once: it has about 5 KiB of configs.
    asked = dict.fromkeys(request.resources)

    def described() -> Reply:
        results = [_described(call, image, request, one) for one in asked]
        return call.answer({"results": results})

    # A topic takes a millisecond, and MirrorMaker 2 asks for all.
    return await call.gateway.at_length(described)


async def list_config_resources(call: Call) -> Reply:
    """Return the answer: the resources that DescribeConfigs takes (KIP-1142).

    Topics and brokers have configs here; client metrics, groups and loggers have none. Version 0
    asks for client metrics alone.
    """
    request = await call.request()
    kinds = set(getattr(request, "resource_types", (CLIENT_METRICS,))) or RESOURCE_TYPES
    if not call.sees("", Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER]})
    if not kinds <= RESOURCE_TYPES:
        return call.answer({"error_code": ErrorCode.UNSUPPORTED_VERSION})
    names = (await call.gateway.image()).names if TOPIC in kinds else ()
    alive = call.gateway.instances.alive

    def listed() -> Reply:
        found: list[Mapping[str, Any]] = []
        found += [_resource(TOPIC, name) for name in sorted(names) if call.sees(name)]
        if BROKER in kinds:
            found += [_resource(BROKER, str(one.node_id)) for one in alive]
        return call.answer({"config_resources": found})

    return await call.gateway.at_length(listed)


def _resource(kind: int, name: str) -> Mapping[str, Any]:
    return {"resource_type": kind, "resource_name": name}


def _described(call: Call, image: Image, request: Any, asked: Any) -> Mapping[str, Any]:
    fields = _resource(asked.resource_type, asked.resource_name)
    try:
        found = _configs(call, image, asked.resource_type, asked.resource_name)
    except SparklogError as error:
        return {**fields, **error_fields(error)}
    keys = asked.configuration_keys
    configs = [_fields(one, request) for one in found if not keys or one.name in keys]
    return {**fields, **error_fields(None), "configs": configs}


def _configs(call: Call, image: Image, kind: int, name: str) -> Sequence[Config]:
    """Return the configs of a resource. Raises SparklogError."""
    if kind == TOPIC:
        if not call.sees(name):
            raise refused(DENIED[Resource.TOPIC], f"topic {name!r}: the client may not see it")
        validate_topic_name(name)
        if name not in image.names:
            raise UnknownTopicError(f"unknown topic {name!r}", topic=name)
        return topic_configs(TopicConfig.parse(image.names[name].configs))
    if kind != BROKER:
        raise refused(
            ErrorCode.INVALID_REQUEST,
            f"resource type {kind}: allowed are {TOPIC} (topic) and {BROKER} (broker)",
        )
    if not call.sees("", Resource.CLUSTER):
        raise refused(DENIED[Resource.CLUSTER], "the client may not see configs of brokers")
    node_id = call.gateway.instances.own.node_id
    if name not in ("", str(node_id)):
        raise refused(
            ErrorCode.INVALID_REQUEST, f"broker {name!r}: broker {node_id} describes only itself"
        )
    return broker_configs(call.gateway.settings, node_id) if name else ()


def _fields(config: Config, request: Any) -> Mapping[str, Any]:
    fields = config.fields()
    if not request.include_synonyms:
        fields["synonyms"] = ()
    if not getattr(request, "include_documentation", False):
        fields["documentation"] = None
    return fields
