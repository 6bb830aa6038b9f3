"""OffsetCommit: how far a group has read.

Groups send this request more often than any other, and with many partitions. So its body and its
answer are read and written by hand (OffsetCommitRequest.json, OffsetCommitResponse.json).
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sparklog.coordinator.requests import NO_EPOCH, CommitRequest, CommittedOffset
from sparklog.errors import ErrorCode
from sparklog.metadata.image import Image
from sparklog.model import TopicPartition
from sparklog.tokens import Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.group_members import asked
from sparklog.wire.reading import Reader
from sparklog.wire.writing import Writer

RETENTION_UNTIL: Final = 4
"""The last version with the field RetentionTimeMs."""
THROTTLE_SINCE: Final = 3
EPOCH_SINCE: Final = 6
INSTANCE_SINCE: Final = 7

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET: Final = struct.Struct(">iq")
_OFFSET_AND_EPOCH: Final = struct.Struct(">iqi")
_CODE: Final = struct.Struct(">ih")


class CommitTopic(NamedTuple):
    """A topic of a request: its partitions, in the order of the request, and their offsets."""

    name: str
    offsets: list[tuple[TopicPartition, CommittedOffset]]


class TopicRule(NamedTuple):
    """Which partitions of a topic a client may commit offsets of.

    With an `error_code` none; otherwise those below `num_partitions`.
    """

    error_code: int
    num_partitions: int

    @classmethod
    def of(cls, call: Call, image: Image, name: str) -> "TopicRule":
        """Return the rule of a topic, which need not exist."""
        if not call.allows(Scope.READ, name):
            return cls(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
        topic = image.names.get(name)
        return cls(ErrorCode.NONE, 0 if topic is None else topic.num_partitions)

    def code(self, partition: int) -> int:
        """Return the error code of a commit to a partition; 0 if it is allowed."""
        if self.error_code or 0 <= partition < self.num_partitions:
            return self.error_code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def offset_commit(call: Call) -> Reply:
    """Return the answer."""
    committing, topics = read_commit_request(call.reader(), call.version)
    image = await call.gateway.image()
    rules = {name: TopicRule.of(call, image, name) for name in {topic.name for topic in topics}}
    codes: dict[TopicPartition, int] = {}
    allowed: dict[TopicPartition, CommittedOffset] = {}
    for topic in topics:
        rule = rules[topic.name]
        for place, offset in topic.offsets:
            codes[place] = code = rule.code(place.partition)
            if not code:
                allowed[place] = offset
    answer = await asked(call, committing._replace(offsets=allowed), committing.group_id, image)
    if isinstance(answer, int):
        codes = dict.fromkeys(codes, answer)
    else:
        codes.update(answer.partitions)
    return [written_commit_answer(call.writer(), call.version, topics, codes)]


def read_commit_request(reader: Reader, version: int) -> tuple[CommitRequest, list[CommitTopic]]:
    """Return a request without its offsets, and the offsets by topic, in the order of the request.

    Raises InvalidRequestError for a body that is cut, or has null where null is not allowed.
    """
    group_id = reader.string()
    (generation,) = reader.numbers(_INT32)
    member_id = reader.string()
    instance_id = reader.string_or_null() if version >= INSTANCE_SINCE else None
    retention_ms = reader.numbers(_INT64)[0] if version <= RETENTION_UNTIL else -1
    committing = CommitRequest(
        group_id, {}, generation, member_id, instance_id, retention_ms, version
    )
    has_epoch = version >= EPOCH_SINCE
    topics: list[CommitTopic] = []
    for _ in range(reader.array(least_bytes=2)):
        name = reader.string()
        topics.append(CommitTopic(name, _offsets(reader, name, has_epoch=has_epoch)))
        reader.tags()
    reader.tags()
    return committing, topics


def _offsets(
    reader: Reader, name: str, *, has_epoch: bool
) -> list[tuple[TopicPartition, CommittedOffset]]:
    found: list[tuple[TopicPartition, CommittedOffset]] = []
    layout = _OFFSET_AND_EPOCH if has_epoch else _OFFSET
    for _ in range(reader.array(layout.size)):
        numbers = reader.numbers(layout)
        partition, offset, epoch = numbers if has_epoch else (*numbers, NO_EPOCH)
        metadata = reader.string_or_null() or ""
        reader.tags()
        found.append((TopicPartition(name, partition), CommittedOffset(offset, epoch, metadata)))
    return found


def written_commit_answer(
    writer: Writer, version: int, topics: Sequence[CommitTopic], codes: Mapping[TopicPartition, int]
) -> bytearray:
    """Return the body of an answer: an error code for each partition, in the request's order."""
    if version >= THROTTLE_SINCE:
        writer.int32(0)
    writer.array(len(topics))
    for topic in topics:
        writer.string(topic.name)
        writer.array(len(topic.offsets))
        for place, _ in topic.offsets:
            writer.raw(_CODE.pack(place.partition, codes[place]))
            writer.tags()
        writer.tags()
    writer.tags()
    return writer.data
