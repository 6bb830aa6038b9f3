"""Bodies of requests and answers, by kio's schemas: one class for each API and version.

    parse     checks the sizes in a request, cuts unknown tagged fields out (KIP-482), and lets
              kio read the rest
    encode    writes an answer, given as a mapping, in the order and with the types of kio's class

A mapping may have fields that the version does not have, and may lack fields whose value is the
default or zero. So a handler returns the same fields for every version. Times and durations are
milliseconds, error codes are numbers, None is null.
"""

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from sparklog.errors import InvalidRequestError
from sparklog.wire.protocol.headers import checked_tags, read_varint
from sparklog.wire.protocol.reading import checked_items
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.protocol.writing import Writer

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
_SIZE_BYTES: Final = {"string": 2, "bytes": 4, "records": 4}
"""Bytes of the size in front of a value, in versions that are not flexible."""
_SIZES: Final = {2: struct.Struct(">h"), 4: struct.Struct(">i")}
_NO_UUID: Final = bytes(16)
NO_TIME: Final = -1


class _Part(NamedTuple):
    """One field of a schema. `layout` is the layout of a struct, or of the structs in an array."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    layout: "_Layout | None"
    tag: int | None
    default: Any
    least_bytes: int
    """The fewest bytes of a value; for an array, of one item."""


class _Layout(NamedTuple):
    """The fields of a struct: `plain` ones, which are always there, and `tagged` ones by tag."""

    is_flexible: bool
    plain: tuple[_Part, ...]
    tagged: Mapping[int, _Part]
    steps: "tuple[int | _Part, ...]"
    """The plain parts in order; neighbours of fixed size are replaced by their number of bytes."""

    @property
    def fixed_bytes(self) -> int | None:
        """The number of bytes before the tagged fields; None if it varies, or if none follow."""
        is_fixed = self.is_flexible and len(self.steps) == 1
        return self.steps[0] if is_fixed and isinstance(self.steps[0], int) else None


def parse(api_key: int, version: int, frame: memoryview, at: int) -> Any:
    """Return the body of a request, as an instance of kio's class for its API and version.

    Raises InvalidRequestError for a body that is cut or has wrong sizes. Bytes after the body are
    ignored, as in a broker: librdkafka 2.16 sends some after Metadata.
    """
    read, layout = _reader(api_key, version)
    frame, at = _checked(layout, frame, at)
    try:
        request, _ = read(frame, at)
    except (SerialError, ValueError) as error:
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
def _reader(api_key: int, version: int) -> tuple[Callable[[Any, int], tuple[Any, int]], _Layout]:
    schema = load_request_schema(api_key, version)
    return entity_reader(schema), _layout(cast(Hashable, schema))


# --------------------------------------------------------------------------------------- schemas


@cache
def _layout(schema: Any) -> _Layout:
    parts = [_part(one, schema.__flexible__) for one in fields(schema)]
    plain = tuple(part for part in parts if part.tag is None)
    return _Layout(
        schema.__flexible__,
        plain,
        {
            part.tag: part
            for part in sorted(parts, key=lambda one: one.tag or 0)
            if part.tag is not None
        },
        _steps(plain),
    )


def _part(field: "Field[Any]", is_flexible: bool) -> _Part:
    inner, is_nullable = _without_null(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
    layout = _layout(cast(Hashable, inner)) if is_dataclass(inner) else None
    kind = "struct" if layout else str(field.metadata["kafka_type"])
    default = _zero(kind, is_array, is_nullable) if field.default is MISSING else field.default
    return _Part(
        field.name,
        kind,
        is_array,
        is_nullable,
        layout,
        field.metadata.get("tag"),
        default,
        _least_bytes(kind, layout, is_flexible),
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
        writer.tagged(part.tag or 0, inner)


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


# ------------------------------------------------------------------------------------------ walk


def _checked(layout: _Layout, frame: memoryview, at: int) -> tuple[memoryview, int]:
    """Check a body's sizes; return a frame without unknown tagged fields, and its body's position.

    kio allocates as many items as an array claims to have, so sizes must be checked before.
    Raises InvalidRequestError.
    """
    walk = _Walk(frame, at)
    try:
        walk.struct(layout)
    except (IndexError, struct.error):
        raise InvalidRequestError(f"a body is cut at position {len(frame)}") from None
    if not walk.cuts:
        return frame, at
    pieces: list[bytes | memoryview] = []
    for start, end, instead in walk.cuts:
        pieces += [frame[at:start], instead]
        at = end
    return memoryview(b"".join([*pieces, frame[at:]])), 0


class _Walk:
    """Walks over a body. `cuts` are the spans to replace: start, end, and the new bytes."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._items = 0
        self.cuts: list[tuple[int, int, bytes]] = []

    def struct(self, layout: _Layout) -> None:
        """Walk over a struct."""
        for step in layout.steps:
            if isinstance(step, int):
                self._skip(step)
            else:
                self._part(step, layout.is_flexible)
        if layout.is_flexible:
            self._tags(layout)

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._at:
            raise InvalidRequestError(
                f"a field of {size} bytes at position {self._at}: the body is cut"
            )
        self._at += size

    def _part(self, part: _Part, is_flexible: bool) -> None:
        if part.is_array:
            self._array(part, is_flexible)
        elif part.layout is not None and part.is_nullable:
            self._skip(1)
            if self._data[self._at - 1] == 1:
                self.struct(part.layout)
        else:
            self._value(part, is_flexible)

    def _array(self, part: _Part, is_flexible: bool) -> None:
        count, data, layout = self._size(4, is_flexible), self._data, part.layout
        if count * part.least_bytes > len(data) - self._at:
            raise InvalidRequestError(f"an array of {count} items at position {self._at}")
        self._items = checked_items(self._items + max(count, 0))
        if part.kind in _FIXED_BYTES:
            self._at += max(count, 0) * part.least_bytes
        elif layout is None or (fixed_bytes := layout.fixed_bytes) is None:
            for _ in range(count):
                self._value(part, is_flexible)
        else:
            for _ in range(count):
                end = self._at + fixed_bytes
                if data[end] == 0:  # no tagged fields: what clients send
                    self._at = end + 1
                else:
                    self.struct(layout)

    def _value(self, part: _Part, is_flexible: bool) -> None:
        if part.layout is not None:
            self.struct(part.layout)
        elif part.kind in _SIZE_BYTES:
            self._skip(max(self._size(_SIZE_BYTES[part.kind], is_flexible), 0))
        else:
            self._skip(_FIXED_BYTES[part.kind])

    def _size(self, size_bytes: int, is_flexible: bool) -> int:
        """Return a size; null has a negative one."""
        if is_flexible:
            return self._varint() - 1
        self._at += size_bytes
        (size,) = _SIZES[size_bytes].unpack_from(self._data, self._at - size_bytes)
        return int(size)

    def _varint(self) -> int:
        byte = self._data[self._at]
        if byte < 0x80:
            self._at += 1
            return byte
        value, self._at = read_varint(self._data, self._at)
        return value

    def _tags(self, layout: _Layout) -> None:
        start = self._at
        count = checked_tags(self._varint())
        known: list[memoryview] = []
        for _ in range(count):
            first = self._at
            tag, size = self._varint(), self._varint()
            end = self._at + size
            part = layout.tagged.get(tag)
            if part is not None:
                self._part(part, is_flexible=True)
                known.append(self._data[first:end])
            if end > len(self._data) or (part is not None and self._at != end):
                raise InvalidRequestError(f"a tagged field of {size} bytes at position {first}")
            self._at = end
        if len(known) < count:
            writer = Writer(is_flexible=True)
            writer.varint(len(known))
            self.cuts.append((start, self._at, bytes(writer.data) + b"".join(known)))


def _steps(plain: Sequence[_Part]) -> tuple[int | _Part, ...]:
    """Return the parts of a struct; a run of parts of fixed size becomes its number of bytes."""
    steps: list[int | _Part] = []
    for part in plain:
        is_fixed = part.kind in _FIXED_BYTES and not part.is_array
        last = steps[-1] if steps else None
        if is_fixed and isinstance(last, int):
            steps[-1] = last + _FIXED_BYTES[part.kind]
        else:
            steps.append(_FIXED_BYTES[part.kind] if is_fixed else part)
    return tuple(steps)


def _least_bytes(kind: str, layout: _Layout | None, is_flexible: bool) -> int:
    if layout is None:
        return _FIXED_BYTES.get(kind) or (1 if is_flexible else _SIZE_BYTES[kind])
    fixed = (step if isinstance(step, int) else 1 for step in layout.steps)
    return sum(fixed) + is_flexible
