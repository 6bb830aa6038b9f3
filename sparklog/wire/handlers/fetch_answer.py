"""The answer of Fetch: versions 4 to 18 by hand, record batches as pieces between its fields."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.errors import ErrorCode
from sparklog.log_reader.isolation import AbortedSpan
from sparklog.log_reader.ranges import Batches
from sparklog.metadata.edit import EpochStart
from sparklog.model import TopicDescription
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.instances import Instance
from sparklog.wire.sending import Piece
from sparklog.wire.writing import Writer

NO_SESSION: Final = 0
UNKNOWN: Final = -1
"""An offset, epoch or replica that the answer does not name."""
_DIVERGING_EPOCH: Final = 0
_CURRENT_LEADER: Final = 1
_NODE_ENDPOINTS: Final = 0
"""Tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The answer for one partition. `aborted` is None for read_uncommitted."""

    partition: int
    error_code: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: Sequence[AbortedSpan] | None = None
    preferred_replica: int = UNKNOWN
    diverging: EpochStart | None = None
    leader: tuple[Instance, int] | None = None
    """The leader and its epoch, for a client whose epoch is behind (KIP-951)."""
    batches: Sequence[Batches] = ()

    @property
    def size(self) -> int:
        """Bytes of record batches."""
        return sum(map(len, self.batches))

    @property
    def is_urgent(self) -> bool:
        """Whether the answer must not wait for more records."""
        return bool(self.error_code or self.diverging or self.preferred_replica != UNKNOWN)


@dataclass(frozen=True, slots=True)
class TopicFetched:
    """The answers for one topic, by the name or id that the request used."""

    name: str | None
    topic_id: bytes
    topic: TopicDescription | None
    partitions: Sequence[Fetched]


def fetch_answer(
    call: Call, topics: Sequence[TopicFetched], error_code: int = ErrorCode.NONE
) -> Reply:
    """Return the pieces of an answer."""
    version, pieces, writer = call.version, list[Piece](), call.writer()
    writer.int32(0)  # throttle time
    if version >= 7:
        writer.int16(error_code)
        writer.int32(NO_SESSION)
    writer.array(len(topics))
    for topic in topics:
        if version >= 13:
            writer.raw(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array(len(topic.partitions))
        for one in topic.partitions:
            _write_partition(writer, one, version)
            if one.batches:
                pieces += [bytes(writer.data), *one.batches]
                writer = call.writer()
            if writer.is_flexible:
                _write_tags(writer, one)
        writer.tags()
    leaders = {one.leader[0] for topic in topics for one in topic.partitions if one.leader}
    if leaders:
        _write_endpoints(writer, sorted(leaders))
    else:
        writer.tags()
    return [*pieces, bytes(writer.data)]


def _write_partition(writer: Writer, one: Fetched, version: int) -> None:
    """Write the fields up to the size of the record batches."""
    writer.int32(one.partition)
    writer.int16(one.error_code)
    writer.int64(one.high_watermark)
    writer.int64(one.last_stable_offset)
    if version >= 5:
        writer.int64(one.log_start_offset)
    writer.array(-1 if one.aborted is None else len(one.aborted))
    for span in one.aborted or ():
        writer.int64(span.producer_id)
        writer.int64(span.first)
        writer.tags()
    if version >= 11:
        writer.int32(one.preferred_replica)
    writer.array(one.size)


def _write_tags(writer: Writer, one: Fetched) -> None:
    writer.varint((one.diverging is not None) + (one.leader is not None))
    if one.diverging is not None:
        inner = Writer(is_flexible=True)
        inner.int32(one.diverging.epoch)
        inner.int64(one.diverging.start_offset)
        _write_tag(writer, _DIVERGING_EPOCH, inner)
    if one.leader is not None:
        instance, epoch = one.leader
        inner = Writer(is_flexible=True)
        inner.int32(instance.node_id)
        inner.int32(epoch)
        _write_tag(writer, _CURRENT_LEADER, inner)


def _write_endpoints(writer: Writer, instances: Sequence[Instance]) -> None:
    inner = Writer(is_flexible=True)
    inner.array(len(instances))
    for one in instances:
        inner.int32(one.node_id)
        inner.string(one.host)
        inner.int32(one.port)
        inner.string(one.rack)
        inner.tags()
    writer.varint(1)
    writer.varint(_NODE_ENDPOINTS)
    writer.varint(len(inner.data))
    writer.raw(inner.data)


def _write_tag(writer: Writer, tag: int, struct: Writer) -> None:
    struct.tags()
    writer.varint(tag)
    writer.varint(len(struct.data))
    writer.raw(struct.data)
