"""Fetch of records, with long poll."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from sparklog.log_reader import TopicReader
from sparklog.rest.deps import allowed, as_of
from sparklog.rest.errors import ApiError
from sparklog.rest.parameters import (
    IsolationLevel,
    PartitionNumber,
    Time,
    TimestampAsOf,
    TopicName,
    VersionAsOf,
)
from sparklog.rest.payloads.fetch import Fetch, body_in, form_of
from sparklog.rest.payloads.media_types import ARROW, BINARY, JSON, RAW
from sparklog.rest.schemas import models
from sparklog.rest.service import Service
from sparklog.rest.times import parse_time
from sparklog.tokens import Scope

router = APIRouter(tags=["records"])

_BINARY_STRING: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/topics/{topic}/partitions/{partition}/records",
    responses={
        200: {
            "description": "Records, in the format that Accept asks for",
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
    isolation_level: IsolationLevel = "read_uncommitted",
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
) -> Response:
    """The records from `offset`, or from `timestamp`, or from the log start offset on.

    At the log end the answer waits up to `timeout` ms for more. With `read_committed`, records of
    aborted transactions are left out, and the log ends at the last stable offset. A limit above the
    service's own is lowered to that.
    """
    service = allowed(request, Scope.READ, topic)
    form = form_of(", ".join(request.headers.getlist("accept")))
    del version_as_of, timestamp_as_of  # declared for OpenAPI; `as_of` reads them
    past = as_of(request)
    reader = await (service.reader(topic) if past is None else service.past_reader(topic, past))
    wanted = partition, offset, timestamp, isolation_level
    start = await _start(service, reader, *wanted)
    if past is None and start >= reader.partition(partition).end_offset(isolation_level):
        reader = await service.reader(topic, is_newest=True)
        start = await _start(service, reader, *wanted)
    settings, log = service.settings, reader.partition(partition)
    if past is None and timeout and log.end_offset(isolation_level) <= start <= log.log_end_offset:
        wait_s = min(timeout, settings.max_poll_ms) / 1000
        more = service.poll.wait_for_more(reader, partition, start, wait_s, isolation_level)
        reader = await _while_connected(request, more)
    fetch = Fetch(
        reader,
        partition,
        start,
        min(max_bytes, settings.max_fetch_bytes),
        min(max_records, settings.max_fetch_records),
        isolation_level,
    )
    body = await service.bulk(lambda: body_in(form, fetch))
    log = reader.partition(partition)
    headers = {
        "Sparklog-Log-Start-Offset": str(log.log_start_offset),
        "Sparklog-Last-Stable-Offset": str(log.last_stable_offset),
        "Sparklog-Log-End-Offset": str(log.log_end_offset),
    }
    return StreamingResponse(_on_threads(service, body), headers=headers, media_type=form)


async def _start(
    service: Service,
    reader: TopicReader,
    partition: int,
    offset: int | None,
    timestamp: str | None,
    isolation: str,
) -> int:
    if offset is not None and timestamp is not None:
        raise ApiError(400, "a fetch begins at either offset or timestamp")
    if offset is not None:
        return offset
    log = reader.partition(partition)
    if timestamp is None:
        return log.log_start_offset
    when = parse_time(timestamp)
    found = await service.look_up_one(
        reader, partition, lambda: reader.list_offset(partition, when, isolation)
    )
    return found.offset if found.offset >= 0 else log.end_offset(isolation)


async def _while_connected(
    request: Request, answer: Coroutine[Any, Any, TopicReader]
) -> TopicReader:
    """Return the answer. Give it up, and raise ClientDisconnect, if the client goes first."""
    answering, going = asyncio.create_task(answer), asyncio.create_task(_gone(request))
    try:
        done, _ = await asyncio.wait((answering, going), return_when=asyncio.FIRST_COMPLETED)
        if answering not in done:
            going.result()
            raise ClientDisconnect
        return answering.result()
    finally:
        answering.cancel()
        going.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has disconnected. Raises ApiError for a body that is refused."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _on_threads(
    service: Service, parts: Iterator[bytes | memoryview]
) -> AsyncIterator[bytes | memoryview]:
    while (part := await service.bulk(lambda: next(parts, None))) is not None:
        yield part
