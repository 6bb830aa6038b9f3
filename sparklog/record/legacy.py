"""Message sets of magic 0 and 1, read-only: each compressed message becomes its inner messages.

A compressed message (a wrapper) has a null key, and a value that is the compressed inner entries:

    | offset of the LAST inner message | size | crc | magic | attributes: codec | timestamp | -1
    | value length | compressed { offset | size | message } ... |

    magic 0: inner offsets are those of the log; there are no timestamps.
    magic 1: inner offsets count from 0 (with gaps after compaction); the last inner message has the
             wrapper's own offset. If that is 0, the inner offsets are those of the log (old
             clients). With LogAppendTime all inner messages have the wrapper's timestamp.

A last inner entry that is cut short is ignored, because brokers' fetches once cut message sets. See
AbstractLegacyRecordBatch.DeepRecordsIterator.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.model import TimestampType
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.kernels import decode as decode_kernels
from sparklog.record.kernels import legacy as kernels
from sparklog.record.kernels.legacy import Messages
from sparklog.record.payload import at_batch, decompress_all

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_NOTHING: Final = np.empty(0, np.uint8)

_REASONS: Final = {
    kernels.INNER_SIZE: "the size of an inner entry is below the least of its format",
    kernels.INNER_MAGIC: "an inner message has another magic than its wrapper",
    kernels.NESTED: "an inner message is compressed itself",
}


class PlainMessages(NamedTuple):
    """The messages of a message set in the order of the log, with all wrappers opened."""

    decompressed: Bytes
    messages: Messages
    origin: Int64s
    """For each message, the number of the table's entry that it is or that it was inside."""


def plain_messages(view: Bytes, batches: BatchTable, max_bytes: int | None) -> PlainMessages:
    """Open all wrappers of a table whose entries are all of magic 0 and 1.

    Raises CorruptRecordError, at the wrapper, for a null value, for a value that does not
    decompress to at most `max_bytes`, for no inner message, for nested compression, for mixed
    magics, and for an offset below that of the last inner message. Raises UnsupportedCodecError for
    codecs other than gzip, snappy and lz4.
    """
    wrapped = batches.is_wrapper
    plain = Messages(
        is_decompressed=np.zeros(len(batches), np.int64),
        position=batches.position,
        end=batches.end_position,
        magic=batches.magic,
        offset=batches.base_offset,
        timestamp=batches.max_timestamp,
        timestamp_type=batches.timestamp_type,
    )
    if not wrapped.any():
        return PlainMessages(_NOTHING, plain, np.arange(len(batches)))
    decompressed, inner, wrapper = _open(view, batches.take(wrapped), max_bytes)
    origin = np.concatenate([np.flatnonzero(~wrapped), np.flatnonzero(wrapped)[wrapper]])
    order = np.argsort(origin, kind="stable")
    both = zip((column[~wrapped] for column in plain), inner, strict=True)
    messages = Messages(*(np.concatenate(pair)[order] for pair in both))
    return PlainMessages(decompressed, messages, origin[order])


def _open(
    view: Bytes, wrappers: BatchTable, max_bytes: int | None
) -> tuple[Bytes, Messages, Int64s]:
    """Return the decompressed bytes, the inner messages, and the number of each one's wrapper."""
    spans = [_value_span(view, wrappers, i) for i in range(len(wrappers))]
    starts, ends = np.array(spans, np.int64).T
    decompressed, starts, ends = decompress_all(view, wrappers, starts, ends, max_bytes)
    room = len(decompressed) // kernels.INNER_SIZE_MIN
    found = np.empty((kernels.INNER_COLUMNS, room), np.int64)
    counters = np.zeros(decode_kernels.NUM_COUNTERS, np.int64)
    count = kernels.walk_messages(decompressed, starts, ends, wrappers.magic, found, counters)
    if count < 0:
        wrapper = int(counters[decode_kernels.BATCH])
        raise at_batch(CorruptRecordError(_REASONS[count]), wrappers, wrapper)
    found = found[:, :count]
    wrapper = found[kernels.WRAPPER]
    return decompressed, _place(wrappers, found), wrapper


def _value_span(view: Bytes, wrappers: BatchTable, index: int) -> tuple[int, int]:
    """Return where the value of a wrapper begins and ends."""
    magic = int(wrappers.magic[index])
    end = int(wrappers.end_position[index])
    key_length = layout.LEGACY_KEY_LENGTH_V1 if magic else layout.LEGACY_KEY_LENGTH_V0
    at = int(wrappers.position[index]) + key_length
    key_size, at = _int32(view, at), at + 4
    at += max(key_size, 0)
    if key_size < -1 or at > end - 4:
        raise at_batch(CorruptRecordError("the key of a wrapper does not fit it"), wrappers, index)
    value_size, at = _int32(view, at), at + 4
    if value_size != end - at:
        text = f"the value of a wrapper has {end - at} bytes and says {value_size}"
        raise at_batch(CorruptRecordError(text), wrappers, index)
    return at, end


def _int32(view: Bytes, at: int) -> int:
    return int.from_bytes(view[at : at + 4].tobytes(), "big", signed=True)


def _place(wrappers: BatchTable, found: Int64s) -> Messages:
    """Return the inner messages with the offsets and times that they have in the log."""
    wrapper = found[kernels.WRAPPER]
    counts = np.bincount(wrapper, minlength=len(wrappers))
    if not counts.all():
        empty = int(np.argmin(counts))
        raise at_batch(CorruptRecordError("a wrapper without messages"), wrappers, empty)
    relative = found[kernels.RELATIVE_OFFSET]
    last = relative[np.cumsum(counts) - 1]
    counted = (wrappers.magic == layout.MAGIC_V1) & (wrappers.last_offset != 0)
    below = counted & (wrappers.last_offset < last)
    if below.any():
        first = int(np.argmax(below))
        text = f"the offset of a wrapper is below {last[first]}, that of its last message"
        raise at_batch(CorruptRecordError(text), wrappers, first)
    base = np.where(counted, wrappers.last_offset - last, 0)
    appended = wrappers.timestamp_type == TimestampType.LOG_APPEND_TIME
    timestamp = np.where(
        appended[wrapper], wrappers.max_timestamp[wrapper], found[kernels.TIMESTAMP]
    )
    return Messages(
        is_decompressed=np.ones(len(wrapper), np.int64),
        position=found[kernels.POSITION],
        end=found[kernels.END],
        magic=wrappers.magic[wrapper],
        offset=base[wrapper] + relative,
        timestamp=timestamp,
        timestamp_type=wrappers.timestamp_type[wrapper],
    )
