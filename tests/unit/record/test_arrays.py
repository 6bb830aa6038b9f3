"""Arrow arrays and numpy arrays as each other."""

import numpy as np
import pyarrow as pa
import pytest

from sparklog.record.arrays import (
    array_of,
    binary_of,
    empty_table,
    numbers_of,
    strings_of,
    values_of,
)


class TestNumbers:
    @pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64()])
    def test_are_those_of_the_array(self, kind: pa.DataType) -> None:
        column = pa.array([1, 2, 3], kind)

        assert numbers_of(column).tolist() == [1, 2, 3]
        assert numbers_of(column).dtype == kind.to_pandas_dtype()
        assert numbers_of(column.slice(1, 1)).tolist() == [2]

    def test_are_not_copied(self) -> None:
        values = np.arange(3)

        assert np.shares_memory(numbers_of(array_of(values)), values)

    def test_of_chunks_are_joined(self) -> None:
        column = pa.chunked_array([pa.array([1, 2]), pa.array([3])])

        assert numbers_of(column).tolist() == [1, 2, 3]
        assert numbers_of(column.slice(2)).tolist() == [3]

    def test_of_no_chunk_have_the_columns_type(self) -> None:
        (column,) = empty_table(pa.schema([("a", pa.int32())])).columns

        assert numbers_of(column).tolist() == []
        assert numbers_of(column).dtype == np.int32

    def test_may_be_booleans(self) -> None:
        column = pa.array([True, False, True])

        assert numbers_of(column.slice(1)).tolist() == [False, True]
        assert numbers_of(pa.chunked_array([column, column])).dtype == np.bool_


class TestArrays:
    @pytest.mark.parametrize("kind", [np.int32, np.int64, np.bool_])
    def test_are_those_that_pyarrow_makes(self, kind: type[np.generic]) -> None:
        values = np.array([1, 0, 1, 1, 0, 1], kind)

        assert array_of(values).equals(pa.array(values))
        assert array_of(values[::2]).equals(pa.array(values[::2]))
        assert array_of(values[:0]).equals(pa.array(values[:0]))

    @pytest.mark.parametrize("texts", [[], ["", "a", "größer"]])
    def test_of_texts(self, texts: list[str]) -> None:
        assert strings_of(texts).equals(pa.array(texts, pa.string()))

    @pytest.mark.parametrize("values", [[], [b"", b"a"]])
    def test_of_bytes(self, values: list[bytes]) -> None:
        assert binary_of(values).equals(pa.array(values, pa.binary()))


PAIR = pa.struct([("number", pa.int32()), ("text", pa.string())])


class TestValues:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([1, -(2**63), 2**63 - 1], pa.int64()),
            ([None, 3] * 9, pa.int32()),
            ([True, None, False] * 5, pa.bool_()),
            (["a", None, "", "größer"], pa.string()),
            (["a", "bc"], pa.string()),
            ([b"a", None, b"\xff"], pa.binary()),
            ([(1, 2), None, ()], pa.list_(pa.int64())),
            ([[{"number": 1, "text": None}], None, []], pa.list_(PAIR)),
            ([{"number": 1}, None], PAIR),
            ([[("a", "b"), ("c", None)], None, []], pa.map_(pa.string(), pa.string())),
            ([None, None], pa.string()),
            ([], pa.list_(PAIR)),
        ],
    )
    def test_are_as_pyarrow_makes_them(self, values: list[object], kind: pa.DataType) -> None:
        made = values_of(values, kind)

        made.validate(full=True)
        assert made.equals(pa.array(values, kind))

    def test_a_map_may_be_a_mapping(self) -> None:
        kind = pa.map_(pa.string(), pa.int64())

        assert values_of([{"a": 1}], kind).equals(pa.array([[("a", 1)]], kind))

    def test_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(OverflowError):
            values_of([2**63], pa.int64())
