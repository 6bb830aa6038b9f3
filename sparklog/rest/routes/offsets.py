"""Lookups: ListOffsets by time, the ends of a log, and the place of an offset in the files."""

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.model import EARLIEST, LATEST, UNKNOWN_OFFSET, TimestampOffset
from sparklog.rest.deps import (
    allowed,
    as_of,
    isolation_of,
    offset_of,
    partition_of,
    reader_of,
)
from sparklog.rest.errors import OFFSET_NOT_FOUND, ApiError, refusal_of
from sparklog.rest.parameters import (
    AS_OF_DOCS,
    ISOLATION_DOCS,
    OFFSET_DOCS,
    PARTITION_DOCS,
    TIME_DOCS,
    TOPIC_DOCS,
)
from sparklog.rest.payloads.bodies import body_docs, body_of
from sparklog.rest.plain import Json, PlainRoute, query_of
from sparklog.rest.schemas import models
from sparklog.rest.times import parse_time
from sparklog.tokens import Scope

router = APIRouter(tags=["offsets"], route_class=PlainRoute)

_ENDS: Final = (LATEST, EARLIEST)
"""Times whose answers are in the metadata."""


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets",
    response_model=models.PartitionOffsets | models.FoundOffset,
    openapi_extra={
        "parameters": [TOPIC_DOCS, PARTITION_DOCS, TIME_DOCS, ISOLATION_DOCS, *AS_OF_DOCS]
    },
)
async def read_partition_offsets(request: Request) -> Response:
    """The beginning and the end of the log; with `timestamp`: the first record at or after it."""
    topic, partition = request.path_params["topic"], partition_of(request)
    service = allowed(request, Scope.READ, topic)
    timestamp, isolation = query_of(request, "timestamp"), isolation_of(request)
    when = None if timestamp is None else parse_time(timestamp)
    past = as_of(request)
    if past is not None:
        reader = await service.past_reader(topic, past)
        return Json(await service.bulk(lambda: _partition(reader, partition, when, isolation)))
    if when is not None and when not in _ENDS:
        found = await service.find(
            topic, partition, lambda reader: _record(reader, partition, when, isolation)
        )
        return Json(_found(partition, found or UNKNOWN_OFFSET))
    at_hand = service.topics.reader_at_hand(topic, is_newest=True)
    reader = at_hand or await service.reader(topic, is_newest=True)
    return Json(_partition(reader, partition, when, isolation))


def _partition(
    reader: TopicReader, partition: int, when: int | None, isolation: str
) -> dict[str, int]:
    """Return the ends of a partition's log, or the record of a time."""
    if when is not None:
        return _found(partition, reader.list_offset(partition, when, isolation))
    log = reader.partition(partition)
    return {"beginning_offset": log.log_start_offset, "end_offset": log.end_offset(isolation)}


def _record(
    reader: TopicReader, partition: int, when: int, isolation: str
) -> TimestampOffset | None:
    found = reader.list_offset(partition, when, isolation)
    return None if found == UNKNOWN_OFFSET else found


def _found(partition: int, found: TimestampOffset) -> dict[str, int]:
    return {"partition": partition, "offset": found.offset, "timestamp": found.timestamp}


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets/{offset}",
    response_model=models.OffsetPlace,
    openapi_extra={"parameters": [TOPIC_DOCS, PARTITION_DOCS, OFFSET_DOCS, *AS_OF_DOCS]},
)
async def read_offset_place(request: Request) -> Response:
    """The place of an offset: segment, file, index entry, position of the batch, timestamp.

    If compaction has removed the record, the answer is the place of the next one.
    """
    topic, partition = request.path_params["topic"], partition_of(request)
    offset = offset_of(request)
    service = allowed(request, Scope.READ, topic)
    past = as_of(request)
    if past is not None:
        reader = await service.past_reader(topic, past)
        found = await service.bulk(lambda: _place(reader, partition, offset))
    else:
        found = await service.find(topic, partition, lambda one: _place(one, partition, offset))
    return Json(_known(found, offset))


def _known(place: dict[str, Any] | None, offset: int) -> dict[str, Any]:
    if place is None:
        raise ApiError(OFFSET_NOT_FOUND, f"there is no record at or after offset {offset}")
    return place


def _place(reader: TopicReader, partition: int, offset: int) -> dict[str, Any] | None:
    """Return the fields of models.OffsetPlace; None if there is no record at or after `offset`."""
    from sparklog.log_reader.find import find_offset
    from sparklog.log_reader.opened import log_path

    found = find_offset(reader, partition, offset)
    if found is None:
        return None
    entry, directory, index_entry = found.segment, reader.directory, None
    if found.index_entry.position:
        index_entry = {"path": f"{directory}/{entry.index_path}", **found.index_entry._asdict()}
    return {
        "topic": reader.topic.name,
        "partition": partition,
        "offset": found.offset,
        "timestamp": found.timestamp,
        "segment_base_offset": entry.base_offset,
        "segment_next_offset": entry.next_offset,
        "file_base_offset": entry.file_base_offset,
        "sealed": entry.shift == 0,
        "log": {
            "path": log_path(directory, entry),
            "position": entry.log_position,
            "bytes": entry.log_bytes,
        },
        "index_entry": index_entry,
        "position": found.position,
        "batch_bytes": found.size,
        "batch_base_offset": found.base_offset,
        "batch_last_offset": found.last_offset,
    }


@router.get(
    "/topics/{topic}/offsets",
    response_model=list[models.FoundOffset],
    openapi_extra={
        "parameters": [
            TOPIC_DOCS,
            {**TIME_DOCS, "required": True},
            ISOLATION_DOCS,
            *AS_OF_DOCS,
        ]
    },
)
async def read_topic_offsets(request: Request) -> Response:
    """For each partition: the first record at or after `timestamp`, which is required."""
    topic = request.path_params["topic"]
    service = allowed(request, Scope.READ, topic)
    reader = await reader_of(request, topic)
    timestamp, isolation = query_of(request, "timestamp"), isolation_of(request)
    if timestamp is None:
        raise ApiError(422, "query.timestamp: Field required")
    when, partitions = parse_time(timestamp), range(reader.topic.num_partitions)
    check_time = service.deadline()

    def answer(number: int) -> dict[str, int]:
        check_time()
        return _found(number, reader.list_offset(number, when, isolation))

    def answers() -> list[dict[str, int]]:
        return [answer(number) for number in partitions]

    is_end = when in _ENDS
    return Json(answers() if is_end else await service.look_up(reader, partitions, answers))


_LOOKUPS_DOCS: Final = body_docs(
    models.LookupsIn,
    {"lookups": [{"partition": 0, "offset": 17}, {"partition": 1, "timestamp": -1}]},
)


@router.post(
    "/topics/{topic}/offsets:lookup",
    response_model=models.LookupsOut,
    openapi_extra={"parameters": [TOPIC_DOCS, ISOLATION_DOCS, *AS_OF_DOCS], **_LOOKUPS_DOCS},
)
async def look_up_offsets(request: Request) -> Response:
    """Many lookups at once; each has its own answer or error.

    A lookup that the time limit did not allow has the error 50303: send it again.
    """
    topic = request.path_params["topic"]
    service = allowed(request, Scope.READ, topic)
    await service.check_topic(topic)
    wanted = (await body_of(request, models.LOOKUPS)).lookups
    isolation, reader = isolation_of(request), await reader_of(request, topic)
    partitions, check_time = [one.partition for one in wanted], service.deadline()

    def answers() -> list[dict[str, Any]]:
        return [_answer(reader, one, isolation, check_time) for one in wanted]

    return Json({"lookups": await service.look_up(reader, partitions, answers)})


def _answer(
    reader: TopicReader, wanted: models.Lookup, isolation: str, check_time: Callable[[], None]
) -> dict[str, Any]:
    """Return the models.LookupAnswer of one lookup, as a dict."""
    partition, found = wanted.partition, dict(_NO_ANSWER, partition=wanted.partition)
    try:
        check_time()
        if wanted.offset is not None:
            place = _known(_place(reader, partition, wanted.offset), wanted.offset)
            return dict(found, offset=place["offset"], timestamp=place["timestamp"], place=place)
        when = parse_time(0 if wanted.timestamp is None else wanted.timestamp)
        record = reader.list_offset(partition, when, isolation)
        return dict(found, offset=record.offset, timestamp=record.timestamp)
    except SparklogError as error:
        refusal = refusal_of(error)
    except ApiError as error:
        refusal = error
    return dict(found, error_code=refusal.error_code, message=refusal.message)


_NO_ANSWER: Final = dict.fromkeys(models.LookupAnswer.model_fields)
