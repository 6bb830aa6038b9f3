"""Format strings and JSON lines: blocks of records to bytes."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.cli.records.escape import escape, json_text
from sparklog.cli.records.input import json_rows
from sparklog.cli.records.render import JsonLines, compile_format, unescape
from sparklog.errors import InvalidOptionError
from sparklog.record.decode import DecodedRecords
from sparklog.record.rows import HEADERS_TYPE

Record = dict[str, Any]
RECORD: Record = {"key": b"k", "value": b"v", "offset": 5, "timestamp": 7, "headers": None}
OPTIONAL_BYTES = st.none() | st.binary(max_size=12) | st.text(max_size=6).map(str.encode)
HEADERS = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=4), "value": OPTIONAL_BYTES}), max_size=3
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": OPTIONAL_BYTES,
            "value": OPTIONAL_BYTES,
            "offset": st.integers(0, 2**63 - 1),
            "timestamp": st.integers(-1, 2**63 - 1),
            "headers": st.none() | HEADERS.filter(bool),
        }
    ),
    max_size=8,
)


def block(*records: Record) -> DecodedRecords:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([record[name] for record in records], kind)

    return DecodedRecords(
        len(records),
        key=column("key", pa.binary()),
        value=column("value", pa.binary()),
        offset=column("offset", pa.int64()),
        timestamp=column("timestamp", pa.int64()),
        headers=column("headers", HEADERS_TYPE),
    )


def formatted(text: str, *records: Record, null: bytes = b"") -> bytes:
    return bytes(compile_format(text, null=null).render("t", 3, block(*records)))


def as_json(*records: Record) -> list[Any]:
    lines = bytes(JsonLines().render("t", 3, block(*records))).decode()
    return [json.loads(line) for line in lines.split("\n")[:-1]]


class TestFormat:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("%t %p %o %T", b"t 3 5 7"),
            ("%k=%s", b"k=v"),
            ("%K %S", b"1 1"),
            ("%R", b"\0\0\0\1"),
            ("%%%%", b"%%"),
            ("", b""),
            ("plain", b"plain"),
            (r"a\n\t\r\0\x41\x7\\\q", b"a\n\t\r\0A\x07\\q"),
            ("\\", b"\\"),
            ("é", "é".encode()),
            ("a\nb", b"a\nb"),
        ],
    )
    def test_placeholders_and_escapes(self, text: str, expected: bytes) -> None:
        assert formatted(text, RECORD) == expected

    def test_null_is_empty_and_minus_one_long(self) -> None:
        record = RECORD | {"key": None, "value": None}

        assert formatted("%k|%s|%K %S %R", record) == b"||-1 -1 \xff\xff\xff\xff"
        assert formatted("%k|%s", record, null=b"NULL") == b"NULL|NULL"

    def test_headers_are_a_list(self) -> None:
        pairs = [
            {"key": "a", "value": b"1"},
            {"key": "b", "value": None},
            {"key": "", "value": b""},
        ]

        assert formatted("%h;", RECORD | {"headers": pairs}, RECORD) == b"a=1,b=NULL,=;;"

    def test_bytes_come_out_as_they_are(self) -> None:
        assert formatted("%s", RECORD | {"value": bytes(range(256))}) == bytes(range(256))

    def test_columns_are_those_in_use(self) -> None:
        assert compile_format("%k%K%t").columns == ("key",)
        assert compile_format("%T%h%o%S").columns == ("timestamp", "headers", "offset", "value")

    @pytest.mark.parametrize("text", ["%q", "%", "%s%"])
    def test_a_placeholder_that_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match="is no placeholder; allowed: %t %p %o"):
            compile_format(text)

    def test_no_records_are_no_bytes(self) -> None:
        assert formatted("%p %o %k %h\n") == b""

    def test_a_part_of_a_block(self) -> None:
        records = block(
            RECORD, RECORD | {"key": b"second", "headers": [{"key": "h", "value": b""}]}
        )
        part = DecodedRecords(1, *(getattr(records, name).slice(1) for name in ("key", "value")))

        assert bytes(compile_format("%k %s").render("t", 0, part)) == b"second v"

    def test_what_the_shell_hands_over_may_be_no_utf8(self) -> None:
        assert unescape("\udcff") == b"\xff"


class TestJsonLines:
    def test_the_fields_in_their_order(self) -> None:
        (line,) = bytes(JsonLines().render("t", 3, block(RECORD))).decode().splitlines()

        assert line == (
            '{"topic":"t","partition":3,"offset":5,"timestamp":7,"key":"k","value":"v","headers":[]}'
        )

    def test_no_timestamp_is_null(self) -> None:
        assert as_json(RECORD | {"timestamp": -1})[0]["timestamp"] is None

    def test_what_is_not_utf8_is_base64_and_says_so(self) -> None:
        plain, odd = as_json(RECORD, RECORD | {"key": b"\xff", "value": b"\xc3"})

        assert "key_encoding" not in plain
        assert (odd["key"], odd["key_encoding"]) == ("/w==", "base64")
        assert (odd["value"], odd["value_encoding"]) == ("ww==", "base64")

    def test_headers_say_it_of_themselves(self) -> None:
        pairs = [{"key": "a", "value": b"\xff"}, {"key": "b", "value": b"1"}]

        assert as_json(RECORD | {"headers": pairs})[0]["headers"] == [
            {"key": "a", "value": "/w==", "value_encoding": "base64"},
            {"key": "b", "value": "1"},
        ]

    @given(RECORDS)
    @example([])
    @example([RECORD | {"value": bytes(range(128))}])
    @example([RECORD | {"key": "\u2028 é \U0001f600".encode()}])
    def test_lines_in_are_lines_out(self, records: list[Record]) -> None:
        """Goal: JSON out is JSON in, bit by bit. Method: any bytes; render, read, compare."""
        lines = bytes(JsonLines().render("t", 3, block(*records))).split(b"\n")[:-1]
        read = json_rows(pa.array(lines, pa.binary()), "test", 1)

        assert set(read) == ({"t"} if records else set())
        for rows in read.values():
            assert rows.key.to_pylist() == [record["key"] for record in records]
            assert rows.value.to_pylist() == [record["value"] for record in records]
            assert rows.headers is not None
            assert rows.headers.to_pylist() == [record["headers"] for record in records]
            assert rows.timestamp is not None
            times = rows.timestamp.fill_null(-1).to_pylist()
            assert times == [record["timestamp"] for record in records]


class TestEscape:
    @given(st.lists(st.none() | st.text(max_size=8)), st.integers(0, 4))
    @example(['"\\\n\x00\x1f\x7f', None, "", "plain"], 0)
    @example([None], 0)
    def test_it_is_what_json_says(self, texts: list[str | None], start: int) -> None:
        """Goal: JSON strings. Method: any texts, also from the middle of a column."""
        column = pa.array(texts, pa.string()).cast(pa.binary()).slice(start)

        escaped = escape(column).to_pylist()
        read = [None if text is None else json.loads(b'"%s"' % text) for text in escaped]
        assert read == texts[start:]

    def test_a_column_without_bytes(self) -> None:
        assert escape(pa.array([], pa.binary())).to_pylist() == []
        assert escape(pa.nulls(2, pa.binary())).to_pylist() == [None, None]

    def test_base64_is_only_for_rows_that_need_it(self) -> None:
        texts, flags = json_text(pa.array([b"\xff", b'"', None], pa.binary()))

        assert texts.to_pylist() == [b'"%s"' % base64.b64encode(b"\xff"), b'"\\""', b"null"]
        assert flags is not None
        assert flags.to_pylist() == [True, False, False]
