"""Where the records of batches lie, for a kernel that walks them; and what is wrong with one."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.kernels import decode as kernels
from sparklog.record.kernels.primitives import OVERLONG, TRUNCATED
from sparklog.record.pile import decompress_all, placed

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

RECORD_SIZE_MIN: Final = 7
"""Length, attributes, two deltas, two sizes, header count: a byte each."""
_NOTHING: Final = np.empty(0, np.uint8)

REASONS: Final = {
    TRUNCATED: "a number runs beyond the end of its record",
    OVERLONG: "a number takes more bytes than its type can fill",
    kernels.FIELD: "a key or value does not fit its record, or has a size below -1 (null)",
    kernels.HEADER_COUNT: "the header count is negative, or more than the record has bytes left",
    kernels.LENGTH: "its length is damaged, or goes beyond the end of the batch",
    kernels.UNREAD: "bytes are left between its last field and its end",
    kernels.OFFSET: "its offset lies outside its batch",
    kernels.LEFT_OVER: "bytes are left after the last record",
}
"""What a kernel's negative answer means."""


def locate(
    view: Bytes, run: BatchTable, shift: int, max_bytes: int | None
) -> tuple[Bytes, kernels.Batches]:
    """Decompresses what is compressed, and says where the records of each v2 batch lie.

    Returns the pile of decompressed records and a row a batch, whose base offsets have `shift`
    added. Raises CorruptRecordError as `decompress_all`, and for a count that cannot be.
    """
    position = run.position + layout.RECORDS
    end = run.end_position
    in_pile = (run.codec != 0) & (position < end)
    pile = _NOTHING
    if in_pile.any():
        pile, position[in_pile], end[in_pile] = decompress_all(
            view, run.take(in_pile), position[in_pile], end[in_pile], max_bytes
        )
    # The count is not under our control, and memory is asked for by it.
    possible = (run.record_count >= 0) & (run.record_count <= (end - position) // RECORD_SIZE_MIN)
    if not possible.all():
        first = int(np.argmin(possible))
        count, size = int(run.record_count[first]), int((end - position)[first])
        problem = CorruptRecordError(f"{count} records cannot be in {size} bytes")
        raise placed(problem, run, first)
    batches = kernels.Batches(
        in_pile=in_pile.astype(np.int64),
        position=position,
        end=end,
        record_count=run.record_count,
        base_offset=run.base_offset + shift,
        max_offset_delta=run.last_offset - run.base_offset,
        base_timestamp=run.base_timestamp,
        append_timestamp=run.max_timestamp,
        timestamp_type=run.timestamp_type,
    )
    return pile, kernels.Batches(*map(frozen, batches))


def damaged_record(answer: int, counters: Int64s, run: BatchTable) -> CorruptRecordError:
    """What to raise for a kernel's negative answer; `counters` are its own."""
    batch, record = counters[: kernels.RECORD + 1].tolist()
    which = f"record {record + 1} of {run.record_count[batch]}: "
    where = "" if answer == kernels.LEFT_OVER else which
    return placed(CorruptRecordError(where + REASONS[answer]), run, batch)


def frozen(values: Int64s) -> Int64s:
    """A read-only contiguous view: what the kernels' signatures name."""
    view = np.ascontiguousarray(values).view()
    view.setflags(write=False)
    return view
