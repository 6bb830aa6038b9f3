"""Lookups: ListOffsets by time, the ends of a log, and where in the files an offset lies."""

from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api import models
from api.bodies import body_docs, body_of
from api.deps import (
    PARTITION_DOCS,
    TOPIC_DOCS,
    PartitionNumber,
    TopicName,
    allowed,
    partition_of,
)
from api.errors import OFFSET_NOT_FOUND, ApiError, refusal_of
from api.security import Scope
from api.service import Service
from api.times import TIME_DOCS, Time, parse_time
from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.model import TimestampOffset

router = APIRouter(tags=["offsets"])

_JSON: Final = "application/json"
_AT_HAND: Final = (-1, -2)
"""Times that are answered without a look into any file: the latest and the earliest."""


def _json(body: object) -> Response:
    return Response(orjson.dumps(body), media_type=_JSON)


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets",
    response_model=models.PartitionOffsets | models.FoundOffset,
    openapi_extra={"parameters": [TOPIC_DOCS, PARTITION_DOCS, TIME_DOCS]},
)
async def read_partition_offsets(request: Request) -> Response:
    """Where the log begins and ends; with `timestamp`, the first record at or after it."""
    # Parameters are read by hand: FastAPI takes as long for these three as for all else.
    topic, partition = request.path_params["topic"], partition_of(request)
    service = allowed(request, Scope.READ, topic)
    reader = service.topics.reader_at_hand(topic) or await service.reader(topic)
    timestamp = request.query_params.get("timestamp")
    if timestamp is None:
        beginning, end = reader.log_start_offset(partition), reader.log_end_offset(partition)
        return _json({"beginning_offset": beginning, "end_offset": end})
    found = await _list_offset(service, reader, partition, parse_time(timestamp))
    return _json(_found(partition, found))


@router.get("/topics/{topic}/offsets", response_model=list[models.FoundOffset])
async def read_topic_offsets(request: Request, topic: TopicName, timestamp: Time) -> Response:
    """The same of every partition."""
    service = allowed(request, Scope.READ, topic)
    reader, when = await service.reader(topic), parse_time(timestamp)
    partitions = range(reader.topic.num_partitions)
    if when in _AT_HAND:
        found = [reader.list_offset(partition, when) for partition in partitions]
    else:
        found = await service.lookup(
            lambda: [reader.list_offset(partition, when) for partition in partitions]
        )
    return _json([_found(partition, one) for partition, one in enumerate(found)])


async def _list_offset(
    service: Service, reader: TopicReader, partition: int, when: int
) -> TimestampOffset:
    if when in _AT_HAND:
        return reader.list_offset(partition, when)
    return await service.look(reader, partition, lambda: reader.list_offset(partition, when))


def _found(partition: int, found: TimestampOffset) -> dict[str, int]:
    return {"partition": partition, "offset": found.offset, "timestamp": found.timestamp}


@router.get(
    "/topics/{topic}/partitions/{partition}/offsets/{offset}", response_model=models.OffsetPlace
)
async def read_offset_place(
    request: Request,
    topic: TopicName,
    partition: PartitionNumber,
    offset: Annotated[int, Path(ge=0, lt=2**63, description="An offset of the log")],
) -> Response:
    """Where an offset lies: segment, file, index entry, position of the batch, timestamp.

    Where compaction has left a gap, the next record is answered.
    """
    service = allowed(request, Scope.READ, topic)
    reader = await service.reader(topic)
    place = await service.look(reader, partition, lambda: _place(reader, partition, offset))
    return _json(place.model_dump())


def _place(reader: TopicReader, partition: int, offset: int) -> models.OffsetPlace:
    from sparklog.log_reader.places import find_place

    found = find_place(reader, partition, offset)
    if found is None:
        raise ApiError(OFFSET_NOT_FOUND, f"there is no record at or after offset {offset}")
    entry, directory = found.segment, reader.directory
    has_index = found.index_entry.position > 0
    return models.OffsetPlace(
        topic=reader.topic.name,
        partition=partition,
        offset=found.offset,
        timestamp=found.timestamp,
        segment_base_offset=entry.base_offset,
        segment_next_offset=entry.next_offset,
        file_base_offset=entry.file_base_offset,
        sealed=entry.shift == 0,
        log=models.FileRange(path=f"{directory}/{entry.log_path}", bytes=entry.log_bytes),
        index_entry=models.IndexEntry(
            path=f"{directory}/{entry.index_path}",
            offset=found.index_entry.offset,
            position=found.index_entry.position,
        )
        if has_index
        else None,
        position=found.position,
        batch_bytes=found.size,
        batch_base_offset=found.base_offset,
        batch_last_offset=found.last_offset,
    )


@router.post(
    "/topics/{topic}/offsets:lookup",
    response_model=models.LookupsOut,
    openapi_extra=body_docs(
        models.LookupsIn,
        {"lookups": [{"partition": 0, "offset": 17}, {"partition": 1, "timestamp": -1}]},
    ),
)
async def look_up_offsets(request: Request, topic: TopicName) -> models.LookupsOut:
    """Many lookups at once; each is answered, or refused, for itself."""
    service = allowed(request, Scope.READ, topic)
    wanted = await body_of(request, models.LOOKUPS)
    reader = await service.reader(topic)
    answers = await service.bulk(lambda: [_answer(reader, one) for one in wanted.lookups])
    return models.LookupsOut(lookups=answers)


def _answer(reader: TopicReader, wanted: models.Lookup) -> models.LookupAnswer:
    partition = wanted.partition
    try:
        if wanted.offset is not None:
            place = _place(reader, partition, wanted.offset)
            return models.LookupAnswer(
                partition=partition, offset=place.offset, timestamp=place.timestamp, place=place
            )
        found = reader.list_offset(partition, parse_time(wanted.timestamp or 0))
        return models.LookupAnswer(
            partition=partition, offset=found.offset, timestamp=found.timestamp
        )
    except SparklogError as error:
        refusal = refusal_of(error)
    except ApiError as error:
        refusal = error
    return models.LookupAnswer(
        partition=partition, error_code=refusal.error_code, message=refusal.message
    )
