"""The records of batches, decompressed, so that a kernel can walk them.

Decompressed records are in one array, batch after batch. Records that are not compressed stay where
they are. `damaged_record` turns a kernel's negative answer into an error.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import BatchTable
from sparklog.record.codecs.decompression import decompress
from sparklog.record.columns import check_size
from sparklog.record.kernels import decode as kernels
from sparklog.record.kernels.primitives import OVERLONG, TRUNCATED

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

RECORD_SIZE_MIN: Final = 7
"""Length, attributes, two deltas, two sizes, header count: at least a byte each."""
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
"""The messages of a kernel's negative answers."""


def open_payloads(
    view: Bytes, run: BatchTable, shift: int, max_bytes: int | None
) -> tuple[Bytes, kernels.Batches]:
    """Decompress the compressed batches of `run`; find the records of each batch.

    All batches are of magic 2. Returns the decompressed records, and a row for each batch, with
    `shift` added to its base offset. Raises CorruptRecordError as `decompress_all` does, and for an
    impossible record count.
    """
    position = run.position + layout.RECORDS
    end = run.end_position
    is_decompressed = (run.codec != 0) & (position < end)
    decompressed = _NOTHING
    if is_decompressed.any():
        decompressed, position[is_decompressed], end[is_decompressed] = decompress_all(
            view,
            run.take(is_decompressed),
            position[is_decompressed],
            end[is_decompressed],
            max_bytes,
        )
    # The count comes from untrusted bytes, and decides how much memory is allocated.
    possible = (run.record_count >= 0) & (run.record_count <= (end - position) // RECORD_SIZE_MIN)
    if not possible.all():
        first = int(np.argmin(possible))
        count, size = int(run.record_count[first]), int((end - position)[first])
        problem = CorruptRecordError(f"{count} records cannot be in {size} bytes")
        raise at_batch(problem, run, first)
    batches = kernels.Batches(
        is_decompressed=is_decompressed.astype(np.int64),
        position=position,
        end=end,
        record_count=run.record_count,
        base_offset=run.base_offset + shift,
        max_offset_delta=run.last_offset - run.base_offset,
        base_timestamp=run.base_timestamp,
        append_timestamp=run.max_timestamp,
        timestamp_type=run.timestamp_type,
    )
    return decompressed, kernels.Batches(*map(frozen, batches))


def decompress_all(
    view: Bytes, batches: BatchTable, starts: Int64s, ends: Int64s, max_bytes: int | None
) -> tuple[Bytes, Int64s, Int64s]:
    """Decompress [start, end) of every batch; return the bytes, and their new starts and ends.

    Raises CorruptRecordError, with position and offset of the batch, for a damaged stream, and for
    a stream of more than `max_bytes` (None: BATCH_BYTES_MAX, far more than any batch that a broker
    accepts has). Raises UsageError if all batches together have more than 2**31-1 bytes.
    """
    limit = BATCH_BYTES_MAX if max_bytes is None else max_bytes
    streams = zip(
        batches.codec.tolist(), batches.magic.tolist(), starts.tolist(), ends.tolist(), strict=True
    )
    pieces: list[bytes] = []
    total = 0
    for codec, magic, start, end in streams:
        try:
            pieces.append(decompress(codec, view[start:end], limit, magic))
        except CorruptRecordError as error:
            raise at_batch(error, batches, len(pieces)) from None
        total += len(pieces[-1])
        check_size(total)
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    new_ends = np.cumsum(sizes)
    return np.frombuffer(b"".join(pieces), np.uint8), new_ends - sizes, new_ends


def damaged_record(answer: int, counters: Int64s, run: BatchTable) -> CorruptRecordError:
    """Return the error of a kernel's negative answer; `counters` are those that the kernel set."""
    batch, record = counters[: kernels.RECORD + 1].tolist()
    which = f"record {record + 1} of {run.record_count[batch]}: "
    where = "" if answer == kernels.LEFT_OVER else which
    return at_batch(CorruptRecordError(where + REASONS[answer]), run, batch)


def at_batch(error: CorruptRecordError, batches: BatchTable, batch: int) -> CorruptRecordError:
    """Return the same error with the position and the offset of that batch."""
    position, offset = int(batches.position[batch]), int(batches.base_offset[batch])
    return type(error)(error.args[0], position=position, offset=offset)


def frozen(values: Int64s) -> Int64s:
    """Return a read-only contiguous view, the type in the kernels' signatures."""
    view = np.ascontiguousarray(values).view()
    view.setflags(write=False)
    return view
