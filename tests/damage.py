"""A small language for damaged logs: lay bytes down, damage them, read them.

Log(CREATE_TIME).flip_byte(70).fix_crc().read()
"""

import struct
from collections.abc import Sequence
from typing import Any, Self

import google_crc32c
import pytest

from sparklog.errors import CorruptRecordError
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import ALL, decode
from sparklog.record.scan import scan_batches
from tests.naive import encode as naive
from tests.naive.decode import MalformedError, read_log
from tests.naive.records import Record, rows

HEADER = struct.Struct(">qiibIhiqqqhii")
T0 = 1_700_000_000_000


def raw_batch(body: bytes, count: int, **fields: int) -> bytes:
    """A v2 batch of whatever bytes; fields are `base`, `last_delta`, `attributes`, `base_time`,
    `max_time`.
    """
    attributes, last_delta = fields.get("attributes", 0), fields.get("last_delta", count - 1)
    times = fields.get("base_time", T0), fields.get("max_time", T0)
    packed = HEADER.pack(
        fields.get("base", 0), 49 + len(body), 0, 2, 0, attributes, last_delta, *times,
        -1, -1, -1, count,
    )  # fmt: skip
    return bytes(Log(packed + body).fix_crc().data)


def raw_record(body: bytes) -> bytes:
    """A record of whatever bytes behind its length."""
    return naive.varint(len(body)) + body


def sparse_batch(records: Sequence[Record], base: int, last_offset: int, **fields: int) -> bytes:
    """A batch as compaction leaves it: records keep their offsets, and the batch its span."""
    first = records[0].timestamp
    body = b"".join(naive.record(one, first, one.offset - base) for one in records)
    newest = max(one.timestamp for one in records)
    fields = {"base_time": first, "max_time": newest} | fields
    return raw_batch(body, len(records), base=base, last_delta=last_offset - base, **fields)


class Log:
    """The bytes of a log. Every step changes them and returns the log."""

    def __init__(self, *entries: bytes) -> None:
        self.data = bytearray(b"".join(entries))

    def put(self, position: int, data: bytes) -> Self:
        self.data[position : position + len(data)] = data
        return self

    def flip_byte(self, position: int, mask: int = 0xFF) -> Self:
        self.data[position] ^= mask
        return self

    def shrink(self, count: int) -> Self:
        """Drops the last `count` bytes."""
        del self.data[len(self.data) - count :]
        return self

    def zero(self, start: int, stop: int) -> Self:
        return self.put(start, bytes(stop - start))

    def fix_crc(self, position: int = 0) -> Self:
        """Gives the v2 batch at `position` the checksum of the bytes it has now."""
        (length,) = struct.unpack_from(">i", self.data, position + 8)
        covered = bytes(self.data[position + 21 : position + 12 + length])
        return self.put(position + 17, struct.pack(">I", google_crc32c.value(covered)))

    def decode(self, **options: Any) -> Any:
        """The columns of all whole entries, checksums not looked at."""
        data = bytes(self.data)
        return decode(data, scan_batches(data).batches, **options)

    def read(self) -> list[Record]:
        """The records, as a careful reader gets them: the whole log, its checksums verified."""
        data = bytes(self.data)
        scan = scan_batches(data)
        if scan.problem is not None:
            raise CorruptRecordError(scan.problem, position=scan.end)
        verify_checksums(data, scan.batches)
        return rows(decode(data, scan.batches))

    def outcome(self) -> list[Record] | None:
        """The records of all whole entries; None when they are damaged."""
        try:
            return rows(self.decode())
        except CorruptRecordError:
            return None

    def naive_outcome(self) -> list[Record] | None:
        """What the naive reader says of the same bytes."""
        data = bytes(self.data)
        try:
            return read_log(data[: scan_batches(data).end])
        except MalformedError:
            return None


def misread(log: Log) -> CorruptRecordError:
    """The error that the columns of a damaged log are."""
    with pytest.raises(CorruptRecordError) as caught:
        log.decode()
    return caught.value


def check_decodes_or_refuses(log: Log) -> None:
    """Whatever the bytes of a log are, they are an error, or sound columns of one length."""
    try:
        got = log.decode()
    except CorruptRecordError:
        return
    for name in ALL:
        getattr(got, name).validate(full=True)
        assert len(getattr(got, name)) == got.num_rows
