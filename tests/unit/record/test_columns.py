import pyarrow as pa
import pytest

from sparklog.errors import UsageError
from sparklog.record.columns import (
    ALL,
    DecodedRecords,
    concat,
    first_invalid_key,
    flags_of,
)
from sparklog.record.rows import HEADERS_TYPE


def header_array(rows: list[list[bytes] | None]) -> pa.Array:
    """Headers with these keys, which need not be UTF-8, and null values."""
    flat = [key for row in rows for key in row or ()]
    keys = pa.array(flat, pa.binary()).view(pa.string())
    pairs = pa.StructArray.from_arrays(
        [keys, pa.nulls(len(flat), pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row or ()))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs, type=HEADERS_TYPE)


class TestFlags:
    def test_every_column_has_its_own(self) -> None:
        flags = [flags_of([name]) for name in ALL]

        assert len(set(flags)) == len(ALL)
        assert sum(flags) == flags_of(ALL)

    def test_a_name_may_repeat(self) -> None:
        assert flags_of(["key", "key"]) == flags_of(["key"])

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'topic'"):
            flags_of(["topic"])


class TestFirstInvalidKey:
    def test_is_none_when_all_are_utf8(self) -> None:
        assert first_invalid_key(header_array([[b"a", "ü".encode()], None, [b""]])) is None

    def test_is_none_without_headers(self) -> None:
        assert first_invalid_key(pa.nulls(3, HEADERS_TYPE)) is None

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([[b"\xff"]], 0),
            ([None, [b"a", b"\xff"]], 1),
            ([[b"a"], None, None, [b"\xc3"], [b"\xff"]], 3),
            ([[b"\xc3"], [b"\xbc"]], 0),
        ],
    )
    def test_is_the_row_that_holds_it(self, rows: list[list[bytes] | None], expected: int) -> None:
        assert first_invalid_key(header_array(rows)) == expected


class TestConcat:
    def test_one_part_is_the_answer(self) -> None:
        part = DecodedRecords(1, offset=pa.array([1]))

        assert concat([part]) is part

    def test_columns_follow_one_another_and_others_stay_none(self) -> None:
        got = concat([DecodedRecords(2, offset=pa.array([1, 2])),
                      DecodedRecords(1, offset=pa.array([3]))])  # fmt: skip

        assert got.num_rows == 3
        assert got.offset.to_pylist() == [1, 2, 3]
        assert got.key is None
