"""Messages of magic 0 and 1 -> columns, and the walk through the messages inside a wrapper."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.kernels.decode import (
    BATCH,
    FIELD,
    UNREAD,
    Fields,
    Int64s,
    Scalars,
    Sinks,
    put_row,
    sinks_type,
    window_type,
)
from sparklog.record.kernels.jit import (
    bytes_in,
    inlined,
    int64,
    int64_matrix_out,
    int64s_in,
    int64s_out,
    kernel,
    types,
)
from sparklog.record.kernels.primitives import Bytes, get_int32, get_int64
from sparklog.record.kernels.primitives import int64 as as_int64
from sparklog.record.kernels.scan import least_length

# --- why a wrapper is damaged --------------------------------------------------------------------
INNER_SIZE: Final = -1
"""The size of an inner entry is below the smallest of its format."""
INNER_MAGIC: Final = -2
"""An inner message has another magic than its wrapper."""
NESTED: Final = -3
"""An inner message is compressed itself."""

# --- the rows of the matrix that `walk_messages` fills -------------------------------------------
(WRAPPER, POSITION, END, RELATIVE_OFFSET, TIMESTAMP) = range(5)
INNER_COLUMNS: Final = 5

INNER_SIZE_MIN: Final = layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0
"""No inner entry is smaller."""


class Messages(NamedTuple):
    """Plain messages of magic 0 and 1, with their offsets and times in the log."""

    is_decompressed: Int64s
    """0: positions are in the log; 1: in the decompressed messages."""
    position: Int64s
    """First byte of the entry: its offset field."""
    end: Int64s
    magic: Int64s
    offset: Int64s
    timestamp: Int64s
    timestamp_type: Int64s


messages_type = types.NamedUniTuple(int64s_in, len(Messages._fields), Messages)


@inlined
def get_sized(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the size of a key or value, -1 for null, and the position of its first byte.

    The position is FIELD, and the size 0, if `at` is negative or the bytes do not fit before `end`.
    """
    if at < 0 or end - at < 4:
        return 0, FIELD
    size = get_int32(data, at)
    at += 4
    if size < -1 or size > end - at:
        return 0, FIELD
    return size, at


@kernel(int64(bytes_in, bytes_in, messages_type, window_type, int64, sinks_type, int64s_out))
def decode_messages(
    log: Bytes,
    decompressed: Bytes,
    messages: Messages,
    window: tuple[int, int],
    wanted: int,
    sinks: Sinks,
    counters: Int64s,
) -> int:
    """Write a row for each message whose offset is in [window[0], window[1]].

    Returns the number of rows, or a negative reason if a message is damaged.
    """
    row = 0
    for message in range(len(messages.position)):
        counters[BATCH] = message
        data = decompressed if messages.is_decompressed[message] else log
        end = messages.end[message]
        at = messages.position[message] + layout.LEGACY_KEY_LENGTH_V0
        if messages.magic[message]:
            at += layout.LEGACY_KEY_LENGTH_V1 - layout.LEGACY_KEY_LENGTH_V0
        key_size, key = get_sized(data, at, end)
        value_size, value = get_sized(data, key + max(key_size, 0), end)
        if value < 0:
            return FIELD
        if value + max(value_size, 0) != end:
            return UNREAD
        offset = messages.offset[message]
        if window[0] <= offset <= window[1]:
            timestamp = messages.timestamp[message]
            scalars = Scalars(offset, timestamp, messages.timestamp_type[message])
            fields = Fields(key, key_size, value, value_size, 0, 0)
            put_row(sinks, wanted, row, scalars, data, fields)
            row += 1
    return row


@kernel(int64(bytes_in, int64s_in, int64s_in, int64s_in, int64_matrix_out, int64s_out))
def walk_messages(
    decompressed: Bytes,
    starts: Int64s,
    ends: Int64s,
    magics: Int64s,
    out: NDArray[np.int64],
    counters: Int64s,
) -> int:
    """Fill a column of `out`, (5, n), for each inner entry in the wrappers' [start, end).

    Returns the number of entries, or a negative reason if the wrapper in `counters` is damaged. An
    entry that is cut short ends its wrapper. `out` must have room for an entry for every
    INNER_SIZE_MIN bytes.
    """
    taken = 0
    for wrapper in range(len(starts)):
        counters[BATCH] = wrapper
        at = starts[wrapper]
        end = ends[wrapper]
        magic = magics[wrapper]
        while end - at >= layout.LOG_OVERHEAD:
            size = get_int32(decompressed, at + layout.LENGTH)
            if size < layout.LEGACY_MIN_LENGTH_V0:
                return INNER_SIZE
            if size > end - at - layout.LOG_OVERHEAD:
                break
            if as_int64(decompressed[at + layout.MAGIC]) != magic:
                return INNER_MAGIC
            if size < least_length(magic):
                return INNER_SIZE
            if as_int64(decompressed[at + layout.LEGACY_ATTRIBUTES]) & layout.CODEC_MASK:
                return NESTED
            out[WRAPPER, taken] = wrapper
            out[POSITION, taken] = at
            out[RELATIVE_OFFSET, taken] = get_int64(decompressed, at)
            out[TIMESTAMP, taken] = (
                get_int64(decompressed, at + layout.LEGACY_TIMESTAMP) if magic else -1
            )
            at += layout.LOG_OVERHEAD + size
            out[END, taken] = at
            taken += 1
    return taken
