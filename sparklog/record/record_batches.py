"""Decoded records as Arrow record batches with the columns of Spark's Kafka source."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.record.arrays import array_of, numbers_of
from sparklog.record.decode import ALL, DecodedRecords

_HEADER_ARROW = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

ARROW_HEADERS: Final = pa.list_(pa.field("element", _HEADER_ARROW))
ARROW_COLUMNS: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": ARROW_HEADERS,
}

MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000
"""The largest time (ms) of Spark's timestamps."""
_MIN_TIMESTAMP_MS: Final = -MAX_TIMESTAMP_MS

_DECODED: Final = {name: name for name in ALL} | {"timestampType": "timestamp_type"}
"""Columns that have to be decoded, and the decoder's names for them."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of columns; Spark takes no other types from a Python data source."""
    return pa.schema([pa.field(name, ARROW_COLUMNS[name]) for name in columns])


def decoded_columns(columns: Sequence[str]) -> set[str]:
    """Return the decoder's names of `columns`; the offset is always one: the next read needs it."""
    return {"offset", *(_DECODED[name] for name in columns if name in _DECODED)}


class BatchMaker:
    """Makes Arrow record batches with the given columns from one partition's decoded records."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str]) -> None:
        self._schema = arrow_schema(columns)
        made: dict[str, Callable[[DecodedRecords], pa.Array]] = {
            "key": lambda records: records.key,
            "value": lambda records: records.value,
            "topic": lambda records: _constant_text(topic, records.num_rows),
            "partition": lambda records: _constant_int(partition, records.num_rows),
            "offset": lambda records: records.offset,
            "timestamp": lambda records: _microseconds(records.timestamp),
            "timestampType": lambda records: records.timestamp_type,
            "headers": lambda records: records.headers.cast(ARROW_HEADERS),
        }
        self._columns = [made[name] for name in columns]

    def __call__(self, records: DecodedRecords) -> pa.RecordBatch:
        """Return one Arrow record batch with a row for each record."""
        return pa.RecordBatch.from_arrays(
            [column(records) for column in self._columns], schema=self._schema
        )


@lru_cache(maxsize=4)
def _constant_text(text: str, count: int) -> pa.Array:
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@lru_cache(maxsize=4)
def _constant_int(value: int, count: int) -> pa.Array:
    return array_of(np.full(count, value, np.int32))


def _microseconds(milliseconds: pa.Array) -> pa.Array:
    """Return Spark's timestamps (us); a time out of their range becomes the nearest one in it."""
    values = np.clip(numbers_of(milliseconds), _MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS) * 1000
    return array_of(values).view(ARROW_COLUMNS["timestamp"])
