"""Arrow columns to record batches (magic 2): one pass over the rows, one output per stream."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnknownTopicError,
)
from sparklog.model import Codec
from sparklog.record import layout
from sparklog.record.batch_settings import BatchSettings
from sparklog.record.batches import NUM_COLUMNS, BatchTable
from sparklog.record.checksum import put_checksums
from sparklog.record.codecs.compression import Compressor, compressor
from sparklog.record.kernels import columns as table
from sparklog.record.kernels import encode as kernels
from sparklog.record.rows import RecordColumns, kernel_rows

__all__ = [
    "BatchSettings",
    "EncodedBatches",
    "EncodedStream",
    "RecordColumns",
    "encode",
    "encode_batches",
]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedStream:
    """The batches of one stream, back to back."""

    stream: int
    data: NDArray[np.uint8]
    batches: BatchTable
    """Their positions are positions in `data`."""
    record_count: int
    min_timestamps: NDArray[np.int64]
    """For each batch the smallest timestamp (ms) that a reader sees; -1 if a record has none."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBatches:
    """The batches of all streams: stream after stream, each with its batches in order.

    `matrix` has the rows of a BatchTable, with positions in `data`. `batch_counts` and `row_counts`
    have an entry for each stream, `min_timestamps` one for each batch, as in `EncodedStream`.
    """

    data: NDArray[np.uint8]
    matrix: NDArray[np.int64]
    batch_counts: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    min_timestamps: NDArray[np.int64]


def encode(
    columns: RecordColumns,
    stream: NDArray[np.int32] | None,
    num_streams: int,
    base_offsets: NDArray[np.int64],
    settings: BatchSettings,
    leader_epochs: NDArray[np.int64] | None = None,
) -> list[EncodedStream]:
    """Return the streams that got rows, by number. Takes and raises as `encode_batches`."""
    return _streams(
        encode_batches(columns, stream, num_streams, base_offsets, settings, leader_epochs)
    )


def encode_batches(
    columns: RecordColumns,
    stream: NDArray[np.int32] | None,
    num_streams: int,
    base_offsets: NDArray[np.int64],
    settings: BatchSettings,
    leader_epochs: NDArray[np.int64] | None,
) -> EncodedBatches:
    """Write row i to stream `stream[i]` (0 if `stream` is None), in the order of the rows.

    Stream s begins at offset `base_offsets[s]` and has no gaps, unless the rows have offsets of
    their own: then a batch goes from its first row's offset to its last row's. A batch takes
    records while it stays within `batch_bytes` before compression, and at least one. Batches of
    stream s have the leader epoch `leader_epochs[s]`, if given, else that of the settings. The call
    needs about as much memory as the rows have, whatever the number of streams is.

    Raises SchemaError for a column of a wrong type, UnknownTopicError for a stream outside [0,
    num_streams), InvalidTimestampError for a timestamp below -1, InvalidRecordError for a header
    without a key, RecordTooLargeError if a batch of a single record would exceed
    `max_message_bytes`, or before compression BATCH_BYTES_MAX: no reader would take it. Each error
    except SchemaError has the number of the row.
    """
    rows = kernel_rows(columns, stream)
    totals = np.zeros((num_streams, kernels.NUM_TOTALS), np.int64)
    problem, row, size = kernels.measure(rows, settings.single_max, totals)
    if problem != kernels.OK:
        _refuse(problem, row, size, settings, columns, rows.stream, num_streams)
    batch_bytes = min(settings.batch_bytes, settings.uncompressed_max)
    out, entries, batch_counts = _write(rows, totals, batch_bytes)
    if settings.codec != Codec.NONE:
        out = _compressed(out, entries, compressor(settings.codec, settings.level))
        _check_sizes(entries, settings.max_message_bytes)
    row_counts = totals[:, kernels.TOTAL_ROWS]
    # The rows of all streams, one stream after another, have the numbers 0, 1 and so on.
    shifts = np.repeat(base_offsets - _before(row_counts), batch_counts)
    matrix = _matrix(rows, entries, shifts, settings)
    if leader_epochs is None:
        matrix[table.LEADER_EPOCH] = settings.leader_epoch
    else:
        matrix[table.LEADER_EPOCH] = np.repeat(leader_epochs, batch_counts)
    kernels.put_headers(matrix, out)
    put_checksums(out, BatchTable.from_matrix(matrix))
    least = (
        matrix[table.MAX_TIMESTAMP]
        if settings.is_append_time
        else entries[:, kernels.ENTRY_MINIMUM].copy()
    )
    return EncodedBatches(out, matrix, batch_counts, row_counts, least)


def _write(
    rows: table.Rows, totals: NDArray[np.int64], batch_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Write the records; return the bytes, the batches, and how many each stream has.

    The batches are in the order of their streams, uncompressed and still without headers.
    """
    counts, sizes = totals[:, kernels.TOTAL_ROWS], totals[:, kernels.TOTAL_BYTES]
    # A batch ends when the next record would make it too large: two batches in a row have more
    # than `room`. With own offsets, a gap may end any batch.
    room = max(batch_bytes - layout.RECORDS, 1)
    entries_max = counts if len(rows.offset) else np.minimum(counts, 2 * sizes // room + 2)
    bytes_max = sizes + layout.RECORDS * entries_max
    state = np.zeros((len(totals), kernels.NUM_STATE), np.int64)
    first_entry = np.cumsum(entries_max) - entries_max
    state[:, kernels.NEXT_BYTE] = np.cumsum(bytes_max) - bytes_max
    state[:, kernels.NEXT_BATCH] = first_entry
    out = np.empty(bytes_max.sum(), np.uint8)
    entries = np.empty((entries_max.sum(), kernels.NUM_ENTRY), np.int64)
    kernels.encode_rows(rows, batch_bytes, state, entries, out)
    batch_counts = state[:, kernels.NEXT_BATCH] - first_entry
    used = np.repeat(first_entry - _before(batch_counts), batch_counts)
    return out, entries[used + np.arange(len(used))], batch_counts


def _before(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each stream, the sum of the counts of all streams before it."""
    found: NDArray[np.int64] = np.cumsum(counts) - counts
    return found


def _matrix(
    rows: table.Rows, entries: NDArray[np.int64], shifts: NDArray[np.int64], settings: BatchSettings
) -> NDArray[np.int64]:
    """Return the fields of all batches; offsets are the rows' own, or their numbers + `shifts`."""
    matrix = np.full((NUM_COLUMNS, len(entries)), -1, np.int64)  # -1: no producer, no sequence
    counts = entries[:, kernels.ENTRY_COUNT]
    ends = np.cumsum(counts)
    starts = ends - counts
    if len(rows.offset):
        own = rows.offset[np.argsort(rows.stream, kind="stable")]
        matrix[table.BASE_OFFSET], matrix[table.LAST_OFFSET] = own[starts], own[ends - 1]
    else:
        matrix[table.BASE_OFFSET], matrix[table.LAST_OFFSET] = starts + shifts, ends + shifts - 1
    matrix[table.POSITION] = entries[:, kernels.ENTRY_POSITION]
    matrix[table.SIZE] = entries[:, kernels.ENTRY_SIZE]
    matrix[table.RECORD_COUNT] = counts
    matrix[table.BASE_TIMESTAMP] = entries[:, kernels.ENTRY_BASE]
    matrix[table.MAX_TIMESTAMP] = (
        settings.log_append_time_ms
        if settings.is_append_time
        else entries[:, kernels.ENTRY_MAXIMUM]
    )
    matrix[table.ATTRIBUTES] = settings.attributes
    matrix[table.MAGIC] = layout.MAGIC_V2
    return matrix


def _streams(found: EncodedBatches) -> list[EncodedStream]:
    """Cut bytes and batches into streams; positions become those in the stream's own bytes."""
    matrix, batch_counts = found.matrix, found.batch_counts
    numbers = np.flatnonzero(batch_counts)
    stops = np.cumsum(batch_counts)[numbers]
    starts = stops - batch_counts[numbers]
    first = matrix[table.POSITION][starts]
    last = matrix[table.POSITION][stops - 1] + matrix[table.SIZE][stops - 1]
    matrix[table.POSITION] -= np.repeat(first, batch_counts[numbers])
    places = (numbers, starts, stops, first, last, found.row_counts[numbers])
    return [
        EncodedStream(
            number,
            found.data[begin:end],
            BatchTable.from_matrix(matrix[:, start:stop]),
            count,
            found.min_timestamps[start:stop],
        )
        for number, start, stop, begin, end, count in zip(
            *(place.tolist() for place in places), strict=True
        )
    ]


def _compressed(
    data: NDArray[np.uint8], entries: NDArray[np.int64], compress: Compressor
) -> NDArray[np.uint8]:
    """Return the batches with compressed records; set their positions and sizes in `entries`."""
    starts = entries[:, kernels.ENTRY_POSITION]
    ends = starts + entries[:, kernels.ENTRY_SIZE]
    header = bytes(layout.RECORDS)
    pieces: list[bytes] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        pieces += (header, compress(data[start + layout.RECORDS : end].data))
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces)).reshape(-1, 2).sum(axis=1)
    entries[:, kernels.ENTRY_SIZE] = sizes
    entries[:, kernels.ENTRY_POSITION] = np.cumsum(sizes) - sizes
    return np.frombuffer(bytearray().join(pieces), np.uint8)


def _check_sizes(entries: NDArray[np.int64], size_max: int) -> None:
    large = np.flatnonzero(entries[:, kernels.ENTRY_SIZE] > size_max)
    if len(large):
        entry = entries[large[0]]
        _refuse_size(int(entry[kernels.ENTRY_FIRST_ROW]), int(entry[kernels.ENTRY_SIZE]), size_max)


def _refuse(
    problem: int,
    row: int,
    size: int,
    settings: BatchSettings,
    columns: RecordColumns,
    stream: NDArray[np.int32],
    num_streams: int,
) -> NoReturn:
    if problem == kernels.TOO_LARGE:
        if settings.codec == Codec.NONE:
            _refuse_size(row, size, settings.single_max)
        _refuse_size(row, size, settings.single_max, what="bytes before compression, readers take")
    if problem == kernels.NULL_HEADER_KEY:
        raise InvalidRecordError(f"row {row} has a header without a key", row=row)
    if problem == kernels.BAD_TIMESTAMP:
        raise InvalidTimestampError(
            f"row {row} has timestamp {columns.timestamp[row]}; it must not be negative, "
            "except -1, which means none",
            row=row,
        )
    raise UnknownTopicError(
        f"row {row} has partition {stream[row]}; the topic has partitions 0 to {num_streams - 1}",
        row=row,
        partition=int(stream[row]),
    )


def _refuse_size(
    row: int, size: int, size_max: int, what: str = "bytes, max.message.bytes allows"
) -> NoReturn:
    raise RecordTooLargeError(
        f"row {row} needs a batch of {size} {what} {size_max}",
        row=row,
        size=size,
        limit=size_max,
    )
