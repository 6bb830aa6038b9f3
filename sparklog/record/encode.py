"""Arrow columns to record batches (magic 2): one pass over the rows, one output per stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

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
from sparklog.record.compression import Compressor, compressor
from sparklog.record.kernels import columns as table
from sparklog.record.kernels import encode as kernels
from sparklog.record.rows import RecordColumns, kernel_rows

__all__ = ["BatchSettings", "EncodedStream", "RecordColumns", "encode"]

_SIZE_MAX: Final = 2**31 - 1


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


def encode(
    columns: RecordColumns,
    stream: NDArray[np.int32] | None,
    num_streams: int,
    base_offsets: NDArray[np.int64],
    settings: BatchSettings,
    leader_epochs: NDArray[np.int64] | None = None,
) -> list[EncodedStream]:
    """Write row i to stream `stream[i]` (0 if `stream` is None), in the order of the rows.

    Returns the streams that got rows, by number. Stream s begins at offset `base_offsets[s]` and
    has no gaps, unless the rows have offsets of their own: then a batch goes from its first row's
    offset to its last row's. A batch takes records while it stays within `batch_bytes` before
    compression, and at least one. Batches of stream s have the leader epoch `leader_epochs[s]`, if
    given, else that of the settings. The call needs about as much memory as the rows have, whatever
    the number of streams is.

    Raises SchemaError for a column of a wrong type, UnknownTopicError for a stream outside [0,
    num_streams), InvalidTimestampError for a timestamp below -1, InvalidRecordError for a header
    without a key, RecordTooLargeError if a batch of a single record would exceed
    `max_message_bytes`. Each error but the first has the number of the row.
    """
    rows = kernel_rows(columns, stream)
    uncompressed_max = settings.max_message_bytes if settings.codec == Codec.NONE else _SIZE_MAX
    totals = np.zeros((num_streams, kernels.NUM_TOTALS), np.int64)
    problem, row, size = kernels.measure(rows, uncompressed_max, totals)
    if problem != kernels.OK:
        _refuse(problem, row, size, uncompressed_max, columns, rows.stream, num_streams)
    batch_bytes = min(settings.batch_bytes, settings.uncompressed_max)
    written = _write(rows, totals, batch_bytes)
    own = _own_offsets(rows, totals[:, kernels.TOTAL_ROWS])
    if leader_epochs is None:
        leader_epochs = np.full(num_streams, settings.leader_epoch, np.int64)
    return [
        written.finish(
            number, int(base_offsets[number]), int(leader_epochs[number]), own[number], settings
        )
        for number in np.flatnonzero(totals[:, kernels.TOTAL_ROWS]).tolist()
    ]


def _own_offsets(rows: table.Rows, counts: NDArray[np.int64]) -> Sequence[NDArray[np.int64] | None]:
    """Return the own offsets of each stream's rows, in their order; None for rows without any."""
    if not len(rows.offset):
        return [None] * len(counts)
    by_stream = rows.offset[np.argsort(rows.stream, kind="stable")]
    return np.split(by_stream, np.cumsum(counts)[:-1])


@dataclass(frozen=True, slots=True)
class _Written:
    """The uncompressed batches of all streams, still without headers."""

    out: NDArray[np.uint8]
    entries: NDArray[np.int64]
    first_byte: NDArray[np.int64]
    first_entry: NDArray[np.int64]
    state: NDArray[np.int64]

    def finish(
        self,
        number: int,
        base_offset: int,
        leader_epoch: int,
        own: NDArray[np.int64] | None,
        settings: BatchSettings,
    ) -> EncodedStream:
        """Return a stream with compression, headers and checksums; `own` are its rows' offsets."""
        state = self.state[number]
        entries = self.entries[self.first_entry[number] : state[kernels.NEXT_BATCH]]
        start = self.first_byte[number]
        data = self.out[start : state[kernels.NEXT_BYTE]]
        entries[:, kernels.ENTRY_POSITION] -= start
        if settings.codec != Codec.NONE:
            data = _compressed(data, entries, compressor(settings.codec, settings.level))
            _check_sizes(entries, settings.max_message_bytes)
        matrix = _matrix(entries, base_offset, own, settings)
        matrix[table.LEADER_EPOCH] = leader_epoch
        batches = BatchTable.from_matrix(matrix)
        kernels.put_headers(matrix, data)
        put_checksums(data, batches)
        least = (
            batches.max_timestamp if settings.is_append_time else entries[:, kernels.ENTRY_MINIMUM]
        )
        return EncodedStream(number, data, batches, int(batches.record_count.sum()), least)


def _write(rows: table.Rows, totals: NDArray[np.int64], batch_bytes: int) -> _Written:
    counts, sizes = totals[:, kernels.TOTAL_ROWS], totals[:, kernels.TOTAL_BYTES]
    # A batch ends when the next record would make it too large: two batches in a row have more
    # than `room`. With own offsets, a gap may end any batch.
    room = max(batch_bytes - layout.RECORDS, 1)
    entries_max = counts if len(rows.offset) else np.minimum(counts, 2 * sizes // room + 2)
    bytes_max = sizes + layout.RECORDS * entries_max
    state = np.zeros((len(totals), kernels.NUM_STATE), np.int64)
    first_byte = np.cumsum(bytes_max) - bytes_max
    first_entry = np.cumsum(entries_max) - entries_max
    state[:, kernels.NEXT_BYTE] = first_byte
    state[:, kernels.NEXT_BATCH] = first_entry
    out = np.empty(bytes_max.sum(), np.uint8)
    entries = np.empty((entries_max.sum(), kernels.NUM_ENTRY), np.int64)
    kernels.encode_rows(rows, batch_bytes, state, entries, out)
    return _Written(out, entries, first_byte, first_entry, state)


def _matrix(
    entries: NDArray[np.int64],
    base_offset: int,
    own: NDArray[np.int64] | None,
    settings: BatchSettings,
) -> NDArray[np.int64]:
    matrix = np.full((NUM_COLUMNS, len(entries)), -1, np.int64)  # -1: no producer, no sequence
    ends = np.cumsum(entries[:, kernels.ENTRY_COUNT])
    starts = ends - entries[:, kernels.ENTRY_COUNT]
    matrix[table.POSITION] = entries[:, kernels.ENTRY_POSITION]
    matrix[table.SIZE] = entries[:, kernels.ENTRY_SIZE]
    matrix[table.BASE_OFFSET] = base_offset + starts if own is None else own[starts]
    matrix[table.LAST_OFFSET] = base_offset + ends - 1 if own is None else own[ends - 1]
    matrix[table.RECORD_COUNT] = entries[:, kernels.ENTRY_COUNT]
    matrix[table.BASE_TIMESTAMP] = entries[:, kernels.ENTRY_BASE]
    matrix[table.MAX_TIMESTAMP] = (
        settings.log_append_time_ms
        if settings.is_append_time
        else entries[:, kernels.ENTRY_MAXIMUM]
    )
    matrix[table.ATTRIBUTES] = settings.attributes
    matrix[table.MAGIC] = layout.MAGIC_V2
    return matrix


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
    size_max: int,
    columns: RecordColumns,
    stream: NDArray[np.int32],
    num_streams: int,
) -> NoReturn:
    if problem == kernels.TOO_LARGE:
        _refuse_size(row, size, size_max)
    if problem == kernels.NULL_HEADER_KEY:
        raise InvalidRecordError(f"row {row} has a header without a key", row=row)
    if problem == kernels.BAD_TIMESTAMP:
        raise InvalidTimestampError(
            f"row {row} has timestamp {columns.timestamp[row]}; it must not be negative, "
            "but for -1, which means none",
            row=row,
        )
    raise UnknownTopicError(
        f"row {row} has partition {stream[row]}; the topic has partitions 0 to {num_streams - 1}",
        row=row,
        partition=int(stream[row]),
    )


def _refuse_size(row: int, size: int, size_max: int) -> NoReturn:
    raise RecordTooLargeError(
        f"row {row} needs a batch of {size} bytes, max.message.bytes allows {size_max}",
        row=row,
        size=size,
        limit=size_max,
    )
