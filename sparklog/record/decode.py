"""Record batches and message sets -> Arrow columns.

This module decodes magic 2, `legacy` opens magic 0 and 1, and `layout` shows the bytes. Whatever
the bytes are, the result is records or an error, and nothing is read out of bounds. `decode` does
not verify checksums: call `verify_checksums` first.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record import columns as cols
from sparklog.record import layout
from sparklog.record.batches import BatchTable, Buffer, byte_view
from sparklog.record.columns import ALL, ColumnBuilder, DecodedRecords
from sparklog.record.kernels import decode as kernels
from sparklog.record.kernels import legacy as legacy_kernels
from sparklog.record.legacy import plain_messages
from sparklog.record.payload import REASONS, at_batch, damaged_record, frozen, open_payloads

__all__ = ["ALL", "DecodedRecords", "decode"]

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

_EVERYTHING: Final = (-(2**63), 2**63 - 1)
"""The window of all offsets."""


class _Request(NamedTuple):
    wanted: int
    """The flags of the columns."""
    window: tuple[int, int]
    """First and last offset to keep, in the numbering of the log."""
    shift: int
    max_bytes: int | None


def decode(
    data: Buffer,
    batches: BatchTable,
    *,
    columns: Collection[str] = ALL,
    shift: int = 0,
    start_offset: int | None = None,
    end_offset: int | None = None,
    max_bytes: int | None = None,
) -> DecodedRecords:
    """Return the records of `batches`, whose positions are positions in `data`.

    Only the `columns` asked for (of `ALL` and `SIZES`) are made, but every record is checked in
    full, as DefaultRecord.readFrom does; record attributes are ignored. Control batches are
    skipped. `shift` is added to every offset. Rows outside [start_offset, end_offset) are dropped
    (None: no bound), and batches wholly outside are not read. In a batch with LogAppendTime every
    record has the batch's max timestamp.

    Memory: about twice the decompressed records. `max_bytes` (None: 256 MiB) limits the
    decompressed size of one batch, not of the call.

    Raises CorruptRecordError (position in `data`, base offset of the batch without `shift`) for all
    damage, UnsupportedCodecError for undefined codec bits, UsageError for an unknown column, and
    UsageError if the keys, values and headers of the call, or all that it decompresses, may exceed
    2**31-1 bytes, Arrow's limit: then pass fewer batches.
    """
    request = _Request(
        wanted=cols.flags_of(columns),
        window=(
            _EVERYTHING[0] if start_offset is None else start_offset,
            _EVERYTHING[1] if end_offset is None else end_offset - 1,
        ),
        shift=shift,
        max_bytes=max_bytes,
    )
    view = byte_view(data)
    _check_places(view, batches)
    chosen = _in_window(batches, request)
    return cols.concat([_decode_run(view, run, request) for run in _runs(chosen)])


def _check_places(view: Bytes, batches: BatchTable) -> None:
    least = np.where(
        batches.magic == layout.MAGIC_V2,
        layout.BATCH_HEADER_SIZE,
        layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0,
    )
    fits = (batches.position >= 0) & (batches.size >= least)
    fits &= batches.size <= len(view) - batches.position
    if not fits.all():
        first = int(np.argmin(fits))
        size = int(batches.size[first])
        problem = CorruptRecordError(f"no batch of {size} bytes fits into {len(view)} bytes here")
        raise at_batch(problem, batches, first)


def _in_window(batches: BatchTable, request: _Request) -> BatchTable:
    """Return the batches that may have a record in the window, without control batches."""
    kept = ~batches.is_control
    if request.window != _EVERYTHING:
        first, last = request.window
        # A wrapper's own offset is that of its last inner message; its first one is not known.
        kept &= (batches.base_offset + request.shift <= last) | batches.is_wrapper
        kept &= batches.last_offset + request.shift >= first
    return batches if kept.all() else batches.take(kept)


def _runs(batches: BatchTable) -> Iterator[BatchTable]:
    """Cut where message sets and record batches meet; yields at least one table."""
    is_v2 = batches.magic == layout.MAGIC_V2
    return iter([batches]) if is_v2.all() else batches.cut(np.diff(is_v2))


def _decode_run(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    if len(run) and run.magic[0] != layout.MAGIC_V2:
        return _decode_messages(view, run, request)
    return _decode_batches(view, run, request)


# --- magic 2 -------------------------------------------------------------------------------------


def _decode_batches(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    decompressed, batches = open_payloads(view, run, request.shift, request.max_bytes)
    builder = ColumnBuilder(
        request.wanted, int(run.record_count.sum()), _size(batches.position, batches.end, request)
    )
    rows = kernels.decode_batches(
        view, decompressed, batches, request.window, request.wanted, builder.sinks, builder.counters
    )
    if rows < 0:
        raise damaged_record(rows, builder.counters, run)
    headers = None
    if request.wanted & kernels.HEADERS:
        headers = cols.gather_headers(builder, rows, view, decompressed)
        _check_header_keys(headers, builder.sinks.headers_at, batches, run)
    return builder.finish(rows, headers)


def _check_header_keys(
    headers: Any, headers_at: Int64s, batches: kernels.Batches, run: BatchTable
) -> None:
    row = cols.first_invalid_key(headers)
    if row is None:
        return
    at = int(headers_at[row])
    is_decompressed = at < 0
    at = ~at if is_decompressed else at
    holds = (
        (batches.is_decompressed == is_decompressed) & (batches.position <= at) & (at < batches.end)
    )
    batch = int(np.argmax(holds))
    raise at_batch(CorruptRecordError("a header key is not UTF-8"), run, batch)


# --- magic 0 and 1 -------------------------------------------------------------------------------


def _decode_messages(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    decompressed, messages, origin = plain_messages(view, run, request.max_bytes)
    messages = messages._replace(offset=messages.offset + request.shift)
    rows_max = len(messages.position)
    builder = ColumnBuilder(
        request.wanted, rows_max, _size(messages.position, messages.end, request)
    )
    rows = legacy_kernels.decode_messages(
        view,
        decompressed,
        legacy_kernels.Messages(*map(frozen, messages)),
        request.window,
        request.wanted,
        builder.sinks,
        builder.counters,
    )
    if rows < 0:
        batch = int(origin[builder.counters[kernels.BATCH]])
        raise at_batch(CorruptRecordError(f"message: {REASONS[rows]}"), run, batch)
    headers = None
    if request.wanted & kernels.HEADERS:
        headers = cols.gather_headers(builder, rows, view, decompressed)
    return builder.finish(rows, headers)


# --- both ----------------------------------------------------------------------------------------


def _size(position: Int64s, end: Int64s, request: _Request) -> int:
    size = int((end - position).sum())
    if request.wanted & cols.VARIABLE_SIZE:
        cols.check_size(size)
    return size
