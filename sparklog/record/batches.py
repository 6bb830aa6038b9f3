"""A table of record batches: what their headers say, one numpy column per field."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout

if TYPE_CHECKING:
    import pyarrow as pa

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8] | pa.Buffer"
"""Whatever shares its bytes without copying them."""

Int64s: TypeAlias = NDArray[np.int64]


def byte_view(data: Buffer) -> NDArray[np.uint8]:
    """A read-only, one-dimensional uint8 view of `data`; no byte is copied.

    A numpy array must be contiguous and of one byte per item.
    """
    array = data.view(np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    view = array.reshape(-1).view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, slots=True, eq=False)
class BatchTable:
    """Struct of int64 arrays of one length: one entry per record batch, in file order.

    Of a message set (magic 0 and 1) every top-level entry is a batch: a plain message counts one
    record; of a compressed wrapper `record_count` is -1 and `base_offset` is its own offset, which
    is that of its LAST inner message, until somebody decompresses it. Fields that a format lacks
    are -1 (`layout.NO_…`); `leader_epoch` as well.
    """

    position: Int64s
    """First byte of the batch in the data that was scanned."""
    size: Int64s
    """All bytes of the batch, header included."""
    base_offset: Int64s
    last_offset: Int64s
    record_count: Int64s
    base_timestamp: Int64s
    max_timestamp: Int64s
    attributes: Int64s
    magic: Int64s
    leader_epoch: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s

    @classmethod
    def empty(cls) -> "BatchTable":
        """No batches."""
        return cls.from_matrix(np.empty((NUM_COLUMNS, 0), np.int64))

    @classmethod
    def from_matrix(cls, matrix: Int64s) -> "BatchTable":
        """Takes a (13, n) array, a row per column in the order above, and shares its memory."""
        return cls(*matrix)

    @classmethod
    def concat(cls, tables: Sequence["BatchTable"]) -> "BatchTable":
        """The batches of all tables, one after the other; none for no tables."""
        if not tables:
            return cls.empty()
        return cls(*(np.concatenate([getattr(t, name) for t in tables]) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.position)

    def slice(self, start: int, stop: int | None = None) -> "BatchTable":
        """Batches [start, stop), as views."""
        return BatchTable(*(getattr(self, name)[start:stop] for name in COLUMNS))

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "BatchTable":
        """The batches at those indices, or where the mask is true; copies."""
        return BatchTable(*(getattr(self, name)[chosen] for name in COLUMNS))

    def cut(self, behind: NDArray[np.int64] | NDArray[np.bool_]) -> Iterator["BatchTable"]:
        """Yield the parts of the table, cut behind each batch i for which `behind[i]` is not zero.

        `behind` has one entry less than there are batches. There is at least one part.
        """
        bounds = [0, *(np.flatnonzero(behind) + 1).tolist(), len(self)]
        for start, stop in pairwise(bounds):
            yield self.slice(start, stop)

    @property
    def end_position(self) -> Int64s:
        """The byte after each batch."""
        return self.position + self.size

    @property
    def next_offset(self) -> Int64s:
        """The offset after each batch's last."""
        return self.last_offset + 1

    def due_offsets(self, first: int) -> Int64s:
        """Where each batch would begin if there were no gaps, the first at `first`."""
        return np.concatenate(([first], self.last_offset + 1))[: len(self)]

    def rises(self, first: int) -> NDArray[np.bool_]:
        """Whether each batch begins behind the one before it, the first at or above `first`.

        And ends no sooner than it begins. Gaps are fine: compaction leaves them.
        """
        begins = self.base_offset >= self.due_offsets(first)
        rises: NDArray[np.bool_] = begins & (self.last_offset >= self.base_offset)
        return rises

    @property
    def first_timestamp(self) -> Int64s:
        """The time of each batch's first record as its header tells it; -1 where that has none.

        The batch may hold older records. It is the base timestamp; the largest timestamp where the
        base timestamp is no record's: all records of LogAppendTime have the largest, with a delete
        horizon (KIP-534) the base timestamp is that horizon, and a batch that compaction has
        emptied has none. A message set's header has one time, for a wrapper the largest.
        """
        has_base = (self.timestamp_type == 0) & (self.record_count != 0)
        has_base &= ~self._flag(layout.DELETE_HORIZON_MASK)
        return np.where(has_base, self.base_timestamp, self.max_timestamp)

    @property
    def codec(self) -> Int64s:
        """Codec bits, 0..7; 5 to 7 are undefined."""
        return self.attributes & layout.CODEC_MASK

    @property
    def timestamp_type(self) -> Int64s:
        """0 CreateTime, 1 LogAppendTime, -1 for magic 0, which has no timestamps."""
        by_bit = (self.attributes & layout.TIMESTAMP_TYPE_MASK) // layout.TIMESTAMP_TYPE_MASK
        return np.where(self.magic == layout.MAGIC_V0, -1, by_bit)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Whether the batch belongs to a transaction."""
        return self._flag(layout.TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Whether the batch holds a marker instead of records."""
        return self._flag(layout.CONTROL_MASK)

    @property
    def is_wrapper(self) -> NDArray[np.bool_]:
        """Whether it is a compressed entry of a message set, whose inside is not known yet."""
        wrapper: NDArray[np.bool_] = (self.magic < layout.MAGIC_V2) & (self.codec != 0)
        return wrapper

    def _flag(self, mask: int) -> NDArray[np.bool_]:
        flag: NDArray[np.bool_] = (self.magic == layout.MAGIC_V2) & (self.attributes & mask != 0)
        return flag


def with_offsets_raised(
    data: NDArray[np.uint8], batches: BatchTable, shift: int | Int64s
) -> NDArray[np.uint8]:
    """A copy of the bytes of `batches`, which lie back to back, with `shift` added to base offsets.

    `shift` is that of all batches, or has one for each. A base offset lies outside its batch's
    checksum (see `layout`), so that stays right.
    """
    start, end = int(batches.position[0]), int(batches.end_position[-1])
    raised = data[start:end].copy()
    at = (batches.position - start + layout.BASE_OFFSET)[:, None] + np.arange(8)
    offsets = (batches.base_offset + shift).astype(">i8")
    raised[at] = offsets.view(np.uint8).reshape(-1, 8)
    return raised


COLUMNS = tuple(field.name for field in fields(BatchTable))
NUM_COLUMNS = len(COLUMNS)
