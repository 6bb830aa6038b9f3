"""Arrow columns as the kernels take them: checked, cast, and viewed without a copy."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.errors import SchemaError
from sparklog.record.kernels.columns import BinaryColumn, HeaderColumn, Rows

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of headers: an ordered list, in which a key may occur several times, as in Kafka."""

_BINARY: Final = pa.binary()
_NO_BYTES: Final = np.frombuffer(b"", np.uint8)
_NO_OFFSETS: Final = np.frombuffer(b"", np.int32)
_NO_NUMBERS: Final = np.frombuffer(b"", np.int64)
_NO_BINARY: Final = BinaryColumn(_NO_OFFSETS, _NO_BYTES, _NO_BYTES, 0)
_NO_HEADERS: Final = HeaderColumn(_NO_OFFSETS, _NO_BYTES, 0, _NO_BINARY, _NO_BINARY)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records to write, one per row.

    `key` and `value` are Arrow arrays of binary or string (also large, view, fixed size or
    dictionary-encoded). `headers` is a list of structs of a string `key` and a binary `value`.
    Slices are allowed. `timestamp` is int64, milliseconds since the epoch, -1 for none. `offset` is
    int64 if the records have offsets of their own, which grow within a stream; else None.
    """

    key: pa.Array
    value: pa.Array
    timestamp: NDArray[np.int64]
    headers: pa.Array | None = None
    offset: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.timestamp)

    def rows(self, start: int, stop: int) -> "RecordColumns":
        """Return the rows [start, stop), not copied."""
        count = stop - start
        return RecordColumns(
            self.key.slice(start, count),
            self.value.slice(start, count),
            self.timestamp[start:stop],
            None if self.headers is None else self.headers.slice(start, count),
            None if self.offset is None else self.offset[start:stop],
        )


def kernel_rows(columns: RecordColumns, stream: NDArray[np.int32] | None) -> Rows:
    """Return the columns as kernels take them; without `stream` all rows belong to stream 0.

    Raises SchemaError for a column of another type or length, or of more than 2 GiB.
    """
    count = len(columns)
    streams = np.zeros(count, np.int32) if stream is None else stream
    named = {
        "key": columns.key,
        "value": columns.value,
        "partition": streams,
        "headers": columns.headers,
        "offset": columns.offset,
    }
    for name, column in named.items():
        if column is not None and len(column) != count:
            raise SchemaError(f"column {name} has {len(column)} rows, timestamp has {count}")
    return Rows(
        stream=_readonly(np.ascontiguousarray(streams, np.int32)),
        timestamp=_int64s(columns.timestamp),
        key=binary_column(columns.key, "key"),
        value=binary_column(columns.value, "value"),
        headers=_NO_HEADERS if columns.headers is None else header_column(columns.headers),
        offset=_NO_NUMBERS if columns.offset is None else _int64s(columns.offset),
    )


def binary_column(array: pa.Array, name: str) -> BinaryColumn:
    """Return the bytes of an Arrow array of binary, string or null.

    Raises SchemaError, with the column's `name`, for another type or more than 2 GiB.
    """
    if array.type != _BINARY:
        if not _holds_bytes(array.type):
            raise SchemaError(f"column {name} is {array.type}, it must be binary or string")
        array = _cast(array, _BINARY, name)
    validity, offsets, data = array.buffers()
    return BinaryColumn(
        _offsets(array, offsets),
        _NO_BYTES if data is None else _readonly(np.frombuffer(data, np.uint8)),
        _validity(array, validity),
        array.offset,
    )


def header_column(array: pa.Array) -> HeaderColumn:
    """Return the headers of an Arrow array of lists of structs of `key` and `value`.

    A header that is null itself counts as one with a null key. Raises SchemaError for another type.
    """
    if not _holds_headers(array.type):
        raise SchemaError(
            f"column headers is {array.type}, it must be array<struct<key: string, value: binary>>"
        )
    if pa.types.is_null(array.type):
        return _NO_HEADERS
    array = _cast(array, HEADERS_TYPE, "headers")
    validity, offsets = array.buffers()[:2]
    pairs = array.values
    keys, values = pairs.field("key"), pairs.field("value")
    if pairs.null_count:
        import pyarrow.compute as pc

        keys = pc.if_else(pairs.is_valid(), keys, None)
    return HeaderColumn(
        _offsets(array, offsets),
        _validity(array, validity),
        array.offset,
        binary_column(keys, "headers.key"),
        binary_column(values, "headers.value"),
    )


def _cast(array: pa.Array, target: pa.DataType, name: str) -> pa.Array:
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise SchemaError(f"column {name} ({array.type}) cannot be {target}: {error}") from None


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    tests = (
        pa.types.is_binary,
        pa.types.is_string,
        pa.types.is_large_binary,
        pa.types.is_large_string,
        pa.types.is_binary_view,
        pa.types.is_string_view,
        pa.types.is_fixed_size_binary,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def _holds_headers(kind: pa.DataType) -> bool:
    if pa.types.is_null(kind):
        return True
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    pair = kind.value_type
    if not pa.types.is_struct(pair) or {field.name for field in pair} != {"key", "value"}:
        return False
    return all(_holds_bytes(field.type) for field in pair)


def _offsets(array: pa.Array, offsets: pa.Buffer) -> NDArray[np.int32]:
    if len(array) == 0:
        return _readonly(np.zeros(1, np.int32))
    numbers = np.frombuffer(offsets, np.int32)
    return _readonly(numbers[array.offset : array.offset + len(array) + 1])


def _validity(array: pa.Array, bitmap: pa.Buffer | None) -> NDArray[np.uint8]:
    if bitmap is None or array.null_count == 0:
        return _NO_BYTES
    return _readonly(np.frombuffer(bitmap, np.uint8))


def _int64s(array: NDArray[np.int64]) -> NDArray[np.int64]:
    return _readonly(np.ascontiguousarray(array, np.int64))


def _readonly(array: NDArray[Any]) -> NDArray[Any]:
    # Kernels are compiled for read-only, aligned arrays, and refuse others. Arrow aligns its own
    # buffers; a buffer from elsewhere may lie anywhere.
    flags = array.flags
    if flags.aligned and not flags.writeable:
        return array
    view = array.view() if flags.aligned else array.copy()
    view.setflags(write=False)
    return view
