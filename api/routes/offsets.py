"""Lookups: ListOffsets by time, the ends of a log, and where in the files an offset lies."""

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from api import models
from api.bodies import body_docs, body_of
from api.deps import OFFSET_DOCS, PARTITION_DOCS, TOPIC_DOCS, allowed, offset_of, partition_of
from api.errors import OFFSET_NOT_FOUND, ApiError, refusal_of
from api.plain import Json, PlainRoute, query_of
from api.security import Scope
from api.times import TIME_DOCS, parse_time
from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.model import TimestampOffset

router = APIRouter(tags=["offsets"], route_class=PlainRoute)

_AT_HAND: Final = (-1, -2)
"""Times that are answered without a look into any file: the latest and the earliest."""


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets",
    response_model=models.PartitionOffsets | models.FoundOffset,
    openapi_extra={"parameters": [TOPIC_DOCS, PARTITION_DOCS, TIME_DOCS]},
)
async def read_partition_offsets(request: Request) -> Response:
    """Where the log begins and ends; with `timestamp`, the first record at or after it."""
    topic, partition = request.path_params["topic"], partition_of(request)
    service = allowed(request, Scope.READ, topic)
    reader = service.topics.reader_at_hand(topic) or await service.reader(topic)
    timestamp = query_of(request, "timestamp")
    if timestamp is None:
        beginning, end = reader.partition(partition).log_start_offset, reader.partition(partition).log_end_offset
        return Json({"beginning_offset": beginning, "end_offset": end})
    when = parse_time(timestamp)
    if when in _AT_HAND:
        return Json(_found(partition, reader.list_offset(partition, when)))
    found = await service.look(reader, partition, lambda: reader.list_offset(partition, when))
    return Json(_found(partition, found))


def _found(partition: int, found: TimestampOffset) -> dict[str, int]:
    return {"partition": partition, "offset": found.offset, "timestamp": found.timestamp}


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets/{offset}",
    response_model=models.OffsetPlace,
    openapi_extra={"parameters": [TOPIC_DOCS, PARTITION_DOCS, OFFSET_DOCS]},
)
async def read_offset_place(request: Request) -> Response:
    """Where an offset lies: segment, file, index entry, position of the batch, timestamp.

    Where compaction has left a gap, the next record is answered.
    """
    topic, partition = request.path_params["topic"], partition_of(request)
    offset = offset_of(request)
    service = allowed(request, Scope.READ, topic)
    reader = await service.reader(topic)
    return Json(await service.look(reader, partition, lambda: _place(reader, partition, offset)))


def _place(reader: TopicReader, partition: int, offset: int) -> dict[str, Any]:
    """What models.OffsetPlace describes."""
    from sparklog.log_reader.places import find_place

    found = find_place(reader, partition, offset)
    if found is None:
        raise ApiError(OFFSET_NOT_FOUND, f"there is no record at or after offset {offset}")
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
        "log": {"path": f"{directory}/{entry.log_path}", "bytes": entry.log_bytes},
        "index_entry": index_entry,
        "position": found.position,
        "batch_bytes": found.size,
        "batch_base_offset": found.base_offset,
        "batch_last_offset": found.last_offset,
    }


@router.get(
    "/topics/{topic}/offsets",
    response_model=list[models.FoundOffset],
    openapi_extra={"parameters": [TOPIC_DOCS, {**TIME_DOCS, "required": True}]},
)
async def read_topic_offsets(request: Request) -> Response:
    """The same of every partition."""
    topic = request.path_params["topic"]
    service = allowed(request, Scope.READ, topic)
    reader = await service.reader(topic)
    timestamp = query_of(request, "timestamp")
    if timestamp is None:
        raise ApiError(422, "query.timestamp: Field required")
    when, partitions = parse_time(timestamp), range(reader.topic.num_partitions)
    check_time = service.deadline()

    def answer(number: int) -> dict[str, int]:
        check_time()
        return _found(number, reader.list_offset(number, when))

    def answers() -> list[dict[str, int]]:
        return [answer(number) for number in partitions]

    at_hand = when in _AT_HAND
    return Json(answers() if at_hand else await service.look_at(reader, partitions, answers))


_LOOKUPS_DOCS: Final = body_docs(
    models.LookupsIn,
    {"lookups": [{"partition": 0, "offset": 17}, {"partition": 1, "timestamp": -1}]},
)


@router.post(
    "/topics/{topic}/offsets:lookup",
    response_model=models.LookupsOut,
    openapi_extra={"parameters": [TOPIC_DOCS], **_LOOKUPS_DOCS},
)
async def look_up_offsets(request: Request) -> Response:
    """Many lookups at once; each is answered, or refused, for itself.

    What is not looked up in time is refused with 50303: send that again.
    """
    topic = request.path_params["topic"]
    service = allowed(request, Scope.READ, topic)
    wanted = (await body_of(request, models.LOOKUPS)).lookups
    reader = await service.reader(topic)
    partitions, check_time = [one.partition for one in wanted], service.deadline()
    answers = await service.look_at(
        reader, partitions, lambda: [_answer(reader, one, check_time) for one in wanted]
    )
    return Json({"lookups": answers})


def _answer(
    reader: TopicReader, wanted: models.Lookup, check_time: Callable[[], None]
) -> dict[str, Any]:
    """What models.LookupAnswer describes."""
    partition, found = wanted.partition, dict(_NO_ANSWER, partition=wanted.partition)
    try:
        check_time()
        if wanted.offset is not None:
            place = _place(reader, partition, wanted.offset)
            return dict(found, offset=place["offset"], timestamp=place["timestamp"], place=place)
        record = reader.list_offset(partition, parse_time(wanted.timestamp or 0))
        return dict(found, offset=record.offset, timestamp=record.timestamp)
    except SparklogError as error:
        refusal = refusal_of(error)
    except ApiError as error:
        refusal = error
    return dict(found, error_code=refusal.error_code, message=refusal.message)


_NO_ANSWER: Final = dict.fromkeys(models.LookupAnswer.model_fields)
