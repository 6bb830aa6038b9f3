"""Cutting JSON text: the parts say what the whole says, and no text leads out of bounds."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.record.kernels import json_cut as k

LEAVES = st.none() | st.booleans() | st.integers() | st.text('a"\\[]{},é', max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), max_size=9)
PART_VALUES = st.integers(1, 9)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Found(NamedTuple):
    """The answer of the kernel."""

    elements: int
    largest: int
    stop: int
    cuts: list[int]


def cut(
    text: bytes,
    start: int = 0,
    *,
    is_list: bool = True,
    part_values: int = 1,
    part_bytes: int = 1_000_000,
) -> Found:
    data = np.frombuffer(text, np.uint8)
    cuts = np.empty(len(text) // part_values + len(text) // part_bytes + 1, np.int64)
    found = np.empty(k.FOUND_SIZE, np.int64)
    k.cut_json(data, start, int(is_list), part_values, part_bytes, cuts, found)
    elements, largest, stop, count = found.tolist()
    return Found(elements, largest, stop, cuts[:count].tolist())


def parts_of(text: bytes, starts: list[int], ends: list[int]) -> list[bytes]:
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def stream_of(text: str) -> Iterator[Any]:
    text = text.strip()
    while text:
        found, end = json.JSONDecoder().raw_decode(text)
        yield found
        text = text[end:].strip()


def naive_values(value: Any) -> int:
    """Brackets and commas outside of strings."""
    return len(re.findall(r"[\[{,]", STRING.sub("", json.dumps(value))))


class TestList:
    @given(st.lists(VALUES, min_size=1, max_size=9), PART_VALUES, st.sampled_from([None, 1]))
    def test_the_parts_hold_its_elements(
        self, values: list[Any], part_values: int, indent: int | None
    ) -> None:
        """Goal: nothing is lost. Method: each part is parsed as a list, and put together again."""
        text = b'{"x":' + json.dumps(values, indent=indent).encode() + b',"y":[1]}'
        start = text.index(b"[") + 1
        found = cut(text, start, part_values=part_values)
        parts = parts_of(text, [start, *(at + 1 for at in found.cuts)], [*found.cuts, found.stop])

        assert [one for part in parts for one in json.loads(b"[" + part + b"]")] == values
        assert text[found.stop :] == b'],"y":[1]}'
        assert found.elements == len(values)

    @given(st.lists(VALUES, min_size=1, max_size=9), PART_VALUES)
    def test_a_part_has_as_many_values_as_are_wanted(
        self, values: list[Any], part_values: int
    ) -> None:
        """Goal: parts are small. Method: their values counted; the last element may be more."""
        text = json.dumps(values).encode()
        found = cut(text, 1, part_values=part_values)
        parts = parts_of(text, [1, *(at + 1 for at in found.cuts)], [*found.cuts, found.stop])
        for part in parts[:-1]:
            inside = json.loads(b"[" + part + b"]")
            assert part_values <= naive_values(inside) < part_values + naive_values(inside[-1]) + 1
        counted = [naive_values(one) for one in values]
        assert max(counted) <= found.largest <= max(counted) + 1

    def test_a_part_has_as_many_bytes_as_are_wanted(self) -> None:
        text = b'["aaaa","bbbb","cccc","dddd",1,2]'
        found = cut(text, 1, part_values=100, part_bytes=10)

        starts = [1, *(at + 1 for at in found.cuts)]
        assert parts_of(text, starts, [*found.cuts, found.stop]) == [
            b'"aaaa","bbbb"',
            b'"cccc","dddd"',
            b"1,2",
        ]

    def test_an_empty_one_has_one_empty_element(self) -> None:
        assert cut(b"{[ ]}", 2) == Found(1, 0, 3, [])


class TestStream:
    @given(OBJECTS, PART_VALUES)
    def test_the_parts_hold_its_objects(self, values: list[Any], part_values: int) -> None:
        """Goal: nothing is lost. Method: the objects of each part are parsed one by one."""
        text = " ".join(map(json.dumps, values)).encode()
        found = cut(text, is_list=False, part_values=part_values)
        parts = parts_of(text, [0, *found.cuts], [*found.cuts, found.stop])

        assert [one for part in parts for one in stream_of(part.decode())] == values
        assert (found.elements, found.stop) == (len(values), len(text))


class TestGarbage:
    @given(
        st.binary() | st.text('a"\\[]{},').map(str.encode),
        st.booleans(),
        PART_VALUES,
        st.integers(1, 9),
    )
    @example(b'"\\', True, 1, 9)
    @example(b"]]]]", False, 1, 9)
    @example(b",,,,", True, 9, 1)
    def test_stays_in_bounds(
        self, text: bytes, is_list: bool, part_values: int, part_bytes: int
    ) -> None:
        """Goal: no text leads astray. Method: any; without the JIT a wrong index would raise."""
        found = cut(text, is_list=is_list, part_values=part_values, part_bytes=part_bytes)

        assert 0 <= found.stop <= len(text)
        assert found.cuts == sorted(set(found.cuts))
        assert all(0 <= at <= found.stop for at in found.cuts)

    @pytest.mark.parametrize(
        ("text", "largest"),
        [(b"[" * 9, 9), (b"{" * 9, 9), (b"0," * 9, 1), (b"[0," + b"0," * 9, 11), (b'"[,{', 0)],
    )
    def test_an_element_without_an_end_is_counted(self, text: bytes, largest: int) -> None:
        assert cut(text).largest == largest
