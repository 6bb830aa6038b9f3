"""Encodes and decodes Kafka's generated messages by a schema; fields have JsonConverter's names.

    flexible (KIP-482)   string, bytes, array: unsigned varint of size + 1 (0: null), then items;
                         every struct ends with tagged fields: a count, then (tag, size, bytes) each
    not flexible         string: int16 size (-1: null); bytes, array: int32 size

A schema is a tuple of (name, type) fields. A type is one of `_NUMBERS`, "string", "bytes", "uuid",
a one-item list (an array of that type), a tuple (a struct) or a Tagged. The reader never allocates
more memory than the bytes of the message can fill.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparklog.errors import CorruptRecordError

Type = Any
"""A str, a list of one Type, a tuple of (name, Type), or a Tagged."""
Schema = tuple[tuple[str, Type], ...]

_NUMBERS: Final = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
_VARINT_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Tagged:
    """A tagged field. `read_message` returns it only if the message has it.

    `nullable`: a byte in front of the struct is 0 for null.
    """

    tag: int
    kind: Type
    nullable: bool = False


def unsigned_varint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class MessageReader:
    """Reads a message from its start. Its methods raise CorruptRecordError beyond the end."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self._data = data
        self._at = 0
        self._flexible = flexible

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if not 0 <= size <= self.left:
            raise CorruptRecordError(
                f"Error reading byte array of {size} byte(s): only {self.left} byte(s) available"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def struct(self, schema: Schema) -> dict[str, Any]:
        """Return the fields of a struct, by name."""
        fields = {name: self.value(kind) for name, kind in schema if not isinstance(kind, Tagged)}
        if self._flexible:
            tags = {kind.tag: (name, kind) for name, kind in schema if isinstance(kind, Tagged)}
            for _ in range(self.unsigned()):
                self._tagged(tags, fields)
        return fields

    def _tagged(self, known: dict[int, tuple[str, Tagged]], fields: dict[str, Any]) -> None:
        tag = self.unsigned()
        reader = MessageReader(self.take(self.unsigned()), flexible=True)
        if tag in known:
            name, field = known[tag]
            is_null = field.nullable and reader.value("int8") == 0
            fields[name] = None if is_null else reader.value(field.kind)

    def value(self, kind: Type) -> Any:
        """Return a value of a type: an int, a str, bytes, a list, or a dict of fields."""
        if isinstance(kind, tuple):
            return self.struct(kind)
        if isinstance(kind, list):
            return self._array(kind[0])
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind], signed=kind[0] != "u")
        if kind == "uuid":
            return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")
        size = self._size(kind == "string")
        data = None if size < 0 else self.take(size)
        if kind == "bytes" or data is None:
            return data
        return data.decode(errors="replace")

    def unsigned(self) -> int:
        """Return an unsigned varint."""
        code = 0
        for shift in range(_VARINT_MAX):
            byte = self._number(1, signed=False)
            code |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return code
        raise CorruptRecordError("a number takes more bytes than its type can fill")

    def _number(self, size: int, *, signed: bool = True) -> int:
        if size > self.left:
            raise CorruptRecordError("null")  # the message of Java's BufferUnderflowException
        return int.from_bytes(self.take(size), "big", signed=signed)

    def _size(self, is_string: bool) -> int:
        if self._flexible:
            return self.unsigned() - 1
        return self._number(2 if is_string else 4)

    def _array(self, kind: Type) -> list[Any] | None:
        size = self._size(is_string=False)
        if size < 0:
            return None
        if size > self.left:
            raise CorruptRecordError(
                f"Tried to allocate a collection of size {size}, but there are only {self.left} "
                f"bytes remaining."
            )
        return [self.value(kind) for _ in range(size)]


def read_message(data: bytes, schema: Schema, *, flexible: bool) -> dict[str, Any]:
    """Return the fields of a message. Raises CorruptRecordError if it is cut or has wrong sizes."""
    return MessageReader(data, flexible=flexible).struct(schema)


def write_message(fields: Mapping[str, Any], schema: Schema, *, flexible: bool = False) -> bytes:
    """Return the message with these fields; tagged fields that are None are left out."""
    plain = (
        _written(kind, fields[name], flexible)
        for name, kind in schema
        if not isinstance(kind, Tagged)
    )
    return b"".join(plain) + (_tagged_fields(fields, schema) if flexible else b"")


def _tagged_fields(fields: Mapping[str, Any], schema: Schema) -> bytes:
    told: list[bytes] = []
    for name, kind in schema:
        if isinstance(kind, Tagged) and fields.get(name) is not None:
            there = b"\x01" if kind.nullable else b""
            data = there + _written(kind.kind, fields[name], flexible=True)
            told.append(unsigned_varint(kind.tag) + unsigned_varint(len(data)) + data)
    return unsigned_varint(len(told)) + b"".join(told)


def _written(kind: Type, value: Any, flexible: bool) -> bytes:
    if isinstance(kind, tuple):
        return write_message(value, kind, flexible=flexible)
    if isinstance(kind, list):
        items = b"".join(_written(kind[0], one, flexible) for one in value)
        return _size(len(value), 4, flexible) + items
    if kind in _NUMBERS:
        return int(value).to_bytes(_NUMBERS[kind], "big", signed=kind[0] != "u")
    if kind == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    size_bytes = 2 if kind == "string" else 4
    if value is None:
        return _size(-1, size_bytes, flexible)
    data: bytes = value.encode() if kind == "string" else value
    return _size(len(data), size_bytes, flexible) + data


def _size(size: int, size_bytes: int, flexible: bool) -> bytes:
    """Return the encoded size of a field; -1 encodes null."""
    return unsigned_varint(size + 1) if flexible else size.to_bytes(size_bytes, "big", signed=True)


def json_text(fields: Any) -> str:
    """Return fields as the JSON that JsonConverter and Jackson write: bytes are base64."""

    def encoded(value: bytes) -> str:
        return base64.b64encode(value).decode()

    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, default=encoded)
    return _ESCAPE.sub(lambda found: _escape(found[1]), text)


_ESCAPE: Final = re.compile(r"\\(u[0-9a-f]{4}|.)")


def _escape(escaped: str) -> str:
    """Return an escape as Jackson writes it: with upper-case hexadecimal digits."""
    return f"\\{escaped[0]}{escaped[1:].upper()}"
