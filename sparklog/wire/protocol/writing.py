"""Writer: the body of an answer, field by field, in Kafka's two encodings (KIP-482).

flexible       strings and arrays: unsigned varint of size + 1 (0: null); structs end with tags
not flexible   strings: int16 size (-1: null); arrays and bytes: int32 size (-1: null)
"""

import struct
from typing import Final

from sparklog.coordinator.messages import unsigned_varint

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


TEXT_MAX: Final = 8_000
"""The most characters of an error's text: at up to four bytes each, an int16 has their number."""


def shortened(text: str) -> str:
    """Return the text of an error, cut if the older encoding may not hold it."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]} …"


class Writer:
    """Bytes that grow."""

    __slots__ = ("data", "is_flexible")

    def __init__(self, *, is_flexible: bool) -> None:
        self.data = bytearray()
        self.is_flexible = is_flexible

    def varint(self, value: int) -> None:
        """Append an unsigned varint."""
        self.data += unsigned_varint(value)

    def raw(self, data: bytes | bytearray) -> None:
        """Append bytes as they are."""
        self.data += data

    def boolean(self, value: bool) -> None:
        """Append a bool."""
        self.data += b"\1" if value else b"\0"

    def int8(self, value: int) -> None:
        """Append an int8."""
        self.data += _INT8.pack(value)

    def int16(self, value: int) -> None:
        """Append an int16."""
        self.data += _INT16.pack(value)

    def int32(self, value: int) -> None:
        """Append an int32."""
        self.data += _INT32.pack(value)

    def int64(self, value: int) -> None:
        """Append an int64."""
        self.data += _INT64.pack(value)

    def string(self, value: str | None) -> None:
        """Append a string, or null."""
        data = None if value is None else value.encode()
        if self.is_flexible:
            self.data += b"\0" if data is None else unsigned_varint(len(data) + 1)
        else:
            self.data += _INT16.pack(-1 if data is None else len(data))
        if data is not None:
            self.data += data

    def bytes_(self, value: bytes | None) -> None:
        """Append bytes, or null."""
        self.array(-1 if value is None else len(value))
        self.data += value or b""

    def array(self, count: int) -> None:
        """Append the size of an array; -1 is null."""
        self.data += unsigned_varint(count + 1) if self.is_flexible else _INT32.pack(count)

    def tagged(self, tag: int, field: "Writer") -> None:
        """Append a tagged field."""
        self.varint(tag)
        self.varint(len(field.data))
        self.data += field.data

    def tags(self) -> None:
        """End a struct: no tagged fields."""
        if self.is_flexible:
            self.data += b"\0"
