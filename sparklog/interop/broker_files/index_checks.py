"""Checks of a broker's index files, before they are used.

A broker's index is not trusted: its entries must ascend, and must point into the segment and its
`.log`. A broker that was killed leaves zeros behind the entries. An index may have any size, so it
is checked in pieces and never copied.
"""

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.model import TimestampOffset
from sparklog.record.batches import Buffer, byte_view

OFFSET_DTYPE: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_DTYPE: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
PIECE_ENTRIES: Final = 128 * 1024
"""The entries that are checked at once."""
PIECE_BYTES: Final = 1024 * 1024
_TIME_ENTRY: Final = struct.Struct(">qi")


def check_offset_index(data: Buffer, span: int, log_bytes: int, file: str) -> memoryview:
    """Return the entries of a `.index`: a view of `data` without the zeros behind them.

    `span` is the number of offsets of the segment. Raises CorruptIndexError naming file and entry.
    """
    raw = _used(data, OFFSET_DTYPE.itemsize, file)
    for first, entries in _pieces(raw, OFFSET_DTYPE):
        positions = entries["position"].astype(np.int64)
        _check_offsets(first, entries["offset"].astype(np.int64), span, file)
        wrong = (positions < 0) | (positions >= log_bytes)
        wrong[1:] |= positions[1:] <= positions[:-1]
        rule = f"positions ascend and lie within the {log_bytes} bytes"
        _refuse(first, wrong, positions, rule, file)
    return raw


def check_time_index(data: Buffer, span: int, file: str) -> memoryview:
    """Return the entries of a `.timeindex`; otherwise as `check_offset_index`."""
    raw = _used(data, TIME_DTYPE.itemsize, file)
    for first, entries in _pieces(raw, TIME_DTYPE):
        timestamps = entries["timestamp"].astype(np.int64)
        _check_offsets(first, entries["offset"].astype(np.int64), span, file)
        wrong = timestamps < 0
        wrong[1:] |= timestamps[1:] <= timestamps[:-1]
        _refuse(first, wrong, timestamps, "timestamps ascend", file)
    return raw


def last_time_entry(entries: memoryview) -> TimestampOffset | None:
    """Return the last entry of a time index, with a relative offset; None if it has no entry."""
    if not entries:
        return None
    return TimestampOffset(*_TIME_ENTRY.unpack_from(entries, len(entries) - _TIME_ENTRY.size))


def _used(data: Buffer, size: int, file: str) -> memoryview:
    """Return the entries (`size` bytes each) without the zeros at the end."""
    view = byte_view(data)
    end = -(-_without_zeros(view) // size) * size
    # A preallocated file need not be a whole number of entries; one with a cut entry is damaged.
    if end > len(view):
        raise CorruptIndexError(
            f"{file}, position {end - size}: {len(view)} bytes are no whole number of entries of "
            f"{size}",
            file=file,
        )
    return view[:end].data


def _without_zeros(view: NDArray[np.uint8]) -> int:
    """Return the number of bytes without the zeros at the end."""
    for end in range(len(view), 0, -PIECE_BYTES):
        start = max(0, end - PIECE_BYTES)
        used = len(view[start:end].tobytes().rstrip(b"\0"))
        if used:
            return start + used
    return 0


def _pieces(raw: memoryview, kind: "np.dtype[np.void]") -> Iterator[tuple[int, NDArray[np.void]]]:
    """Yield (number of the first entry, entries); a piece repeats the last entry before it."""
    entries = np.frombuffer(raw, kind)
    for start in range(0, len(entries), PIECE_ENTRIES):
        first = max(0, start - 1)
        yield first, entries[first : start + PIECE_ENTRIES]


def _check_offsets(first: int, offsets: NDArray[np.int64], span: int, file: str) -> None:
    wrong = (offsets < 0) | (offsets >= span)
    wrong[1:] |= offsets[1:] < offsets[:-1]
    _refuse(first, wrong, offsets, f"offsets ascend and lie within the segment's {span}", file)


def _refuse(
    first: int, wrong: NDArray[np.bool_], values: NDArray[np.int64], rule: str, file: str
) -> None:
    if wrong.any():
        slot = int(np.argmax(wrong))
        number = first + slot
        raise CorruptIndexError(
            f"{file}: entry {number} says {values[slot]}; {rule}", file=file, position=number
        )
