"""Checks a broker's `.log` before its import: every batch and every record, window by window.

It finds all damage that a reader would find: wrong sizes, wrong checksums, offsets that do not
ascend, records that do not fit their batch, streams that decompress to more than 256 MiB. Only one
window of the file and one decoded group of batches are in memory, whatever the file contains.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sparklog.errors import CorruptRecordError
from sparklog.interop.broker_files.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.broker_files.control_records import control_type
from sparklog.interop.broker_files.file_records import Bytes
from sparklog.interop.broker_files.java_records import records_at
from sparklog.interop.epochs import Epochs
from sparklog.interop.sequences import Sequences
from sparklog.interop.transactions import Transactions
from sparklog.log.indexer import Indexes
from sparklog.log.names import LOG_SUFFIX
from sparklog.log.segment_writer import SegmentBuilder, SegmentSummary
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import BatchTable, byte_view
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import decode
from sparklog.record.scan import scan_batches, size_in_header
from sparklog.storage.files import Files

WINDOW_BYTES: Final = 8 * 1024 * 1024
PRODUCERS_MAX: Final = 1_000_000
TRANSACTIONS_MAX: Final = 1_000_000
DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""The most decompressed bytes of several batches at once; a single batch may have more."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A segment that was checked. Offsets in `summary` count from the file's base offset.

    `torn_bytes` is the number of bytes behind the last whole batch; `delete_horizon_ms` is the
    earliest horizon of a batch, None without one.
    """

    summary: SegmentSummary
    indexes: Indexes
    torn_bytes: int = 0
    delete_horizon_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a `.log`: bytes [start, size) of `name` in `files`; `path` is for messages.

    `is_newest`: the file may end with a part of a batch, if its broker was killed, and with zeros,
    if there was a power cut or the topic has `preallocate=true`.
    """

    files: Files
    name: str
    size: int
    path: str
    start: int = 0
    is_newest: bool = False


def source_of(partition: PartitionDir, files: SegmentFiles, *, is_newest: bool) -> Source:
    """Return the place of a segment's `.log` in the directory of its partition."""
    name = files.name(LOG_SUFFIX)
    path = f"{partition.path}/{name}"
    return Source(partition.files, name, files.log_bytes, path, is_newest=is_newest)


def walked(source: Source) -> Iterator[tuple[Bytes, int, BatchTable]]:
    """Yield (bytes, their position in the file, batches) window by window.

    If the file is the newest, it ends before a batch that the file's end cuts off, and before one
    of which only the beginning was written, with zeros from there to the file's end: so a starting
    broker cuts it (LogSegment.recover). Raises CorruptRecordError with file and position if there
    is no batch, or a batch above BATCH_BYTES_MAX.
    """
    position, need = source.start, WINDOW_BYTES
    while position < source.size:
        left = source.size - position
        view = byte_view(source.files.view(source.name, min(need, left), position))
        scan = scan_batches(view)
        if len(scan.batches):
            whole = _written(source, view, position, scan.batches)
            if len(whole):
                yield view, position, whole
            if len(whole) < len(scan.batches):
                return
            position, need = position + scan.end, WINDOW_BYTES
            continue
        problem = scan.problem or "the file has become shorter"
        size = size_in_header(view)
        if problem.startswith("truncated") and size > len(view):
            if size > BATCH_BYTES_MAX:
                problem = f"a batch of {size} bytes; the largest allowed has {BATCH_BYTES_MAX}"
            elif size <= left:
                need = size
                continue
        if source.is_newest and (
            problem.startswith("truncated") or _is_zero(source, position + layout.HEADER_PREFIX)
        ):
            return
        raise CorruptRecordError(problem, file=source.path, position=position)


def _written(source: Source, view: Bytes, position: int, batches: BatchTable) -> BatchTable:
    """Return the batches of a window without the last one, if only its beginning was written.

    Then its checksum is wrong, and its last byte and all behind it is 0.
    """
    last, end = batches.slice(len(batches) - 1), int(batches.end_position[-1])
    if not source.is_newest or view[end - 1]:
        return batches
    try:
        verify_checksums(view, last)
    except CorruptRecordError:
        return batches.slice(0, -1) if _is_zero(source, position + end) else batches
    return batches


def _is_zero(source: Source, position: int) -> bool:
    """Return True if all bytes from `position` to the end of the file are zero."""
    return not any(
        byte_view(source.files.view(source.name, WINDOW_BYTES, start)).any()
        for start in range(position, source.size, WINDOW_BYTES)
    )


def examine(
    source: Source,
    base_offset: int,
    partition: int,
    transactions: Transactions,
    epochs: Epochs,
    sequences: Sequences,
    *,
    decoded: bool = True,
) -> Examined:
    """Read a segment from its beginning (or `source.start`) to its end, and check all of it.

    `transactions`, `epochs` and `sequences` take its batches. Without `decoded` only headers are
    read. Raises CorruptRecordError naming file and position.
    """
    builder = SegmentBuilder(base_offset, partition)
    horizon: int | None = None
    end = source.start
    for view, position, batches in walked(source):
        try:
            low = _checked(view, batches) if decoded else None
            data = view[: int(batches.end_position[-1])] if decoded else None
            builder.append(batches, min_timestamp=low, data=data)
            transactions.add(batches, partial(marker_of, view))
            epochs.add(batches)
            sequences.add(batches)
        except CorruptRecordError as error:
            raise error.in_file(source.path, position) from None
        horizon = _earliest(horizon, batches)
        end = position + int(batches.end_position[-1])
        if builder.producer_count > PRODUCERS_MAX or len(transactions) > TRANSACTIONS_MAX:
            raise CorruptRecordError(
                f"more than {PRODUCERS_MAX} producers in one segment, or {TRANSACTIONS_MAX} "
                f"transactions that did not commit",
                file=source.path,
                position=position,
            )
    summary, indexes = builder.finish()
    return Examined(summary, indexes, source.size - end, horizon)


def _earliest(known: int | None, batches: BatchTable) -> int | None:
    has_horizon = (batches.attributes & layout.DELETE_HORIZON_MASK != 0) & (
        batches.magic == layout.MAGIC_V2
    )
    found = batches.base_timestamp[has_horizon].tolist()
    return min([*found, *([] if known is None else [known])], default=None)


def marker_of(view: Bytes, batch: BatchTable) -> int:
    """Return the type of the control record in a table of one batch, which has one.

    Raises CorruptRecordError.
    """
    position, size = int(batch.position[0]), int(batch.size[0])
    return control_type(next(records_at(view, position, size)).key)


def _checked(view: Bytes, batches: BatchTable) -> int | None:
    """Verify and decode all batches; return the smallest timestamp, None without records."""
    verify_checksums(view, batches)
    return min((low for group in _groups(batches) for low in _decoded(view, group)), default=None)


def _groups(batches: BatchTable) -> Iterator[BatchTable]:
    """Yield groups of batches with at most about 1 MiB of compressed batches each."""
    size = np.where(batches.codec == 0, 0, batches.size)
    part = (np.cumsum(size) - size) // (1024 * 1024)
    return batches.cut(np.diff(part))


def _decoded(view: Bytes, batches: BatchTable) -> list[int]:
    """Decode batches; return the smallest timestamp of each part, [] without records.

    Batches that decompress to too many bytes are decoded in halves.
    """
    limit = None if len(batches) == 1 else DECOMPRESSED_BYTES_MAX // len(batches)
    try:
        records = decode(view, batches, columns=("timestamp",), max_bytes=limit)
    except CorruptRecordError:
        half = len(batches) // 2
        if not half:
            raise
        return _decoded(view, batches.slice(0, half)) + _decoded(view, batches.slice(half))
    return [int(records.timestamp.to_numpy().min())] if records.num_rows else []
