"""Parses large JSON bodies in parts: a body of any size takes the memory of one part.

A parsed value may take a hundred times as many bytes as its text. So the values of a body are
counted before it is parsed, which takes milliseconds, and a body with too many is refused.

    list_parts      {"records": [a, b, c, d]}   ->   {"records": [a, b]}  [c, d]
    stream_parts    {…} {…} {…}                 ->   {…} {…}  {…}
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from sparklog.record.kernels import json_cut
from sparklog.rest.errors import ApiError

WHOLE_BYTES: Final = 16 * 1024
"""A body of at most this size is parsed at once."""
PART_VALUES: Final = 10_000
PART_BYTES: Final = 1024 * 1024
"""The most bytes of a part.

As str it takes up to four times as many: one character beyond U+FFFF makes Python use four bytes
for each character.
"""
VALUES_MAX: Final = 50_000
"""The most values of one record, or of a body without records. Brackets and commas count."""


Text = bytes | bytearray


def outline(body: Text, start: int, *, is_list: bool) -> tuple[int, int, list[int]]:
    """Return the number of elements of a list or stream from `start` on, its end, and the cuts.

    Raises ApiError (413) for an element with too many values.
    """
    cuts = np.empty(len(body) // PART_VALUES + len(body) // PART_BYTES + 1, np.int64)
    found = np.empty(json_cut.FOUND_SIZE, np.int64)
    data = np.frombuffer(body, np.uint8)
    json_cut.cut_json(data, start, int(is_list), PART_VALUES, PART_BYTES, cuts, found)
    elements, largest, stop, count = found.tolist()
    if largest > VALUES_MAX:
        raise ApiError(413, f"a record, or a body without records, has at most {VALUES_MAX} values")
    return elements, stop, cuts[:count].tolist()


def check_values(body: Text) -> None:
    """Raise ApiError (413) for a body that has too many values to be parsed at once."""
    if len(body) > WHOLE_BYTES:
        outline(body, 0, is_list=False)


def list_parts(body: Text, name: str, elements_max: int) -> Iterator[Text]:
    """Yield the body with only the first elements of its list `name`, then lists of the others.

    Raises ApiError: 413 for more than `elements_max` elements or an element of too many values, 422
    for a large body without the list, with the list twice, or with too many other bytes.
    """
    pattern = re.compile(rb'"%s"\s*:\s*\[' % name.encode())
    found = pattern.search(body)
    is_small = len(body) <= WHOLE_BYTES
    if is_small and (found is None or not pattern.search(body, found.end())):
        yield body
        return
    if found is None:
        raise ApiError(422, f"a body of more than {WHOLE_BYTES} bytes must have a list {name!r}")
    start = found.end()
    elements, stop, cuts = outline(body, start, is_list=True)
    if elements > elements_max:
        raise _too_many(elements_max)
    if start + len(body) - stop > WHOLE_BYTES:
        raise ApiError(422, f"a body has at most {WHOLE_BYTES} bytes beside its {name}")
    if pattern.search(body, stop):
        raise ApiError(422, f"{name} stands twice in the body")
    if not cuts:
        yield body
        return
    yield body[: cuts[0]] + body[stop:]
    for at, end in pairwise([*cuts, stop]):
        yield b"[" + body[at + 1 : end] + b"]"


def stream_parts(body: Text, elements_max: int) -> Iterator[tuple[int, Text]]:
    """Yield parts of a body that is a sequence of objects, each with its byte position.

    Raises ApiError (413) for more than `elements_max` objects, or one with too many values.
    """
    if len(body) <= WHOLE_BYTES:
        yield 0, body
        return
    elements, stop, cuts = outline(body, 0, is_list=False)
    if elements > elements_max:
        raise _too_many(elements_max)
    if not cuts:
        yield 0, body
        return
    for at, end in pairwise([0, *cuts, stop + 1]):
        yield at, body[at:end]


def _too_many(elements_max: int) -> ApiError:
    return ApiError(413, f"a request has at most {elements_max} records")
