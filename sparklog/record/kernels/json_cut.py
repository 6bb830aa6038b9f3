"""JSON text -> positions where it can be cut, so that it can be parsed in parts.

The kernel does not parse: it skips strings, and counts brackets and commas. So it also cuts text
that is no JSON; the parser of the parts reports that.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record.kernels.jit import bytes_in, inlined, int64, int64s_out, kernel, types
from sparklog.record.kernels.primitives import Bytes

Int64s = NDArray[np.int64]

QUOTE: Final = ord('"')
BACKSLASH: Final = ord("\\")
COMMA: Final = ord(",")
OPEN_LIST: Final = ord("[")
CLOSE_LIST: Final = ord("]")
OPEN_OBJECT: Final = ord("{")
CLOSE_OBJECT: Final = ord("}")

ELEMENTS: Final = 0
LARGEST: Final = 1
STOP: Final = 2
CUTS: Final = 3
FOUND_SIZE: Final = 4
"""The length of `found`; the four names above are the indices of its numbers."""


@inlined
def string_end(data: Bytes, position: int) -> int:
    """Return the position of the quote that ends the string at `position`, or one past the data."""
    position += 1
    while position < len(data) and data[position] != QUOTE:
        position += 2 if data[position] == BACKSLASH else 1
    return position


@kernel(types.void(bytes_in, int64, int64, int64, int64, int64s_out, int64s_out))
def cut_json(
    data: Bytes,
    start: int,
    is_list: int,
    part_values: int,
    part_bytes: int,
    cuts: Int64s,
    found: Int64s,
) -> None:
    """Cut text into parts of `part_values` values or `part_bytes` bytes; one element may be more.

    With `is_list` the elements are those of a list whose text begins at `start`, and a cut is the
    position of the comma behind an element. Else they are objects and lists that stand one after
    another, and a cut is the position behind one of them. The text ends with the bracket that
    closes the list, at STOP, or at its end.

    Opening brackets and commas count as values, so an element has at most one value that is not
    counted. `cuts` has room for len(data) // part_values + len(data) // part_bytes + 1 positions.
    `found` gets the number of complete elements (ELEMENTS; in a list the last one counts too), the
    most values of an element (LARGEST), the position of the end (STOP), and the number of cuts.
    """
    level, values, part, elements, largest, count, position = 0, 0, 0, 0, 0, 0, start
    last_cut = start
    while position < len(data):
        byte = data[position]
        if byte == QUOTE:
            position = string_end(data, position)
        elif byte == COMMA:
            values += 1
        elif byte in (OPEN_LIST, OPEN_OBJECT):
            level += 1
            values += 1
        elif byte in (CLOSE_LIST, CLOSE_OBJECT):
            level -= 1
            if level < 0:
                break
        position += 1
        is_last = byte == COMMA if is_list else byte in (CLOSE_LIST, CLOSE_OBJECT)
        if level == 0 and is_last:
            elements += 1
            largest = max(largest, values)
            part += values
            values = 0
            if part >= part_values or position - last_cut >= part_bytes:
                cuts[count] = position - is_list
                count += 1
                part = 0
                last_cut = position
    found[ELEMENTS] = elements + is_list
    found[LARGEST] = max(largest, values)
    found[STOP] = min(position, len(data))
    found[CUTS] = count
