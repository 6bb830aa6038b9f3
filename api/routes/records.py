"""Records out: fetch, with long poll."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from api import models
from api.deps import PartitionNumber, TopicName, allowed
from api.errors import ApiError
from api.fetch import ARROW, BINARY, JSON, RAW, Page, body_in, form_of
from api.security import Scope
from api.service import Service
from api.times import Time, parse_time
from sparklog.log_reader import TopicReader
from sparklog.model import READ_UNCOMMITTED

router = APIRouter(tags=["records"])

_BINARY_STRING: Final = {"schema": {"type": "string", "format": "binary"}}


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
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Query(description="read_committed hides records of aborted transactions"),
    ] = READ_UNCOMMITTED,
) -> Response:
    """The records from `offset`, or from `timestamp`, or from the log start offset on.

    At the log end it waits up to `timeout` for more. Limits above the service's are its own.
    """
    service = allowed(request, Scope.READ, topic)
    form = form_of(request.headers.get("accept", ""))
    reader = await service.reader(topic)
    start = await _start(service, reader, partition, offset, timestamp)
    settings = service.settings
    if start == reader.partition(partition).log_end_offset and timeout:
        wait_s = min(timeout, settings.max_poll_ms) / 1000
        reader = await service.poll.wait_for_more(reader, partition, start, wait_s)
    page = Page(
        reader,
        partition,
        start,
        min(max_bytes, settings.max_fetch_bytes),
        min(max_records, settings.max_fetch_records),
        isolation_level,
    )
    body = await service.bulk(lambda: body_in(form, page))
    headers = {
        "Sparklog-Log-Start-Offset": str(reader.partition(partition).log_start_offset),
        "Sparklog-Log-End-Offset": str(reader.partition(partition).log_end_offset),
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
        return reader.partition(partition).log_start_offset
    when = parse_time(timestamp)
    found = await service.look(reader, partition, lambda: reader.list_offset(partition, when))
    return found.offset if found.offset >= 0 else reader.partition(partition).log_end_offset


async def _on_threads(
    service: Service, parts: Iterator[bytes | memoryview]
) -> AsyncIterator[bytes | memoryview]:
    while (part := await service.bulk(lambda: next(parts, None))) is not None:
        yield part
