"""Makes lines of text from columns, thousands at once.

First the sizes of all parts give the position of each line. Then one part after another is written
into all lines.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.record.kernels import text as kernels

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class Part(Protocol):
    """A piece of every line."""

    @property
    def sizes(self) -> Int64s:
        """Its length in each line, in bytes."""
        ...

    def put(self, out: Bytes, at: Int64s) -> None:
        """Write the part of line i to `out` at `at[i]`; move `at[i]` behind it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A number in decimal."""

    values: Int64s
    sizes: Int64s

    def put(self, out: Bytes, at: Int64s) -> None:
        """See `Part.put`."""
        kernels.put_numbers(out, at, self.values, self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """A slice of `data`."""

    data: Bytes
    starts: Int64s
    sizes: Int64s

    def put(self, out: Bytes, at: Int64s) -> None:
        """See `Part.put`."""
        kernels.put_slices(out, at, self.data, self.starts, self.sizes)


class Lines:
    """`rows` lines made of parts; a part that is a str is the same in all lines."""

    def __init__(self, rows: int, *parts: str | Part) -> None:
        same = np.zeros(rows, np.int64)
        self._parts = [
            Slices(byte_array(part.encode()), same, same + len(part.encode()))
            if isinstance(part, str)
            else part
            for part in parts
        ]
        self.sizes: Int64s = sum((part.sizes for part in self._parts), same)

    def put(self, out: Bytes, starts: Int64s) -> None:
        """Write line i to `out` from `starts[i]` on; move `starts[i]` behind it."""
        for part in self._parts:
            part.put(out, starts)


def numbers(values: NDArray[Any]) -> Numbers:
    """Return the part with these integers, one in each line, in decimal."""
    wide = np.ascontiguousarray(values, np.int64)
    sizes = np.empty_like(wide)
    kernels.number_sizes(wide, sizes)
    return Numbers(wide, sizes)


def words(choice: NDArray[Any], texts: Sequence[str]) -> Slices:
    """Return the part with texts[choice[i]] in line i."""
    encoded = [text.encode() for text in texts]
    sizes = np.array([len(text) for text in encoded])
    starts = sizes.cumsum() - sizes
    return Slices(byte_array(b"".join(encoded)), starts[choice], sizes[choice])


def flags(values: NDArray[np.bool_]) -> Slices:
    """Return the part with `true` or `false`, as Java prints them."""
    return words(values.astype(np.int64), ("false", "true"))


def texts(values: pa.Array) -> Slices:
    """Return the part with the bytes of a binary array; a null has none."""
    starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values)]
    sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy()
    data = values.buffers()[2]
    return Slices(byte_array(data or b""), starts.astype(np.int64), sizes.astype(np.int64))


def after(title: str, values: pa.Array) -> list[Part]:
    """Return the parts with the title and the value; a null has neither."""
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    return [words(is_there.astype(np.int64), ("", title)), texts(values)]


def byte_array(data: "bytes | pa.Buffer") -> Bytes:
    """Return a view of bytes as the kernels take them."""
    return np.frombuffer(data, np.uint8)


def java_text(data: bytes) -> bytes:
    """Return bytes as `new String(bytes, UTF_8)` prints them: invalid UTF-8 becomes U+FFFD.

    Python does the same, except for an encoded surrogate, whole or cut: Java replaces it by one
    character.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace").encode()
    return data


def java_texts(values: pa.Array) -> pa.Array:
    """Return `java_text` of each value of a binary array; nulls stay."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else java_text(value) for value in values.to_pylist()]
        return pa.array(texts, pa.binary())
    return values


def content(lines: Lines) -> memoryview:
    """Return the bytes of all lines, one after another."""
    ends = np.cumsum(lines.sizes)
    out = np.empty(int(lines.sizes.sum()), np.uint8)
    lines.put(out, ends - lines.sizes)
    return out.data


def interleaved(heads: Lines, lines: Lines, counts: Int64s) -> memoryview:
    """Return the bytes of head 0, its `counts[0]` lines, head 1, and so on."""
    head_rows = np.arange(len(counts)) + np.cumsum(counts) - counts
    is_line = np.ones(len(heads.sizes) + len(lines.sizes), bool)
    is_line[head_rows] = False
    sizes = np.empty(len(is_line), np.int64)
    sizes[head_rows] = heads.sizes
    sizes[is_line] = lines.sizes
    starts = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    heads.put(out, starts[head_rows])
    lines.put(out, starts[is_line])
    return out.data
