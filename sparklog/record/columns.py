"""Arrow columns from the buffers that kernels have filled, without a copy, for `decode`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.errors import UsageError
from sparklog.record.arrays import array_of
from sparklog.record.kernels import decode as kernels
from sparklog.record.rows import HEADERS_TYPE

Bytes = NDArray[np.uint8]

ALL: Final = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")
"""The columns of records."""
SIZES: Final = ("key_size", "value_size")
"""Columns of `decode` for callers that need the sizes of keys and values, not the bytes."""
COLUMN_BYTES_MAX: Final = 2**31 - 1
"""The largest size of an Arrow binary array, which counts bytes in int32."""

_FLAGS: Final = {
    "key": kernels.KEY,
    "value": kernels.VALUE,
    "offset": kernels.OFFSETS,
    "timestamp": kernels.TIMESTAMP,
    "timestamp_type": kernels.TIMESTAMP_TYPE,
    "headers": kernels.HEADERS,
    "key_size": kernels.SIZES,
    "value_size": kernels.SIZES,
}
VARIABLE_SIZE: Final = kernels.KEY | kernels.VALUE | kernels.HEADERS


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRecords:
    """Records as Arrow arrays of one length; a column that was not asked for is None.

    `key` and `value` are binary, null where the record has none; `offset` is int64; `timestamp` is
    int64, milliseconds since the epoch, -1 for none; `timestamp_type` is int32, the numbers of
    TimestampType; `headers` is list<struct<key: string, value: binary>>, null where a record has
    none; `key_size` and `value_size` are int32, -1 for null.
    """

    num_rows: int
    key: pa.Array = None
    value: pa.Array = None
    offset: pa.Array = None
    timestamp: pa.Array = None
    timestamp_type: pa.Array = None
    headers: pa.Array = None
    key_size: pa.Array = None
    value_size: pa.Array = None

    def slice(self, start: int, count: int) -> "DecodedRecords":
        """Return `count` rows from row `start` on, fewer if there are fewer; copies no byte."""
        columns = {
            name: column.slice(start, count)
            for name in (*ALL, *SIZES)
            if (column := getattr(self, name)) is not None
        }
        return DecodedRecords(len(range(start, self.num_rows)[:count]), **columns)


def flags_of(columns: Collection[str]) -> int:
    """Return the kernels' flags of column names. Raises UsageError for an unknown name."""
    flags = 0
    for name in columns:
        if name not in _FLAGS:
            raise UsageError(f"no column {name!r}; a record has {', '.join(ALL)}")
        flags |= _FLAGS[name]
    return flags


def check_size(size: int) -> None:
    """Raise UsageError if the records of a call have more bytes than an Arrow array can hold."""
    if size > COLUMN_BYTES_MAX:
        raise UsageError(
            f"these batches hold {size} bytes of records or more; at most {COLUMN_BYTES_MAX} fit "
            "into Arrow arrays: decode fewer batches per call"
        )


class ColumnBuilder:
    """Buffers for `rows` records whose keys and values take at most `size` bytes together."""

    def __init__(self, wanted: int, rows: int, size: int) -> None:
        self._wanted = wanted
        self.counters = np.zeros(kernels.NUM_COUNTERS, np.int64)

        def numbers(flag: int, kind: type[np.generic]) -> NDArray[Any]:
            return _memory(rows if wanted & flag else 0, kind)

        def binary(flag: int) -> kernels.BinarySink:
            return _binary_sink(rows, size) if wanted & flag else _binary_sink(-1, 0)

        self.sinks = kernels.Sinks(
            offset=numbers(kernels.OFFSETS, np.int64),
            timestamp=numbers(kernels.TIMESTAMP, np.int64),
            timestamp_type=numbers(kernels.TIMESTAMP_TYPE, np.int32),
            headers_at=numbers(kernels.HEADERS, np.int64),
            key_size=numbers(kernels.SIZES, np.int32),
            value_size=numbers(kernels.SIZES, np.int32),
            key=binary(kernels.KEY),
            value=binary(kernels.VALUE),
        )

    def finish(self, rows: int, headers: pa.Array | None) -> DecodedRecords:
        """Return the first `rows` rows of the buffers as columns."""

        def column(flag: int, make: Callable[[], pa.Array]) -> pa.Array | None:
            return make() if self._wanted & flag else None

        sinks = self.sinks
        return DecodedRecords(
            rows,
            column(kernels.KEY, lambda: _binary_array(sinks.key, rows, pa.binary())),
            column(kernels.VALUE, lambda: _binary_array(sinks.value, rows, pa.binary())),
            column(kernels.OFFSETS, lambda: array_of(sinks.offset[:rows])),
            column(kernels.TIMESTAMP, lambda: array_of(sinks.timestamp[:rows])),
            column(kernels.TIMESTAMP_TYPE, lambda: array_of(sinks.timestamp_type[:rows])),
            headers,
            column(kernels.SIZES, lambda: array_of(sinks.key_size[:rows])),
            column(kernels.SIZES, lambda: array_of(sinks.value_size[:rows])),
        )


def gather_headers(builder: ColumnBuilder, rows: int, log: Bytes, decompressed: Bytes) -> pa.Array:
    """Return the headers of the rows that a kernel has written; their keys may not be UTF-8."""
    total, size = builder.counters[[kernels.HEADER_TOTAL, kernels.HEADER_BYTES]].tolist()
    if total == 0:
        return pa.nulls(rows, HEADERS_TYPE)
    sinks = kernels.HeaderSinks(
        ends=np.zeros(rows + 1, np.int32),
        valid=_all_ones(rows),
        key=_binary_sink(total, size),
        value=_binary_sink(total, size),
    )
    headers_at = builder.sinks.headers_at[:rows]
    headers_at.setflags(write=False)
    kernels.gather_headers(log, decompressed, headers_at, sinks)
    pairs = pa.StructArray.from_arrays(
        [
            _binary_array(sinks.key, total, pa.string()),
            _binary_array(sinks.value, total, pa.binary()),
        ],
        fields=list(HEADERS_TYPE.value_type),
    )
    buffers = [_validity(sinks.valid, rows), pa.py_buffer(sinks.ends)]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, children=[pairs])


def first_invalid_key(headers: pa.Array) -> int | None:
    """Return the first row with a header key that is not UTF-8; None if all are UTF-8."""
    keys = headers.values.field("key")
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        ends = np.frombuffer(headers.buffers()[1], np.int32)
        raw = keys.view(pa.binary())
        bad = next(i for i, key in enumerate(raw.to_pylist()) if not _is_utf8(key))
        return int(np.searchsorted(ends, bad, "right")) - 1
    return None


def concat(parts: list[DecodedRecords]) -> DecodedRecords:
    """Return the rows of `parts`, at least one, one part after another."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: pa.concat_arrays([getattr(part, name) for part in parts])
        for name in (*ALL, *SIZES)
        if getattr(parts[0], name) is not None
    }
    return DecodedRecords(sum(part.num_rows for part in parts), **columns)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _binary_sink(rows: int, size: int) -> kernels.BinarySink:
    ends = _memory(rows + 1, np.int32)
    ends[:1] = 0
    return kernels.BinarySink(ends, _memory(size, np.uint8), _all_ones(max(rows, 0)))


def _all_ones(rows: int) -> Bytes:
    bits = _memory((rows + 7) // 8, np.uint8)
    bits.fill(0xFF)
    return bits


def _memory(count: int, kind: type[np.generic]) -> NDArray[Any]:
    # From Arrow's pool, which keeps the pages that earlier arrays have given back. numpy gets new
    # pages from the system each time, which takes longer than decoding into them.
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def _validity(valid: Bytes, rows: int) -> pa.Buffer | None:
    """Return the validity bitmap; None if no row is null."""
    # The bits behind the last row are ones as well.
    return None if (valid[: (rows + 7) // 8] == 0xFF).all() else pa.py_buffer(valid)


def _binary_array(sink: kernels.BinarySink, rows: int, kind: pa.DataType) -> pa.Array:
    ends = sink.ends[: rows + 1]
    data = sink.data[: ends[rows]]
    buffers = [_validity(sink.valid, rows), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers)
