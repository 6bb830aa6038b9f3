"""A broker's index files, before anything is believed of them.

A stranger's index may lead anywhere: its entries must ascend, lie within the segment and within the
`.log`. Zeros behind the entries are what a broker that was not stopped leaves.
"""

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.model import TimestampOffset
from sparklog.record.batches import Buffer, byte_view

OFFSET_DTYPE: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_DTYPE: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_TIME_ENTRY: Final = struct.Struct(">qi")


def check_offset_index(data: Buffer, span: int, log_bytes: int, file: str) -> bytes:
    """The entries of a `.index` as bytes, without zeros behind them.

    `span` is how many offsets the segment has. Raises CorruptIndexError naming file and entry.
    """
    raw = _used(data, OFFSET_DTYPE.itemsize, file)
    if raw:
        entries = np.frombuffer(raw, OFFSET_DTYPE)
        positions = entries["position"].astype(np.int64)
        _check_offsets(entries["offset"].astype(np.int64), span, file)
        wrong = (positions < 0) | (positions >= log_bytes)
        wrong[1:] |= positions[1:] <= positions[:-1]
        _refuse(wrong, positions, f"positions ascend and lie within the {log_bytes} bytes", file)
    return raw


def check_time_index(data: Buffer, span: int, file: str) -> bytes:
    """The entries of a `.timeindex` as bytes, without zeros behind them; else as above."""
    raw = _used(data, TIME_DTYPE.itemsize, file)
    if raw:
        entries = np.frombuffer(raw, TIME_DTYPE)
        timestamps = entries["timestamp"].astype(np.int64)
        _check_offsets(entries["offset"].astype(np.int64), span, file)
        wrong = timestamps < 0
        wrong[1:] |= timestamps[1:] <= timestamps[:-1]
        _refuse(wrong, timestamps, "timestamps ascend", file)
    return raw


def last_time_entry(entries: bytes) -> TimestampOffset | None:
    """The last entry of a time index, its offset relative; None when there is none."""
    if not entries:
        return None
    return TimestampOffset(*_TIME_ENTRY.unpack_from(entries, len(entries) - _TIME_ENTRY.size))


def _used(data: Buffer, size: int, file: str) -> bytes:
    """The entries of `size` bytes that are not zeros to the end."""
    raw = byte_view(data).tobytes()
    end = -(-len(raw.rstrip(b"\0")) // size) * size
    # A preallocated file need not be a whole number of entries; one with a cut entry is damaged.
    if end > len(raw):
        raise CorruptIndexError(
            f"{file}, position {end - size}: {len(raw)} bytes are no whole number of entries of "
            f"{size}",
            file=file,
        )
    return raw[:end]


def _check_offsets(offsets: NDArray[np.int64], span: int, file: str) -> None:
    wrong = (offsets < 0) | (offsets >= span)
    wrong[1:] |= offsets[1:] < offsets[:-1]
    _refuse(wrong, offsets, f"offsets ascend and lie within the segment's {span}", file)


def _refuse(wrong: NDArray[np.bool_], values: NDArray[np.int64], rule: str, file: str) -> None:
    if wrong.any():
        slot = int(np.argmax(wrong))
        raise CorruptIndexError(
            f"{file}: entry {slot} says {values[slot]}; {rule}", file=file, position=slot
        )
