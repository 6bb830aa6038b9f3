"""ListOffsets: the start and the end of a partition, and the first record at or after a time."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sparklog.errors import ErrorCode, SparklogError
from sparklog.metadata.image import Image, PartitionLog
from sparklog.model import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    UNKNOWN_OFFSET,
    TimestampOffset,
)
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.partitions import NO_EPOCH, isolation_named, readable

FIRST_VERSIONS: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}
"""The first version that allows each negative timestamp (ReplicaManager.fetchOffset)."""


class _Answer(NamedTuple):
    error_code: int
    found: TimestampOffset = UNKNOWN_OFFSET
    epoch: int = NO_EPOCH


async def list_offsets(call: Call) -> Reply:
    """Return the answer, as of the newest version of the log dir: no end offset is out of date."""
    request, gateway = call.request(), call.gateway
    image = await gateway.newest_image()
    known = [image.names[one.name] for one in request.topics if one.name in image.names]
    image = await gateway.newest_image(*known)
    places = Counter(
        (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    )
    isolation = isolation_named(getattr(request, "isolation_level", 0))
    writer = call.writer()
    if call.version >= 2:
        writer.int32(0)  # throttle time
    writer.array(len(request.topics))
    for topic in request.topics:
        writer.string(topic.name)
        writer.array(len(topic.partitions))
        for one in topic.partitions:
            is_twice = places[topic.name, one.partition_index] > 1
            answer = (
                _Answer(ErrorCode.INVALID_REQUEST)
                if is_twice
                else await _answer(call, image, topic.name, one, isolation)
            )
            writer.int32(one.partition_index)
            writer.int16(answer.error_code)
            writer.int64(answer.found.timestamp)
            writer.int64(answer.found.offset)
            if call.version >= 4:
                writer.int32(answer.epoch)
            writer.tags()
        writer.tags()
    writer.tags()
    return [bytes(writer.data)]


async def _answer(call: Call, image: Image, name: str, asked: Any, isolation: str) -> _Answer:
    timestamp, partition = asked.timestamp, asked.partition_index
    if timestamp < 0 and call.version < FIRST_VERSIONS.get(timestamp, call.version + 1):
        return _Answer(ErrorCode.UNSUPPORTED_VERSION)
    current_epoch = getattr(asked, "current_leader_epoch", NO_EPOCH)
    log = readable(call, image, name, partition, current_epoch)
    if isinstance(log, int):
        return _Answer(log)
    if timestamp == LATEST:
        return _at(log.end_offset(isolation), log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _at(log.log_start_offset, _epoch_at(log, log.log_start_offset))
    if timestamp == LATEST_TIERED:
        return _Answer(ErrorCode.NONE)
    topics = call.gateway.topics
    try:
        found = await call.gateway.lookup(
            lambda: topics.reader(name).list_offset(partition, timestamp, isolation)
        )
    except SparklogError as error:
        return _Answer(error.code)
    return _Answer(ErrorCode.NONE, found, _epoch_at(log, found.offset))


def _at(offset: int, epoch: int) -> _Answer:
    return _Answer(ErrorCode.NONE, TimestampOffset(NO_TIMESTAMP, offset), epoch)


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """Return the leader epoch that an offset belongs to; NO_EPOCH if it is unknown."""
    epochs = [one.epoch for one in log.epochs_with_current if one.start_offset <= offset]
    return epochs[-1] if epochs else NO_EPOCH
