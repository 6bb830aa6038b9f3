"""Topic configs, as in Confluent's v3."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Path, Request, Response
from starlette.responses import StreamingResponse

from sparklog.admin import AlterConfigOp, OpType
from sparklog.config import TOPIC_CONFIG_KEYS, TopicConfig
from sparklog.config.partitioners import BUILT_IN, DEFAULT
from sparklog.model import TopicDescription
from sparklog.rest.deps import allowed, check_cluster, service_of, token_of
from sparklog.rest.errors import BAD_REQUEST, ApiError
from sparklog.rest.links import Links, links_to, readable
from sparklog.rest.paging import PageAsked
from sparklog.rest.parameters import ClusterId, TopicName
from sparklog.rest.payloads.bodies import body_docs, body_of
from sparklog.rest.schemas import models3
from sparklog.tokens import Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["v3"])

ConfigName = Annotated[
    str, Path(description="A topic config", max_length=249, examples=["retention.ms"])
]
NO_CONTENT: Final = 204
_PARTITIONER: Final = "sparklog.partitioner"


@router.get("/-/configs", response_model=models3.ConfigList)
async def read_all_configs(request: Request, cluster_id: ClusterId, page: PageAsked) -> Response:
    """All configs of the topics that the token may read. `page_size` counts topics, not configs."""
    token, service = token_of(request), service_of(request)
    links = await links_to(request, cluster_id)
    topics = await service.read_files(service.topics.topics)
    names = [name for name in topics if token.allows(Scope.READ, name)]
    names, following = page.of(names, str, str)
    mine = [topics[name] for name in names]
    metadata = links.list_at("/topics/-/configs", following)
    return StreamingResponse(_listed(links, mine, metadata), media_type="application/json")


async def _listed(
    links: Links, topics: Iterable[TopicDescription], place: models3.ListMetadata
) -> AsyncIterator[bytes]:
    """Yield a list's JSON, topic by topic: there may be thousands. Others have turns between."""
    metadata = place.model_dump()
    yield b'{"kind":"KafkaTopicConfigList","metadata":' + orjson.dumps(metadata) + b',"data":['
    separator = b""
    for topic in topics:
        data = [one.model_dump() for one in _configs(links, topic)]
        yield separator + orjson.dumps(data)[1:-1]
        separator = b","
        await asyncio.sleep(0)  # a part that is sent without waiting gives no turn away
    yield b"]}"


def _configs(links: Links, topic: TopicDescription) -> list[models3.ConfigData]:
    return [links.config(topic.name, one) for one in TopicConfig.parse(topic.configs).describe()]


@router.get("/{topic}/configs")
async def read_configs(
    request: Request, cluster_id: ClusterId, topic: TopicName, page: PageAsked
) -> models3.ConfigList:
    """All configs of a topic, defaults included."""
    links, found = await readable(request, cluster_id, topic)
    data, following = page.of(_configs(links, found), lambda one: one.name, str)
    metadata = links.list_at(f"/topics/{topic}/configs", following)
    return models3.ConfigList(metadata=metadata, data=data)


@router.get("/{topic}/configs/{name}")
async def read_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> models3.ConfigData:
    """One config of a topic."""
    for one in _configs(*await readable(request, cluster_id, topic)):
        if one.name == name:
            return one
    raise _unknown(name)


@router.put(
    "/{topic}/configs/{name}",
    status_code=NO_CONTENT,
    response_class=Response,
    openapi_extra=body_docs(models3.ConfigValueIn, {"value": "86400000"}),
)
async def set_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> None:
    """Set a config."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    await service.check_topic(topic)
    wanted = await body_of(request, models3.CONFIG_VALUE)
    _check_name(name)
    await _alter(request, topic, [AlterConfigOp(name, wanted.value)])


@router.delete(
    "/{topic}/configs/{name}",
    status_code=NO_CONTENT,
    response_class=Response,
)
async def reset_config(
    request: Request, cluster_id: ClusterId, topic: TopicName, name: ConfigName
) -> None:
    """Reset a config to its default."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    _check_name(name)
    await _alter(request, topic, [AlterConfigOp(name, op=OpType.DELETE)])


@router.post(
    "/{topic}/configs:alter",
    status_code=NO_CONTENT,
    response_class=Response,
    openapi_extra=body_docs(
        models3.ConfigChangesIn, {"data": [{"name": "retention.ms", "operation": "DELETE"}]}
    ),
)
async def alter_configs(request: Request, cluster_id: ClusterId, topic: TopicName) -> None:
    """Change several configs: all, or none."""
    service = allowed(request, Scope.ADMIN, topic)
    await check_cluster(service, cluster_id)
    await service.check_topic(topic)
    wanted = await body_of(request, models3.CONFIG_CHANGES)
    check_once(one.name for one in wanted.data)
    ops = [_op(one) for one in wanted.data]
    await _alter(request, topic, ops, validate_only=wanted.validate_only)


def _op(wanted: models3.ConfigChange) -> AlterConfigOp:
    if wanted.operation == OpType.DELETE:
        return AlterConfigOp(wanted.name, op=OpType.DELETE)
    return AlterConfigOp(wanted.name, value_of(wanted))


async def _alter(
    request: Request, topic: str, ops: list[AlterConfigOp], *, validate_only: bool = False
) -> None:
    check_configs({op.name: str(op.value) for op in ops if op.op is OpType.SET})
    alter = service_of(request).admin.incremental_alter_configs
    await service_of(request).administer(
        token_of(request), lambda: alter({topic: ops}, validate_only=validate_only)
    )


def _check_name(name: str) -> None:
    if name not in TOPIC_CONFIG_KEYS:
        raise _unknown(name)


def _unknown(name: str) -> ApiError:
    return ApiError(404, f"{name!r} is not a topic config")


def value_of(wanted: models3.ConfigIn) -> str:
    """Return the value of a config. Raises ApiError (400) if it has none, as in Kafka."""
    if wanted.value is None:
        raise ApiError(BAD_REQUEST, f"{wanted.name} needs a value")
    return wanted.value


def check_once(names: Iterable[str]) -> None:
    """Raise ApiError (400) for a config that is named twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ApiError(BAD_REQUEST, f"{twice[0]} is named twice in the request")


def check_configs(configs: Mapping[str, str]) -> None:
    """Raise ApiError (400) for a config that names code: no client may choose code to run."""
    if configs.get(_PARTITIONER, DEFAULT) not in BUILT_IN:
        raise ApiError(BAD_REQUEST, f"{_PARTITIONER} over REST is {', '.join(BUILT_IN)}")
