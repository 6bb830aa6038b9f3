"""Bytes of Arrow columns to the inside of JSON strings, whole columns at a time."""

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.record.arrays import array_of, binary_of

_ESCAPED: Final = [json.dumps(chr(byte))[1:-1].encode() for byte in range(127)]
"""The escapes of ASCII bytes in a JSON string; all other bytes stand for themselves."""
_EXTRA: Final = np.zeros(256, np.uint8)
"""How many bytes an escape adds: 1 for \\" and \\n, 5 for \\u0000."""
_EXTRA[:127] = [len(text) - 1 for text in _ESCAPED]
_LAST: Final = np.arange(256, dtype=np.uint8)
_LAST[:127] = [text[-1] for text in _ESCAPED]


def json_text(column: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Return a binary column as JSON values; and by row whether it is base64, None if no row is.

    Null becomes `null`, UTF-8 a string, other bytes a string of base64.
    """
    escaped, is_base64 = column, None
    if not _is_utf8(column):
        rows = column.to_pylist()
        flags = [row is not None and not _is_text(row) for row in rows]
        is_base64 = array_of(np.array(flags, np.bool_))
        escaped = pa.array(
            [base64.b64encode(row) if flag else row for row, flag in zip(rows, flags, strict=True)],
            pa.binary(),
        )
    quote, nothing, null = binary_of([b'"', b"", b"null"])
    texts = pc.binary_join_element_wise(quote, escape(escaped), quote, nothing)
    return texts.fill_null(null), is_base64


def escape(column: pa.Array) -> pa.Array:
    """Return a binary column with the bytes escaped that a JSON string must not have."""
    offsets, data = _parts(column)
    extra = np.take(_EXTRA, data)
    at = np.flatnonzero(extra.view(np.bool_))
    if not len(at):
        return column
    grown = np.concatenate(([0], np.cumsum(extra[at], dtype=np.int64)))
    prefix = at + grown[:-1]
    longer = np.empty(len(data) + grown[-1], np.uint8)
    is_plain = np.ones(len(longer), np.bool_)
    is_plain[prefix] = False
    longer[prefix] = ord("\\")
    is_control = extra[at] > 1
    low = prefix[is_control]
    for distance, byte in enumerate(b"u00", 1):
        is_plain[low + distance] = False
        longer[low + distance] = byte
    is_plain[low + 4] = False
    longer[low + 4] = ord("0") + (data[at[is_control]] >> 4)
    data = data.copy()
    data[at] = _LAST[data[at]]
    longer[is_plain] = data
    return _column(offsets + grown[np.searchsorted(at, offsets)], longer, column)


def _parts(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of a binary column, from 0 on, and its bytes."""
    if not len(column):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return offsets.astype(np.int64) - offsets[0], used


def _column(offsets: NDArray[np.int64], data: NDArray[Any], like: pa.Array) -> pa.Array:
    wide = pa.Array.from_buffers(
        pa.large_binary(), len(like), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    ).cast(pa.binary())
    return (
        pc.if_else(like.is_valid(), wide, pa.nulls(1, pa.binary())[0]) if like.null_count else wide
    )


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
