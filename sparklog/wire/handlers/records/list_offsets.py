"""ListOffsets: the start and the end of a partition, and the first record at or after a time.

The metadata has the answers, except those that depend on a time: these are looked up in the files.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from sparklog.errors import ErrorCode, SparklogError
from sparklog.log_reader import TopicReader
from sparklog.metadata.state.image import Image, PartitionLog
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
from sparklog.wire.handlers.failed import tell
from sparklog.wire.handlers.partitions import (
    NO_EPOCH,
    isolation_named,
    newest_image_of,
    readable,
    step_for,
)

FIRST_VERSIONS: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}
"""The first version that allows each negative timestamp (ReplicaManager.fetchOffset)."""
SHARES: Final = 8
"""Into how many lookups the searches of one request are divided: the lookup threads share them."""
TOGETHER: Final = 128
"""How many times are looked up before other clients have their turn."""


class _Answer(NamedTuple):
    error_code: int
    found: TimestampOffset = UNKNOWN_OFFSET
    epoch: int = NO_EPOCH


class _Search(NamedTuple):
    """A time that must be looked up in the files of a partition."""

    call: Call
    reader: TopicReader
    log: PartitionLog
    timestamp: int
    isolation: str

    def answer(self) -> _Answer:
        """Return the answer: the record found, or the error."""
        try:
            found = self.reader.list_offset(self.log.partition, self.timestamp, self.isolation)
        except SparklogError as error:
            tell(self.call, error)
            return _Answer(error.code)
        return _Answer(ErrorCode.NONE, found, _epoch_at(self.log, found.offset))


async def list_offsets(call: Call) -> Reply:
    """Return the answer, as of the newest version of the log dir: no end offset is out of date."""
    request = await call.request()
    count = sum(len(topic.partitions) for topic in request.topics)
    image = await newest_image_of(call, [one.name for one in request.topics])
    found = await step_for(call, count, lambda: _from_metadata(call, image, request))
    answers = await _looked_up(call, found)
    return await step_for(call, count, lambda: [_written(call, request.topics, answers)])


def _from_metadata(call: Call, image: Image, request: Any) -> list[_Answer | _Search]:
    """Return the answers that the metadata has, and the searches for the other ones."""
    places = [(topic.name, one) for topic in request.topics for one in topic.partitions]
    times = Counter((name, one.partition_index) for name, one in places)
    isolation = isolation_named(getattr(request, "isolation_level", 0))
    return [
        _Answer(ErrorCode.INVALID_REQUEST)
        if times[name, one.partition_index] > 1
        else _answer(call, image, name, one, isolation)
        for name, one in places
    ]


def _answer(call: Call, image: Image, name: str, asked: Any, isolation: str) -> _Answer | _Search:
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
    topic = image.topics[image.names[name].topic_id]
    return _Search(call, call.gateway.topics.reader_of(topic), log, timestamp, isolation)


async def _looked_up(call: Call, found: Sequence[_Answer | _Search]) -> list[_Answer]:
    """Return the answers, with those of the searches in their places."""
    searches = [one for one in found if isinstance(one, _Search)]
    answers: list[_Answer] = []
    for at in range(0, len(searches), TOGETHER):
        some = searches[at : at + TOGETHER]
        size = -(-len(some) // SHARES)
        shares = [some[first : first + size] for first in range(0, len(some), size)]
        looks = [call.gateway.lookup(partial(_answered, share)) for share in shares]
        answers += chain(*await asyncio.gather(*looks))
    in_order = iter(answers)
    return [next(in_order) if isinstance(one, _Search) else one for one in found]


def _answered(searches: Sequence[_Search]) -> list[_Answer]:
    return [one.answer() for one in searches]


def _written(call: Call, topics: Sequence[Any], answers: Sequence[_Answer]) -> bytes:
    """Return the body of an answer: those of the partitions, in the order of the request."""
    writer, found = call.writer(), iter(answers)
    if call.version >= 2:
        writer.int32(0)  # throttle time
    writer.array(len(topics))
    for topic in topics:
        writer.string(topic.name)
        writer.array(len(topic.partitions))
        for one in topic.partitions:
            answer = next(found)
            writer.int32(one.partition_index)
            writer.int16(answer.error_code)
            writer.int64(answer.found.timestamp)
            writer.int64(answer.found.offset)
            if call.version >= 4:
                writer.int32(answer.epoch)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.data)


def _at(offset: int, epoch: int) -> _Answer:
    return _Answer(ErrorCode.NONE, TimestampOffset(NO_TIMESTAMP, offset), epoch)


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """Return the leader epoch that an offset belongs to; NO_EPOCH if it is unknown."""
    epochs = [one.epoch for one in log.epochs_with_current if one.start_offset <= offset]
    return epochs[-1] if epochs else NO_EPOCH
