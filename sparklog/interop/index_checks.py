"""A broker's index files, before anything is believed of them.

A stranger's index may lead anywhere: its entries must ascend, lie within the segment and within the
`.log`. Zeros behind the entries are what a broker that was not stopped leaves.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptIndexError
from sparklog.model import TimestampOffset
from sparklog.record.batches import Buffer, byte_view

OFFSET_DTYPE: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_DTYPE: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def check_offset_index(data: Buffer, span: int, log_bytes: int, file: str) -> bytes:
    """The entries of a `.index` as bytes, without zeros behind them.

    `span` is how many offsets the segment has. Raises CorruptIndexError naming file and entry.
    """
    entries = _entries(data, OFFSET_DTYPE, file)
    offsets = entries["offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    _check_ascending(offsets, span, file)
    wrong = (positions < 0) | (positions >= log_bytes)
    wrong[1:] |= np.diff(positions) <= 0
    _refuse(wrong, positions, f"positions ascend and lie within the {log_bytes} bytes", file)
    return entries.tobytes()


def check_time_index(data: Buffer, span: int, file: str) -> bytes:
    """The entries of a `.timeindex` as bytes, without zeros behind them; else as above."""
    entries = _entries(data, TIME_DTYPE, file)
    timestamps = entries["timestamp"].astype(np.int64)
    _check_ascending(entries["offset"].astype(np.int64), span, file)
    wrong = timestamps < 0
    wrong[1:] |= np.diff(timestamps) <= 0
    _refuse(wrong, timestamps, "timestamps ascend", file)
    return entries.tobytes()


def last_time_entry(entries: bytes) -> TimestampOffset | None:
    """The last entry of a time index, its offset relative; None when there is none."""
    if not entries:
        return None
    last = np.frombuffer(entries[-TIME_DTYPE.itemsize :], TIME_DTYPE)[0]
    return TimestampOffset(int(last["timestamp"]), int(last["offset"]))


def _entries(data: Buffer, kind: "np.dtype[np.void]", file: str) -> NDArray[np.void]:
    view = byte_view(data)
    whole, rest = divmod(len(view), kind.itemsize)
    entries = view[: whole * kind.itemsize].view(kind)
    used = np.flatnonzero(view[: whole * kind.itemsize])
    count = int(used[-1]) // kind.itemsize + 1 if len(used) else 0
    # A preallocated file need not be a whole number of entries; one with a cut entry is damaged.
    if rest and view[whole * kind.itemsize :].any():
        raise CorruptIndexError(
            f"{file}, position {whole * kind.itemsize}: {len(view)} bytes are no whole number of "
            f"entries of {kind.itemsize}",
            file=file,
        )
    return entries[:count]


def _check_ascending(offsets: NDArray[np.int64], span: int, file: str) -> None:
    wrong = (offsets < 0) | (offsets >= span)
    wrong[1:] |= np.diff(offsets) < 0
    _refuse(wrong, offsets, f"offsets ascend and lie within the segment's {span}", file)


def _refuse(wrong: NDArray[np.bool_], values: NDArray[np.int64], rule: str, file: str) -> None:
    if wrong.any():
        slot = int(np.argmax(wrong))
        raise CorruptIndexError(
            f"{file}: entry {slot} says {values[slot]}; {rule}", file=file, position=slot
        )
