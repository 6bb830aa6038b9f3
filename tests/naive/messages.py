"""Message sets of magic 0 and 1, written one number at a time. sparklog only reads them."""

import gzip
import struct
import zlib
from collections.abc import Sequence

import lz4.frame
import pyarrow as pa

from tests.naive.records import Record

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3}


def message(record: Record, magic: int, attributes: int = 0) -> bytes:
    """One entry. Headers do not exist here; magic 0 drops the timestamp."""
    body = bytes([magic, attributes])
    body += struct.pack(">q", record.timestamp) if magic else b""
    body += field(record.key) + field(record.value)
    entry = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", record.offset, len(entry)) + entry


def field(data: bytes | None) -> bytes:
    """An int32 length and what it counts; -1 for null."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def wrapper(
    records: Sequence[Record], magic: int, codec: str = "gzip", append_time: int | None = None
) -> bytes:
    """A compressed entry as brokers keep it: relative inner offsets in magic 1, absolute in 0."""
    base = records[0].offset if magic else 0
    inner = [message(one._replace(offset=one.offset - base), magic) for one in records]
    newest = max(one.timestamp for one in records)
    time, bit = (newest, 0) if append_time is None else (append_time, 8)
    value = compress(codec, b"".join(inner), magic)
    return message(Record(records[-1].offset, time, None, value), magic, CODECS[codec] | bit)


def compress(codec: str, data: bytes, magic: int) -> bytes:
    """One stream, framed as old clients framed it."""
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return bytes(pa.Codec("snappy").compress(data))
    frame = bytearray(lz4.frame.compress(data, block_linked=False, store_size=False))
    if magic == 0:
        frame[6] ^= 0xFF  # what they wrote there is not the checksum that the frame format asks for
    return bytes(frame)
