"""Pins: the segments that a read was planned on, so that all its tasks read the same ones.

Erase, compaction and merges replace segments. A task that looked for the newest ones would miss
records that an earlier task of the same DataFrame has seen. Files that are replaced stay until
vacuum takes them; a task that misses one looks for the newest segments then.
"""

import zlib

import pyarrow as pa

from sparklog.metadata.state.image import PartitionLog, Slice
from sparklog.metadata.state.segment_tables import SEGMENT_SCHEMA, segment_entries


def pinned(log: PartitionLog, start: int, end: int) -> bytes:
    """Return the live segments that hold [start, end), packed; b"" if there are none."""
    slots = log.segments.range(start, end)
    rows = log.live.table.slice(slots.start, len(slots)).combine_chunks()
    return b"".join(zlib.compress(batch.serialize(), 1) for batch in rows.to_batches())


def pinned_slices(pin: bytes, start: int, end: int) -> list[Slice]:
    """Return the slices of the offsets [start, end) in the segments of a pin, in order."""
    if not pin:
        return []
    batch = pa.ipc.read_record_batch(pa.py_buffer(zlib.decompress(pin)), SEGMENT_SCHEMA)
    return [
        Slice(one, max(start, one.base_offset), min(end, one.next_offset))
        for one in segment_entries(pa.Table.from_batches([batch]))
        if one.base_offset < end and start < one.next_offset
    ]
