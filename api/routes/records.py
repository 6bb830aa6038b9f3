"""Records in and out: fetch with long poll, produce in v2 and v3."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from api import models
from api.bodies import body_docs, content_type
from api.deps import PartitionNumber, TopicName, allowed
from api.errors import ApiError, refusal_of
from api.fetch import ARROW, BINARY, JSON, RAW, Page, body_in, form_of
from api.group_write import Written
from api.records import PRODUCE_TYPES, Rows, Sent, rows_of, rows_of_stream
from api.security import Scope
from api.service import Service
from api.times import Time, iso_time, parse_time
from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.storage.log_dir import open_log_dir

router = APIRouter(tags=["records"])

INLINE_BYTES: Final = 16 * 1024
"""A request of at most this size is parsed, and answered, on the event loop."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_HEADERS: Final = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "A retry with the same key and records returns the same offsets, "
            "for 24 hours, on any instance",
            "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
        }
    ]
}
_BINARY_STRING: Final = {"schema": {"type": "string", "format": "binary"}}


# --- fetch ---------------------------------------------------------------------------------------


@router.get(
    "/topics/{topic}/partitions/{partition}/records",
    responses={
        200: {
            "description": "Records, in the form that Accept asks for",
            "model": list[models.RecordOut],
            "content": {
                BINARY: {"schema": {"$ref": "#/components/schemas/Records"}},
                JSON: {"schema": {"$ref": "#/components/schemas/Records"}},
                ARROW: _BINARY_STRING,
                RAW: _BINARY_STRING,
            },
        }
    },
    response_class=StreamingResponse,
)
async def read_records(  # noqa: PLR0913 - one parameter of the query each
    request: Request,
    topic: TopicName,
    partition: PartitionNumber,
    offset: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    timestamp: Time | None = None,
    max_bytes: Annotated[int, Query(ge=1, lt=2**31)] = 1024 * 1024,
    max_records: Annotated[int, Query(ge=1, lt=2**31)] = 10_000,
    timeout: Annotated[int, Query(ge=0, lt=2**31, description="Milliseconds to wait")] = 1000,
) -> Response:
    """The records from `offset`, or from `timestamp`, or from the log start offset on.

    At the log end it waits up to `timeout` for more. Limits above the service's are its own.
    """
    service = allowed(request, Scope.READ, topic)
    form = form_of(request.headers.get("accept", ""))
    reader = await service.reader(topic)
    start = await _start(service, reader, partition, offset, timestamp)
    settings = service.settings
    if start == reader.log_end_offset(partition) and timeout:
        wait_s = min(timeout, settings.max_poll_ms) / 1000
        reader = await service.poll.wait_for_more(reader, partition, start, wait_s)
    page = Page(
        reader,
        partition,
        start,
        min(max_bytes, settings.max_fetch_bytes),
        min(max_records, settings.max_fetch_records),
    )
    body = await service.bulk(lambda: body_in(form, page))
    headers = {
        "Sparklog-Log-Start-Offset": str(reader.log_start_offset(partition)),
        "Sparklog-Log-End-Offset": str(reader.log_end_offset(partition)),
    }
    return StreamingResponse(_on_threads(service, body), headers=headers, media_type=form)


async def _start(
    service: Service,
    reader: TopicReader,
    partition: int,
    offset: int | None,
    timestamp: str | None,
) -> int:
    if offset is not None and timestamp is not None:
        raise ApiError(400, "a fetch begins at either offset or timestamp")
    if offset is not None:
        return offset
    if timestamp is None:
        return reader.log_start_offset(partition)
    when = parse_time(timestamp)
    found = await service.look(reader, partition, lambda: reader.list_offset(partition, when))
    return found.offset if found.offset >= 0 else reader.log_end_offset(partition)


async def _on_threads(
    service: Service, parts: Iterator[bytes | memoryview]
) -> AsyncIterator[bytes | memoryview]:
    while (part := await service.bulk(lambda: next(parts, None))) is not None:
        yield part


# --- produce -------------------------------------------------------------------------------------

_V2_EXAMPLE: Final = {"records": [{"key": "QUE=", "value": "eyJkZWxheSI6IDN9"}]}
_V2_DOCS: Final[dict[str, Any]] = {
    **body_docs("ProduceIn", _V2_EXAMPLE, tuple(PRODUCE_TYPES)),
    **_HEADERS,
}


@router.post(
    "/topics/{topic}",
    response_model=models.Produced,
    openapi_extra=_V2_DOCS,
)
async def produce_to_topic(request: Request, topic: TopicName) -> Response:
    """Produce records; answered when they are durable, with their offsets."""
    return await _produce(request, topic, None)


@router.post(
    "/topics/{topic}/partitions/{partition}",
    response_model=models.Produced,
    openapi_extra=_V2_DOCS,
)
async def produce_to_partition(
    request: Request, topic: TopicName, partition: PartitionNumber
) -> Response:
    """Produce records to one partition."""
    return await _produce(request, topic, partition)


async def _produce(request: Request, topic: str, partition: int | None) -> Response:
    service = allowed(request, Scope.WRITE, topic)
    kind = content_type(request)
    if kind not in PRODUCE_TYPES:
        raise ApiError(415, f"records come as {', '.join(PRODUCE_TYPES)}")
    body, key = await request.body(), _idempotency_key(request)
    is_json, is_large = PRODUCE_TYPES[kind], len(body) > INLINE_BYTES
    if is_large:
        rows = await service.bulk(lambda: rows_of(body, partition, is_json=is_json))
    else:
        rows = rows_of(body, partition, is_json=is_json)
    written = await service.groups.produce(topic, rows, key)
    answer = await service.bulk(lambda: _produced(written)) if is_large else _produced(written)
    return Response(answer, media_type="application/vnd.kafka.v2+json")


def _produced(written: Written) -> bytes:
    """Return the body of a v2 answer."""
    places = zip(written.partition.tolist(), written.offset.tolist(), strict=True)
    offsets = [
        {"partition": number, "offset": offset, "error_code": None, "error": None}
        for number, offset in places
    ]
    return orjson.dumps({"offsets": offsets, "key_schema_id": None, "value_schema_id": None})


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ApiError(422, "an Idempotency-Key has 1 to 255 visible ASCII characters")
    return key


_V3_EXAMPLE: Final = {
    "key": {"type": "STRING", "data": "AA"},
    "value": {"type": "JSON", "data": {"delay": 3}},
}


@router.post(
    "/v3/clusters/{cluster_id}/topics/{topic}/records",
    response_model=models.Report,
    openapi_extra={
        **body_docs("Record3In", _V3_EXAMPLE, ("application/json",)),
        **_HEADERS,
    },
)
async def produce_stream(request: Request, cluster_id: str, topic: TopicName) -> Response:
    """Produce JSON objects that stand one after another; a delivery report each, with a status 200.

    Those that are no record are told so in their report, the others share a commit.
    """
    service = allowed(request, Scope.WRITE, topic)
    await check_cluster(service, cluster_id)
    if content_type(request) != "application/json":
        raise ApiError(415, "records come as application/json")
    body, key = await request.body(), _idempotency_key(request)
    rows, sent = await service.bulk(lambda: rows_of_stream(body))
    if not sent:
        raise ApiError(422, "no record")
    outcome: Written | ApiError = ApiError(422, "no record")
    if len(rows):
        try:
            outcome = await service.groups.produce(topic, rows, key)
        except SparklogError as error:
            outcome = refusal_of(error)
    reports = _reports((cluster_id, topic), rows, sent, outcome)
    return Response(b"\n".join(map(orjson.dumps, reports)), media_type="application/json")


async def check_cluster(service: Service, cluster_id: str) -> None:
    """Raise ApiError (404) for another cluster than this log dir's, LogDirError without one."""
    if (await service.lookup(lambda: cluster_id_of(service))) != cluster_id:
        raise ApiError(404, f"unknown cluster {cluster_id!r}")


def cluster_id_of(service: Service) -> str:
    """Return the log dir's cluster id. Raises LogDirError when there is none yet."""
    return open_log_dir(service.topics.files).cluster_id


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
    timestamp = rows.timestamp[row]
    return {
        "error_code": 200,
        "cluster_id": place[0],
        "topic_name": place[1],
        "partition_id": int(written.partition[row]),
        "offset": int(written.offset[row]),
        "timestamp": iso_time(written.now_ms if timestamp is None else timestamp),
        "key": _size(sent.types[0], rows.key[row]),
        "value": _size(sent.types[1], rows.value[row]),
    }


def _size(kind: str, data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else {"type": kind, "size": len(data)}
