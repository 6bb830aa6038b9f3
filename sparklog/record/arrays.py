"""Conversion between Arrow arrays and numpy arrays without pandas.

If pandas is installed, pyarrow imports it when it first makes an array or a scalar of Python
objects, and at the first `to_numpy`. That takes a quarter of a second and 40 MB in each process,
which is too long for a Spark worker, a command, or a commit. So the code of such processes calls
these functions, which work on buffers alone.
"""

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return a column of nulls; columns of similar length share their memory."""
    longest = _nulls(1 << max(10, (count - 1).bit_length()), kind)
    return longest.slice(0, count)


@lru_cache(64)
def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


def numbers_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers or booleans, which has no nulls, as a numpy array.

    Numbers in one chunk are not copied. The array is read-only.
    """
    if pa.types.is_boolean(column.type):
        return numbers_of(column.cast(pa.uint8())).view(np.bool_)
    if isinstance(column, pa.Array):
        return np.from_dlpack(column)
    chunks = [np.from_dlpack(chunk) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *chunks])


def array_of(values: NDArray[Any]) -> pa.Array:
    """Return numbers or booleans as an Arrow array; contiguous numbers are not copied."""
    if values.dtype == np.bool_:
        return array_of(values.view(np.uint8)).cast(pa.bool_())
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, data])


def strings_of(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array of strings."""
    return binary_of([text.encode() for text in texts]).view(pa.string())


def binary_of(values: Sequence[bytes]) -> pa.Array:
    """Return values as an Arrow array of binary."""
    buffers = [None, _ends(values), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def values_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values, each of which may be None, as an Arrow array of the type `kind`.

    `kind` is a type of numbers, booleans, strings or binary, or of lists, structs and maps of them.
    A list is given as a sequence, a struct as a mapping, a map as a mapping or a sequence of pairs.
    """
    valid = None
    if None in values:
        valid = _bits([value is not None for value in values])
        if not pa.types.is_struct(kind):
            nothing = _nothing(kind)
            values = [nothing if value is None else value for value in values]
    if pa.types.is_struct(kind):
        parts = [
            values_of([None if one is None else one.get(field.name) for one in values], field.type)
            for field in kind
        ]
        return pa.Array.from_buffers(kind, len(values), [valid], children=parts)
    if pa.types.is_nested(kind):
        return _lists(values, kind, valid)
    if pa.types.is_string(kind):
        text = "".join(values)
        if not text.isascii():
            values = [value.encode() for value in values]
        buffers = [valid, _ends(values), pa.py_buffer(text.encode())]
    elif pa.types.is_binary(kind):
        buffers = [valid, _ends(values), pa.py_buffer(b"".join(values))]
    elif pa.types.is_boolean(kind):
        buffers = [valid, _bits(values)]
    else:
        buffers = [valid, pa.py_buffer(np.array(values, kind.to_pandas_dtype()))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _lists(values: Sequence[Any], kind: pa.DataType, valid: pa.Buffer | None) -> pa.Array:
    """Return lists or maps; those that `valid` says are null are empty in `values`."""
    if pa.types.is_map(kind):
        values = [list(value.items() if isinstance(value, Mapping) else value) for value in values]
        pairs = list(chain.from_iterable(values))
        keys = values_of([key for key, _ in pairs], kind.key_type)
        items = values_of([item for _, item in pairs], kind.item_type)
        entry = pa.struct([kind.key_field, kind.item_field])
        flat = pa.Array.from_buffers(entry, len(pairs), [None], children=[keys, items])
    else:
        flat = values_of(list(chain.from_iterable(values)), kind.value_type)
    return pa.Array.from_buffers(kind, len(values), [valid, _ends(values)], children=[flat])


def _ends(values: Sequence[Any]) -> pa.Buffer:
    """Return Arrow's offsets of values back to back: where each begins, and where the last ends.

    Raises OverflowError if they have 2 GiB or more, which such an array cannot hold.
    """
    return pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))


def _bits(values: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(values, np.bool_), bitorder="little"))


def _nothing(kind: pa.DataType) -> Any:
    """Return the value that stands in the place of a null."""
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    return () if pa.types.is_nested(kind) else 0
