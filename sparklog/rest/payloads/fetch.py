"""Fetch: the records of one partition from an offset on, in three formats.

    JSON     v2 records with base64 or JSON inside    decoded a chunk at a time
    Arrow    a stream of record batches               decoded likewise, as columns
    raw      Kafka record batches                     never decoded (sparklog.log_reader.raw)

Each format is an iterator of bytes, so a fetch of any size takes the memory of one chunk. An answer
ends before a damaged place; a fetch that begins at the damaged place fails.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.raw import raw_batches
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.state.image import Slice
from sparklog.model import READ_UNCOMMITTED
from sparklog.record.columns import DecodedRecords
from sparklog.record.rows import HEADERS_TYPE
from sparklog.rest.errors import FORMAT_MISMATCH, ApiError
from sparklog.rest.payloads.media_types import ARROW, BINARY, JSON, PLAIN_JSON, RAW, V2
from sparklog.storage.files import flat_view

FORMS: Final = (BINARY, JSON, ARROW, RAW)

_QUALITY: Final = re.compile(r"[01](\.[0-9]{0,3})?")
_GENERIC: Final = (
    "*/*",
    "application/*",
    PLAIN_JSON,
    "application/vnd.kafka+json",
    V2,
)
_END_OF_STREAM: Final = bytes.fromhex("ffffffff00000000")
CHUNK_ROWS: Final = 2_000
"""The most records that are decoded and written at once."""

ARROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)


def form_of(accept: str) -> str:
    """Return the format that an Accept header asks for. Raises ApiError (406) if there is none."""
    wanted = [_quality(part) for part in accept.split(",") if part.strip()]
    refused = {kind for quality, kind in wanted if not quality}
    left = [form for form in FORMS if form not in refused and "application/*" not in refused]
    for _, kind in sorted(wanted, key=lambda one: -one[0]):
        if kind in left:
            return kind
        if kind in _GENERIC and kind not in refused and left:
            return left[0]
    if not wanted:
        return BINARY
    raise ApiError(406, f"records come as {', '.join(FORMS)}")


def _quality(part: str) -> tuple[float, str]:
    kind, *parameters = part.split(";")
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "q" and _QUALITY.fullmatch(value):
            quality = float(value)
    return quality, kind.strip().lower()


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch of one partition: from offset `start` on, up to its limits.

    `max_bytes` counts keys, values and headers, or for `raw` whole batches.
    """

    reader: TopicReader
    partition: int
    start: int
    max_bytes: int
    max_records: int
    isolation: str = READ_UNCOMMITTED

    @property
    def slices(self) -> Iterator[Slice]:
        """The slices from `start` to the log end, with read_committed to the last stable offset.

        Raises OffsetOutOfRangeError.
        """
        log = self.reader.partition(self.partition)
        return log.slices(self.start, max(self.start, log.end_offset(self.isolation)))

    def raw(self) -> Iterator[memoryview]:
        """Yield record batches, at least one if there is any. Raises as `raw_batches`."""
        return raw_batches(
            self.reader.files,
            self.reader.directory,
            self.slices,
            self.max_bytes,
            isolation=self.isolation,
        )

    def records(self) -> Iterator[DecodedRecords]:
        """Yield records within the limits, at least one if there is any.

        Raises as `read_slices`.
        """
        left, left_bytes, is_first = self.max_records, self.max_bytes, True
        rows_max = min(CHUNK_ROWS, self.max_records)
        for found in read_slices(
            self.reader.files,
            self.reader.directory,
            self.slices,
            rows_max=rows_max,
            isolation=self.isolation,
        ):
            ends = _record_ends(found)
            count = int(ends.searchsorted(left_bytes, "right"))
            count = min(max(count, int(is_first)), left)
            if count:
                yield found.slice(0, count)
            if count < found.num_rows or count == left:
                return
            left, left_bytes, is_first = left - count, left_bytes - int(ends[-1]), False


def _record_ends(found: DecodedRecords) -> np.ndarray:
    """Return the bytes of keys, values and headers up to each record, as int64."""
    ends: np.ndarray = (_sizes(found.key) + _sizes(found.value)).cumsum()
    if found.headers.null_count < found.num_rows:
        headers = found.headers.flatten()
        sizes = sum(_sizes(headers.field(number)) for number in range(headers.type.num_fields))
        of_headers = np.concatenate([[0], np.cumsum(sizes)])
        counts = pc.list_value_length(found.headers).fill_null(0).to_numpy()
        ends += of_headers[counts.cumsum()]
    return ends


def _sizes(column: pa.Array) -> np.ndarray:
    sizes: np.ndarray = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return sizes


def body_in(form: str, wanted: Fetch) -> Iterator[bytes | memoryview]:
    """Return the body in a format. Its first part is made at once: an error there is answered.

    Raises the errors of reading, and ApiError (406) for a record that is not JSON.
    """
    if form == RAW:
        return _until_damage(wanted.raw())
    if form == ARROW:
        return _arrow(wanted.partition, _until_damage(wanted.records()))
    rows = _json_parts(wanted, is_json=form == JSON)
    return _joined(_until_damage(rows))


def _until_damage(parts: Iterator[Any]) -> Iterator[Any]:
    """Yield the parts; raise an error only if it comes before the first part."""
    first = next(parts, None)
    return iter(()) if first is None else _rest(first, parts)


def _rest(first: Any, parts: Iterator[Any]) -> Iterator[Any]:
    yield first
    while True:
        try:
            yield next(parts)
        except (StopIteration, SparklogError, ApiError):
            return


def _joined(parts: Iterator[bytes]) -> Iterator[bytes]:
    separator = b"["
    for part in parts:
        yield separator + part
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def _json_parts(wanted: Fetch, *, is_json: bool) -> Iterator[bytes]:
    topic, partition = wanted.reader.topic.name, wanted.partition
    for found in wanted.records():
        offsets = found.offset.to_pylist()
        keys, values = found.key.to_pylist(), found.value.to_pylist()
        if is_json:
            keys, values = _parsed(keys, offsets, "key"), _parsed(values, offsets, "value")
        else:
            keys, values = _encoded(keys), _encoded(values)
        rows = [
            {
                "topic": topic,
                "key": key,
                "value": value,
                "partition": partition,
                "offset": offset,
                "timestamp": timestamp,
            }
            for key, value, offset, timestamp in zip(
                keys, values, offsets, found.timestamp.to_pylist(), strict=True
            )
        ]
        if found.headers.null_count < found.num_rows:
            _add_headers(rows, found.headers.to_pylist())
        yield orjson.dumps(rows)[1:-1]


def _encoded(data: Sequence[bytes | None]) -> list[str | None]:
    return [None if one is None else b2a_base64(one, newline=False).decode() for one in data]


def _parsed(data: Sequence[bytes | None], offsets: Sequence[int], part: str) -> list[Any]:
    """Return JSON as it was stored: if it were parsed, large integers would be rounded."""
    for one, offset in zip(data, offsets, strict=True):
        try:
            if one is not None:
                orjson.loads(one)
        except ValueError:
            raise ApiError(
                FORMAT_MISMATCH, f"the {part} at offset {offset} is no JSON: ask for {BINARY}"
            ) from None
    return [None if one is None else orjson.Fragment(one) for one in data]


def _add_headers(rows: list[dict[str, Any]], headers: list[Any]) -> None:
    for row, pairs in zip(rows, headers, strict=True):
        if pairs is not None:
            row["headers"] = [
                {"key": pair["key"], "value": _encoded([pair["value"]])[0]} for pair in pairs
            ]


def _arrow(partition: int, parts: Iterator[DecodedRecords]) -> Iterator[memoryview]:
    """Yield an IPC stream: a message with the schema, one for each batch, and the end."""
    yield flat_view(ARROW_SCHEMA.serialize())
    for found in parts:
        batch = pa.record_batch(
            [
                found.key,
                found.value,
                pa.array(np.full(found.num_rows, partition, np.int32)),
                found.offset,
                found.timestamp,
                found.timestamp_type,
                found.headers,
            ],
            schema=ARROW_SCHEMA,
        )
        yield flat_view(batch.serialize())
    yield flat_view(_END_OF_STREAM)
