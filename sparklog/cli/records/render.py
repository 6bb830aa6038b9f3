r"""Records to bytes, a column at a time: the format string of `-f`, and JSON lines.

    %t topic   %p partition  %o offset   %T timestamp, ms   %h headers, name=value,…
    %k key     %K its size   %s value    %S its size, %R the same as 4 bytes, big-endian
    %% a percent sign        \n \r \t \\ \xNN

A size is -1 for null. A format is compiled once into literals and columns; a block of records is
then joined by Arrow into one buffer, which is written to the output.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.cli.records.escape import json_text
from sparklog.errors import InvalidOptionError
from sparklog.record.arrays import array_of, binary_of, numbers_of

_COLUMN_OF: Final = {
    "k": "key",
    "K": "key",
    "s": "value",
    "S": "value",
    "R": "value",
    "o": "offset",
    "T": "timestamp",
    "h": "headers",
}
_PLACEHOLDERS: Final = "tpokKsSRTh"
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0"}
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_TOKEN: Final = re.compile(r"%(.?)|((?:[^%\\]|\\.)+|\\)", re.DOTALL)


_NOTHING: Final = binary_of([b""])[0]
_NO_TIME: Final = array_of(np.array([-1]))[0]
_NO_NUMBER: Final = pa.nulls(1, pa.int64())[0]
_NULL_SIZE, _NO_SIZE = array_of(np.array([-1, 0], np.int32))


@dataclass(frozen=True, slots=True)
class Format:
    """A compiled format: literals as bytes, placeholders as one letter. `null` stands for null."""

    parts: tuple[bytes | str, ...]
    null: bytes = b""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a record that it takes."""
        letters = [part for part in self.parts if isinstance(part, str)]
        return tuple({_COLUMN_OF[letter]: None for letter in letters if letter in _COLUMN_OF})

    def render(self, topic: str, partition: int, records: Any) -> pa.Buffer:
        """Return the bytes of a block of DecodedRecords, one record after another."""
        columns = [
            binary_of([part])[0]
            if isinstance(part, bytes)
            else _placeholder(part, topic, partition, records, self.null)
            for part in self.parts
        ]
        return _joined(columns, records.num_rows)


class JsonLines:
    """A JSON object a line: topic, partition, offset, timestamp, key, value, headers.

    Bytes that are not UTF-8 are base64, and a field after them says so: `"key_encoding":"base64"`,
    `"value_encoding":"base64"`. The timestamp is in ms, null when there is none.
    """

    columns = ("offset", "timestamp", "key", "value", "headers")

    def render(self, topic: str, partition: int, records: Any) -> pa.Buffer:
        """Return the lines of a block of DecodedRecords."""
        head = f'{{"topic":{json.dumps(topic)},"partition":{partition},"offset":'
        timestamp = pc.if_else(pc.equal(records.timestamp, _NO_TIME), _NO_NUMBER, records.timestamp)
        columns = [
            _literal(head),
            _text(records.offset),
            _literal(',"timestamp":'),
            _text(timestamp).fill_null(_literal("null")),
            *_json_field("key", records.key),
            *_json_field("value", records.value),
            _literal(',"headers":['),
            _json_headers(records.headers),
            _literal("]}\n"),
        ]
        return _joined(columns, records.num_rows)


def compile_format(text: str, *, null: bytes = b"") -> Format:
    """Compile a format string; raises InvalidOptionError for a placeholder that does not exist."""
    parts: list[bytes | str] = []
    for letter, literal in _TOKEN.findall(text):
        if literal:
            parts.append(unescape(literal))
        elif letter == "%":
            parts.append(b"%")
        elif letter and letter in _PLACEHOLDERS:
            parts.append(letter)
        else:
            known = " ".join(f"%{name}" for name in _PLACEHOLDERS)
            raise InvalidOptionError(
                f"-f: %{letter} is no placeholder; allowed: {known} %%", option="f"
            )
    return Format(tuple(parts), null)


def unescape(text: str) -> bytes:
    r"""Return the bytes of a text with the escapes \n \r \t \\ \0 \xNN; any other \c is c."""
    out, end = [], 0
    for match in _ESCAPE.finditer(text):
        out.append(text[end : match.start()].encode(errors="surrogateescape"))
        name = match[1]
        if name[0] == "x" and len(name) > 1:
            out.append(bytes([int(name[1:], 16)]))
        else:
            out.append(_ESCAPES.get(name, name.encode(errors="surrogateescape")))
        end = match.end()
    return b"".join([*out, text[end:].encode(errors="surrogateescape")])


def _placeholder(letter: str, topic: str, partition: int, records: Any, null: bytes) -> Any:
    if letter in "tp":
        return _literal(topic if letter == "t" else str(partition))
    column = getattr(records, _COLUMN_OF[letter])
    if letter in "oT":
        return _text(column)
    if letter in "KS":
        return _text(_sizes(column))
    if letter == "R":
        return _big_endian(_sizes(column))
    if letter == "h":
        return _header_text(column)
    return column.fill_null(binary_of([null])[0])


def _literal(text: str) -> pa.Scalar:
    return binary_of([text.encode()])[0]


def _text(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.string()).cast(pa.binary())


def _sizes(column: pa.Array) -> pa.Array:
    return pc.binary_length(column).fill_null(_NULL_SIZE)


def _big_endian(sizes: pa.Array) -> pa.Array:
    data = numbers_of(sizes).astype(">i4").tobytes()
    return pa.Array.from_buffers(pa.binary(4), len(sizes), [None, pa.py_buffer(data)]).cast(
        pa.binary()
    )


def _header_text(headers: pa.Array) -> pa.Array:
    pairs = headers.flatten()
    texts = pc.binary_join_element_wise(
        pairs.field("key").cast(pa.binary()),
        pairs.field("value").fill_null(_literal("NULL")),
        _literal("="),
    )
    return _joined_lists(headers, texts)


def _json_headers(headers: pa.Array) -> pa.Array:
    pairs = headers.flatten()
    keys, _ = json_text(pairs.field("key").cast(pa.binary()))
    values, is_base64 = json_text(pairs.field("value"))
    texts = pc.binary_join_element_wise(
        _literal('{"key":'),
        keys,
        _literal(',"value":'),
        values,
        _encoding("value", is_base64),
        _literal("}"),
        _NOTHING,
    )
    return _joined_lists(headers, texts)


def _joined_lists(headers: pa.Array, texts: pa.Array) -> pa.Array:
    sizes = numbers_of(pc.list_value_length(headers).fill_null(_NO_SIZE))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(array_of(offsets), texts), _literal(","))


def _json_field(name: str, column: pa.Array) -> list[Any]:
    texts, is_base64 = json_text(column)
    return [_literal(f',"{name}":'), texts, _encoding(name, is_base64)]


def _encoding(name: str, is_base64: pa.Array | None) -> Any:
    if is_base64 is None:
        return _NOTHING
    return pc.if_else(is_base64, _literal(f',"{name}_encoding":"base64"'), _NOTHING)


def _joined(columns: list[Any], rows: int) -> pa.Buffer:
    """Return the rows of all columns in one buffer; a scalar is the same in every row."""
    # An array among the columns makes Arrow answer with an array, literals alone would not.
    first = binary_of([b""]).take(array_of(np.zeros(rows, np.int64)))
    texts = pc.binary_join_element_wise(first, *columns, _NOTHING)
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :]
    if not rows:
        return pa.py_buffer(b"")
    return texts.buffers()[2].slice(int(ends[0]), int(ends[rows] - ends[0]))
