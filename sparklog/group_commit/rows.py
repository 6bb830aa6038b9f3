"""The records of requests to one topic, as columns with a row for each record.

partition     the one that a record names, else its key's, else a sticky one. With an
              Idempotency-Key the choice is deterministic: records without a key go to
              toPositive(murmur2(Idempotency-Key))
rank          how many earlier rows go to the same partition
content       a checksum of everything in a request: a retry must have the same
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.config.partitioners import BUILT_IN, DEFAULT
from sparklog.errors import UnknownTopicError
from sparklog.log_writer import WritePlan
from sparklog.model import OffsetRange
from sparklog.produce.partitioner import DefaultPartitioner, Partitioner, resolve_partitioner
from sparklog.record.rows import HEADERS_TYPE, RecordColumns

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

FEW: Final = 16
"""Up to this many records without keys are placed without a kernel: its call would take longer."""
RECORD_BYTES: Final = 16
"""The bytes that a record adds to the size of its request, besides key and value."""


@dataclass(slots=True)
class Rows:
    """Records of one request, column by column; None for a field that a record leaves out.

    A header is {"key": str, "value": bytes or None}.
    """

    key: list[bytes | None] = field(default_factory=list)
    value: list[bytes | None] = field(default_factory=list)
    partition: list[int | None] = field(default_factory=list)
    timestamp: list[int | None] = field(default_factory=list)
    headers: list[list[dict[str, Any]] | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values, and RECORD_BYTES for each record."""
        keys = sum(map(len, filter(None, self.key)))
        return keys + sum(map(len, filter(None, self.value))) + RECORD_BYTES * len(self)


class Request(NamedTuple):
    """Records, and the Idempotency-Key that they came with; None without one."""

    rows: Rows
    key: str | None = None


_BY_KEY: Final = resolve_partitioner(DEFAULT, 1, seed=0)
"""A partitioner for records that all have a key: then it has no state."""


def columns_of(requests: Sequence[Request], now_ms: int) -> RecordColumns:
    """Return the records of all requests; those without a timestamp get `now_ms`."""
    parts = [rows for rows, _ in requests]
    headers = [pairs for rows in parts for pairs in rows.headers]
    return RecordColumns(
        key=pa.array([key for rows in parts for key in rows.key], pa.binary()),
        value=pa.array([value for rows in parts for value in rows.value], pa.binary()),
        timestamp=np.array(
            [now_ms if one is None else one for rows in parts for one in rows.timestamp], np.int64
        ),
        headers=pa.array(headers, HEADERS_TYPE) if any(headers) else None,
    )


def partitions_of(
    requests: Sequence[Request],
    columns: Callable[[], RecordColumns],
    plan: WritePlan,
    partitioner: Partitioner,
    count: int,
) -> Int32s:
    """Return each record's partition (int32). Raises UnknownTopicError for a partition >= `count`.

    `columns` returns the records of the requests. It is not called for few records without keys.
    """
    given = [one for rows, _ in requests for one in rows.partition]
    named: Int64s | None = None
    if not given or given.count(None) < len(given):
        named = np.array([-1 if one is None else one for one in given], np.int64)
        _check_named(named, plan, count)
        if (named >= 0).all():
            return named.astype(np.int32)
    elif len(given) <= FEW and isinstance(partitioner, DefaultPartitioner):
        stayed = _stayed(requests, partitioner, count)
        if stayed is not None:
            return np.full(len(given), stayed, np.int32)
    records = columns()
    assigned = partitioner.assign(records, count)
    for key, rows in _keyed(requests):
        some = records.rows(rows.start, rows.stop)
        assigned[rows] = assigned_by_key(plan.partitioner, key, some, count)
    return assigned if named is None else np.where(named >= 0, named, assigned).astype(np.int32)


def _stayed(requests: Sequence[Request], partitioner: DefaultPartitioner, count: int) -> int | None:
    """Return the sticky partition of all records.

    None if it changes within them, if a record has a key, or a request an Idempotency-Key.
    """
    for rows, key in requests:
        if key is not None or rows.key.count(None) < len(rows):
            return None
    sizes = [-1 if value is None else len(value) for rows, _ in requests for value in rows.value]
    return partitioner.stay(sizes, count)


def _check_named(named: Int64s, plan: WritePlan, count: int) -> None:
    if (named >= count).any():
        wrong = int(named.max())
        raise UnknownTopicError(
            f"topic {plan.topic.name!r} has no partition {wrong}: it has 0 to {count - 1}",
            topic=plan.topic.name,
            partition=wrong,
        )


def _keyed(requests: Sequence[Request]) -> Iterator[tuple[str, slice]]:
    """Yield the Idempotency-Keys, each with the slice of its request's rows."""
    start = 0
    for rows, key in requests:
        stop = start + len(rows)
        if key is not None:
            yield key, slice(start, stop)
        start = stop


def assigned_by_key(
    partitioner: str, idempotency_key: str, columns: RecordColumns, num_partitions: int
) -> Int32s:
    """Return the partition of each row of a request with an Idempotency-Key, on any instance.

    A record's key decides; for records without a key, and for topics whose partitioner ignores
    keys, the Idempotency-Key decides. A partitioner of the user's own is called as it is.
    """
    if partitioner not in BUILT_IN:
        return resolve_partitioner(partitioner, 1, seed=0).assign(columns, num_partitions)
    ignores_keys = partitioner != DEFAULT
    key = pa.nulls(len(columns), pa.binary()) if ignores_keys else columns.key
    named = key.fill_null(idempotency_key.encode())
    return _BY_KEY.assign(RecordColumns(named, columns.value, columns.timestamp), num_partitions)


def ranks_of(partitions: Int32s, count: int) -> Int64s:
    """Return, for each row, how many earlier rows go to the same partition."""
    if len(partitions) == 1:
        return np.zeros(1, np.int64)
    order = np.argsort(partitions, kind="stable")
    sizes = np.bincount(partitions, minlength=count)
    ranks = np.empty(len(partitions), np.int64)
    ranks[order] = np.arange(len(partitions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks


def key_spans(
    requests: Sequence[Request], partitions: Int32s, ranks: Int64s
) -> dict[str, list[OffsetRange]]:
    """Return, by Idempotency-Key, a range of ranks for each partition of its records."""
    spans: dict[str, list[OffsetRange]] = {}
    for key, rows in _keyed(requests):
        found, first, counts = np.unique(partitions[rows], return_index=True, return_counts=True)
        starts = ranks[rows][first]
        places = zip(found.tolist(), starts.tolist(), (starts + counts).tolist(), strict=True)
        spans[key] = [OffsetRange(*place) for place in places]
    return spans


_NUMBER: Final = struct.Struct(">q")
_NULL: Final = _NUMBER.pack(-1)


def content_crc32c(rows: Rows) -> int:
    """Return a CRC-32C of all fields of a request's records, in their order.

    Each key, value and header has its length in front of it, -1 for null; each list its number of
    elements. A partition or time that the request leaves open counts as -1.
    """
    parts = [_NUMBER.pack(len(rows))]
    for key, value, partition, timestamp, headers in zip(
        rows.key, rows.value, rows.partition, rows.timestamp, rows.headers, strict=True
    ):
        parts += (*_sized(key), *_sized(value))
        parts.append(_NULL if partition is None else _NUMBER.pack(partition))
        parts.append(_NULL if timestamp is None else _NUMBER.pack(timestamp))
        parts.append(_NUMBER.pack(len(headers or ())))
        for header in headers or ():
            parts += (*_sized(header["key"].encode()), *_sized(header["value"]))
    return int(google_crc32c.value(b"".join(parts)))


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if data is None else (_NUMBER.pack(len(data)), data)
