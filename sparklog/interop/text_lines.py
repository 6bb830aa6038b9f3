"""Lines of text out of columns: thousands at once, as Arrow binary arrays."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def numbers(values: NDArray[Any] | pa.Array) -> pa.Array:
    """Integers as decimal text."""
    return pa.array(values).cast(pa.string()).cast(pa.binary())


def words(choice: NDArray[Any], texts: Sequence[str]) -> pa.Array:
    """`texts[choice]` for every row."""
    return pa.array([text.encode() for text in texts], pa.binary()).take(pa.array(choice))


def flags(values: NDArray[np.bool_]) -> pa.Array:
    """`true` and `false`, as Java prints them."""
    return words(values.astype(np.int8), ("false", "true"))


def joined(*parts: str | pa.Array) -> pa.Array:
    """The parts of every row one after another; a part that is text is the same in all rows."""
    columns = [
        pa.scalar(part.encode(), pa.binary()) if isinstance(part, str) else part for part in parts
    ]
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))


def after(title: str, values: pa.Array) -> pa.Array:
    """The title and the value, or nothing where the value is null."""
    return pc.fill_null(joined(title, values), b"")


def java_text(data: bytes) -> bytes:
    """Bytes as `new String(bytes, UTF_8)` prints them: what is no UTF-8 becomes U+FFFD.

    As Python does it, but for an encoded surrogate, whole or cut, which Java replaces once.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace").encode()
    return data


def java_texts(values: pa.Array) -> pa.Array:
    """`java_text` of a binary array, nulls kept."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else java_text(value) for value in values.to_pylist()]
        return pa.array(texts, pa.binary())
    return values


def interleaved(heads: pa.Array, lines: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    """Head 0, its `counts[0]` lines, head 1, and so on."""
    order = np.empty(len(heads) + len(lines), np.int64)
    slots = np.arange(len(heads)) + np.cumsum(counts) - counts
    is_head = np.zeros(len(order), bool)
    is_head[slots] = True
    order[is_head] = np.arange(len(heads))
    order[~is_head] = np.arange(len(lines)) + len(heads)
    return pa.concat_arrays([heads, lines]).take(pa.array(order))


def content(lines: pa.Array) -> memoryview:
    """The bytes of all rows, one after another; not a copy."""
    ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    data = lines.buffers()[2]
    return memoryview(b"" if data is None else data)[ends[0] : ends[-1]]
