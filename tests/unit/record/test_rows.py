from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparklog.errors import SchemaError
from sparklog.record.rows import (
    HEADERS_TYPE,
    RecordColumns,
    binary_column,
    header_column,
    kernel_rows,
)

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def columns(rows: int = 2, **other: object) -> RecordColumns:
    given = {
        "key": pa.array([b"k"] * rows),
        "value": pa.array([b"v"] * rows),
        "timestamp": np.zeros(rows, np.int64),
    }
    return RecordColumns(**(given | other))


class TestBinaryColumn:
    @pytest.mark.parametrize(
        "kind",
        (
            pa.binary(),
            pa.string(),
            pa.large_binary(),
            pa.large_string(),
            pa.binary_view(),
            pa.string_view(),
            pa.dictionary(pa.int32(), pa.string()),
        ),
    )
    def test_takes_every_type_that_holds_bytes(self, kind: pa.DataType) -> None:
        column = binary_column(pa.array(["a", None, "", "bcd"], kind), "key")

        assert np.diff(column.offsets).tolist() == [1, 0, 0, 3]
        assert bytes(column.data[column.offsets[0] : column.offsets[-1]]) == b"abcd"
        assert np.unpackbits(column.validity, bitorder="little")[:4].tolist() == [1, 0, 1, 1]

    def test_takes_bytes_of_a_fixed_size(self) -> None:
        column = binary_column(pa.array([b"ab", b"cd"], pa.binary(2)), "key")

        assert column.offsets.tolist() == [0, 2, 4]

    def test_takes_a_column_of_nulls(self) -> None:
        column = binary_column(pa.nulls(3), "key")

        assert column.offsets.tolist() == [0, 0, 0, 0]
        assert not np.unpackbits(column.validity, bitorder="little")[:3].any()

    def test_takes_no_rows(self) -> None:
        column = binary_column(pa.array([], pa.binary()), "key")

        assert column.offsets.tolist() == [0]

    def test_a_slice_points_into_the_whole(self) -> None:
        whole = pa.array([b"ab", None, b"c", b"d"])
        column = binary_column(whole.slice(1, 2), "key")

        assert column.offsets.tolist() == [2, 2, 3]
        assert column.bit_offset == 1
        assert bytes(column.data) == b"abcd"

    def test_without_nulls_there_is_no_bitmap(self) -> None:
        whole = pa.array([None, b"c", b"d"])

        assert len(binary_column(whole.slice(1), "key").validity) == 0

    def test_every_array_is_read_only(self) -> None:
        column = binary_column(pa.array(["a", None], pa.large_string()), "key")

        assert not any(a.flags.writeable for a in (column.offsets, column.data, column.validity))

    def test_buffers_that_are_not_aligned_are_copied(self) -> None:
        offsets = pa.py_buffer(b"#" + np.array([0, 1, 3], np.int32).tobytes()).slice(1)
        array = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"abc")])
        column = binary_column(array, "key")

        assert column.offsets.tolist() == [0, 1, 3]
        assert column.offsets.flags.aligned

    @pytest.mark.parametrize(
        "array", (pa.array([1]), pa.array([[b"a"]]), pa.array([1]).dictionary_encode())
    )
    def test_refuses_other_types_by_name(self, array: pa.Array) -> None:
        with pytest.raises(SchemaError, match="column value is"):
            binary_column(array, "value")


class TestHeaderColumn:
    ROWS: tuple[Any, ...] = ([("a", b"1"), ("b", None)], None, [], [("c", b"")])

    @pytest.mark.parametrize(
        "kind",
        (
            HEADERS_TYPE,
            pa.large_list(PAIR),
            pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.string())])),
        ),
    )
    def test_takes_lists_of_structs(self, kind: pa.DataType) -> None:
        rows = [row and [{"key": k, "value": v} for k, v in row] for row in self.ROWS]
        column = header_column(pa.array(rows, kind))

        assert column.offsets.tolist() == [0, 2, 2, 2, 3]
        assert np.unpackbits(column.validity, bitorder="little")[:4].tolist() == [1, 0, 1, 1]
        assert bytes(column.keys.data) == b"abc"
        assert bytes(column.values.data) == b"1"

    def test_takes_structs_in_another_order(self) -> None:
        swapped = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
        column = header_column(pa.array([[{"key": "k", "value": b"v"}]], swapped))

        assert (bytes(column.keys.data), bytes(column.values.data)) == (b"k", b"v")

    def test_a_slice_points_into_the_whole(self) -> None:
        column = header_column(pa.array(list(self.ROWS), HEADERS_TYPE).slice(2))

        assert column.offsets.tolist() == [2, 2, 3]
        assert column.bit_offset == 2

    def test_pairs_that_are_a_slice_begin_at_their_offset(self) -> None:
        pairs = pa.array([("x", b"0"), ("a", b"1"), ("b", b"2")], PAIR).slice(1)
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)
        column = header_column(lists)
        first, end = column.keys.offsets[column.offsets[0] : column.offsets[0] + 2]

        assert bytes(column.keys.data[first:end]) == b"a"

    def test_a_null_pair_has_a_null_key(self) -> None:
        pairs = pa.StructArray.from_arrays(
            [pa.array(["a", "b"]), pa.array([b"1", b"2"])],
            fields=list(PAIR),
            mask=pa.array([False, True]),
        )
        column = header_column(pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), pairs))

        assert np.unpackbits(column.keys.validity, bitorder="little")[:2].tolist() == [1, 0]

    def test_a_column_of_nulls_has_no_headers(self) -> None:
        assert len(header_column(pa.nulls(3)).offsets) == 0

    @pytest.mark.parametrize(
        "kind",
        (
            pa.string(),
            pa.list_(pa.string()),
            pa.list_(pa.struct([("key", pa.string())])),
            pa.list_(pa.struct([("key", pa.int64()), ("value", pa.binary())])),
            pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
        ),
    )
    def test_refuses_other_types(self, kind: pa.DataType) -> None:
        with pytest.raises(SchemaError, match="column headers is"):
            header_column(pa.array([], kind))


class TestKernelRows:
    def test_without_streams_all_rows_go_to_the_first(self) -> None:
        assert kernel_rows(columns(3), None).stream.tolist() == [0, 0, 0]

    def test_arrays_of_other_strides_become_contiguous(self) -> None:
        times = np.arange(6, dtype=np.int64)[::3]
        rows = kernel_rows(columns(timestamp=times), np.array([0, 9, 1], np.int32)[::2])

        assert rows.timestamp.tolist() == [0, 3]
        assert rows.stream.tolist() == [0, 1]
        assert rows.timestamp.flags.c_contiguous
        assert rows.stream.flags.c_contiguous

    def test_the_length_of_columns_is_their_number_of_rows(self) -> None:
        assert len(columns(3)) == 3

    @pytest.mark.parametrize(
        ("name", "value"),
        (
            ("key", pa.array([b"k"])),
            ("value", pa.array([b"k"] * 3)),
            ("headers", pa.array([None], HEADERS_TYPE)),
        ),
    )
    def test_refuses_columns_of_different_lengths(self, name: str, value: pa.Array) -> None:
        with pytest.raises(SchemaError, match=f"column {name} has {len(value)} rows"):
            kernel_rows(columns(**{name: value}), None)

    def test_refuses_streams_of_another_length(self) -> None:
        with pytest.raises(SchemaError, match="column partition has 1 rows"):
            kernel_rows(columns(), np.zeros(1, np.int32))

    def test_refuses_more_than_arrows_32_bit_offsets_reach(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Huge:
            type = pa.large_binary()

            def cast(self, target: pa.DataType) -> None:
                raise pa.ArrowInvalid(f"too large for {target}")

        with pytest.raises(SchemaError, match=r"column key \(large_binary\) cannot be binary"):
            binary_column(Huge(), "key")
