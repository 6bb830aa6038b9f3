"""Read batch headers: all in a range of bytes as a table, or one of magic 2 as a tuple.

Nothing is decompressed, no checksum is verified. `layout` shows the bytes.
"""

import struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.batches import NUM_COLUMNS, BatchTable, Buffer, byte_view

_STEP: Final = 8192
"""How many headers one kernel call takes at most."""
_UNLIMITED: Final = 2**62
_HEADER = struct.Struct(">qiibIhiqqqhii")


class Scan(NamedTuple):
    """The whole batches of a range of bytes, and why the walk ended."""

    batches: BatchTable
    end: int
    """The position behind the last whole batch of the table."""
    problem: str | None
    """Begins with `truncated`, `size` or `magic`; None if the walk came to its end or limit."""


def scan_batches(
    data: Buffer, start: int = 0, end: int | None = None, *, max_bytes: int | None = None
) -> Scan:
    """Walk the batches and message-set entries (magic 0, 1 and 2) that begin at byte `start`.

    The walk ends at `end` (None: the end of `data`), before the batch with which the sum of sizes
    would exceed `max_bytes` (but not before the first batch), or at bytes that are no whole batch.
    `Scan.problem` describes these; the caller decides whether they are a torn tail or damage.
    Positions are positions in `data`.
    """
    # Imported at the first scan, so that a service starts without the kernels.
    from sparklog.record.kernels import scan as kernels

    view = byte_view(data)
    end = len(view) if end is None else min(end, len(view))
    position = start
    stop = _UNLIMITED if max_bytes is None else start + max_bytes
    step = min(_STEP, max(end - start, 0) // layout.HEADER_PREFIX + 1)
    tables: list[BatchTable] = []
    status = kernels.FULL
    while status == kernels.FULL:
        matrix = np.empty((NUM_COLUMNS, step), np.int64)
        status, taken, position = kernels.walk_headers(
            view, position, end, stop, int(not tables), matrix
        )
        tables.append(BatchTable.from_matrix(matrix[:, :taken]))
    batches = tables[0] if len(tables) == 1 else BatchTable.concat(tables)
    return Scan(batches, position, _problem(view[:end], position, status))


def _problem(view: NDArray[np.uint8], at: int, status: int) -> str | None:
    from sparklog.record.kernels import scan as kernels

    if status in (kernels.DONE, kernels.LIMIT):
        return None
    left = len(view) - at
    if status == kernels.SHORT_HEADER:
        return f"truncated: {left} bytes are left, {layout.HEADER_PREFIX} tell size and magic"
    magic = int(view[at + layout.MAGIC])
    if status == kernels.BAD_MAGIC:
        return f"magic {magic} is not 0, 1 or 2"
    size = size_in_header(view[at:])
    if status == kernels.BAD_SIZE:
        least = kernels.least_length(magic)
        return f"size {size - layout.LOG_OVERHEAD} is below {least}, the least for magic {magic}"
    return f"truncated: {left} bytes are left of a batch of {size}"


def size_in_header(data: Buffer) -> int:
    """Return the size in bytes in the first entry's header; HEADER_PREFIX if that is cut off."""
    view = byte_view(data)
    if len(view) < layout.HEADER_PREFIX:
        return layout.HEADER_PREFIX
    length = view[layout.LENGTH : layout.LENGTH + 4].tobytes()
    return layout.LOG_OVERHEAD + int.from_bytes(length, "big", signed=True)


class BatchHeader(NamedTuple):
    """The 13 fields of a batch header, in the order of their bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the batch in bytes, header included."""
        return layout.LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, even if compaction has dropped that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        """Whether the batch is a control batch, with a marker instead of records."""
        return bool(self.attributes & layout.CONTROL_MASK)

    @property
    def first_timestamp(self) -> int:
        """The time (ms) of the first record, as in `BatchTable.first_timestamp`."""
        lacks_base = self.attributes & (layout.TIMESTAMP_TYPE_MASK | layout.DELETE_HORIZON_MASK)
        has_base = not lacks_base and self.record_count != 0
        return self.base_timestamp if has_base else self.max_timestamp


def unpack_header(view: NDArray[np.uint8], position: int) -> BatchHeader:
    """Return the fields of the 61 bytes at `position`, unchecked."""
    return BatchHeader._make(_HEADER.unpack_from(view.data, position))
