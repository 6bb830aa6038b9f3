"""Reads the log for a fetch, as of one image: errors, offsets, and the ranges of the batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sparklog.errors import ErrorCode, MissingFileError, SparklogError
from sparklog.log_reader.isolation import AbortedSpan, aborted_spans
from sparklog.log_reader.ranges import Batches
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.image import Image, PartitionLog
from sparklog.model import READ_COMMITTED, TopicDescription
from sparklog.wire.handlers.call import Call
from sparklog.wire.handlers.fetch_answer import UNKNOWN, Fetched, TopicFetched
from sparklog.wire.handlers.partitions import NO_EPOCH, isolation_of, log_of, readable
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.topic_ids import NO_UUID, with_uuid

FETCH_MAX_BYTES: Final = 55 * 1024 * 1024
"""The broker's fetch.max.bytes."""
IDS_FROM: Final = 13
"""The first version that names topics by their ids (KIP-516)."""
LEADERS_FROM: Final = 16
"""The first version whose answer names the leader with an error (KIP-951)."""


class _Limits(NamedTuple):
    left: int
    at_least_one: bool
    at_once: bool


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request, as kio has it, and values derived from it."""

    call: Call
    asked: Any

    @property
    def isolation(self) -> str:
        """The isolation.level."""
        return isolation_of(self.asked)

    @property
    def max_bytes(self) -> int:
        """How many bytes of batches an answer has at most; one batch alone may be larger."""
        asked: int = self.asked.max_bytes
        return min(max(asked, 0), FETCH_MAX_BYTES)

    @property
    def min_bytes(self) -> int:
        """How many bytes of batches end the wait (KafkaApis.handleFetchRequest)."""
        asked: int = self.asked.min_bytes
        return min(asked, self.max_bytes)

    def known(self, image: Image) -> Sequence[TopicDescription]:
        """Return the topics of the request that exist."""
        found = (self._topic(image, one) for one in self.asked.topics)
        return [topic for topic in found if topic is not None]

    def _topic(self, image: Image, asked: Any) -> TopicDescription | None:
        if self.call.version >= IDS_FROM:
            return with_uuid(image, asked.topic_id)
        return image.names.get(asked.topic)

    def marks(self, image: Image) -> Sequence[object]:
        """Return numbers of the logs: as long as they stay the same, so does the answer."""
        logs = (
            log_of(image, self._topic(image, topic), one.partition)
            for topic in self.asked.topics
            for one in topic.partitions
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
        answers = []
        left, at_least_one = self.max_bytes, True
        for asked in self.asked.topics:
            topic, found = self._topic(image, asked), list[Fetched]()
            name = getattr(asked, "topic", None) if topic is None else topic.name
            for one in asked.partitions:
                try:
                    limits = _Limits(left, at_least_one, at_once)
                    answer = self._partition(image, name, one, limits)
                except MissingFileError as error:
                    if not is_last:
                        raise
                    answer = Fetched(partition=one.partition, error_code=error.code)
                except SparklogError as error:
                    answer = Fetched(partition=one.partition, error_code=error.code)
                left -= answer.size
                at_least_one = at_least_one and not answer.size
                found.append(answer)
            topic_id = getattr(asked, "topic_id", None) or NO_UUID
            answers.append(
                TopicFetched(getattr(asked, "topic", None), topic_id.bytes, topic, found)
            )
        return answers

    def _partition(self, image: Image, name: str | None, asked: Any, limits: _Limits) -> Fetched:
        number, offset = asked.partition, asked.fetch_offset
        if name is None:
            return Fetched(partition=number, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        epoch = getattr(asked, "current_leader_epoch", NO_EPOCH)
        log = readable(self.call, image, name, number, epoch)
        if isinstance(log, int):
            return self._refused(image, name, number, log)
        topic = image.names[name]
        replica = self._replica_near(topic)
        if replica != UNKNOWN:
            return _found(log, preferred_replica=replica)
        last_epoch = getattr(asked, "last_fetched_epoch", NO_EPOCH)
        if last_epoch != NO_EPOCH:
            end = log.end_of_epoch(last_epoch)
            if end is None:
                return Fetched(partition=number, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            if end.epoch < last_epoch or end.start_offset < offset:
                return _found(log, diverging=end)
        batches, aborted = self._batches(topic, log, asked, limits)
        return _found(log, batches=batches, aborted=aborted)

    def _refused(self, image: Image, name: str, partition: int, error_code: int) -> Fetched:
        leader: tuple[Instance, int] | None = None
        if error_code == ErrorCode.FENCED_LEADER_EPOCH and self.call.version >= LEADERS_FROM:
            topic, alive = image.names[name], self.call.gateway.instances.alive
            log = log_of(image, topic, partition)
            told = leader_of(topic.topic_id, alive).at(self.call.session.listener.name)
            leader = told, log.leader_epoch if log else UNKNOWN
        return Fetched(partition=partition, error_code=error_code, leader=leader)

    def _replica_near(self, topic: TopicDescription) -> int:
        """Return the instance in the client's rack, when this one is in another (KIP-392)."""
        rack = getattr(self.asked, "rack_id", "")
        if not rack or self.call.gateway.instances.own.rack == rack:
            return UNKNOWN
        near = [one for one in self.call.gateway.instances.alive if one.rack == rack]
        return leader_of(topic.topic_id, near).node_id if near else UNKNOWN

    def _batches(
        self,
        topic: TopicDescription,
        log: PartitionLog,
        asked: Any,
        limits: _Limits,
    ) -> tuple[Sequence[Batches], Sequence[AbortedSpan] | None]:
        start = asked.fetch_offset
        end = max(start, log.end_offset(self.isolation))
        max_bytes = max(min(limits.left, asked.partition_max_bytes), 0)
        slices = log.slices(start, end)
        if start == end or not (max_bytes or limits.at_least_one):
            return (), None if self.isolation != READ_COMMITTED else ()
        taken = []

        def noted() -> Any:
            for one in slices:
                taken.append(one.segment)
                yield one

        batches = self.call.gateway.ranges.find(
            topic_directory(topic),
            noted(),
            max_bytes,
            at_least_one=limits.at_least_one,
            at_once=limits.at_once,
        )
        if self.isolation != READ_COMMITTED:
            return batches, None
        behind = taken[-1].next_offset
        spans = [one for one in aborted_spans(taken) if one.last >= start and one.first < behind]
        return batches, sorted(spans, key=lambda one: (one.first, one.producer_id))


def _found(log: PartitionLog, **fields: Any) -> Fetched:
    return Fetched(
        partition=log.partition,
        high_watermark=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        **fields,
    )
