"""Columns -> lines of text, a column at a time.

`at` has, for each row, the position in `out` where its line goes on; a kernel moves it behind the
text that it has put. The caller has made `out` large enough.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import (
    bytes_in,
    bytes_out,
    inlined,
    int64s_in,
    int64s_out,
    kernel,
    types,
)
from sparklog.record.kernels.primitives import Bytes, copy_bytes

Int64s = NDArray[np.int64]

as_uint64 = cast("Callable[[Any], int]", np.uint64)

TEN: Final = as_uint64(10)
ZERO_DIGIT: Final = as_uint64(ord("0"))
MINUS: Final = ord("-")


@inlined
def magnitude(value: int) -> int:
    """Return a number without its sign as uint64, which the smallest int64 needs."""
    bits = as_uint64(value)
    return ~bits + as_uint64(1) if value < 0 else bits


@kernel(types.void(int64s_in, int64s_out))
def number_sizes(values: Int64s, sizes: Int64s) -> None:
    """Write to `sizes` how many characters each number takes in decimal."""
    for row in range(len(values)):
        left = magnitude(values[row])
        size = 2 if values[row] < 0 else 1
        while left >= TEN:
            left //= TEN
            size += 1
        sizes[row] = size


@kernel(types.void(bytes_out, int64s_out, int64s_in, int64s_in))
def put_numbers(out: Bytes, at: Int64s, values: Int64s, sizes: Int64s) -> None:
    """Put the numbers in decimal; `sizes` come from `number_sizes`."""
    for row in range(len(values)):
        at[row] += sizes[row]
        left = magnitude(values[row])
        position = at[row] - 1
        while left >= TEN:
            out[position] = ZERO_DIGIT + left % TEN
            left //= TEN
            position -= 1
        out[position] = ZERO_DIGIT + left
        if values[row] < 0:
            out[position - 1] = MINUS


@kernel(types.void(bytes_out, int64s_out, bytes_in, int64s_in, int64s_in))
def put_slices(out: Bytes, at: Int64s, data: Bytes, starts: Int64s, sizes: Int64s) -> None:
    """Put data[starts[row] : starts[row] + sizes[row]] for each row."""
    for row in range(len(starts)):
        copy_bytes(out, at[row], data, starts[row], sizes[row])
        at[row] += sizes[row]
