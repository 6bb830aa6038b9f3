"""A small language for tests of one partition's log: batches without bytes, and bytes to damage."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from sparklog.log.indexer import INDEX_INTERVAL_BYTES, Indexes
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder, SegmentSummary
from sparklog.model import NO_TIMESTAMP
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import crc32c
from sparklog.record.scan import scan_batches
from tests.naive import encode
from tests.naive.log import Batch
from tests.naive.records import Record

BATCH_FIELDS = {
    "base_timestamp": NO_TIMESTAMP,
    "attributes": 0,
    "magic": layout.MAGIC_V2,
    "leader_epoch": 0,
    "producer_id": layout.NO_PRODUCER_ID,
    "producer_epoch": layout.NO_PRODUCER_EPOCH,
    "base_sequence": layout.NO_SEQUENCE,
}


def table(batches: Sequence[Batch], base: int = 0, **fields: int) -> BatchTable:
    """A BatchTable of back-to-back batches, each beginning after the last offset before it."""
    last = np.array([batch.last_offset for batch in batches], np.int64)
    first = np.concatenate(([base], last + 1))[: len(batches)]
    size = np.array([batch.size for batch in batches], np.int64)
    constants = {
        name: np.full(len(batches), value, np.int64)
        for name, value in (BATCH_FIELDS | fields).items()
    }
    columns = {
        "position": np.cumsum(size) - size,
        "size": size,
        "base_offset": first,
        "last_offset": last,
        "record_count": last - first + 1,
        "max_timestamp": np.array([batch.max_timestamp for batch in batches], np.int64),
    }
    return BatchTable(**(columns | constants))


def built(
    data: bytes | bytearray, base: int = 0, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> tuple[SegmentSummary, Indexes]:
    """The row and the indexes of a whole `.log`."""
    builder = SegmentBuilder(base, 0, RollPolicy(index_interval_bytes=interval_bytes))
    builder.append(scan_batches(data).batches, data=data)
    return builder.finish()


def batch_lists(base: int = 0) -> st.SearchStrategy[list[Batch]]:
    """Lists of batches that one segment may hold, from `base` on, with gaps and any timestamps."""
    step = st.tuples(
        st.integers(1, 2000),
        st.one_of(st.integers(-1, 5), st.integers(-1, 2**63 - 1)),
        st.integers(layout.BATCH_HEADER_SIZE, 20_000),
    )

    def build(steps: list[tuple[int, int, int]]) -> list[Batch]:
        lasts = np.cumsum([count for count, _, _ in steps]).tolist()
        return [
            Batch(base + last - 1, time, size)
            for last, (_, time, size) in zip(lasts, steps, strict=True)
        ]

    return st.lists(step, max_size=40).map(build)


def log_of(
    *batches: Sequence[int], base: int = 0, value: bytes = b"v", attributes: int = 0
) -> bytearray:
    """A `.log` with a batch per list of record timestamps, offsets running on from `base`."""
    data = bytearray()
    for times in batches:
        records = [Record(base + slot, time, None, value) for slot, time in enumerate(times)]
        data += encode.batch(records, encode.Settings(attributes))
        base += len(times)
    return data


def flip_byte(data: bytearray, position: int) -> bytearray:
    """The same bytes with one of them damaged."""
    damaged = bytearray(data)
    damaged[position] ^= 0xFF
    return damaged


def emptied(batch: bytes) -> bytes:
    """What compaction leaves of a batch without records: its header, largest timestamp included."""
    header = bytearray(batch[: layout.RECORDS])
    header[layout.LENGTH : layout.LENGTH + 4] = layout.BATCH_MIN_LENGTH.to_bytes(4, "big")
    header[layout.RECORD_COUNT :] = bytes(4)
    header[layout.CRC : layout.CRC_START] = crc32c(header[layout.CRC_START :]).to_bytes(4, "big")
    return bytes(header)
