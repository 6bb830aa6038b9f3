"""Conversion between Arrow arrays and numpy arrays without pandas.

Where pandas is installed, pyarrow imports it with the first array or scalar that it makes of Python
objects, and with the first `to_numpy`. That takes a quarter of a second in every process, which
users of a Spark worker or of the command line notice. Code that runs before the first record calls
these functions instead, which work on buffers alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)


def numbers_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers or booleans, which has no nulls, as a numpy array.

    Numbers in one chunk are not copied, and the array is read-only.
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
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
