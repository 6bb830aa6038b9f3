"""OffsetCommit: commits the offsets of a group.

Groups send this request more often than any other, and with many partitions. So its body is read,
and its answer is written, by hand (OffsetCommitRequest.json, OffsetCommitResponse.json).
"""

import asyncio
import struct
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.coordinator.requests import NO_EPOCH, CommitAnswer, CommitRequest, CommittedOffset
from sparklog.errors import ErrorCode, SparklogError
from sparklog.metadata.state.image import Image
from sparklog.model import TopicPartition
from sparklog.tokens import Resource, Scope
from sparklog.wire.commit_forms import PARTITIONS_MAX, Asked, CommitForm
from sparklog.wire.handlers.call import Call, Later, Reply
from sparklog.wire.handlers.groups.group_members import ask_if_allowed, code_for
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.writing import Writer

RETENTION_UNTIL: Final = 4
"""The last version with the field RetentionTimeMs."""
THROTTLE_SINCE: Final = 3
EPOCH_SINCE: Final = 6
INSTANCE_SINCE: Final = 7

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET: Final = struct.Struct(">iq")
_OFFSET_AND_EPOCH: Final = struct.Struct(">iqi")
_PLAIN: Final = struct.Struct(">iqiBB")
"""A partition in a flexible version, without metadata and tagged fields; their sizes are last."""
_NO_TEXT: Final = 1
"""The encoded size of an empty string; null has 0."""
_ONE_BYTE_MAX: Final = 0x7F
"""The largest varint of one byte."""
_CODE: Final = struct.Struct(">ih")
_CODE_AND_TAGS: Final = struct.Struct(">ihx")


class CommitTopic(NamedTuple):
    """A topic of a request: its partitions, in the order of the request, and their offsets."""

    name: str
    offsets: list[tuple[TopicPartition, CommittedOffset]]
    head: bytes
    """The bytes of the name and of the number of partitions: the answer has the same bytes."""
    plain_at: int | None = None
    """The first partition's position in the frame, if all have the layout `_PLAIN`; else None."""

    @property
    def numbers_at(self) -> range:
        """The positions of the offsets in the frame; each is followed by its leader epoch.

        Empty if a partition has another layout than `_PLAIN`.
        """
        if self.plain_at is None:
            return range(0)
        first = self.plain_at + _INT32.size
        return range(first, first + len(self.offsets) * _PLAIN.size, _PLAIN.size)


class TopicRule(NamedTuple):
    """The partitions of a topic for which a client may commit offsets.

    These are the partitions below `num_partitions`, but none if there is an `error_code`.
    """

    error_code: int
    num_partitions: int

    @classmethod
    def of(cls, call: Call, image: Image, name: str) -> "TopicRule":
        """Return the rule of a topic. The topic need not exist."""
        if not call.allows(Scope.READ, name):
            return cls(ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
        topic = image.names.get(name)
        return cls(ErrorCode.NONE, 0 if topic is None else topic.num_partitions)

    def code(self, partition: int) -> int:
        """Return the error code of a commit to a partition; 0 if it is allowed."""
        if self.error_code or 0 <= partition < self.num_partitions:
            return self.error_code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Commit(NamedTuple):
    """A request: all its topics, the codes of refused partitions, and the allowed commit."""

    call: Call
    topics: Sequence[CommitTopic]
    codes: dict[TopicPartition, int]
    request: CommitRequest

    def judged(self, image: Image) -> "_Commit":
        """Return the commit with `codes` and `request` as an image has them."""
        codes, allowed = _judged(self.call, image, self.topics)
        return self._replace(codes=codes, request=self.request._replace(offsets=allowed))

    def is_older_than_topic(self, image: Image) -> bool:
        """Return True if a topic was deleted and made again after `image` was read.

        The request was checked on `image`. If a clock is behind, the offsets may be dated before
        the new topic: then they do not count.
        """
        newest = self.call.gateway.topics.last_seen or image
        if newest.directory is image.directory:
            return False
        names = {place.topic for place in self.request.offsets} & newest.names.keys()
        return any(newest.names[name].topic_id != image.names[name].topic_id for name in names)

    def answer(self, image: Image, found: CommitAnswer | int) -> bytearray:
        """Return the body of the answer; `found` is the coordinator's answer, or its error code.

        Sets `codes` for all partitions.
        """
        call, codes = self.call, self.codes
        if isinstance(found, int):
            codes.update(dict.fromkeys((*codes, *self.request.offsets), found))
        else:
            codes.update(found.partitions)
            newest = call.gateway.topics.last_seen or image
            if newest.directory is not image.directory:
                codes.update(_judged(call, newest, self.topics)[0])
        return written_commit_answer(call.writer(), call.version, self.topics, codes)

    def form(self, image: Image, answer: bytearray) -> CommitForm | None:
        """Return the form of an answered request.

        Returns None if a partition was refused, if a topic was read field by field, and if there
        are more than PARTITIONS_MAX partitions.
        """
        call, request = self.call, self.request
        if any(self.codes.values()):
            return None
        body_at = call.header.body_at
        numbers_at = [at - body_at for topic in self.topics for at in topic.numbers_at]
        if not len(numbers_at) == len(request.offsets) <= PARTITIONS_MAX:
            return None
        asked_by = Asked(call.version, image.directory, call.session.principal)
        return CommitForm(call.frame[body_at:], request, numbers_at, bytes(answer), asked_by)


def offset_commit(call: Call) -> Awaitable[Reply] | Later:
    """Return the answer, as an awaitable or a Later.

    A commit is first checked on the image that was read last: its append looks at the newest image
    anyway. Only if that check refuses it, the newest image is read, and the commit checked again.
    """
    gateway, session = call.gateway, call.session
    image, coordinators, form = gateway.topics.last_seen, gateway.coordinators, session.commit_form
    if form is not None and image is not None:
        asked_by = Asked(call.version, image.directory, session.principal)
        now_ms = image.not_before(gateway.clock.now_ms())
        again = form.request_of(call.frame, call.header.body_at, asked_by, now_ms)
        if again is not None:
            found = coordinators.ask_at_once(again, again.group_id, image)
            if found is not None:
                return Later(found, partial(_answered_again, call, form, image))
    if call.is_long:
        return _at_length(call)
    commit = _read(call)
    if image is not None and call.allows(Scope.READ, commit.request.group_id, Resource.GROUP):
        commit = commit.judged(image)
        request = commit.request
        if request.offsets and not commit.codes:
            found = coordinators.ask_at_once(request, request.group_id, image)
            if found is not None:
                return Later(found, partial(_answered, commit, image))
    return _looked_up(commit)


async def _at_length(call: Call) -> Reply:
    """Return the answer to a request for hundreds of partitions, made beside the event loop."""
    return await _looked_up(await call.step(lambda: _read(call)))


def _read(call: Call) -> _Commit:
    request, topics = read_commit_request(call.reader(), call.version)
    return _Commit(call, topics, {}, request)


def _answered_again(
    call: Call, form: CommitForm, image: Image, done: "asyncio.Future[Any]"
) -> Reply | Awaitable[Reply]:
    """Return the answer to a request of a known form: mostly the bytes of the last answer."""
    if done.exception() is None:
        found: CommitAnswer = done.result()
        newest = call.gateway.topics.last_seen or image
        is_kept = not found.error_code and not any(found.partitions.values())
        if is_kept and newest.directory is image.directory:
            return [form.answer]
    return _answered(_read(call).judged(image), image, done)


def _answered(
    commit: _Commit, image: Image, done: "asyncio.Future[Any]"
) -> Reply | Awaitable[Reply]:
    """Return the answer.

    A commit that the coordinator refused is checked on the newest image. A commit whose topic was
    made anew meanwhile is made again there, with a time that is not before the topic's.
    """
    error = done.exception()
    if isinstance(error, SparklogError):
        return [commit.answer(image, code_for(commit.call, error))]
    found: CommitAnswer = done.result()
    if found.error_code or commit.is_older_than_topic(image):
        return _looked_up(commit)
    answer = commit.answer(image, found)
    commit.call.session.commit_form = commit.form(image, answer)
    return [answer]


async def _looked_up(commit: _Commit) -> Reply:
    """Return the answer as of the newest image at hand; on an object store it may be old.

    A commit whose topic was made anew meanwhile is made again, as in `_answered`.
    """
    call = commit.call
    image = await call.gateway.image()
    judged = await call.step(lambda: commit.judged(image))
    request = judged.request
    found = await ask_if_allowed(call, request, request.group_id, image)
    is_taken = isinstance(found, CommitAnswer)
    if is_taken and await call.step(lambda: judged.is_older_than_topic(image)):
        return await _looked_up(commit)
    return [await call.step(lambda: judged.answer(image, found))]


def _judged(
    call: Call, image: Image, topics: Sequence[CommitTopic]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, CommittedOffset]]:
    """Return the codes of the partitions that are refused, and the offsets of the others."""
    rules = {name: TopicRule.of(call, image, name) for name in {topic.name for topic in topics}}
    codes: dict[TopicPartition, int] = {}
    allowed: dict[TopicPartition, CommittedOffset] = {}
    for topic in topics:
        rule = rules[topic.name]
        for place, offset in topic.offsets:
            if code := rule.code(place.partition):
                codes[place] = code
            else:
                allowed[place] = offset
    return codes, allowed


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
    # A copy, because indexing bytes is faster than indexing a view.
    data = bytes(reader.data) if reader.is_flexible else b""
    topics: list[CommitTopic] = []
    for _ in range(reader.array(least_bytes=2)):
        topic, end = _plain_topic(data, reader.at)
        if topic is None:
            topic = _topic(reader, has_epoch=version >= EPOCH_SINCE)
        else:
            reader.at = end
        topics.append(topic)
    reader.tags()
    return committing, topics


def _plain_topic(data: bytes, at: int) -> tuple[CommitTopic | None, int]:
    """Return the topic at a position of a flexible body, and the position behind it.

    Returns None instead of the topic if it must be read field by field: if it has metadata, tagged
    fields, or a size of more than one byte, or if it is malformed.
    """
    try:
        size = data[at]
        name_end = at + size
        count = data[name_end] - 1
        head_end = name_end + 1
        end = head_end + count * _PLAIN.size
        if not (0 < size <= _ONE_BYTE_MAX and 0 <= count < _ONE_BYTE_MAX) or data[end]:
            return None, at
        name = data[at + 1 : name_end].decode()
    except (IndexError, UnicodeDecodeError):
        return None, at
    offsets: list[tuple[TopicPartition, CommittedOffset]] = []
    for partition, offset, epoch, text, tags in _PLAIN.iter_unpack(data[head_end:end]):
        if text > _NO_TEXT or tags:
            return None, at
        offsets.append((TopicPartition(name, partition), CommittedOffset(offset, epoch)))
    return CommitTopic(name, offsets, data[at:head_end], head_end), end + 1


def _topic(reader: Reader, *, has_epoch: bool) -> CommitTopic:
    """Return the next topic. Raises InvalidRequestError as `read_commit_request`."""
    start, name = reader.at, reader.string()
    layout = _OFFSET_AND_EPOCH if has_epoch else _OFFSET
    count = reader.array(layout.size)
    head = bytes(reader.data[start : reader.at])
    offsets: list[tuple[TopicPartition, CommittedOffset]] = []
    for _ in range(count):
        numbers = reader.numbers(layout)
        partition, offset, epoch = numbers if has_epoch else (*numbers, NO_EPOCH)
        metadata = reader.string_or_null() or ""
        reader.tags()
        offsets.append((TopicPartition(name, partition), CommittedOffset(offset, epoch, metadata)))
    reader.tags()
    return CommitTopic(name, offsets, head)


def written_commit_answer(
    writer: Writer, version: int, topics: Sequence[CommitTopic], codes: Mapping[TopicPartition, int]
) -> bytearray:
    """Return the body of an answer: an error code for each partition, in the request's order."""
    if version >= THROTTLE_SINCE:
        writer.int32(0)
    writer.array(len(topics))
    data = writer.data
    layout, end = (_CODE_AND_TAGS, b"\0") if writer.is_flexible else (_CODE, b"")
    for topic in topics:
        data += topic.head
        for place, _ in topic.offsets:
            data += layout.pack(place.partition, codes[place])
        data += end
    writer.tags()
    return data
