"""Committed offsets: their records, checks of commits and deletions, and expiry.

A record has an OffsetCommitKey of version 1, and an OffsetCommitValue of version 3, or of version 1
if the offset has an expiry time. Numbers are big-endian; a text follows its length, an int16:

    key    version 2 | group | topic | partition 4
    value  version 2 | offset 8 | leader epoch 4 | metadata | commit time 8
           version 2 | offset 8 | metadata | commit time 8 | expiry time 8

The rules are those of OffsetMetadataManager.
"""

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from sparklog.config.keys import LONG_MAX
from sparklog.coordinator.any_group import AnyGroup
from sparklog.coordinator.classic.group import Group
from sparklog.coordinator.classic.group_record import subscribed_topics
from sparklog.coordinator.consumer.consumer_group import ConsumerGroup
from sparklog.coordinator.records import (
    GROUP_RECORDS,
    OFFSET_COMMIT,
    Record,
    made_record,
    read_record,
)
from sparklog.coordinator.requests import (
    NO_EPOCH,
    NO_GENERATION,
    NONE,
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    OffsetsAnswer,
    made_offset,
)
from sparklog.coordinator.states import State
from sparklog.errors import ErrorCode
from sparklog.model import TopicPartition

VERSION: Final = 3
WITH_EXPIRY: Final = 1
"""The version of a value with an expiry time; it has no leader epoch."""

GROUP_ID_SINCE: Final = 9
"""The first version of OffsetCommit that returns GROUP_ID_NOT_FOUND and allows member epochs."""

METADATA_BYTES_MAX: Final = 2**15 - 1
"""The most bytes of metadata: their number is an int16 in a record."""

OFFSET_BYTES_MIN: Final = 40
"""The fewest bytes of a committed offset in a batch."""

FRONTS: Final = 10_000
"""The most pairs of a group and a topic whose keys are cached: a group commits the same again."""

_KEY: Final = struct.Struct(">hh")
_SIZE: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VALUE: Final = struct.Struct(">hqih")
_PLAIN: Final = struct.Struct(">hqihq")
"""A whole value without metadata."""
_TIME: Final = struct.Struct(">q")
_VALUE_1: Final = struct.Struct(">hqh")
_TIMES: Final = struct.Struct(">qq")

Offsets = dict[TopicPartition, CommittedOffset]


def dated(
    request: CommitRequest, now_ms: int, metadata_max_bytes: int
) -> Mapping[TopicPartition, CommittedOffset]:
    """Return the offsets of a commit with their times, without those with too much metadata."""
    if request.is_dated:
        return request.offsets
    forever = request.retention_ms < 0
    expires_ms = None if forever else min(now_ms + request.retention_ms, LONG_MAX)
    return {
        place: made_offset((offset, epoch, metadata, now_ms, expires_ms))
        for place, (offset, epoch, metadata, _, _) in request.offsets.items()
        if len(metadata) <= metadata_max_bytes and len(metadata.encode()) <= METADATA_BYTES_MAX
    }


def offset_record(group_id: str, place: TopicPartition, offset: CommittedOffset | None) -> Record:
    """Return the record of a committed offset; None deletes it."""
    if offset is not None:
        return offset_records(group_id, {place: offset})[0]
    return Record(_key_front(group_id, place.topic) + _PARTITION.pack(place.partition), None)


def offset_records(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> list[Record]:
    """Return the records of committed offsets (`offset_record`)."""
    found: list[Record] = []
    of_topic, front = None, b""
    for (topic, partition), (offset, epoch, metadata, committed_ms, expires_ms) in offsets.items():
        if topic is not of_topic:
            of_topic, front = topic, _key_front(group_id, topic)
        if metadata or expires_ms is not None:
            value = _value(offset, epoch, metadata.encode(), committed_ms, expires_ms)
        else:
            value = _PLAIN.pack(VERSION, offset, epoch, 0, committed_ms)
        found.append(made_record((front + _PARTITION.pack(partition), value)))
    return found


def _value(
    offset: int, epoch: int, metadata: bytes, committed_ms: int, expires_ms: int | None
) -> bytes:
    if expires_ms is None:
        head = _VALUE.pack(VERSION, offset, epoch, len(metadata))
        return head + metadata + _TIME.pack(committed_ms)
    head = _VALUE_1.pack(WITH_EXPIRY, offset, len(metadata))
    return head + metadata + _TIMES.pack(committed_ms, expires_ms)


@lru_cache(FRONTS)
def _key_front(group_id: str, topic: str) -> bytes:
    """Return the bytes of a commit's key in front of the partition."""
    name, topic_name = group_id.encode(), topic.encode()
    head = _KEY.pack(OFFSET_COMMIT, len(name)) + name
    return head + _SIZE.pack(len(topic_name)) + topic_name


def offset_of(value: Mapping[str, Any]) -> CommittedOffset:
    """Return the offset in a record's value."""
    expires_ms = value.get("expireTimestamp", -1)
    return CommittedOffset(
        value["offset"],
        value.get("leaderEpoch", NO_EPOCH),
        value["metadata"] or "",
        value["commitTimestamp"],
        None if expires_ms < 0 else expires_ms,
    )


def read_commit(
    key: bytes, value: bytes | None
) -> tuple[str, TopicPartition, CommittedOffset | None]:
    """Return the group, the partition and the offset of a commit's record; None deletes it.

    The usual record, with a value of version 3, is decoded directly, which is faster; all others
    are decoded by their schemas. Raises CorruptRecordError.
    """
    try:
        _, size = _KEY.unpack_from(key)
        (topic_size,) = _SIZE.unpack_from(key, 4 + size)
        topic_at = 6 + size
        (partition,) = _PARTITION.unpack_from(key, topic_at + topic_size)
        is_plain = min(size, topic_size) >= 0 and len(key) == topic_at + topic_size + 4
        group_id, topic = key[4 : 4 + size].decode(), key[topic_at:-4].decode()
        if value is None:
            version, length, found = VERSION, 0, None
        else:
            version, offset, epoch, length = _VALUE.unpack_from(value)
            (committed_ms,) = _TIME.unpack_from(value, _VALUE.size + length)
            is_plain = is_plain and len(value) == _VALUE.size + length + _TIME.size
            metadata = value[_VALUE.size : _VALUE.size + length].decode()
            found = CommittedOffset(offset, epoch, metadata, committed_ms)
        if is_plain and version == VERSION and length >= 0:
            return group_id, TopicPartition(topic, partition), found
    except (struct.error, UnicodeDecodeError):
        pass  # decoding by the schema raises the right error
    record = read_record(GROUP_RECORDS, key, value)
    place = TopicPartition(record.key["topic"], record.key["partition"])
    offset_or_none = None if record.value is None else offset_of(record.value)
    return record.key["group"], place, offset_or_none


def expired(
    group: AnyGroup, offsets: Offsets, retention_ms: int, now_ms: int
) -> Iterator[TopicPartition]:
    """Yield the partitions whose offsets of a group have expired (offsets.retention.minutes).

    The retention begins when a classic group becomes empty. It begins at the commit if the classic
    group has only committed offsets and never had members, and if no member of a Stable group or of
    a consumer group reads the topic. All other offsets stay. If its retention has begun, an offset
    with its own expiry time expires at that time instead.
    """
    since = _since(group, offsets)
    for place, offset in offsets.items():
        since_ms = since(place, offset)
        if since_ms is None:
            continue
        is_over = now_ms - since_ms >= retention_ms
        if is_over if offset.expires_ms is None else now_ms >= offset.expires_ms:
            yield place


def _since(
    group: AnyGroup, offsets: Offsets
) -> Callable[[TopicPartition, CommittedOffset], int | None]:
    """Return a function that tells when an offset's retention began, in ms; None: not yet."""
    topics: Collection[str] | None
    if isinstance(group, ConsumerGroup):
        topics = group.topics_among({place.topic for place in offsets})
    elif group.protocol_type is None:
        return lambda _, offset: offset.committed_ms
    elif group.state is State.EMPTY:
        return lambda _, offset: group.state_ms or offset.committed_ms
    else:
        topics = subscribed_topics(group) if group.state is State.STABLE else None
    if topics is None:
        return lambda *_: None
    return lambda place, offset: None if place.topic in topics else offset.committed_ms


def commit_problem(group: AnyGroup | None, request: CommitRequest, bytes_max: int) -> int:
    """Return the error code that a commit is refused with; 0 if it is accepted.

    A request may have a million offsets. So if no batch of `bytes_max` holds so many, they are not
    encoded.
    """
    problem = _problem(group, request)
    if not problem and len(request.offsets) * OFFSET_BYTES_MIN > bytes_max:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return problem


def _problem(group: AnyGroup | None, request: CommitRequest) -> int:
    if request.is_transactional and request.names_nobody:
        return NONE  # a client older than KIP-447 names no member
    has_generation = request.generation > NO_GENERATION
    if group is None:
        is_new = request.version >= GROUP_ID_SINCE and not request.is_transactional
        unknown = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
        return unknown if has_generation else NONE
    if isinstance(group, ConsumerGroup):
        return _consumer_problem(group, request, has_generation)
    return _classic_problem(group, request, has_generation)


def _consumer_problem(group: ConsumerGroup, request: CommitRequest, has_generation: bool) -> int:
    if not has_generation and not group.members:
        return NONE
    if request.version < GROUP_ID_SINCE and request.member_id in group.members:
        return ErrorCode.UNSUPPORTED_VERSION
    problem = _epoch_problem(group, request.member_id, request.generation)
    is_stale = problem == ErrorCode.STALE_MEMBER_EPOCH and request.is_transactional
    # Producers do not know the code (OffsetMetadataManager.validateTransactionalOffsetCommit).
    return ErrorCode.ILLEGAL_GENERATION if is_stale else problem


def _classic_problem(group: Group, request: CommitRequest, has_generation: bool) -> int:
    if not has_generation and group.state is State.EMPTY:
        return NONE
    if not (has_generation or request.member_id or request.instance_id is not None):
        return ErrorCode.UNKNOWN_MEMBER_ID
    problem = group.members.problem(request.member_id, request.instance_id)
    if problem:
        return problem
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    is_completing = group.state is State.COMPLETING and not request.is_transactional
    return ErrorCode.REBALANCE_IN_PROGRESS if is_completing else NONE


def fetched(group: AnyGroup | None, offsets: Offsets, request: FetchRequest) -> OffsetsAnswer:
    """Return the answer to an OffsetFetch."""
    is_anybody = request.member_id is None and request.member_epoch < 0
    if not is_anybody and isinstance(group, ConsumerGroup):
        problem = _epoch_problem(group, request.member_id or "", request.member_epoch)
        if problem:
            return OffsetsAnswer(problem)
    if request.partitions is None:
        return OffsetsAnswer(NONE, dict(offsets))
    return OffsetsAnswer(NONE, {place: offsets.get(place) for place in request.partitions})


def _epoch_problem(group: ConsumerGroup, member_id: str, epoch: int) -> int:
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return NONE if member.epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH


def kept_topics(group: AnyGroup, topics: Collection[str]) -> Collection[str] | None:
    """Return the topics whose offsets must stay, because members subscribe to them.

    It has all such topics of `topics`, and perhaps others. Returns None if no offset of the group
    may be deleted.
    """
    if isinstance(group, ConsumerGroup):
        return group.topics_among(topics)
    return () if group.state is State.EMPTY else subscribed_topics(group)
