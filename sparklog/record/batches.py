"""A table of record batches: the fields of their headers, one numpy column per field."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record import layout

if TYPE_CHECKING:
    import pyarrow as pa

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8] | pa.Buffer"
"""An object whose bytes can be read without a copy."""

Int64s: TypeAlias = NDArray[np.int64]
Part = TypeVar("Part")


def byte_view(data: Buffer) -> NDArray[np.uint8]:
    """Return a read-only, one-dimensional uint8 view of `data`; copies no byte.

    A numpy array must be contiguous, with items of one byte.
    """
    if isinstance(data, np.ndarray):
        view = data.view(np.uint8).reshape(-1)
    else:
        view = np.frombuffer(data, np.uint8)
    view.setflags(write=False)
    return view


@dataclass(frozen=True, slots=True, eq=False)
class BatchTable:
    """int64 arrays of one length, with one entry for each record batch, in file order.

    Every top-level entry of a message set (magic 0 and 1) counts as a batch. A plain message has
    one record. A compressed message (a wrapper) has `record_count` -1, because the number of its
    messages is not known before it is decompressed. Its `base_offset` is its own offset, which is
    that of its LAST inner message. A field that a format lacks is -1 (`layout.NO_…`), also
    `leader_epoch`.
    """

    position: Int64s
    """First byte of the batch in the scanned data."""
    size: Int64s
    """Bytes of the batch, header included."""
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
        """Return a table without batches."""
        return cls.from_matrix(np.empty((NUM_COLUMNS, 0), np.int64))

    @classmethod
    def from_matrix(cls, matrix: Int64s) -> "BatchTable":
        """Take a (13, n) int64 array, a row for each column above; the table shares its memory."""
        return cls(*matrix)

    @classmethod
    def concat(cls, tables: Sequence["BatchTable"]) -> "BatchTable":
        """Return the batches of all tables, one table after another; of no tables an empty one."""
        if not tables:
            return cls.empty()
        return cls(*(np.concatenate([getattr(t, name) for t in tables]) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.position)

    def slice(self, start: int, stop: int | None = None) -> "BatchTable":
        """Return the batches [start, stop), as views."""
        return BatchTable(*(getattr(self, name)[start:stop] for name in COLUMNS))

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "BatchTable":
        """Return copies of the batches at these indices, or where the mask is True."""
        return BatchTable(*(getattr(self, name)[chosen] for name in COLUMNS))

    def raised(self, shift: int | Int64s) -> "BatchTable":
        """Return the batches with `shift` added to their offsets: one number, or one for each."""
        return replace(
            self, base_offset=self.base_offset + shift, last_offset=self.last_offset + shift
        )

    def cut(self, behind: NDArray[np.int64] | NDArray[np.bool_]) -> Iterator["BatchTable"]:
        """Yield the parts of the table, cut behind each batch i whose `behind[i]` is not 0.

        `behind` has one value less than the table has batches. There is at least one part.
        """
        bounds = [0, *(np.flatnonzero(behind) + 1).tolist(), len(self)]
        for start, stop in pairwise(bounds):
            yield self.slice(start, stop)

    @property
    def end_position(self) -> Int64s:
        """The position behind each batch."""
        return self.position + self.size

    @property
    def next_offset(self) -> Int64s:
        """The offset behind the last offset of each batch."""
        return self.last_offset + 1

    def due_offsets(self, first: int) -> Int64s:
        """Return where each batch begins if there are no gaps; the first one begins at `first`."""
        return np.concatenate(([first], self.last_offset + 1))[: len(self)]

    def rises(self, first: int) -> NDArray[np.bool_]:
        """Return, for each batch, whether its offsets come after those of the batch before it.

        Those of the first batch must be at or above `first`, and no last offset may be below its
        base offset. Gaps are allowed, because compaction leaves them.
        """
        begins = self.base_offset >= self.due_offsets(first)
        rises: NDArray[np.bool_] = begins & (self.last_offset >= self.base_offset)
        return rises

    @property
    def first_timestamp(self) -> Int64s:
        """The time (ms) of each batch's first record, as far as the header has it; -1: no time.

        Later records of the batch may be older. The header has that time as its base timestamp.
        There are three exceptions, for which the largest timestamp is taken: LogAppendTime (all
        records have the largest), a delete horizon (KIP-534: it replaces the base timestamp), and a
        batch that compaction has emptied. A message's header has one time, a wrapper's has the
        largest time of its messages.
        """
        has_base = (self.timestamp_type == 0) & (self.record_count != 0)
        has_base &= ~self._flag(layout.DELETE_HORIZON_MASK)
        return np.where(has_base, self.base_timestamp, self.max_timestamp)

    @property
    def codec(self) -> Int64s:
        """Codec bits, 0 to 7; 5 to 7 are undefined."""
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
        """Whether the batch is a control batch, with a marker instead of records."""
        return self._flag(layout.CONTROL_MASK)

    @property
    def is_wrapper(self) -> NDArray[np.bool_]:
        """Whether the batch is a compressed entry of a message set, not opened yet."""
        wrapper: NDArray[np.bool_] = (self.magic < layout.MAGIC_V2) & (self.codec != 0)
        return wrapper

    def _flag(self, mask: int) -> NDArray[np.bool_]:
        flag: NDArray[np.bool_] = (self.magic == layout.MAGIC_V2) & (self.attributes & mask != 0)
        return flag


def in_parts(
    batches: BatchTable, opened: Callable[[BatchTable, int | None], Part], max_bytes: int
) -> Iterator[Part]:
    """Yield `opened` of batches, at least one, in parts that memory can hold; mostly there is one.

    `opened` gets the batches of a part, and the most bytes that each of them may decompress to. So
    several batches of a part have `max_bytes` at most; a part of one batch gets None. Raises the
    CorruptRecordError of `opened` for a single batch, after all parts before it were yielded.
    """
    count = len(batches)
    try:
        part = opened(batches, None if count == 1 else max_bytes // count)
    except CorruptRecordError:
        if count == 1:
            raise
        for half in (batches.slice(0, count // 2), batches.slice(count // 2)):
            yield from in_parts(half, opened, max_bytes)
        return
    yield part


def with_offsets_raised(
    data: NDArray[np.uint8], batches: BatchTable, shift: int | Int64s
) -> NDArray[np.uint8]:
    """Return a copy of the bytes of `batches`, with `shift` added to their base offsets.

    The batches lie back to back in `data`. `shift` is one number, or one for each batch. Checksums
    stay right, because they do not cover base offsets (see `layout`).
    """
    start, end = int(batches.position[0]), int(batches.end_position[-1])
    raised = data[start:end].copy()
    put_offsets(raised, batches.position - start, batches.base_offset + shift)
    return raised


def with_epochs_at_most(
    data: NDArray[np.uint8], batches: BatchTable, newest: int
) -> NDArray[np.uint8]:
    """Return the bytes of `batches` with `newest` for each leader epoch above it.

    It is `data` itself if no epoch is. Checksums stay right, because they do not cover the epochs.
    """
    higher = np.flatnonzero(batches.leader_epoch > newest)
    if not len(higher):
        return data
    lowered = data.copy()
    at = (batches.position[higher] + layout.LEADER_EPOCH)[:, None] + np.arange(4)
    lowered[at] = np.array([newest], ">i4").view(np.uint8)
    return lowered


def put_offsets(data: NDArray[np.uint8], positions: Int64s, offsets: Int64s) -> None:
    """Write the base offsets of the batches at these positions into `data`."""
    at = (positions + layout.BASE_OFFSET)[:, None] + np.arange(8)
    data[at] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)


COLUMNS = tuple(field.name for field in fields(BatchTable))
NUM_COLUMNS = len(COLUMNS)
