"""Records to bytes, one number at a time: what `sparklog.record.encode` must write."""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.naive.records import Record

HEADER = 61
MASK_64 = 2**64 - 1


class Settings(NamedTuple):
    """What the batches of a stream have in common."""

    attributes: int = 0
    batch_bytes: int = 16384
    leader_epoch: int = 0
    append_time: int | None = None
    compress: Callable[[bytes], bytes] = bytes


def varint(value: int) -> bytes:
    """Zig-zag, then seven bits per byte, lowest first."""
    code = (2 * value if value >= 0 else -2 * value - 1) & MASK_64
    out = bytearray()
    while code > 127:
        out.append(128 + code % 128)
        code //= 128
    out.append(code)
    return bytes(out)


def field(data: bytes | None) -> bytes:
    """A length and what it counts; -1 for null."""
    return varint(-1) if data is None else varint(len(data)) + data


def wrapped(value: int) -> int:
    """As a signed 64-bit number."""
    return (value + 2**63) % 2**64 - 2**63


def record(one: Record, base_timestamp: int, offset_delta: int) -> bytes:
    """One record of a batch."""
    body = b"\0" + varint(wrapped(one.timestamp - base_timestamp)) + varint(offset_delta)
    body += field(one.key) + field(one.value) + varint(len(one.headers))
    body += b"".join(field(key.encode()) + field(value) for key, value in one.headers)
    return varint(len(body)) + body


def plain(records: Sequence[Record]) -> bytes:
    """The records of one batch, uncompressed."""
    first = records[0]
    return b"".join(record(one, first.timestamp, one.offset - first.offset) for one in records)


def batch(records: Sequence[Record], settings: Settings) -> bytes:
    """One batch of magic 2 without a producer."""
    times = [one.timestamp for one in records]
    newest = max(times) if settings.append_time is None else settings.append_time
    base_offset, last_offset = records[0].offset, records[-1].offset
    checked = struct.pack(
        ">hiqqqhii", settings.attributes, last_offset - base_offset, times[0], newest, -1, -1, -1,
        len(records),
    ) + settings.compress(plain(records))  # fmt: skip
    before = struct.pack(">ibI", settings.leader_epoch, 2, crc32c(checked))
    return struct.pack(">qi", base_offset, len(before) + len(checked)) + before + checked


def cut(records: Sequence[Record], batch_bytes: int) -> list[list[Record]]:
    """The records of each batch: as many as fit, and at least one."""
    batches: list[list[Record]] = []
    for one in records:
        if batches and fits([*batches[-1], one], batch_bytes):
            batches[-1].append(one)
        else:
            batches.append([one])
    return batches


def fits(records: Sequence[Record], batch_bytes: int) -> bool:
    """Whether one batch can hold the records."""
    is_near = records[-1].offset - records[0].offset < 2**31
    return is_near and HEADER + len(plain(records)) <= batch_bytes


def stream(records: Sequence[Record], base_offset: int, settings: Settings) -> list[bytes]:
    """The batches of one stream, its records numbered from `base_offset`."""
    return sparse([one._replace(offset=base_offset + i) for i, one in enumerate(records)], settings)


def sparse(records: Sequence[Record], settings: Settings) -> list[bytes]:
    """The batches of records that keep their offsets."""
    return [batch(part, settings) for part in cut(records, settings.batch_bytes)]


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF
