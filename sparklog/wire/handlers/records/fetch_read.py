"""Reads the log for a fetch, as of one image: errors, offsets, and the ranges of the batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from sparklog.errors import ErrorCode, MissingFileError, OffsetOutOfRangeError, SparklogError
from sparklog.log_reader.isolation import aborted_spans
from sparklog.log_reader.ranges import BatchRanges, Wanted
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.image import Image, PartitionLog, Slice
from sparklog.model import READ_COMMITTED, SegmentEntry, TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call
from sparklog.wire.handlers.failed import tell
from sparklog.wire.handlers.partitions import NO_EPOCH, log_of, of_epoch
from sparklog.wire.handlers.records.fetch_bodies import (
    UNKNOWN,
    FetchAsked,
    Fetched,
    PartAsked,
    TopicFetched,
)
from sparklog.wire.instances import Instance, Leaders, leaders_of, node_ids_of
from sparklog.wire.protocol.topic_ids import asked_topic
from sparklog.wire.security.authorization import DENIED

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
    near: Leaders | None
    """The instances in the client's rack that it should ask instead; None if there are none."""


class _Place(NamedTuple):
    """The answer for a partition, and the part of its log that its batches come from."""

    answer: Fetched
    directory: str = ""
    log: PartitionLog | None = None
    """None if there is nothing to read."""
    start: int = 0
    end: int = 0
    max_bytes: int = 0

    def slices(self) -> Iterator[Slice]:
        """Return the slices to be read."""
        return iter(()) if self.log is None else self.log.slices(self.start, self.end)


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

    __slots__ = ("asked", "call", "is_cut_short", "isolation", "max_bytes", "min_bytes")

    def __init__(self, call: Call, asked: FetchAsked) -> None:
        self.call = call
        self.asked = asked
        self.isolation = asked.isolation
        self.is_cut_short = False
        """True if the last `read` ended early, for want of time or of memory.

        Such an answer is sent at once."""
        self.max_bytes = min(max(asked.max_bytes, 0), FETCH_MAX_BYTES)
        """How many bytes of batches an answer has at most; one batch alone may be larger."""
        self.min_bytes = min(asked.min_bytes, self.max_bytes)
        """How many bytes of batches end the wait (KafkaApis.handleFetchRequest)."""

    def known(self, image: Image) -> Sequence[TopicDescription]:
        """Return the topics of the request that exist."""
        found = (asked_topic(image, one.topic) for one in self.asked.topics)
        return [topic for topic in found if topic is not None]

    def marks(self, image: Image) -> Sequence[object]:
        """Return numbers of the logs: as long as they stay the same, the batches do, too."""
        logs = (
            log_of(image, asked_topic(image, topic.topic), one.partition)
            for topic in self.asked.topics
            for one in topic.parts
        )
        return [
            log and (log.log_start_offset, log.end_offset(self.isolation), log.leader_epoch)
            for log in logs
        ]

    @property
    def may_have_grown(self) -> bool:
        """True if a fetch must read the log again for its answer when its time is over.

        With min_bytes there may be more batches; under read_committed the high watermark may be
        higher.
        """
        return self.min_bytes > 1 or self.isolation == READ_COMMITTED

    def may_be_due(self, image: Image) -> bool:
        """Whether the image may have an error, or min_bytes of batches; reads no file."""
        if self.min_bytes <= 1:
            return True
        size = 0
        for topic in self.asked.topics:
            for place in self._places(image, *topic):
                for one in place.slices():
                    size += one.segment.log_bytes
                    if size >= self.min_bytes:
                        return True
                if place.answer.is_urgent:
                    return True
        return False

    def read(
        self, image: Image, *, at_once: bool = False, is_last: bool = False
    ) -> Sequence[TopicFetched]:
        """Return the answers for all partitions; `image` has opened the topics.

        With `at_once` it raises BlockingIOError if a read would have to wait. It raises
        MissingFileError; with `is_last` the partition's answer has the error instead.
        """
        clock, ranges = self.call.gateway.clock, self.call.gateway.ranges
        end_ms = clock.boot_ms() + READ_MS
        places = [self._places(image, *topic) for topic in self.asked.topics]
        if all(one.log is None for some in places for one in some):
            return self._without_batches(places)
        max_bytes = min(self.max_bytes, self._room())
        limits = _Limits(max_bytes, True, at_once, lambda: clock.boot_ms() >= end_ms)
        ranges = ranges.ahead_of(
            (Wanted(one.directory, one.slices(), one.max_bytes) for some in places for one in some),
            max_bytes,
        )
        answers = []
        for (topic, _), some in zip(self.asked.topics, places, strict=True):
            found = list[Fetched]()
            for place in some:
                answer = self._answer(place, ranges, limits, is_last=is_last)
                if answer.size:
                    limits = limits.after(answer.size)
                found.append(answer)
            answers.append(TopicFetched(topic, found))
        has_room = max_bytes >= self.min_bytes
        has_batches = any(one.size for _, some in answers for one in some)
        self.is_cut_short = limits.is_late() or (has_batches and not has_room)
        return answers

    def _without_batches(self, places: Sequence[Sequence[_Place]]) -> Sequence[TopicFetched]:
        self.is_cut_short = False
        topics = zip(self.asked.topics, places, strict=True)
        return [TopicFetched(topic, [one.answer for one in some]) for (topic, _), some in topics]

    def _room(self) -> int:
        """Return how many bytes fit into memory beside the answers that clients have not taken."""
        gateway = self.call.gateway
        if gateway.catalog.files.is_local:
            return FETCH_MAX_BYTES  # files are sent as ranges
        return gateway.sent.room_for(self.call.session.address)

    def failed(self, error: SparklogError) -> Sequence[TopicFetched]:
        """Return answers that have an error for all partitions."""
        code = self._code_of(error)
        tell(self.call, error)
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

    def _source(self, image: Image, asked: str | bytes) -> _Source | int:
        """Return the topic, or the error code of all its partitions."""
        topic = asked_topic(image, asked)
        if topic is None and isinstance(asked, bytes):
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self.call.allows(Scope.READ, topic.name if topic else str(asked)):
            return DENIED[Resource.TOPIC]
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _Source(topic, topic_directory(topic), self._near(topic))

    def _near(self, topic: TopicDescription) -> Leaders | None:
        """Return the instances in the client's rack, when this one is in another (KIP-392)."""
        rack = self.asked.rack
        if not rack or self.call.gateway.instances.own.rack == rack:
            return None
        near = node_ids_of(one for one in self.call.instances if one.rack == rack)
        return leaders_of(topic.topic_id, near) if near else None

    def _places(
        self, image: Image, topic: str | bytes, parts: Sequence[PartAsked]
    ) -> Sequence[_Place]:
        source = self._source(image, topic)
        return [self._place(image, source, asked) for asked in parts]

    def _place(self, image: Image, source: _Source | int, asked: PartAsked) -> _Place:
        number = asked.partition
        if isinstance(source, int):
            return _Place(Fetched(partition=number, error_code=source))
        log = of_epoch(log_of(image, source.topic, number), asked.leader_epoch)
        if isinstance(log, int):
            return _Place(self._refused(image, source.topic, number, log))
        answer = Fetched(
            partition=number,
            high_watermark=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            preferred_replica=UNKNOWN if source.near is None else source.near.of(number),
        )
        if source.near is not None:
            return _Place(answer)
        if asked.last_epoch != NO_EPOCH:
            end = log.end_of_epoch(asked.last_epoch)
            if end is None:
                return _Place(Fetched(partition=number, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
            if end.epoch < asked.last_epoch or end.start_offset < asked.offset:
                answer.diverging = end
                return _Place(answer)
        start, is_committed = asked.offset, self.isolation == READ_COMMITTED
        behind = max(start, answer.last_stable_offset if is_committed else answer.high_watermark)
        try:
            log.check_range(start, behind)
        except OffsetOutOfRangeError as error:
            return _Place(Fetched(partition=number, error_code=error.code))
        if is_committed:
            answer.aborted = ()
        if start == behind:
            return _Place(answer)
        return _Place(answer, source.directory, log, start, behind, max(asked.max_bytes, 0))

    def _refused(
        self, image: Image, topic: TopicDescription, partition: int, error_code: int
    ) -> Fetched:
        leader: tuple[Instance, int] | None = None
        if error_code == ErrorCode.FENCED_LEADER_EPOCH and self.call.version >= LEADERS_FROM:
            log = log_of(image, topic, partition)
            instances = {one.node_id: one for one in self.call.instances}
            node_id = leaders_of(topic.topic_id, tuple(instances)).of(partition)
            leader = instances[node_id], log.leader_epoch if log else UNKNOWN
        return Fetched(partition=partition, error_code=error_code, leader=leader)

    def _answer(
        self, place: _Place, ranges: BatchRanges, limits: _Limits, *, is_last: bool
    ) -> Fetched:
        """Return the answer of a place with its batches, or with the error of reading them."""
        max_bytes = max(min(limits.left, place.max_bytes), 0)
        if place.log is None or not (max_bytes or limits.at_least_one):
            return place.answer
        try:
            self._take_batches(place, ranges, limits, max_bytes)
        except SparklogError as error:
            if isinstance(error, MissingFileError) and not is_last:
                raise
            is_local = self.call.gateway.catalog.files.is_local
            if is_local or limits.at_once or is_last:  # else it is read again, not answered
                tell(self.call, error)
            return Fetched(partition=place.answer.partition, error_code=self._code_of(error))
        return place.answer

    def _take_batches(
        self, place: _Place, ranges: BatchRanges, limits: _Limits, max_bytes: int
    ) -> None:
        """Give the answer its batches, and the aborted transactions that they may belong to."""
        answer, taken = place.answer, list[SegmentEntry]()
        is_committed = self.isolation == READ_COMMITTED
        answer.batches = ranges.find(
            place.directory,
            _noted(place.slices(), taken) if is_committed else place.slices(),
            max_bytes,
            at_least_one=limits.at_least_one,
            at_once=limits.at_once,
            is_late=limits.is_late,
        )
        answer.size = sum(map(len, answer.batches))
        if taken:  # none in a gap that compaction left
            start, behind = place.start, taken[-1].next_offset
            spans = [
                one for one in aborted_spans(taken) if one.last >= start and one.first < behind
            ]
            answer.aborted = sorted(spans, key=lambda one: (one.first, one.producer_id))


def _noted(slices: Iterator[Slice], segments: list[SegmentEntry]) -> Iterator[Slice]:
    """Yield the slices, and append the segment of each."""
    for one in slices:
        segments.append(one.segment)
        yield one
