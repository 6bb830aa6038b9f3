"""The bodies of Fetch, versions 4 to 18, read and written by hand.

A consumer sends a fetch for every few MiB, and the processor's caches hold other data by then: each
Python call counts. Record batches are pieces between the fields of the answer.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from sparklog.errors import ErrorCode
from sparklog.log_reader.isolation import AbortedSpan
from sparklog.log_reader.ranges import Batches
from sparklog.metadata.state.edit import EpochStart
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.partitions import NO_EPOCH, isolation_named
from sparklog.wire.instances import Instance
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.writing import Writer
from sparklog.wire.sending import Piece

BY_ID_SINCE: Final = 13
"""The first version that names topics by their ids (KIP-516)."""
FULL_FETCH: Final = -1
"""The session epoch of a fetch that names all its partitions (FetchMetadata.FINAL_EPOCH)."""
NO_SESSION: Final = 0
UNKNOWN: Final = -1
"""An offset, epoch or replica that the answer does not name."""
_DIVERGING_EPOCH: Final = 0
_CURRENT_LEADER: Final = 1
_NODE_ENDPOINTS: Final = 0
"""Tags."""
_NUMBERS: Final = struct.Struct(">ihqq")


class PartAsked(NamedTuple):
    """One partition of a request; an epoch that its version does not have is NO_EPOCH."""

    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


class TopicAsked(NamedTuple):
    """One topic of a request, by name or by id, and its partitions in their order."""

    topic: str | bytes
    parts: Sequence[PartAsked]


class FetchAsked(NamedTuple):
    """A request, without the partitions that a session forgets: there are no sessions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: str
    session_epoch: int
    topics: Sequence[TopicAsked]
    rack: str


def read_fetch_request(reader: Reader, version: int) -> FetchAsked:
    """Return a request. Raises InvalidRequestError."""
    head, part = _layouts(version)
    max_wait_ms, min_bytes, max_bytes, level, *epoch = reader.numbers(head)
    topics: list[TopicAsked] = []
    for _ in range(reader.array(least_bytes=2)):
        topic = reader.uuid() if version >= BY_ID_SINCE else reader.string()
        parts: list[PartAsked] = []
        for _ in range(reader.array(least_bytes=part.size)):
            numbers = reader.numbers(part)
            if version < 12:
                first, *epochs, offset, most = numbers
                numbers = first, epochs[0] if epochs else NO_EPOCH, offset, NO_EPOCH, most
            parts.append(PartAsked._make(numbers))
            reader.tags()
        topics.append(TopicAsked(topic, parts))
        reader.tags()
    if version >= 7:
        _skip_forgotten(reader, version)
    rack = reader.string() if version >= 11 else ""
    reader.tags()
    return FetchAsked(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_named(level),
        epoch[0] if epoch else FULL_FETCH,
        topics,
        rack,
    )


@cache
def _layouts(version: int) -> tuple[struct.Struct, struct.Struct]:
    """Return the layouts of a request's fixed fields and of a partition's.

    `x` is a byte that is not needed.
    """
    replica, session = "4x" * (version < 15), "4xi" * (version >= 7)
    epoch, last_epoch = "i" * (version >= 9), "i" * (version >= 12)
    log_start = "8x" * (version >= 5)
    return (
        struct.Struct(f">{replica}iiib{session}"),
        struct.Struct(f">i{epoch}q{last_epoch}{log_start}i"),
    )


def _skip_forgotten(reader: Reader, version: int) -> None:
    for _ in range(reader.array(least_bytes=2)):
        if version >= BY_ID_SINCE:
            reader.uuid()
        else:
            reader.string()
        reader.numbers(struct.Struct(f"{4 * reader.array(least_bytes=4)}x"))
        reader.tags()


@dataclass(slots=True, eq=False, kw_only=True)
class Fetched:
    """The answer for one partition.

    `aborted` is None for read_uncommitted; `size` is how many bytes `batches` have.
    """

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
    size: int = 0

    @property
    def is_urgent(self) -> bool:
        """Whether the answer must not wait for more records."""
        return bool(self.error_code or self.diverging or self.preferred_replica != UNKNOWN)


class TopicFetched(NamedTuple):
    """The answers for one topic, by the name or id that the request used."""

    topic: str | bytes
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
        if isinstance(topic.topic, bytes):
            writer.raw(topic.topic)
        else:
            writer.string(topic.topic)
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
    numbers = one.partition, one.error_code, one.high_watermark, one.last_stable_offset
    writer.raw(_NUMBERS.pack(*numbers))
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
        inner.tags()
        writer.tagged(_DIVERGING_EPOCH, inner)
    if one.leader is not None:
        instance, epoch = one.leader
        inner = Writer(is_flexible=True)
        inner.int32(instance.node_id)
        inner.int32(epoch)
        inner.tags()
        writer.tagged(_CURRENT_LEADER, inner)


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
    writer.tagged(_NODE_ENDPOINTS, inner)
