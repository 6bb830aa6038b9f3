"""A record as plain Python values, and the way from and to Arrow columns."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Headers = tuple[tuple[str, bytes | None], ...]

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Record(NamedTuple):
    """What a reader hands out. `headers` is empty when the record has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_type: int = 0


def header_column(records: Iterable[Record]) -> Any:
    """Return the headers as Arrow: null where a record has none."""
    rows = [
        [{"key": key, "value": value} for key, value in record.headers] or None
        for record in records
    ]
    return pa.array(rows, HEADERS_TYPE)


def binary_column(values: Iterable[bytes | None]) -> Any:
    """Return keys or values as Arrow binary."""
    return pa.array(list(values), pa.binary())


def timestamps(records: Sequence[Record]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the timestamps as the writers take them."""
    return np.array([record.timestamp for record in records], np.int64)


def rows(decoded: Any) -> list[Record]:
    """Return decoded columns, all six of them, as records."""
    names = ("offset", "timestamp", "key", "value", "headers", "timestamp_type")
    columns = [getattr(decoded, name).to_pylist() for name in names]
    return [
        Record(offset, timestamp, key, value, _headers(headers), timestamp_type)
        for offset, timestamp, key, value, headers, timestamp_type in zip(*columns, strict=True)
    ]


def _headers(cell: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in cell or ())
