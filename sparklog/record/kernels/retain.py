"""Which records of a batch compaction keeps, and a copy of their bytes.

A record keeps its offset and its time. Its bytes stay as they are, because offsets and times are
relative to the batch. Only if the batch's base timestamp becomes its delete horizon (KIP-534), the
time deltas change.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.decode import (
    BATCH,
    LEFT_OVER,
    RECORD,
    Batches,
    Fields,
    batches_type,
    get_number,
    next_record,
)
from sparklog.record.kernels.jit import (
    bytes_in,
    bytes_out,
    inlined,
    int64,
    int64_matrix_out,
    int64s_in,
    int64s_out,
    kernel,
    named_tuple,
    types,
)
from sparklog.record.kernels.primitives import (
    Bytes,
    copy_bytes,
    get_varlong,
    put_varint,
    varint_size,
    wrapping_add,
)
from sparklog.record.kernels.primitives import int64 as as_int64

# Columns of the sums that `judge` makes of each batch.
KEPT, KEPT_BYTES, TOMBSTONES, MIN_TIMESTAMP, MAX_TIMESTAMP = range(5)
NUM_SUMS: Final = 5

KEEP_TOMBSTONES: Final = 1
"""Flag of a batch: its records without a value stay."""
KEEP_NONE: Final = 2
"""Flag of a batch: none of its records stays (it is of an aborted transaction)."""
KEEP_KEYLESS: Final = 4
"""Flag of a batch: its records without a key stay."""


class Verdict(NamedTuple):
    """The result of `judge`: kept[i] is 1 if record i stays; `sums` has a row for each batch."""

    kept: Bytes
    sums: NDArray[np.int64]


verdict_type = named_tuple(Verdict, bytes_out, int64_matrix_out)


@inlined
def may_stay(fields: Fields, flags: int) -> bool:
    """Return whether a record that no later one supersedes stays, by its parts and the flags."""
    has_value = fields.value_size >= 0 or flags & KEEP_TOMBSTONES != 0
    has_key = fields.key_size >= 0 or flags & KEEP_KEYLESS != 0
    return has_value and has_key and flags & KEEP_NONE == 0


@inlined
def count_kept(sums: NDArray[np.int64], batch: int, size: int, timestamp: int) -> None:
    """Add a kept record to the sums of its batch."""
    if sums[batch, KEPT] == 0 or timestamp < sums[batch, MIN_TIMESTAMP]:
        sums[batch, MIN_TIMESTAMP] = timestamp
    if sums[batch, KEPT] == 0 or timestamp > sums[batch, MAX_TIMESTAMP]:
        sums[batch, MAX_TIMESTAMP] = timestamp
    sums[batch, KEPT] += 1
    sums[batch, KEPT_BYTES] += size


@kernel(int64(bytes_in, bytes_in, batches_type, int64s_in, int64s_in, verdict_type, int64s_out))
def judge(
    log: Bytes,
    decompressed: Bytes,
    batches: Batches,
    flags: NDArray[np.int64],
    dropped: NDArray[np.int64],
    verdict: Verdict,
    counters: NDArray[np.int64],
) -> int:
    """Decide for each record whether it stays, and sum up what stays of each batch.

    A record goes if its offset is in `dropped` (ascending), if it has no key and its batch lacks
    KEEP_KEYLESS, if it has no value and its batch lacks KEEP_TOMBSTONES, or if its batch has
    KEEP_NONE. `verdict` begins as zeros; its times are those of the kept records. Returns 0, or a
    negative reason if a record is damaged; `counters` says which one.
    """
    row = 0
    gone = 0
    for batch in range(len(batches.position)):
        counters[BATCH] = batch
        data = decompressed if batches.is_decompressed[batch] else log
        at = batches.position[batch]
        end = batches.end[batch]
        for record in range(batches.record_count[batch]):
            stop, time_delta, offset_delta, fields = next_record(
                data, at, end, batches.max_offset_delta[batch]
            )
            if stop < 0:
                counters[RECORD] = record
                return stop
            offset = wrapping_add(batches.base_offset[batch], offset_delta)
            while gone < len(dropped) and dropped[gone] < offset:
                gone += 1
            is_dropped = gone < len(dropped) and dropped[gone] == offset
            if not is_dropped and may_stay(fields, flags[batch]):
                verdict.kept[row] = 1
                timestamp = wrapping_add(batches.base_timestamp[batch], time_delta)
                if batches.timestamp_type[batch]:
                    timestamp = batches.append_timestamp[batch]
                count_kept(verdict.sums, batch, stop - at, timestamp)
                if fields.value_size < 0:
                    verdict.sums[batch, TOMBSTONES] += 1
            row += 1
            at = stop
        if at != end:
            return LEFT_OVER
    return 0


@kernel(
    types.void(bytes_in, bytes_in, batches_type, int64s_in, bytes_in, bytes_out, int64s_out),
)
def copy_kept(
    log: Bytes,
    decompressed: Bytes,
    batches: Batches,
    time_shift: NDArray[np.int64],
    kept: Bytes,
    out: Bytes,
    ends: NDArray[np.int64],
) -> None:
    """Write the kept records of each batch to `out`, back to back; ends[i] is where batch i ends.

    `time_shift` is added to the time deltas of a batch's records. `judge` has checked the records.
    `out` has room for them, and for MAX_VARINT_SIZE + MAX_VARLONG_SIZE bytes more for each record
    of a batch whose shift is not 0.
    """
    row = 0
    to = 0
    for batch in range(len(batches.position)):
        data = decompressed if batches.is_decompressed[batch] else log
        at = batches.position[batch]
        end = batches.end[batch]
        shift = time_shift[batch]
        for _ in range(batches.record_count[batch]):
            length, start = get_number(data, at, end)
            stop = start + length
            if kept[row]:
                if shift == 0:
                    copy_bytes(out, to, data, at, stop - at)
                    to += stop - at
                else:
                    time_delta, rest = get_varlong(data, start + 1, stop)
                    shifted = wrapping_add(time_delta, shift)
                    to = put_varint(out, to, 1 + varint_size(shifted) + stop - rest)
                    out[to] = data[start]
                    to = put_varint(out, to + 1, shifted)
                    copy_bytes(out, to, data, rest, stop - rest)
                    to += stop - rest
            row += 1
            at = as_int64(stop)
        ends[batch] = to
