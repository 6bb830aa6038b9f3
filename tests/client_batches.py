"""A small language for batches as clients send them: sound ones, and such with a field changed.

client_batch("a", "b", producer_id=7, base_sequence=0)
"""

import struct
from collections.abc import Sequence

from sparklog.model import Codec
from sparklog.record.codecs.compression import compress
from tests.damage import Log
from tests.naive import encode as naive
from tests.naive.records import Record

NOW_MS = 1_700_000_000_000

FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}
"""Where the fields of a header lie, and their types."""


def client_batch(
    *values: str,
    keys: Sequence[bytes | None] = (),
    times: Sequence[int] = (),
    codec: Codec = Codec.NONE,
    **fields: int,
) -> bytes:
    """A batch of these values; then header fields are changed, and the checksum made right."""
    times = times or [NOW_MS] * len(values)
    keys = keys or [None] * len(values)
    records = [
        Record(number, time, key, value.encode())
        for number, (value, key, time) in enumerate(zip(values, keys, times, strict=True))
    ]
    return with_fields(batch_of(records, codec), **fields)


def batch_of(records: Sequence[Record], codec: Codec = Codec.NONE) -> bytes:
    """A batch of records, whose offsets begin at 0."""
    settings = naive.Settings(
        attributes=int(codec), leader_epoch=-1, compress=lambda data: compress(codec, data)
    )
    return naive.batch(records, settings)


def with_fields(batch: bytes, **fields: int) -> bytes:
    """The batch with header fields changed and its checksum made right."""
    log = Log(batch)
    length = len(batch) - 12
    for name, value in fields.items():
        at, kind = FIELDS[name]
        log.put(at, struct.pack(kind, value))
    if fields.get("length", length) == length:
        log.fix_crc()
    return bytes(log.data)
