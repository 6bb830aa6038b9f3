"""Reads the log for a fetch, as of one image: errors, offsets, and the ranges of the batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sparklog.errors import ErrorCode, MissingFileError, SparklogError
from sparklog.log_reader.isolation import aborted_spans
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.image import Image, PartitionLog, Slice
from sparklog.model import READ_COMMITTED, SegmentEntry, TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.authorization import DENIED
from sparklog.wire.handlers.call import Call
from sparklog.wire.handlers.fetch_bodies import (
    UNKNOWN,
    FetchAsked,
    Fetched,
    PartAsked,
    TopicFetched,
)
from sparklog.wire.handlers.partitions import NO_EPOCH, log_of, of_epoch
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.topic_ids import with_uuid

FETCH_MAX_BYTES: Final = 55 * 1024 * 1024
"""The broker's fetch.max.bytes."""
READ_MS: Final = 1_000
"""After so many ms a fetch takes no further batches. Many partitions with many slices each take
minutes on an object store, and a client repeats a fetch after 30 seconds (request.timeout.ms)."""
NO_STORAGE_UNTIL: Final = 5
"""The last version without KAFKA_STORAGE_ERROR."""
LEADERS_FROM: Final = 16
"""The first version whose answer names the leader with an error (KIP-951)."""


class _Source(NamedTuple):
    """The topic that a request names, for all its partitions."""

    topic: TopicDescription
    directory: str
    replica: int
    """The instance in the client's rack that it should ask instead; UNKNOWN for none."""


class _Limits(NamedTuple):
    left: int
    at_least_one: bool
    at_once: bool
    is_late: Callable[[], bool]
    """Tells whether the fetch has read for READ_MS."""

    def after(self, size: int) -> "_Limits":
        """Return the limits after so many bytes were found."""
        left = 0 if self.is_late() else self.left - size
        return self._replace(left=left, at_least_one=False)


class FetchRequest:
    """A request, and values derived from it."""

    __slots__ = ("asked", "call", "is_late", "isolation", "max_bytes", "min_bytes")

    def __init__(self, call: Call, asked: FetchAsked) -> None:
        self.call = call
        self.asked = asked
        self.isolation = asked.isolation
        self.is_late = False
        """Whether the last `read` took READ_MS: then the answer waits for no more bytes."""
        self.max_bytes = min(max(asked.max_bytes, 0), FETCH_MAX_BYTES)
        """How many bytes of batches an answer has at most; one batch alone may be larger."""
        self.min_bytes = min(asked.min_bytes, self.max_bytes)
        """How many bytes of batches end the wait (KafkaApis.handleFetchRequest)."""

    def known(self, image: Image) -> Sequence[TopicDescription]:
        """Return the topics of the request that exist."""
        found = (_topic(image, one.topic) for one in self.asked.topics)
        return [topic for topic in found if topic is not None]

    def marks(self, image: Image) -> Sequence[object]:
        """Return numbers of the logs: as long as they stay the same, so does the answer."""
        logs = (
            log_of(image, _topic(image, topic.topic), one.partition)
            for topic in self.asked.topics
            for one in topic.parts
        )
        return [
            log and (log.log_start_offset, log.end_offset(self.isolation), log.leader_epoch)
            for log in logs
        ]

    def read(
        self, image: Image, *, at_once: bool = False, is_last: bool = False
    ) -> Sequence[TopicFetched]:
        """Return the answers for all partitions; `image` has opened the topics.

        With `at_once` it raises BlockingIOError if a read would have to wait. It raises
        MissingFileError; with `is_last` the partition's answer has the error instead.
        """
        answers, clock = [], self.call.gateway.clock
        end_ms = clock.boot_ms() + READ_MS
        limits = _Limits(self.max_bytes, True, at_once, lambda: clock.boot_ms() >= end_ms)
        for topic, parts in self.asked.topics:
            source, found = self._source(image, topic), list[Fetched]()
            for asked in parts:
                try:
                    answer = self._partition(image, source, asked, limits)
                except MissingFileError as error:
                    if not is_last:
                        raise
                    answer = Fetched(partition=asked.partition, error_code=self._code_of(error))
                except SparklogError as error:
                    answer = Fetched(partition=asked.partition, error_code=self._code_of(error))
                if answer.size:
                    limits = limits.after(answer.size)
                found.append(answer)
            answers.append(TopicFetched(topic, found))
        self.is_late = limits.is_late()
        return answers

    def failed(self, error: SparklogError) -> Sequence[TopicFetched]:
        """Return answers that have an error for all partitions."""
        code = self._code_of(error)
        return [
            TopicFetched(
                topic, [Fetched(partition=one.partition, error_code=code) for one in parts]
            )
            for topic, parts in self.asked.topics
        ]

    def _code_of(self, error: SparklogError) -> int:
        """Return an error's code; old clients do not know that of a storage (KafkaApis)."""
        is_unknown = self.call.version <= NO_STORAGE_UNTIL
        if is_unknown and error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error.code

    def _source(self, image: Image, asked: str | UUID) -> _Source | int:
        """Return the topic, or the error code of all its partitions."""
        topic = _topic(image, asked)
        if topic is None and isinstance(asked, UUID):
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self.call.allows(Scope.READ, topic.name if topic else str(asked)):
            return DENIED[Resource.TOPIC]
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _Source(topic, topic_directory(topic), self._replica_near(topic))

    def _replica_near(self, topic: TopicDescription) -> int:
        """Return the instance in the client's rack, when this one is in another (KIP-392)."""
        rack = self.asked.rack
        if not rack or self.call.gateway.instances.own.rack == rack:
            return UNKNOWN
        near = [one for one in self.call.instances if one.rack == rack]
        return leader_of(topic.topic_id, near).node_id if near else UNKNOWN

    def _partition(
        self, image: Image, source: _Source | int, asked: PartAsked, limits: _Limits
    ) -> Fetched:
        number = asked.partition
        if isinstance(source, int):
            return Fetched(partition=number, error_code=source)
        log = of_epoch(log_of(image, source.topic, number), asked.leader_epoch)
        if isinstance(log, int):
            return self._refused(image, source.topic, number, log)
        answer = Fetched(
            partition=number,
            high_watermark=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            preferred_replica=source.replica,
        )
        if source.replica != UNKNOWN:
            return answer
        if asked.last_epoch != NO_EPOCH:
            end = log.end_of_epoch(asked.last_epoch)
            if end is None:
                return Fetched(partition=number, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            if end.epoch < asked.last_epoch or end.start_offset < asked.offset:
                answer.diverging = end
                return answer
        self._take_batches(answer, source.directory, log, asked, limits)
        return answer

    def _refused(
        self, image: Image, topic: TopicDescription, partition: int, error_code: int
    ) -> Fetched:
        leader: tuple[Instance, int] | None = None
        if error_code == ErrorCode.FENCED_LEADER_EPOCH and self.call.version >= LEADERS_FROM:
            log = log_of(image, topic, partition)
            told = leader_of(topic.topic_id, self.call.instances)
            leader = told, log.leader_epoch if log else UNKNOWN
        return Fetched(partition=partition, error_code=error_code, leader=leader)

    def _take_batches(
        self, answer: Fetched, directory: str, log: PartitionLog, asked: PartAsked, limits: _Limits
    ) -> None:
        """Give the answer its batches, and the aborted transactions that they may belong to."""
        start, is_committed = asked.offset, self.isolation == READ_COMMITTED
        end = max(start, answer.last_stable_offset if is_committed else answer.high_watermark)
        max_bytes = max(min(limits.left, asked.max_bytes), 0)
        slices = log.slices(start, end)
        if is_committed:
            answer.aborted = ()
        if start == end or not (max_bytes or limits.at_least_one):
            return
        taken: list[SegmentEntry] = []
        answer.batches = self.call.gateway.ranges.find(
            directory,
            _noted(slices, taken) if is_committed else slices,
            max_bytes,
            at_least_one=limits.at_least_one,
            at_once=limits.at_once,
            is_late=limits.is_late,
        )
        answer.size = sum(map(len, answer.batches))
        if taken:  # none in a gap that compaction left
            behind = taken[-1].next_offset
            spans = [
                one for one in aborted_spans(taken) if one.last >= start and one.first < behind
            ]
            answer.aborted = sorted(spans, key=lambda one: (one.first, one.producer_id))


def _topic(image: Image, asked: str | UUID) -> TopicDescription | None:
    return with_uuid(image, asked) if isinstance(asked, UUID) else image.names.get(asked)


def _noted(slices: Iterator[Slice], segments: list[SegmentEntry]) -> Iterator[Slice]:
    """Yield the slices, and append the segment of each."""
    for one in slices:
        segments.append(one.segment)
        yield one
