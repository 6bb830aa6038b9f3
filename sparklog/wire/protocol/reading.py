"""Reader: the body of a request, field by field, in the two encodings of `Writer`.

It is for requests that come often: parsing one into kio's object takes longer than all other work
on it.
"""

import struct
from typing import Any, Final

from sparklog.errors import InvalidRequestError
from sparklog.wire.protocol.headers import checked_tags, read_varint

ITEMS_MAX: Final = 1_000_000
"""The most items of all arrays of a request: an item of three bytes takes a hundred in memory, and
more when it is answered."""

_UINT8: Final = struct.Struct(">B")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UUID: Final = struct.Struct("16s")


class ManyItemsError(Exception):
    """Arrays have more items than a reader takes; they are read beside the event loop then."""


def checked_items(count: int, most: int = ITEMS_MAX) -> int:
    """Return the number of items of a request so far.

    Raises InvalidRequestError for more than ITEMS_MAX, else ManyItemsError for more than `most`.
    """
    if count > ITEMS_MAX:
        raise InvalidRequestError(f"{count} items in arrays: a request has at most {ITEMS_MAX}")
    if count > most:
        raise ManyItemsError
    return count


class Reader:
    """Reads a body from its start. Each method raises InvalidRequestError if the body is cut.

    `data` is the whole frame, `at` the position of the next field.
    """

    __slots__ = ("_items", "_items_max", "at", "data", "is_flexible")

    def __init__(
        self, frame: memoryview, at: int, *, is_flexible: bool, items_max: int = ITEMS_MAX
    ) -> None:
        """The body begins at position `at` of the frame; all arrays have at most `items_max`."""
        self.data = frame
        self.at = at
        self.is_flexible = is_flexible
        self._items = 0
        self._items_max = items_max

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers, as `layout` unpacks them."""
        at = self.at
        self.at = at + layout.size
        try:
            return layout.unpack_from(self.data, at)
        except struct.error:
            raise self._cut(layout.size, at) from None

    def string(self) -> str:
        """Return a string. Raises InvalidRequestError for null."""
        found = self.string_or_null()
        if found is None:
            raise InvalidRequestError(f"null before position {self.at}: a string is allowed")
        return found

    def string_or_null(self) -> str | None:
        """Return a string, or None for null. Raises InvalidRequestError for invalid UTF-8."""
        size = self._varint() - 1 if self.is_flexible else int(self.numbers(_INT16)[0])
        if size < 0:
            return None
        at = self.at
        end = self.at = at + size
        if end > len(self.data):
            raise self._cut(size, at)
        try:
            return str(self.data[at:end], "utf-8")
        except UnicodeDecodeError:
            raise InvalidRequestError(f"the string at position {at} is no UTF-8") from None

    def bytes_or_null(self) -> memoryview | None:
        """Return bytes as they lie in the frame, not copied; None for null."""
        size = self._varint() - 1 if self.is_flexible else int(self.numbers(_INT32)[0])
        if size < 0:
            return None
        at = self.at
        end = self.at = at + size
        if end > len(self.data):
            raise self._cut(size, at)
        return self.data[at:end]

    def uuid(self) -> bytes:
        """Return the 16 bytes of a UUID."""
        return bytes(self.numbers(_UUID)[0])

    def boolean(self) -> bool:
        """Return a bool. Raises InvalidRequestError for another byte than 0 and 1."""
        (found,) = self.numbers(_UINT8)
        if found not in (0, 1):
            raise InvalidRequestError(f"{found} at position {self.at - 1}: a bool is 0 or 1")
        return bool(found)

    def array_or_null(self, least_bytes: int) -> int | None:
        """Return the number of items of an array, or None for null. Raises as `array`."""
        start = self.at
        if (self._varint() if self.is_flexible else self.numbers(_INT32)[0] + 1) == 0:
            return None
        self.at = start
        return self.array(least_bytes)

    def array(self, least_bytes: int) -> int:
        """Return the number of items of an array, each of which takes `least_bytes` or more.

        Raises InvalidRequestError for null and for more items than the body has bytes for; raises
        as `checked_items` for too many in all arrays.
        """
        count = self._varint() - 1 if self.is_flexible else int(self.numbers(_INT32)[0])
        left = len(self.data) - self.at
        if not 0 <= count * least_bytes <= left:
            raise InvalidRequestError(
                f"an array of {count} items at position {self.at}: {left} bytes follow, and an "
                f"item takes {least_bytes} or more"
            )
        self._items = checked_items(self._items + count, self._items_max)
        return count

    def tags(self) -> None:
        """Skip the tagged fields at the end of a struct: no tag is known here."""
        if not self.is_flexible:
            return
        if self.at < len(self.data) and not self.data[self.at]:  # mostly there are none
            self.at += 1
            return
        for _ in range(checked_tags(self._varint())):
            self._varint()
            size, at = self._varint(), self.at
            self.at = at + size
            if self.at > len(self.data):
                raise self._cut(size, at)

    def _varint(self) -> int:
        data, at = self.data, self.at
        if at < len(data) and (first := data[at]) < 0x80:
            self.at = at + 1
            return first
        value, self.at = read_varint(data, at)
        return value

    def _cut(self, size: int, at: int) -> InvalidRequestError:
        return InvalidRequestError(f"a field of {size} bytes at position {at}: the body is cut")
