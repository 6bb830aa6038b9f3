"""Batches as a broker would have them, byte by byte where Kafka's producer would not go."""

import struct
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa

from sparklog.log.segment_writer import SegmentBuilder
from sparklog.model import Codec
from sparklog.record.encode import BatchSettings, encode
from sparklog.record.rows import RecordColumns

T0 = 1_700_000_000_000
TRANSACTIONAL, CONTROL, HORIZON = 0x10, 0x20, 0x40


def batch(
    base: int,
    count: int = 2,
    *,
    producer: int = -1,
    attributes: int = 0,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    sequence: int = -1,
) -> bytes:
    """A batch of `count` records from offset `base` on; `attributes` are added to its codec."""
    columns = RecordColumns(
        pa.array([f"k{base + i}".encode() for i in range(count)]),
        pa.array([b"v" * 40] * count),
        np.arange(count, dtype=np.int64) + T0 + base,
    )
    settings = BatchSettings(codec, leader_epoch=epoch)
    (stream,) = encode(columns, None, 1, np.array([base], np.int64), settings)
    return patched(bytes(stream.data), producer, attributes, sequence)


def patched(data: bytes, producer: int, attributes: int, sequence: int = -1) -> bytes:
    """A batch with another producer and more attributes, and the checksum that it then has.

    With a `sequence` its producer is idempotent and has epoch 0.
    """
    raw = bytearray(data)
    raw[22] |= attributes
    raw[43:51] = struct.pack(">q", producer)
    if sequence >= 0:
        raw[51:57] = struct.pack(">hi", 0, sequence)
    raw[17:21] = struct.pack(">I", google_crc32c.value(bytes(raw[21:])))
    return bytes(raw)


def marker(offset: int, producer: int, kind: int, *, epoch: int = 0) -> bytes:
    """A control batch: 0 ABORT, 1 COMMIT."""
    record = b"\0\0\0" + b"\x08" + struct.pack(">hh", 0, kind) + b"\x0c" + b"\0" * 6 + b"\0"
    return _control_batch(offset, producer, epoch, 1, bytes([2 * len(record)]) + record)


def emptied_marker(offset: int, producer: int) -> bytes:
    """A control batch whose marker a broker's cleaner has removed."""
    return _control_batch(offset, producer, 0, 0, b"")


def _control_batch(offset: int, producer: int, epoch: int, count: int, body: bytes) -> bytes:
    head = struct.pack(">hiqqqhii", TRANSACTIONAL | CONTROL, 0, T0, T0, producer, 0, -1, count)
    crc = google_crc32c.value(head + body)
    size = 9 + len(head) + len(body)
    return struct.pack(">qiibI", offset, size, epoch, 2, crc) + head + body


def write_segment(folder: Path, base: int, *batches: bytes) -> Path:
    """A `.log` under its canonical name."""
    path = folder / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def write_epochs(folder: Path) -> None:
    """The checkpoint of a partition that has had one leader epoch only."""
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n", encoding="utf-8")


def write_indexes(log: Path) -> None:
    """The index files that a broker would have beside a `.log`."""
    from sparklog.record.scan import scan_batches

    builder = SegmentBuilder(int(log.stem), 0)
    builder.append(scan_batches(log.read_bytes()).batches)
    _, indexes = builder.finish()
    log.with_suffix(".index").write_bytes(indexes.offset_index)
    log.with_suffix(".timeindex").write_bytes(indexes.time_index)
