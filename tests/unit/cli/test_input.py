"""Bytes to messages, messages to rows."""

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.cli.interrupt import Interrupts
from sparklog.cli.records import input as cli_input
from sparklog.cli.records.input import (
    InputRows,
    TextFormat,
    json_rows,
    read_messages,
    with_partition,
)
from sparklog.errors import RecordTooLargeError, SchemaError, SparklogWarning


def messages_of(data: bytes, delimiter: bytes, chunk_bytes: int) -> list[bytes]:
    blocks = read_messages(io.BytesIO(data), delimiter, Interrupts(), chunk_bytes)
    return [message for block in blocks for message in block.to_pylist()]


def rows_of(*records: object) -> InputRows:
    lines = [json.dumps(record).encode() for record in records]
    (rows,) = json_rows(pa.array(lines, pa.binary()), "stdin", 1, "t").values()
    return rows


DELIMITERS = st.sampled_from([b"\n", b"ab", b"\0\0\0", b"\n\n"])


class TestMessages:
    @given(st.lists(st.sampled_from(b"\nab\0x").map(int)).map(bytes), DELIMITERS, st.integers(1, 9))
    @example(b"xa" + b"b" + b"y", b"ab", 2)
    @example(b"\0\0\0\0\0\0", b"\0\0\0", 1)
    @example(b"aababb", b"ab", 1)
    @example(b"a\n\n\nb\n\nc", b"\n\n", 4)
    def test_they_do_not_depend_on_the_chunks(
        self, data: bytes, delimiter: bytes, chunk_bytes: int
    ) -> None:
        """Goal: nothing is lost where chunks meet. Method: any bytes against bytes.split."""
        found = messages_of(data, delimiter, chunk_bytes)

        *expected, last = data.split(delimiter)
        assert found == [*expected, *filter(None, [last])]

    def test_an_empty_delimiter_takes_everything(self) -> None:
        assert messages_of(b"a\nb\n", b"", 1) == [b"a\nb\n"]
        assert messages_of(b"", b"", 1) == []

    @pytest.mark.parametrize("delimiter", [b"", b"\n"])
    def test_a_message_without_an_end_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, delimiter: bytes
    ) -> None:
        monkeypatch.setattr(cli_input, "MESSAGE_BYTES_MAX", 4)

        assert messages_of(b"abcd", delimiter, 2) == [b"abcd"]
        with pytest.raises(RecordTooLargeError, match="within 4 bytes"):
            messages_of(b"abcde", delimiter, 2)

    def test_interrupted_input_ends_with_what_was_read(self) -> None:
        interrupts = Interrupts()
        blocks = read_messages(io.BytesIO(b"a\nb\nc\nd"), b"\n", interrupts, 4)

        assert next(blocks).to_pylist() == [b"a", b"b"]
        interrupts.asked = True
        assert list(blocks) == []

    def test_half_a_message_of_interrupted_input_is_left_out(self) -> None:
        interrupts = Interrupts()
        blocks = read_messages(io.BytesIO(b"a\nbcd\n"), b"\n", interrupts, 4)

        assert next(blocks).to_pylist() == [b"a"]
        interrupts.asked = True
        with pytest.warns(SparklogWarning, match="its first 2 bytes are left out"):
            assert list(blocks) == []


class TestText:
    @given(st.lists(st.binary(min_size=1, max_size=6), max_size=9))
    @example([b":", b"a:", b":b", b"a:b:c", b"plain"])
    def test_keys_end_at_the_first_delimiter(self, messages: list[bytes]) -> None:
        """Goal: whole columns are cut as one message is. Method: any bytes against partition."""
        rows = TextFormat(key_delimiter=b":").rows(pa.array(messages, pa.binary()))

        cut = [message.partition(b":") for message in messages]
        assert rows.key.to_pylist() == [key if colon else None for key, colon, _ in cut]
        assert rows.value.to_pylist() == [value if colon else key for key, colon, value in cut]

    def test_without_a_key_delimiter_keys_are_null(self) -> None:
        rows = TextFormat().rows(pa.array([b"a:b"], pa.binary()))

        assert (rows.key.to_pylist(), rows.headers) == ([None], None)

    def test_rows_can_be_cut(self) -> None:
        rows = TextFormat(headers=(("h", b"1"),)).rows(pa.array([b"a", b"b"], pa.binary()))

        part = rows.slice(1)
        assert (len(rows), len(part)) == (2, 1)
        assert part.headers is not None
        assert part.headers.to_pylist() == [[{"key": "h", "value": b"1"}]]
        assert part.timestamp is None


class TestJson:
    def test_what_is_left_out_is_null(self) -> None:
        rows = rows_of({"value": "v"}, {"value": None, "key": "", "timestamp": 0, "partition": 3})

        assert rows.key.to_pylist() == [None, b""]
        assert rows.value.to_pylist() == [b"v", None]
        assert rows.timestamp is not None
        assert rows.timestamp.to_pylist() == [None, 0]
        assert rows.partition is not None
        assert rows.partition.to_pylist() == [None, 3]

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ([1], r"\[1\] is no record"),
            ("x" * 50, "…"),
            ({}, "no value; a record without one .a tombstone. says null"),
            ({"value": 1}, "value 1 is not a string"),
            ({"value": "v", "key": {"id": 1}}, 'key {"id": 1} is not a string'),
            ({"value": "v", "vaule": "v"}, "unknown field 'vaule'; did you mean value?"),
            ({"value": "v", "zzz": "v"}, r"unknown field 'zzz' \(known: topic, partition"),
            ({"value": "v", "partition": "0"}, 'partition "0" is not an integer of 32 bits'),
            ({"value": "v", "partition": True}, "partition true is not an integer"),
            ({"value": "v", "timestamp": 1.5}, "timestamp 1.5 is not an integer of 64 bits"),
            ({"value": "v", "topic": 1}, "topic 1 is not a string"),
            ({"value": "v", "headers": {"a": "b"}}, "headers are"),
            ({"value": "v", "headers": ["a"]}, 'header "a" is not'),
            ({"value": "v", "headers": [{"value": "b"}]}, "header .* is not"),
            ({"value": "v", "headers": [{"key": "a", "v": "b"}]}, "unknown field 'v'"),
            ({"value": "!", "value_encoding": "base64"}, "value is not base64"),
            ({"value": "v", "value_encoding": "hex"}, 'value_encoding "hex" is not base64'),
            ({"value": "\ud800"}, "surrogates not allowed"),
            ({"value": "v", "headers": [{"key": "\ud800"}]}, "surrogates not allowed"),
        ],
    )
    def test_what_is_no_record_is_said(self, record: Any, message: str) -> None:
        with pytest.raises(SchemaError, match=f"stdin, line 1: .*{message}"):
            rows_of(record)

    @pytest.mark.parametrize("line", [b"{", b"\xff", b"[" * 100_000])
    def test_what_is_no_json_is_said(self, line: bytes) -> None:
        with pytest.raises(SchemaError, match="here, line 7: no JSON: "):
            json_rows(pa.array([line], pa.binary()), "here", 7)

    def test_blank_lines_are_left_out_and_counted(self) -> None:
        lines = [b"", b" \r", b'{"value": "v"}', b"{]"]

        with pytest.raises(SchemaError, match="here, line 4: no JSON: .* at column 2"):
            json_rows(pa.array(lines, pa.binary()), "here", 1, "t")
        (rows,) = json_rows(pa.array(lines[:3], pa.binary()), "here", 1, "t").values()
        assert rows.value.to_pylist() == [b"v"]

    @pytest.mark.parametrize("record", [{"value": "v", "partition": 2**31},
                                        {"value": "v", "timestamp": 2**63}])  # fmt: skip
    def test_a_number_that_is_too_large_is_said(self, record: Any) -> None:
        with pytest.raises(SchemaError, match="stdin, line 1: "):
            rows_of(record)


class TestPartition:
    ROWS = InputRows(key=pa.nulls(2), value=pa.nulls(2), partition=pa.array([4, 5], pa.int32()))

    def test_none_leaves_them_as_they_are(self) -> None:
        assert with_partition(self.ROWS, None) is self.ROWS

    def test_minus_one_takes_them_away(self) -> None:
        assert with_partition(self.ROWS, -1).partition is None

    def test_a_number_is_for_all(self) -> None:
        chosen = with_partition(self.ROWS, 3).partition

        assert chosen is not None
        assert chosen.to_pylist() == [3, 3]
