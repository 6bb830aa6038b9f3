"""Produce as in Confluent's v2: a list of records, to a topic or to one partition."""

import asyncio
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from sparklog.group_commit.rows import Rows
from sparklog.group_commit.share import Written
from sparklog.rest.deps import allowed, idempotency_key_of, partition_of
from sparklog.rest.errors import ApiError
from sparklog.rest.parameters import IDEMPOTENCY_DOCS, PARTITION_DOCS, TOPIC_DOCS
from sparklog.rest.payloads.bodies import body_docs, content_type, received
from sparklog.rest.payloads.json_parts import WHOLE_BYTES
from sparklog.rest.payloads.media_types import V2
from sparklog.rest.payloads.records import PRODUCE_TYPES, rows_of
from sparklog.rest.plain import PlainRoute
from sparklog.rest.schemas import models
from sparklog.rest.service import Service
from sparklog.tokens import Scope

router = APIRouter(tags=["records"], route_class=PlainRoute)

INLINE_BYTES: Final = WHOLE_BYTES
"""A request of at most this size is parsed, and answered, on the event loop."""


class V2Response(JSONResponse):
    """An answer of v2, which is JSON bytes already."""

    media_type = V2

    def render(self, content: bytes) -> bytes:
        """Return `content` unchanged."""
        return content


_EXAMPLE: Final = {"records": [{"key": "QUE=", "value": "eyJkZWxheSI6IDN9"}]}
_BODY_DOCS: Final = body_docs(
    {
        kind: "ProduceIn" if is_json else "BinaryProduceIn"
        for kind, is_json in PRODUCE_TYPES.items()
    },
    _EXAMPLE,
)


def _docs(*path: dict[str, Any]) -> dict[str, Any]:
    return {**_BODY_DOCS, "parameters": [*path, IDEMPOTENCY_DOCS]}


@router.post(
    "/topics/{topic}",
    response_model=models.Produced,
    response_class=V2Response,
    openapi_extra=_docs(TOPIC_DOCS),
)
async def produce_to_topic(request: Request) -> Response:
    """Produce records. The answer has their offsets, and comes when the records are durable."""
    return await _produce(request, None)


@router.post(
    "/topics/{topic}/partitions/{partition}",
    response_model=models.Produced,
    response_class=V2Response,
    openapi_extra=_docs(TOPIC_DOCS, PARTITION_DOCS),
)
async def produce_to_partition(request: Request) -> Response:
    """Produce records to one partition. The answer comes when the records are durable."""
    return await _produce(request, partition_of(request))


async def _produce(request: Request, partition: int | None) -> Response:
    topic = request.path_params["topic"]
    service = allowed(request, Scope.WRITE, topic)
    await service.check_topic(topic)
    kind = content_type(request)
    if kind not in PRODUCE_TYPES:
        raise ApiError(415, f"records come as {', '.join(PRODUCE_TYPES)}")
    key = idempotency_key_of(request)
    rows, is_large = await _rows(request, service, partition, is_json=PRODUCE_TYPES[kind])
    written = await service.produce(topic, rows, key)
    answer = await asyncio.to_thread(_produced, written) if is_large else _produced(written)
    return V2Response(answer)


async def _rows(
    request: Request, service: Service, partition: int | None, *, is_json: bool
) -> tuple[Rows, bool]:
    """Return the records of the body, and whether the body was large. The body is freed."""
    body = await received(request)
    if len(body) <= INLINE_BYTES:
        return rows_of(body, partition, is_json=is_json), False
    return await service.bulk(lambda: rows_of(body, partition, is_json=is_json)), True


def _produced(written: Written) -> bytes:
    """Return the body of a v2 answer."""
    places = zip(written.partition.tolist(), written.offset.tolist(), strict=True)
    offsets = [
        {"partition": number, "offset": offset, "error_code": None, "error": None}
        for number, offset in places
    ]
    return orjson.dumps({"offsets": offsets, "key_schema_id": None, "value_schema_id": None})
