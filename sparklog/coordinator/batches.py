"""Encodes a coordinator's records as batches, and decodes batches."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from sparklog.coordinator.messages import unsigned_varint
from sparklog.coordinator.records import (
    COMMIT_TYPES,
    CONSUMER_CURRENT,
    CONSUMER_TARGET,
    CONSUMER_TARGET_MEMBER,
    GROUP_METADATA,
    Record,
    type_of,
)
from sparklog.record import layout
from sparklog.record.plain_batch import plain_batch

RECORD_OVERHEAD_BYTES: Final = 24
"""The most bytes of a record besides its key and its value."""
SIZES: Final = 10_000
"""The most combinations of a record's place and sizes whose bytes are cached."""
DELETED_APART: Final = (*COMMIT_TYPES, GROUP_METADATA, CONSUMER_TARGET, CONSUMER_CURRENT)
"""The first types of the records that delete an offset, a group, or a member."""
_NULL_SIZE: Final = -1
_NO_TIME: Final = b"\0\0"
"""No attributes, and the time of the batch."""
_NO_HEADERS: Final = b"\0"


def batch_of(
    records: Sequence[Record],
    now_ms: int,
    *,
    offset: int = 0,
    leader_epoch: int = layout.NO_LEADER_EPOCH,
) -> bytes:
    """Return records as one batch; every record has the timestamp `now_ms`."""
    data = b"".join(_pieces(records))
    return plain_batch(data, len(records), now_ms, offset=offset, leader_epoch=leader_epoch)


def bytes_of(records: Sequence[Record]) -> int:
    """Return the most bytes that records take in a batch, besides its header."""
    size = sum([len(key) + len(value or b"") for key, value in records])
    return size + len(records) * RECORD_OVERHEAD_BYTES


def fits(records: Sequence[Record], bytes_max: int) -> bool:
    """Return True if a batch of the records has at most `bytes_max`, or if there are none."""
    most = layout.BATCH_HEADER_SIZE + bytes_of(records)
    return most <= bytes_max or not records or len(batch_of(records, 0)) <= bytes_max


def cut(records: list[Record], bytes_max: int) -> list[list[Record]]:
    """Return records as the contents of batches: of one, if `bytes_max` allow it.

    Another batch may begin only in front of a record that sets the target of a member, or in front
    of those that delete an offset, a group or a member: these do not depend on each other, other
    records may belong together. If only some targets of an epoch are in the log, the next heartbeat
    makes them anew.
    """
    if layout.BATCH_HEADER_SIZE + bytes_of(records) <= bytes_max:
        return [records]
    return list(packed(_parts(records), bytes_max))


def spread(records: Sequence[Record], bytes_max: int) -> list[Sequence[Record]]:
    """Return records as the contents of batches that one entry commits: it may cut anywhere."""
    if fits(records, bytes_max):
        return [records]
    return list(packed(zip(records), bytes_max))


def packed(parts: Iterable[Sequence[Record]], bytes_max: int) -> Iterator[list[Record]]:
    """Yield the contents of batches of at most `bytes_max`; a part is never cut."""
    some: list[Record] = []
    used = layout.BATCH_HEADER_SIZE
    for part in parts:
        size = bytes_of(part)
        if some and used + size > bytes_max:
            yield some
            some, used = [], layout.BATCH_HEADER_SIZE
        some += part
        used += size
    if some:
        yield some


def _parts(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the shortest runs of records that must be in one batch."""
    part: list[Record] = []
    for one in records:
        kind = type_of(one.key)
        is_apart = kind in DELETED_APART if one.value is None else kind == CONSUMER_TARGET_MEMBER
        if part and is_apart:
            yield part
            part = []
        part.append(one)
    yield part


def _pieces(records: Sequence[Record]) -> list[bytes]:
    """Return the bytes of records as pieces; one join is faster than a join for each record."""
    pieces: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        if value is None:
            front, middle = _around(delta, len(key), _NULL_SIZE)
            pieces += (front, key, middle)
        else:
            front, middle = _around(delta, len(key), len(value))
            pieces += (front, key, middle, value)
        pieces.append(_NO_HEADERS)
    return pieces


@lru_cache(SIZES)
def _around(delta: int, key_size: int, value_size: int) -> tuple[bytes, bytes]:
    """Return the bytes of a record before its key, and those between key and value."""
    front = _NO_TIME + _varint(delta) + _varint(key_size)
    middle = _varint(value_size)
    size = len(front) + key_size + len(middle) + max(value_size, 0) + len(_NO_HEADERS)
    return _varint(size) + front, middle


def _varint(value: int) -> bytes:
    """Return a number >= -1 as a zig-zag varint."""
    return unsigned_varint(value << 1 if value >= 0 else 1)


def records_of(pieces: Iterable[memoryview], start: int, end: int) -> Iterator[Record]:
    """Yield the records with offsets in [start, end) and a key; each piece has whole batches.

    Raises CorruptRecordError.
    """
    # Imported with the first batch: loading the kernels takes a while.
    from sparklog.record.checksum import verify_checksums
    from sparklog.record.decode import decode
    from sparklog.record.scan import scan_batches

    for piece in pieces:
        batches = scan_batches(piece).batches
        verify_checksums(piece, batches)
        found = decode(piece, batches, columns=("key", "value"), start_offset=start, end_offset=end)
        for key, value in zip(found.key.to_pylist(), found.value.to_pylist(), strict=True):
            if key is not None:
                yield Record(key, value)
