"""Bodies of requests and answers, by kio's schemas: one class for each API and version.

    parse     kio reads a request; a tagged field that is not known is left out first (KIP-482)
    encode    the fields of an answer, as a mapping, in the order and types of kio's class

A mapping may have fields that its version does not have, and may leave out those that have a
default or a zero: a handler says everything that it knows, whatever the version. Times are
milliseconds, error codes and durations numbers; None is null.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from sparklog.errors import InvalidRequestError
from sparklog.wire.headers import unsigned_varint
from sparklog.wire.versions import ApiKey
from sparklog.wire.writing import Writer

_FIXED_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
_NO_UUID: Final = bytes(16)
NO_TIME: Final = -1


class _Part(NamedTuple):
    """One field of a schema. `layout` is that of a struct, or of the structs in an array."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    layout: "_Layout | None"
    tag: int | None
    default: Any


class _Layout(NamedTuple):
    """The fields of a struct: those that are always there, and the tagged ones by tag."""

    is_flexible: bool
    plain: tuple[_Part, ...]
    tagged: Mapping[int, _Part]


def parse(api_key: int, version: int, frame: memoryview, at: int) -> Any:
    """Return the body of a request, as an instance of kio's class for its API and version.

    Raises InvalidRequestError for one that is cut, or has lying sizes. Bytes behind it are ignored,
    as a broker does: librdkafka 2.16 sends some behind Metadata.
    """
    read, schema = _reader(api_key, version)
    try:
        try:
            request, _ = read(frame, at)
        except KeyError:
            frame, at = memoryview(_known_fields(schema, frame[at:])), 0
            request, _ = read(frame, at)
    except (SerialError, ValueError, KeyError, OverflowError) as error:
        name = ApiKey(api_key).name
        raise InvalidRequestError(f"{name} version {version}: {error!r}") from None
    return request


def encode(api_key: int, version: int, answer: Mapping[str, Any]) -> bytes:
    """Return the body of an answer."""
    layout = _layout(load_response_schema(api_key, version))
    writer = Writer(is_flexible=layout.is_flexible)
    _write_struct(writer, layout, answer)
    return bytes(writer.data)


@cache
def _reader(api_key: int, version: int) -> tuple[Callable[[Any, int], tuple[Any, int]], type[Any]]:
    schema: type[Any] = load_request_schema(api_key, version)
    return entity_reader(schema), schema


# --------------------------------------------------------------------------------------- schemas


@cache
def _layout(schema: Any) -> _Layout:
    parts = [_part(one) for one in fields(schema)]
    return _Layout(
        schema.__flexible__,
        tuple(part for part in parts if part.tag is None),
        {
            part.tag: part
            for part in sorted(parts, key=lambda one: one.tag or 0)
            if part.tag is not None
        },
    )


def _part(field: "Field[Any]") -> _Part:
    inner, is_nullable = _without_null(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
    layout = _layout(cast(Hashable, inner)) if is_dataclass(inner) else None
    kind = "struct" if layout else str(field.metadata["kafka_type"])
    default = _zero(kind, is_array, is_nullable) if field.default is MISSING else field.default
    return _Part(
        field.name, kind, is_array, is_nullable, layout, field.metadata.get("tag"), default
    )


def _without_null(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) is not UnionType:
        return kind, False
    (inner,) = [one for one in get_args(kind) if one is not NoneType]
    return inner, True


def _zero(kind: str, is_array: bool, is_nullable: bool) -> Any:
    if is_array:
        return ()
    if is_nullable and kind != "datetime_i64":
        return None
    return {"string": "", "bytes": b"", "records": b"", "struct": {}, "datetime_i64": NO_TIME}.get(
        kind, 0
    )


# ---------------------------------------------------------------------------------------- encode


def _write_struct(writer: Writer, layout: _Layout, values: Mapping[str, Any]) -> None:
    for part in layout.plain:
        _write_part(writer, part, values.get(part.name, part.default))
    if not layout.is_flexible:
        return
    told = [
        part
        for part in layout.tagged.values()
        if values.get(part.name, part.default) != part.default
    ]
    writer.varint(len(told))
    for part in told:
        inner = Writer(is_flexible=True)
        _write_part(inner, part, values[part.name])
        writer.varint(part.tag or 0)
        writer.varint(len(inner.data))
        writer.raw(inner.data)


def _write_part(writer: Writer, part: _Part, value: Any) -> None:
    if part.is_array:
        writer.array(-1 if value is None else len(value))
        for one in value or ():
            _write_value(writer, part, one)
        return
    if part.layout is not None and part.is_nullable:
        writer.int8(-1 if value is None else 1)
        if value is None:
            return
    _write_value(writer, part, value)


def _write_value(writer: Writer, part: _Part, value: Any) -> None:
    if part.layout is not None:
        _write_struct(writer, part.layout, value)
        return
    match part.kind:
        case "string":
            writer.string(value)
        case "bytes" | "records":
            writer.bytes_(value)
        case "bool":
            writer.boolean(value)
        case "uuid":
            writer.raw(_NO_UUID if value is None else value.bytes)
        case kind:
            writer.raw(int(value).to_bytes(_FIXED_BYTES[kind], "big", signed=kind[0] != "u"))


# --------------------------------------------------------------------------- unknown tagged fields


def _known_fields(schema: type[Any], data: memoryview) -> bytes:
    """Return a body of a flexible version without the tagged fields that its class lacks."""
    walk = _Walk(data)
    walk.struct(_layout(cast(Hashable, schema)))
    walk.take(len(data) - walk.at)
    return bytes(walk.kept)


class _Walk:
    """Goes over a body, and keeps all of it but unknown tagged fields."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0
        self.kept = bytearray()

    def take(self, size: int) -> None:
        """Keep the next bytes. Raises InvalidRequestError beyond the end."""
        if not 0 <= size <= len(self._data) - self.at:
            raise InvalidRequestError(f"a field of {size} bytes at position {self.at}")
        self.kept += self._data[self.at : self.at + size]
        self.at += size

    def struct(self, layout: _Layout) -> None:
        """Go over a struct."""
        for part in layout.plain:
            self._part(part)
        count, self.at = unsigned_varint(self._data, self.at)
        known: list[bytes] = []
        for _ in range(count):
            start = self.at
            tag, self.at = unsigned_varint(self._data, self.at)
            size, self.at = unsigned_varint(self._data, self.at)
            self.at += size
            if self.at > len(self._data):
                raise InvalidRequestError(f"a tagged field of {size} bytes at position {start}")
            if tag in layout.tagged:
                known.append(bytes(self._data[start : self.at]))
        writer = Writer(is_flexible=True)
        writer.varint(len(known))
        self.kept += writer.data + b"".join(known)

    def _part(self, part: _Part) -> None:
        if part.is_array:
            for _ in range(self._varint() - 1):
                self._value(part)
        elif part.layout is not None and part.is_nullable:
            start = self.at
            self.take(1)
            if self._data[start] == 1:
                self._value(part)
        else:
            self._value(part)

    def _value(self, part: _Part) -> None:
        if part.layout is not None:
            self.struct(part.layout)
        elif part.kind in ("string", "bytes", "records"):
            self.take(max(self._varint() - 1, 0))
        else:
            self.take(_FIXED_BYTES[part.kind])

    def _varint(self) -> int:
        start = self.at
        value, end = unsigned_varint(self._data, start)
        self.take(end - start)
        return value
