"""Encodes a coordinator's records as a batch, and decodes batches."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sparklog.coordinator.records import Record
from sparklog.record import layout
from sparklog.record.checksum import crc32c

_HEAD: Final = struct.Struct(">qiibI")
_REST: Final = struct.Struct(">hiqqqhii")
NO_PRODUCER: Final = -1


def batch_of(records: Sequence[Record], now_ms: int) -> bytes:
    """Return records as one batch with base offset 0; every record has the timestamp `now_ms`."""
    body = b"".join(_pieces(records))
    last = len(records) - 1
    rest = _REST.pack(0, last, now_ms, now_ms, NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, len(records))
    length = layout.BATCH_HEADER_SIZE - layout.LOG_OVERHEAD + len(body)
    head = _HEAD.pack(0, length, -1, layout.MAGIC_V2, crc32c(rest + body))
    return head + rest + body


def _pieces(records: Sequence[Record]) -> list[bytes]:
    """Return the bytes of records as pieces; one join is faster than a join for each record."""
    pieces: list[bytes] = []
    known, many = _VARINTS, len(_VARINTS)  # looked up inline: a record has four varints
    for delta, (key, found) in enumerate(records):
        number = known[delta] if delta < many else _encoded(delta)
        key_size = known[len(key)] if len(key) < many else _encoded(len(key))
        size = _FIXED_BYTES + len(number) + len(key_size) + len(key)
        value = found or b""
        value_size = known[len(value)] if len(value) < many else _encoded(len(value))
        if found is None:
            value_size = _NULL
        size += len(value_size) + len(value)
        whole = known[size] if size < many else _encoded(size)
        pieces += (whole, _NO_TIME, number, key_size, key, value_size, value, _NO_HEADERS)
    return pieces


def _encoded(value: int) -> bytes:
    """Return a number >= 0 as a zig-zag varint."""
    code = value << 1
    out = bytearray()
    while code >= 0x80:
        out.append(code & 0x7F | 0x80)
        code >>= 7
    out.append(code)
    return bytes(out)


_VARINTS: Final = tuple(map(_encoded, range(1024)))
_NULL: Final = b"\1"
"""The varint of -1: the size of null."""
_NO_TIME: Final = b"\0\0"
"""No attributes, and the time of the batch."""
_NO_HEADERS: Final = b"\0"
_FIXED_BYTES: Final = len(_NO_TIME) + len(_NO_HEADERS)


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
