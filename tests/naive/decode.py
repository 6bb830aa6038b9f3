"""The obvious reader: one byte after the other, one record after the other, plain Python.

It knows the formats from their description alone and shares no code with sparklog.record. What it
cannot read raises MalformedError.
"""

import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import pyarrow as pa
import zstandard

from tests.naive.records import Record

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""baseOffset … recordsCount: the 61 bytes before the records of a v2 batch."""

UNREADABLE = (
    EOFError,
    OSError,
    RuntimeError,
    StopIteration,
    ValueError,
    zlib.error,
    zstandard.ZstdError,
)
"""What codecs raise for a stream that is none."""


class MalformedError(Exception):
    """Bytes that are no log."""


class Cursor:
    """A position in some bytes. Taking more than there is raises MalformedError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise MalformedError(f"{count} bytes asked, {self.left} left")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, form: str) -> int:
        (value,) = struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))
        return int(value)

    def varint(self, bits: int = 32) -> int:
        value = 0
        for shift in range(0, bits, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1
                return (value >> 1) ^ -(value & 1)
        raise MalformedError("overlong varint")

    def sized(self, length: int) -> bytes | None:
        return None if length == -1 else self.take(length)


def int64(value: int) -> int:
    """Return `value` wrapped to a signed 64-bit number, as Java adds."""
    return (value + 2**63) % 2**64 - 2**63


def read_log(data: bytes) -> list[Record]:
    """Return the records of entries that stand back to back, as a scan has found them."""
    records: list[Record] = []
    cursor = Cursor(data)
    while cursor.left:
        offset = cursor.number("q")
        size = cursor.number("i")
        entry = cursor.take(size)
        if entry[4] == 2:
            records.extend(read_batch(struct.pack(">qi", offset, size) + entry))
        else:
            records.extend(read_message(offset, entry))
    return records


def read_batch(data: bytes) -> list[Record]:
    """Return the records of one v2 batch; none of a control batch."""
    cursor = Cursor(data)
    fields = BATCH_HEADER.unpack(cursor.take(BATCH_HEADER.size))
    base, _, _, _, _, attributes, last_delta, base_time, max_time, _, _, _, count = fields
    if attributes & 0x20:
        return []
    # As Kafka, which does not ask for a codec when there is nothing to read.
    body = Cursor(decompress(attributes & 7, cursor.take(cursor.left)) if cursor.left else b"")
    if count < 0:
        raise MalformedError("negative count")
    records = []
    for _ in range(count):
        record = read_record(Cursor(body.take(body.varint())), last_delta)
        timestamp = max_time if attributes & 8 else int64(base_time + record.timestamp)
        records.append(
            record._replace(
                offset=int64(base + record.offset),
                timestamp=timestamp,
                timestamp_type=(attributes & 8) >> 3,
            )
        )
    if body.left:
        raise MalformedError("bytes after the last record")
    return records


def read_record(body: Cursor, last_delta: int) -> Record:
    """Return a record of a v2 batch whose offset and timestamp are still deltas."""
    body.take(1)
    timestamp = body.varint(64)
    offset = body.varint()
    if not 0 <= offset <= last_delta:
        raise MalformedError("offset outside the batch")
    key = body.sized(body.varint())
    value = body.sized(body.varint())
    headers = tuple(read_headers(body))
    if body.left:
        raise MalformedError("bytes after the last field")
    return Record(offset, timestamp, key, value, headers)


def read_headers(body: Cursor) -> Iterator[tuple[str, bytes | None]]:
    count = body.varint()
    if not 0 <= count <= body.left:
        raise MalformedError("header count")
    for _ in range(count):
        key = body.take(body.varint())
        value = body.sized(body.varint())
        try:
            yield key.decode(), value
        except UnicodeDecodeError as error:
            raise MalformedError("header key") from error


def read_message(offset: int, message: bytes) -> list[Record]:
    """Return the record of a plain v0 or v1 message, or those inside a compressed one."""
    cursor = Cursor(message)
    cursor.number("I")
    magic = cursor.number("b")
    attributes = cursor.number("b")
    timestamp = cursor.number("q") if magic == 1 else -1
    timestamp_type = (attributes & 8) >> 3 if magic == 1 else -1
    key = cursor.sized(cursor.number("i"))
    value = cursor.sized(cursor.number("i"))
    if cursor.left:
        raise MalformedError("bytes after the value")
    if not attributes & 7:
        return [Record(offset, timestamp, key, value, timestamp_type=timestamp_type)]
    if value is None or attributes & 7 > 3:
        raise MalformedError("wrapper")
    inner = list(read_inner(decompress(attributes & 7, value, magic), magic))
    if not inner:
        raise MalformedError("nothing inside")
    base = 0 if magic == 0 else base_of_wrapper(offset, inner[-1].offset)
    return [
        record._replace(
            offset=int64(base + record.offset),
            timestamp=timestamp if timestamp_type == 1 else record.timestamp,
            timestamp_type=timestamp_type,
        )
        for record in inner
    ]


def base_of_wrapper(wrapper_offset: int, last_inner: int) -> int:
    if wrapper_offset == 0:
        return 0
    if wrapper_offset < last_inner:
        raise MalformedError("wrapper offset below its last message")
    return wrapper_offset - last_inner


def read_inner(data: bytes, magic: int) -> Iterator[Record]:
    cursor = Cursor(data)
    while cursor.left >= 12:
        offset = cursor.number("q")
        size = cursor.number("i")
        if size < 14:
            raise MalformedError("inner size")
        if size > cursor.left:
            return
        message = cursor.take(size)
        if message[4] != magic or message[5] & 7:
            raise MalformedError("inner magic, or a wrapper inside a wrapper")
        yield from read_message(offset, message)


def decompress(codec: int, data: bytes, magic: int = 2) -> bytes:
    """Return what the codec bits say `data` holds."""
    readers: dict[int, Callable[[bytes], bytes]]
    readers = {0: bytes, 1: gzip.decompress, 2: _snappy, 3: lz4.frame.decompress, 4: _zstd}
    if codec not in readers:
        raise MalformedError(f"codec {codec}")
    if codec == 3 and magic == 0:
        # Kafka's v0 writer hashed the magic number too; the right byte belongs here (KAFKA-3160).
        data = data[:6] + b"\x82" + data[7:]
    try:
        return readers[codec](data)
    except UNREADABLE as error:
        raise MalformedError("compressed records") from error


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()


def _snappy(data: bytes) -> bytes:
    if data[:8] != b"\x82SNAPPY\x00":
        return _snappy_block(data)
    cursor = Cursor(data[16:])
    blocks = []
    while cursor.left:
        blocks.append(_snappy_block(cursor.take(cursor.number("i"))))
    return b"".join(blocks)


def _snappy_block(block: bytes) -> bytes:
    last = next(index for index, byte in enumerate(block) if byte < 0x80)
    size = sum((block[index] & 0x7F) << 7 * index for index in range(last + 1))
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size))
