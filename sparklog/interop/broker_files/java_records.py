"""Reads the records of one batch exactly as Kafka's classes do, also of a damaged batch.

This reader is slow. It is for batches that `record.decode` refuses or skips: damaged ones, control
batches and single message sets. If a record cannot be read, it raises after it has yielded the
records before it, as the iterators of DefaultRecordBatch and AbstractLegacyRecordBatch do. It does
not verify checksums.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.interop.broker_files.file_records import int_at
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.checksum import crc32
from sparklog.record.codecs.decompression import decompress

Bytes = NDArray[np.uint8]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


class JavaRecord(NamedTuple):
    """The fields of a record; a message set has no `sequence` (-1) and no `headers`.

    `crc` is the checksum of a message, `is_valid` whether it is right; None in a record of magic 2.
    The sizes are those in the bytes, negative for null. `is_cut`: the message ends before the end
    of its value.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    sequence: int = -1
    headers: tuple[bytes, ...] = ()
    is_valid: bool | None = None
    crc: int = 0
    key_size: int = -1
    value_size: int = -1
    is_cut: bool = False


def int32(value: int) -> int:
    """Return a value after int32's overflow."""
    return (value + 2**31) % 2**32 - 2**31


def int64(value: int) -> int:
    """Return a value after int64's overflow."""
    return (value + 2**63) % 2**64 - 2**63


def later_sequence(sequence: int, increment: int) -> int:
    """Return a later sequence (DefaultRecordBatch.incrementSequence, with its int32 overflow)."""
    if sequence > int32(2**31 - 1 - increment):
        return int32(increment - (2**31 - 1 - sequence) - 1)
    return int32(sequence + increment)


class Reader:
    """A ByteBuffer. Reading beyond its end raises CorruptRecordError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if size < 0 or size > len(self.data) - self.at:
            raise CorruptRecordError("Found invalid record structure")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """Return the signed big-endian integer in the next `size` bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self, longest: int = layout.MAX_VARINT_SIZE) -> int:
        """Return a zig-zag varint: an int32, or an int64 if `longest` is 10 bytes (ByteUtils)."""
        code = 0
        for shift in range(longest):
            byte = self.take(1)[0]
            code |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                break
        else:
            kind = "Varint" if longest == layout.MAX_VARINT_SIZE else "Varlong"
            raise CorruptRecordError(f"{kind} is too long")
        code %= 2**32 if longest == layout.MAX_VARINT_SIZE else 2**64
        return (code >> 1) ^ -(code & 1)

    def field(self) -> bytes | None:
        """Return bytes that follow their length; None for a negative length."""
        size = self.varint()
        return None if size < 0 else self.take(size)


# --- magic 2 -------------------------------------------------------------------------------------


def batch_records(data: bytes) -> Iterator[JavaRecord]:
    """Yield the records of one batch of magic 2 or above; `data` is the whole batch."""
    if len(data) < layout.BATCH_HEADER_SIZE:
        raise CorruptRecordError(f"a batch of {len(data)} bytes has no header")
    header = _HEADER.unpack_from(data)
    attributes, count = header[5], header[12]
    if count == 0:
        return
    codec = attributes & layout.CODEC_MASK
    if count < 0:
        raise CorruptRecordError(f"Found invalid record count {count} in magic v{header[3]} batch")
    body = data[layout.RECORDS :]
    if codec == 0:
        yield from _records(header, Reader(body), count)
    else:
        plain = decompress(codec, body, BATCH_BYTES_MAX)
        # Kafka reads a compressed batch to its end before it hands out a record.
        yield from list(_records(header, Reader(plain), count))


def _records(header: tuple[int, ...], reader: Reader, count: int) -> Iterator[JavaRecord]:
    for left in range(count, 0, -1):
        record = _record(header, reader)
        if left == 1 and reader.at != len(reader.data):
            raise CorruptRecordError(
                "Incorrect declared batch size, records still remaining in file"
            )
        yield record


def _record(header: tuple[int, ...], reader: Reader) -> JavaRecord:
    base_offset, attributes, base_timestamp = header[0], header[5], header[7]
    max_timestamp, base_sequence = header[8], header[11]
    size = reader.varint()
    left = len(reader.data) - reader.at
    if left < size:
        raise CorruptRecordError(
            f"Invalid record size: expected {size} bytes in record payload, but instead the buffer "
            f"has only {left} remaining bytes."
        )
    start = reader.at
    reader.take(1)
    timestamp = int64(base_timestamp + reader.varint(layout.MAX_VARLONG_SIZE))
    delta = reader.varint()
    key, value = reader.field(), reader.field()
    headers = _headers(reader)
    if reader.at - start != size:
        raise CorruptRecordError(
            f"Invalid record size: expected to read {size} bytes in record payload, but instead "
            f"read {reader.at - start}"
        )
    return JavaRecord(
        int64(base_offset + delta),
        max_timestamp if attributes & layout.TIMESTAMP_TYPE_MASK else timestamp,
        key,
        value,
        later_sequence(base_sequence, delta) if base_sequence >= 0 else -1,
        headers,
        key_size=-1 if key is None else len(key),
        value_size=-1 if value is None else len(value),
    )


def _headers(reader: Reader) -> tuple[bytes, ...]:
    count = reader.varint()
    if count < 0:
        raise CorruptRecordError(f"Found invalid number of record headers {count}")
    if count > len(reader.data) - reader.at:
        raise CorruptRecordError(
            f"Found invalid number of record headers. {count} is larger than the remaining size of "
            f"the buffer"
        )
    names = []
    for _ in range(count):
        size = reader.varint()
        if size < 0:
            raise CorruptRecordError(f"Invalid negative header key size {size}")
        names.append(reader.take(size))
        reader.field()
    return tuple(names)


# --- magic 0 and 1 -------------------------------------------------------------------------------


def message_records(data: bytes) -> Iterator[JavaRecord]:
    """Yield the messages of one entry of a message set; `data` is the whole entry."""
    outer = _message(data)
    codec = _codec(data)
    if codec == 0:
        yield outer
        return
    magic = data[layout.MAGIC]
    if codec == len(CODECS) - 1:
        raise CorruptRecordError(
            "Invalid wrapper compressionType found in legacy deep record iterator ZSTD"
        )
    if outer.is_cut:
        raise CorruptRecordError("the value of the wrapper does not fit it")
    if outer.value is None:
        raise CorruptRecordError(
            f"Found invalid compressed record set with null value (magic = {magic})"
        )
    yield from _inner(data, outer, decompress(codec, outer.value, BATCH_BYTES_MAX, magic))


def _inner(data: bytes, outer: JavaRecord, plain: bytes) -> Iterator[JavaRecord]:
    found = list(_entries(plain))
    if not found:
        raise CorruptRecordError("Found invalid compressed record set with no inner records")
    last = int.from_bytes(found[-1][:8], "big", signed=True)
    base = _base_offset(data[layout.MAGIC], outer.offset, last)
    is_append_time = data[layout.LEGACY_ATTRIBUTES] & layout.TIMESTAMP_TYPE_MASK
    for inner in found:
        record = _message(inner)
        if _codec(inner):
            raise CorruptRecordError("Inner messages must not be compressed")
        appended = is_append_time and data[layout.MAGIC] and inner[layout.MAGIC]
        yield record._replace(
            offset=int64(base + record.offset),
            timestamp=outer.timestamp if appended else record.timestamp,
        )


def _base_offset(magic: int, outer: int, last: int) -> int:
    """Return the offset that inner offsets are relative to; 0 if they are offsets of the log."""
    if magic == layout.MAGIC_V0 or outer == 0:
        return 0
    if outer < last:
        raise CorruptRecordError(
            f"Found invalid wrapper offset in compressed v1 message set, wrapper offset '{outer}' "
            f"is less than the last inner message offset '{last}' and it is not zero."
        )
    return outer - last


def _entries(plain: bytes) -> Iterator[bytes]:
    """Yield the inner entries; a cut entry at the end is left out (DataLogInputStream)."""
    at = 0
    while len(plain) - at >= layout.LOG_OVERHEAD:
        size = int.from_bytes(plain[at + 8 : at + 12], "big", signed=True)
        if size < layout.LEGACY_MIN_LENGTH_V0:
            raise CorruptRecordError(
                f"Record size {size} is less than the minimum record overhead "
                f"({layout.LEGACY_MIN_LENGTH_V0})"
            )
        if size > len(plain) - at - layout.LOG_OVERHEAD:
            return
        yield plain[at : at + layout.LOG_OVERHEAD + size]
        at += layout.LOG_OVERHEAD + size


def _codec(data: bytes) -> int:
    codec = data[layout.LEGACY_ATTRIBUTES] & layout.CODEC_MASK
    if codec >= len(CODECS):
        raise CorruptRecordError(f"Unknown compression type id: {codec}")
    return codec


def _message(data: bytes) -> JavaRecord:
    """Return one entry as a record; a compressed value is not decompressed."""
    reader = Reader(data)
    offset = reader.number(8)
    reader.take(4)
    crc = int.from_bytes(reader.take(4), "big")
    magic = reader.take(2)[0]
    timestamp = -1 if magic == layout.MAGIC_V0 else reader.number(8)
    key_size = reader.number(4)
    key = reader.take(key_size) if key_size >= 0 else None
    value_size = reader.number(4)
    is_cut = value_size > len(data) - reader.at
    value = reader.take(value_size) if value_size >= 0 and not is_cut else None
    return JavaRecord(
        offset,
        timestamp,
        key,
        value,
        is_valid=crc == crc32(data[layout.LEGACY_CRC_START :]),
        crc=crc,
        key_size=key_size,
        value_size=value_size,
        is_cut=is_cut,
    )


def records_at(view: Bytes, position: int, size: int) -> Iterator[JavaRecord]:
    """Yield the records of the batch at [position, position + size) of a file.

    Raises CorruptRecordError, with its position, after the records before the damage.
    """
    data = view[position : position + size].tobytes()
    is_v2 = int_at(view, position + layout.MAGIC, 1) >= layout.MAGIC_V2
    try:
        yield from batch_records(data) if is_v2 else message_records(data)
    except CorruptRecordError as error:
        raise CorruptRecordError(str(error.args[0]), position=position) from None
