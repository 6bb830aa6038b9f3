"""Reads and writes producer snapshots, which a broker keeps beside its segments.

The file `<offset>.snapshot`:

    | version 2 (1) | CRC-32C 4, of all behind it | count 4 | entries of 46 bytes
    entry: producer id 8 | epoch 2 | last sequence 4 | last offset 8 | offset delta 4 | timestamp 8
           | coordinator epoch 4 | first offset of the open transaction 8 (-1: none)

See ProducerStateManager. All integers are signed but the CRC.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sparklog.errors import CorruptionError
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.java_records import int32
from sparklog.log.names import segment_name
from sparklog.record.batches import Buffer, byte_view
from sparklog.record.checksum import crc32c

SNAPSHOT_SUFFIX: Final = ".snapshot"
VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_START: Final = 6


class ProducerState(NamedTuple):
    """The state that a broker keeps of one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """The first sequence of its last batch (DefaultRecordBatch.decrementSequence)."""
        if self.last_sequence < self.offset_delta:
            return int32(2**31 - 1 - (self.offset_delta - self.last_sequence) + 1)
        return int32(self.last_sequence - self.offset_delta)


def read_snapshot(data: Buffer) -> list[ProducerState]:
    """Return the producers of a snapshot. Raises CorruptionError, with Kafka's message."""
    raw = byte_view(data).tobytes()
    count, stored = _head(raw)
    if len(raw) < _HEAD.size + count * _ENTRY.size:
        raise _refused("null")
    computed = crc32c(raw[_CRC_START:])
    if stored != computed:
        raise CorruptionError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: "
            f"{computed}"
        )
    entries = raw[_HEAD.size : _HEAD.size + count * _ENTRY.size]
    return [ProducerState(*fields) for fields in _ENTRY.iter_unpack(entries)]


def snapshots_of(partition: PartitionDir, end: int) -> Iterator[tuple[int, list[ProducerState]]]:
    """Yield (offset, producers) of the snapshots up to offset `end`, the newest first.

    Like a broker, it skips damaged ones.
    """
    for offset in reversed(partition.snapshots()):
        if offset > end:
            continue
        try:
            found = read_snapshot(partition.read(segment_name(offset, None, SNAPSHOT_SUFFIX)))
        except CorruptionError:
            continue
        yield offset, found


def _head(raw: bytes) -> tuple[int, int]:
    """Return the number of entries and the stored checksum."""
    if len(raw) >= 2 and (version := int.from_bytes(raw[:2], "big", signed=True)) != VERSION:
        raise _refused(f"Snapshot contained an unknown file version {version}")
    if len(raw) < _HEAD.size:
        raise _refused("null")
    _, stored, count = _HEAD.unpack_from(raw)
    if count < 0:
        raise _refused("non-nullable field producerEntries was serialized as null")
    left = len(raw) - _HEAD.size
    if count > left:
        raise _refused(
            f"Tried to allocate a collection of size {count}, but there are only {left} bytes "
            f"remaining."
        )
    return count, stored


def _refused(reason: str) -> CorruptionError:
    return CorruptionError(f"Snapshot failed schema validation: {reason}")


def encode_snapshot(states: Sequence[ProducerState]) -> bytes:
    """Return the bytes of a snapshot."""
    body = struct.pack(">i", len(states)) + b"".join(_ENTRY.pack(*state) for state in states)
    return struct.pack(">hI", VERSION, crc32c(body)) + body
