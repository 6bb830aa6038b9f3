"""Record batches and message sets -> Arrow columns.

Magic 2 stands here, magic 0 and 1 in `legacy`; the picture of the bytes in `layout`. Whatever the
bytes say, the answer is records or CorruptRecordError; nothing is read out of bounds. Checksums
are `verify_checksums`' part.
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
from sparklog.record.kernels.primitives import OVERLONG, TRUNCATED
from sparklog.record.legacy import plain_messages
from sparklog.record.pile import decompress_all, placed

__all__ = ["ALL", "DecodedRecords", "decode"]

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

RECORD_SIZE_MIN: Final = 7
"""Length, attributes, two deltas, two sizes, header count: a byte each."""
_EVERYTHING: Final = (-(2**63), 2**63 - 1)
"""Window that leaves no offset out."""
_NOTHING: Final = np.empty(0, np.uint8)

_REASONS: Final = {
    TRUNCATED: "a number runs beyond the end of its record",
    OVERLONG: "a number takes more bytes than its type can fill",
    kernels.FIELD: "a key or value does not fit its record, or has a size below -1 (null)",
    kernels.HEADER_COUNT: "the header count is negative, or more than the record has bytes left",
    kernels.LENGTH: "its length is damaged, or goes beyond the end of the batch",
    kernels.UNREAD: "bytes are left between its last field and its end",
    kernels.OFFSET: "its offset lies outside its batch",
    kernels.LEFT_OVER: "bytes are left after the last record",
}


class _Request(NamedTuple):
    wanted: int
    """Flags of the columns."""
    window: tuple[int, int]
    """First and last offset to keep, in the log."""
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
    """Decodes the records of `batches`, whose positions are positions in `data`.

    Only the `columns` asked for (names of `ALL`) are made, but every record is checked, whatever
    is asked for, as DefaultRecord.readFrom does; record attributes are ignored. Control batches
    are skipped. `shift` is added to every offset, and rows outside [start_offset, end_offset)
    (None is open) are dropped; batches that lie wholly outside are not looked at. A batch with
    LogAppendTime gives all its records its max timestamp.

    Memory: about twice the records, decompressed. One batch may decompress to `max_bytes` (256 MiB
    when None), so the whole call to that many for each of its compressed batches.

    Raises CorruptRecordError (position in `data`, base offset of the batch without `shift`) for
    every damage, UnsupportedCodecError for undefined codec bits, UsageError for an unknown column
    and when keys, values and headers of one call, or all it decompresses, may exceed 2**31-1
    bytes, Arrow's limit: pass fewer batches.
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
        raise placed(problem, batches, first)


def _in_window(batches: BatchTable, request: _Request) -> BatchTable:
    """Without control batches and without those that have no record in the window."""
    first, last = request.window
    if (first, last) == _EVERYTHING:
        kept = ~batches.is_control
        return batches if kept.all() else batches.take(kept)
    # Where the first offset inside a wrapper is not known, its own offset is the last inside.
    begins = (batches.base_offset + request.shift <= last) | batches.is_wrapper
    ends = batches.last_offset + request.shift >= first
    kept = begins & ends & ~batches.is_control
    return batches if kept.all() else batches.take(kept)


def _runs(batches: BatchTable) -> Iterator[BatchTable]:
    """Cuts where message sets meet record batches; yields at least one table."""
    modern = batches.magic == layout.MAGIC_V2
    if modern.all():
        yield batches
        return
    cuts = np.flatnonzero(np.diff(modern)) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(batches)], strict=True):
        yield batches.slice(int(start), int(stop))


def _decode_run(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    if len(run) and run.magic[0] != layout.MAGIC_V2:
        return _decode_messages(view, run, request)
    return _decode_batches(view, run, request)


# --- magic 2 -------------------------------------------------------------------------------------


def _decode_batches(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    pile, batches = _locate(view, run, request)
    builder = ColumnBuilder(
        request.wanted, int(run.record_count.sum()), _size(batches.position, batches.end, request)
    )
    rows = kernels.decode_batches(
        view, pile, batches, request.window, request.wanted, builder.sinks, builder.counters
    )
    if rows < 0:
        batch, record = builder.counters[: kernels.RECORD + 1].tolist()
        which = f"record {record + 1} of {run.record_count[batch]}: "
        where = "" if rows == kernels.LEFT_OVER else which
        raise placed(CorruptRecordError(where + _REASONS[rows]), run, batch)
    headers = None
    if request.wanted & kernels.HEADERS:
        headers = cols.gather_headers(builder, rows, view, pile)
        _check_header_keys(headers, builder.sinks.headers_at, batches, run)
    return builder.finish(rows, headers)


def _locate(view: Bytes, run: BatchTable, request: _Request) -> tuple[Bytes, kernels.Batches]:
    """Decompresses what is compressed, and says where the records of each batch lie."""
    position = run.position + layout.RECORDS
    end = run.end_position
    in_pile = (run.codec != 0) & (position < end)
    pile = _NOTHING
    if in_pile.any():
        pile, position[in_pile], end[in_pile] = decompress_all(
            view, run.take(in_pile), position[in_pile], end[in_pile], request.max_bytes
        )
    # The count is not under our control, and memory is asked for by it.
    possible = (run.record_count >= 0) & (run.record_count <= (end - position) // RECORD_SIZE_MIN)
    if not possible.all():
        first = int(np.argmin(possible))
        count, size = int(run.record_count[first]), int((end - position)[first])
        problem = CorruptRecordError(f"{count} records cannot be in {size} bytes")
        raise placed(problem, run, first)
    batches = kernels.Batches(
        in_pile=in_pile.astype(np.int64),
        position=position,
        end=end,
        record_count=run.record_count,
        base_offset=run.base_offset + request.shift,
        max_offset_delta=run.last_offset - run.base_offset,
        base_timestamp=run.base_timestamp,
        append_timestamp=run.max_timestamp,
        timestamp_type=run.timestamp_type,
    )
    return pile, kernels.Batches(*map(_frozen, batches))


def _check_header_keys(
    headers: Any, headers_at: Int64s, batches: kernels.Batches, run: BatchTable
) -> None:
    row = cols.first_invalid_key(headers)
    if row is None:
        return
    at = int(headers_at[row])
    in_pile = at < 0
    at = ~at if in_pile else at
    holds = (batches.in_pile == in_pile) & (batches.position <= at) & (at < batches.end)
    batch = int(np.argmax(holds))
    raise placed(CorruptRecordError("a header key is not UTF-8"), run, batch)


# --- magic 0 and 1 -------------------------------------------------------------------------------


def _decode_messages(view: Bytes, run: BatchTable, request: _Request) -> DecodedRecords:
    pile, messages, origin = plain_messages(view, run, request.max_bytes)
    messages = messages._replace(offset=messages.offset + request.shift)
    rows_max = len(messages.position)
    builder = ColumnBuilder(
        request.wanted, rows_max, _size(messages.position, messages.end, request)
    )
    rows = legacy_kernels.decode_messages(
        view,
        pile,
        legacy_kernels.Messages(*map(_frozen, messages)),
        request.window,
        request.wanted,
        builder.sinks,
        builder.counters,
    )
    if rows < 0:
        batch = int(origin[builder.counters[kernels.BATCH]])
        raise placed(CorruptRecordError(f"message: {_REASONS[rows]}"), run, batch)
    headers = None
    if request.wanted & kernels.HEADERS:
        headers = cols.gather_headers(builder, rows, view, pile)
    return builder.finish(rows, headers)


# --- both ----------------------------------------------------------------------------------------


def _size(position: Int64s, end: Int64s, request: _Request) -> int:
    size = int((end - position).sum())
    if request.wanted & cols.VARIABLE_SIZE:
        cols.check_size(size)
    return size


def _frozen(values: Int64s) -> Int64s:
    """A read-only contiguous view: what the kernels' signatures name."""
    view = np.ascontiguousarray(values).view()
    view.setflags(write=False)
    return view
