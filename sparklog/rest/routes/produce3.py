"""Produce as in Confluent's v3: records one after another, or a batch of records with ids."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from sparklog.config.times import iso_time
from sparklog.errors import SparklogError
from sparklog.group_commit.rows import Rows
from sparklog.group_commit.share import Written
from sparklog.rest.deps import allowed, check_cluster, idempotency_key_of
from sparklog.rest.errors import ApiError, refusal_of
from sparklog.rest.parameters import IDEMPOTENCY_DOCS, ClusterId, TopicName
from sparklog.rest.payloads.batch import batch_of
from sparklog.rest.payloads.bodies import body_docs, content_type, received
from sparklog.rest.payloads.json_parts import Text
from sparklog.rest.payloads.media_types import PLAIN_JSON
from sparklog.rest.payloads.records import Sent, rows_of_stream
from sparklog.rest.schemas import models3
from sparklog.rest.service import Service
from sparklog.tokens import Scope

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics/{topic}", tags=["v3"])

Read = TypeVar("Read")

MULTI_STATUS: Final = 207
_IDEMPOTENT: Final = {"parameters": [IDEMPOTENCY_DOCS]}
_RECORD: Final = {
    "key": {"type": "STRING", "data": "AA"},
    "value": {"type": "JSON", "data": {"delay": 3}},
}


@router.post(
    "/records",
    response_model=models3.Report,
    openapi_extra={**body_docs({PLAIN_JSON: "Record3In"}, _RECORD), **_IDEMPOTENT},
)
async def produce_stream(request: Request, cluster_id: ClusterId, topic: TopicName) -> Response:
    """Produce JSON objects that follow one another. The answer (200) has a report for each.

    The report of an invalid record has its error; all valid records are in one commit.
    """
    service = await _writable(request, cluster_id, topic)
    rows, sent = await _read(request, service, rows_of_stream)
    if not sent:
        raise ApiError(422, "no record")
    outcome = await _outcome(service, request, topic, rows)
    # The reports of 100,000 records take a second, in which the event loop serves others.
    answer = await asyncio.to_thread(_lines, (cluster_id, topic), rows, sent, outcome)
    return Response(answer, media_type=PLAIN_JSON)


@router.post(
    "/records:batch",
    status_code=MULTI_STATUS,
    response_model=models3.BatchReport,
    openapi_extra={
        **body_docs({PLAIN_JSON: "Batch3In"}, {"entries": [{"id": "1", **_RECORD}]}),
        **_IDEMPOTENT,
    },
)
async def produce_batch(request: Request, cluster_id: ClusterId, topic: TopicName) -> Response:
    """Produce up to 50 records, each with an id, in one commit. Failures are listed by id."""
    service = await _writable(request, cluster_id, topic)
    ids, rows, sent = await _read(request, service, batch_of)
    outcome = await _outcome(service, request, topic, rows)
    reports = _reports((cluster_id, topic), rows, sent, outcome)
    answer: dict[str, list[dict[str, Any]]] = {"successes": [], "failures": []}
    for name, report in zip(ids, reports, strict=True):
        if "offset" in report:
            del report["error_code"]
        answer["successes" if "offset" in report else "failures"].append({"id": name, **report})
    return Response(orjson.dumps(answer), MULTI_STATUS, media_type=PLAIN_JSON)


async def _read(request: Request, service: Service, read: Callable[[Text], Read]) -> Read:
    """Return the answer of `read` to the body. The body is freed."""
    body = await received(request)
    return await service.bulk(lambda: read(body))


async def _writable(request: Request, cluster_id: str, topic: str) -> Service:
    service = allowed(request, Scope.WRITE, topic)
    await check_cluster(service, cluster_id)
    await service.check_topic(topic)
    if content_type(request) != PLAIN_JSON:
        raise ApiError(415, f"records come as {PLAIN_JSON}")
    return service


async def _outcome(
    service: Service, request: Request, topic: str, rows: Rows
) -> Written | ApiError:
    """Return the offsets of the valid records, or the error of their commit."""
    key = idempotency_key_of(request)
    if not len(rows):
        return ApiError(422, "no record")
    try:
        return await service.produce(topic, rows, key)
    except SparklogError as error:
        return refusal_of(error)


def _lines(
    place: tuple[str, str], rows: Rows, sent: list[Sent], outcome: Written | ApiError
) -> bytes:
    return b"\n".join(map(orjson.dumps, _reports(place, rows, sent, outcome)))


def _reports(
    place: tuple[str, str], rows: Rows, sent: list[Sent], outcome: Written | ApiError
) -> Iterator[dict[str, Any]]:
    row = 0
    for one in sent:
        found = one.refusal or outcome
        if isinstance(found, Written):
            yield _report(place, rows, row, one, found)
        else:
            yield {"error_code": found.error_code, "message": found.message}
        row += one.refusal is None


def _report(
    place: tuple[str, str], rows: Rows, row: int, sent: Sent, written: Written
) -> dict[str, Any]:
    timestamp = None if written.is_append_time else rows.timestamp[row]
    told = iso_time(written.now_ms if timestamp is None else timestamp)
    return {
        "error_code": 200,
        "cluster_id": place[0],
        "topic_name": place[1],
        "partition_id": int(written.partition[row]),
        "offset": int(written.offset[row]),
        "timestamp": told or None,  # none for a replay, and beyond the calendar
        "key": _size(sent.types[0], rows.key[row]),
        "value": _size(sent.types[1], rows.value[row]),
    }


def _size(kind: str, data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else {"type": kind, "size": len(data)}
