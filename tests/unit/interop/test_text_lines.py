"""Columns to lines of text, against Python's own formatting."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.interop.dumps.text_lines import (
    Lines,
    after,
    content,
    flags,
    interleaved,
    numbers,
    texts,
    words,
)

LEAST, LARGEST = -(2**63), 2**63 - 1
NUMBERS = st.lists(st.integers(LEAST, LARGEST), max_size=20)
VALUES = st.lists(st.none() | st.binary(max_size=9), min_size=2, max_size=20)


def printed(lines: Lines) -> bytes:
    return bytes(content(lines))


class TestNumbers:
    @given(NUMBERS)
    @example([0, 9, 10, 99, 100, -1, -9, -10, LARGEST, LEAST, LEAST + 1])
    @example([])
    def test_are_those_of_python(self, values: list[int]) -> None:
        lines = Lines(len(values), "a", numbers(np.array(values, np.int64)), "\n")

        assert printed(lines) == "".join(f"a{value}\n" for value in values).encode()

    def test_of_any_width(self) -> None:
        assert printed(Lines(2, numbers(np.array([7, -8], np.int32)), ";")) == b"7;-8;"


class TestTexts:
    @given(VALUES)
    @example([None, b"", b"x"])
    def test_a_null_is_nothing_and_has_no_title(self, values: list[bytes | None]) -> None:
        column = pa.array([b"not shown", *values], pa.binary()).slice(1)
        lines = Lines(len(values), texts(column), "|", *after("t: ", column), "\n")

        expected = [
            b"|\n" if value is None else value + b"|t: " + value + b"\n" for value in values
        ]
        assert printed(lines) == b"".join(expected)

    def test_words_by_number(self) -> None:
        lines = Lines(3, words(np.array([2, 0, 1]), ("ä", "", "c")), " ", flags(np.eye(3)[0] > 0))

        assert printed(lines).decode() == "c trueä false false"


class TestInterleaved:
    @given(st.lists(st.integers(0, 3), max_size=8))
    @example([])
    @example([0, 2, 0])
    def test_a_head_stands_before_its_lines(self, counts: list[int]) -> None:
        heads = Lines(len(counts), "h", numbers(np.arange(len(counts))))
        lines = Lines(sum(counts), "-")

        expected = "".join(f"h{head}" + "-" * count for head, count in enumerate(counts))
        assert bytes(interleaved(heads, lines, np.array(counts, np.int64))) == expected.encode()
