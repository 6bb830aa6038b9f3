"""What compaction leaves of batches, record by record, and what their headers say then."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.naive.decode import BATCH_HEADER, Cursor, decompress, int64, read_record
from tests.naive.encode import varint

CODEC, APPEND_TIME, CONTROL, HAS_HORIZON = 7, 8, 32, 64


class Header(NamedTuple):
    """The 61 bytes in front of the records; `length` and `crc` follow from all else, so are 0."""

    base: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_time: int
    max_time: int
    producer: int
    producer_epoch: int
    sequence: int
    num_records: int


class Opened(NamedTuple):
    """A batch: its header, and its records as plain bytes."""

    header: Header
    body: bytes


class RawRecord(NamedTuple):
    """A record: what decides about it, and its bytes behind the time delta."""

    offset: int
    attributes: bytes
    time_delta: int
    has_key: bool
    has_value: bool
    rest: bytes


@dataclass(frozen=True)
class Rules:
    """Offsets that are superseded; base offsets of batches that are aborted, or stay empty."""

    dropped: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()
    stays_empty: frozenset[int] = frozenset()
    now_ms: int = 0
    delete_retention_ms: int = 0


def opened(data: bytes) -> Iterator[Opened]:
    """The batches of a log."""
    cursor = Cursor(data)
    while cursor.left:
        header = Header(*BATCH_HEADER.unpack(cursor.take(BATCH_HEADER.size)))
        body = cursor.take(header.length - 49)
        plain = decompress(header.attributes & CODEC, body) if body else b""
        yield Opened(header._replace(length=0, crc=0), plain)


def raw_records(batch: Opened) -> list[RawRecord]:
    """The records of a batch; MalformedError as the naive reader raises it."""
    cursor, records = Cursor(batch.body), []
    for _ in range(batch.header.num_records):
        body = Cursor(cursor.take(cursor.varint()))
        one = read_record(Cursor(body.data), batch.header.last_delta)
        attributes = body.take(1)
        time_delta = body.varint(64)
        rest = body.take(body.left)
        offset = batch.header.base + one.offset
        has = one.key is not None, one.value is not None
        records.append(RawRecord(offset, attributes, time_delta, *has, rest))
    return records


def retain(data: bytes, rules: Rules) -> list[Opened]:
    """What is left of the batches of a log."""
    left = (_retained(batch, rules) for batch in opened(data))
    return [batch for batch in left if batch is not None]


def _retained(batch: Opened, rules: Rules) -> Opened | None:
    header = batch.header
    if header.attributes & CONTROL:
        return batch
    records = raw_records(batch)
    has_horizon = bool(header.attributes & HAS_HORIZON)
    is_over = has_horizon and rules.now_ms >= header.base_time
    kept = [
        one
        for one in records
        if one.has_key
        and one.offset not in rules.dropped
        and header.base not in rules.aborted
        and (one.has_value or not is_over)
    ]
    if not kept:
        return _emptied(header) if header.base in rules.stays_empty else None
    gets_horizon = not has_horizon and not all(one.has_value for one in kept)
    if kept == records and not gets_horizon:
        return batch
    base_time, attributes = header.base_time, header.attributes
    if gets_horizon:
        base_time = min(rules.now_ms + rules.delete_retention_ms, 2**63 - 1)
        attributes |= HAS_HORIZON
    newest = max(int64(header.base_time + one.time_delta) for one in kept)
    changed = header._replace(
        attributes=attributes,
        base_time=base_time,
        max_time=header.max_time if attributes & APPEND_TIME else newest,
        num_records=len(kept),
    )
    return Opened(changed, b"".join(_moved(one, header.base_time - base_time) for one in kept))


def _emptied(header: Header) -> Opened:
    attributes = header.attributes & ~(CODEC | HAS_HORIZON)
    return Opened(header._replace(attributes=attributes, base_time=-1, num_records=0), b"")


def _moved(one: RawRecord, by: int) -> bytes:
    body = one.attributes + varint(int64(one.time_delta + by)) + one.rest
    return varint(len(body)) + body
