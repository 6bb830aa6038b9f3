r"""Bytes of stdin and files to columns of records: delimited text as in kcat, and JSON lines.

    text     key<key delimiter>value<delimiter>…     the delimiter is \n by default
    json     {"topic": …, "partition": 0, "timestamp": 0, "key": "…", "value": "…", "headers": […]}

Empty messages are left out, as kcat does; so are lines of JSON that have only spaces. The field
`offset` is allowed in JSON and ignored, so that the output of a consume can be the input of a
produce.
"""

import base64
import binascii
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.cli.interrupt import Interrupts, Readable
from sparklog.errors import RecordTooLargeError, SchemaError, SparklogWarning
from sparklog.record.rows import HEADERS_TYPE

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""How much input is read at once."""
MESSAGE_BYTES_MAX: Final = 2**31 - 2
"""The most bytes of a message, with the chunk of its end: the largest value of Arrow."""

_FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_encoding",
    "value",
    "value_encoding",
    "headers",
)
_HEADER_FIELDS: Final = ("key", "value", "value_encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRows:
    """Records as they were read: Arrow columns of one length.

    `timestamp` (int64, ms), `partition` (int32) and `headers` are null where the input has none; a
    column without any value may be None.
    """

    key: pa.Array
    value: pa.Array
    timestamp: pa.Array | None = None
    partition: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, length: int | None = None) -> "InputRows":
        """Return `length` rows from `start` on; None: all to the end."""

        def part(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column.slice(start, length)

        return InputRows(
            key=part(self.key),
            value=part(self.value),
            timestamp=part(self.timestamp),
            partition=part(self.partition),
            headers=part(self.headers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """The format of text: kcat's options -D, -K, -k, -Z and -H.

    An empty `delimiter` makes each input one message. `fixed_key` is for messages without a key.
    """

    delimiter: bytes = b"\n"
    key_delimiter: bytes | None = None
    fixed_key: bytes | None = None
    empty_is_null: bool = False
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def rows(self, messages: pa.Array) -> InputRows:
        """Return the messages of a binary array as rows, without the empty ones."""
        messages = _without_empty(messages)
        key: pa.Array = pa.nulls(len(messages), pa.binary())
        value = messages
        if self.key_delimiter is not None:
            key, value = _cut_keys(messages, self.key_delimiter)
            if self.empty_is_null:
                key, value = _empty_to_null(key), _empty_to_null(value)
        if self.fixed_key is not None:
            key = key.fill_null(self.fixed_key)
        headers = None
        if self.headers:
            each = [{"key": name, "value": data} for name, data in self.headers]
            headers = pa.array([each], HEADERS_TYPE).take(pa.array(np.zeros(len(value), np.int64)))
        return InputRows(key=key, value=value, headers=headers)


def read_messages(
    stream: Readable, delimiter: bytes, interrupts: Interrupts, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[pa.Array]:
    """Yield the messages of a stream, as many at a time as a chunk has.

    The text after the last delimiter is a message, too, if it is not empty, unless a signal has
    ended the input: then it may be half a message, and is left out with a warning. An empty
    `delimiter` takes the stream as one message. Raises RecordTooLargeError.
    """
    rest: list[bytes] = []
    size, tail = 0, b""
    while data := interrupts.read(stream, chunk_bytes):
        rest.append(data)
        size += len(data)
        if size > MESSAGE_BYTES_MAX:
            raise RecordTooLargeError(
                f"no end of a message (-D) within {MESSAGE_BYTES_MAX} bytes, the most of a message"
            )
        seen = tail + data  # a delimiter may be cut in two
        if delimiter and delimiter in seen:
            messages, seen = _cut(b"".join(rest), delimiter)
            rest, size = [seen], len(seen)
            yield messages
        tail = seen[max(len(seen) + 1 - len(delimiter), 0) :]
    last = b"".join(rest)
    if last and interrupts.asked:
        problem = f"interrupted within a message: its first {len(last)} bytes are left out"
        warnings.warn(problem, SparklogWarning, stacklevel=2)
    elif last:
        yield pa.array([last], pa.binary())


def _cut(data: bytes, delimiter: bytes) -> tuple[pa.Array, bytes]:
    """Return the messages of a text, cut from its beginning on, and what stands behind them."""
    parts = pc.split_pattern(pa.array([data], pa.binary()), delimiter).flatten()
    return parts[:-1], parts[-1].as_py()


def _without_empty(messages: pa.Array) -> pa.Array:
    sizes = pc.binary_length(messages)
    return messages if pc.min(sizes).as_py() else messages.filter(pc.greater(sizes, 0))


def _cut_keys(messages: pa.Array, delimiter: bytes) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values: the text before the first delimiter, and the text after it.

    A message without the delimiter has the key null.
    """
    parts = pc.split_pattern(messages, delimiter, max_splits=1)
    pieces = parts.flatten()
    counts = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    last = np.cumsum(counts) - 1
    first = pa.array(last - 1, mask=counts == 1)
    return pieces.take(first), pieces.take(pa.array(last))


def _empty_to_null(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(pc.binary_length(column), 0), None, column)


def json_rows(
    lines: pa.Array, place: str, first: int, topic: str | None = None
) -> dict[str, InputRows]:
    """Return JSON lines as rows of `topic`, or without it by the topics that they name.

    Blank lines are left out. `first` is the number of the first line. Raises SchemaError naming
    `place` and the line of an invalid record.
    """
    records: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(lines.to_pylist(), first):
        if not line.strip():
            continue
        try:
            record = _record(line)
        except (ValueError, TypeError) as error:
            raise SchemaError(f"{place}, line {number}: {error}") from None
        to = record.get("topic") if topic is None else topic
        if to is None:
            raise SchemaError(
                f"{place}, line {number}: no topic: give one, or put it into the record"
            )
        records.setdefault(to, []).append(record)
    return {to: _columns(rows) for to, rows in records.items()}


def _record(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise TypeError(f"{_shown(found)} is no record: a JSON object with key and value")
    _check_names(found, _FIELDS)
    if not isinstance(found.get("topic"), str | None):
        raise TypeError(f"topic {_shown(found['topic'])} is not a string")
    for name, bits in (("partition", 32), ("timestamp", 64)):
        number = found.get(name)
        if number is not None and (type(number) is not int or abs(number) >= 1 << (bits - 1)):
            raise TypeError(f"{name} {_shown(number)} is not an integer of {bits} bits")
    if "value" not in found:
        raise ValueError("no value; a record without one (a tombstone) says null")
    headers = found.get("headers") or []
    if not isinstance(headers, list):
        raise TypeError('headers are [{"key": "…", "value": "…"}, …]')
    return found | {
        "key": _bytes(found, "key"),
        "value": _bytes(found, "value"),
        "headers": [_header(header) for header in headers] or None,
    }


def _header(header: Any) -> dict[str, Any]:
    if not isinstance(header, dict) or not isinstance(header.get("key"), str):
        raise TypeError(f'header {_shown(header)} is not {{"key": "…", "value": "…"}}')
    _check_names(header, _HEADER_FIELDS)
    return {"key": header["key"].encode(), "value": _bytes(header, "value")}


def _check_names(found: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown field {name!r}{hint} (known: {', '.join(known)})")


def _bytes(found: Mapping[str, Any], name: str) -> bytes | None:
    text, encoding = found.get(name), found.get(f"{name}_encoding")
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"{name} {_shown(text)} is not a string; JSON in a value is quoted")
    if encoding is None:
        return text.encode()
    if encoding != "base64":
        raise ValueError(f"{name}_encoding {_shown(encoding)} is not base64")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} is not base64: {error}") from None


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _columns(records: Iterable[Mapping[str, Any]]) -> InputRows:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([record.get(name) for record in records], kind)

    return InputRows(
        key=column("key", pa.binary()),
        value=column("value", pa.binary()),
        timestamp=column("timestamp", pa.int64()),
        partition=column("partition", pa.int32()),
        headers=column("headers", HEADERS_TYPE),
    )


def with_partition(rows: InputRows, partition: int | None) -> InputRows:
    """Return the rows with -p: all to `partition`; -1: the partitioner chooses; None: no change."""
    if partition is None:
        return rows
    chosen = None if partition < 0 else pa.array(np.full(len(rows), partition, np.int32))
    return replace(rows, partition=chosen)
