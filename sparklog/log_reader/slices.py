"""Slices of segments to records: windows of the file, checked, decoded, in the order of the log."""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from sparklog.errors import CorruptRecordError
from sparklog.log_reader.indexes import is_cut, start_position
from sparklog.log_reader.topic import Slice
from sparklog.record.batches import BatchTable
from sparklog.record.decode import ALL, DecodedRecords, decode
from sparklog.record.scan import scan_batches, verify_checksums
from sparklog.storage.files import Files

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""How much of a file is mapped (or fetched) at once: it bounds a reader's memory."""
ROWS_MAX: Final = 65_536
"""Most records of one answer, but for a batch that alone has more."""
COMPRESSED_BYTES_MAX: Final = 1024 * 1024
"""Most compressed bytes of one answer, for they may be ten times as many when decompressed."""


def read_slices(
    files: Files,
    directory: str,
    slices: Iterable[Slice],
    *,
    columns: Collection[str] = ALL,
    rows_max: int = ROWS_MAX,
) -> Iterator[DecodedRecords]:
    """Yield the records of slices in the order of the log, at most `rows_max` or so at a time.

    `directory` is the topic's. Memory stays at a window of the file and one answer, whatever the
    slices' size. Raises CorruptRecordError naming file, position and offset for damage; then
    everything before it was yielded. MissingFileError when a file is gone.
    """
    for piece in slices:
        yield from _read_slice(files, directory, piece, columns, rows_max)


def _read_slice(
    files: Files, directory: str, piece: Slice, columns: Collection[str], rows_max: int
) -> Iterator[DecodedRecords]:
    entry = piece.segment
    path = f"{directory}/{entry.log_path}"
    position = start_position(files, directory, entry, piece.start)
    window = WINDOW_BYTES
    while position < entry.log_bytes:
        length = min(window, entry.log_bytes - position)
        data = files.view(path, length, position)
        if len(data) < length:
            raise CorruptRecordError(
                f"the file ends at byte {position + len(data)}, the manifest says "
                f"{entry.log_bytes}: it was cut",
                file=path,
                position=position + len(data),
            )
        found = scan_batches(data)
        if not len(found.batches):
            if position + length == entry.log_bytes or not is_cut(found.problem):
                raise CorruptRecordError(
                    str(found.problem), file=path, position=position, offset=piece.start
                )
            window *= 2  # a batch larger than the window
            continue
        for batches in _groups(found.batches, rows_max):
            try:
                yield _decoded(data, batches, piece, columns)
            except CorruptRecordError as error:
                raise error.in_file(path, position, entry.shift) from None
        if int(found.batches.last_offset[-1]) + entry.shift >= piece.end - 1:
            return
        position += found.end


def _decoded(
    data: memoryview, batches: BatchTable, piece: Slice, columns: Collection[str]
) -> DecodedRecords:
    verify_checksums(data, batches)
    return decode(
        data,
        batches,
        columns=columns,
        shift=piece.segment.shift,
        start_offset=piece.start,
        end_offset=piece.end,
    )


def _groups(batches: BatchTable, rows_max: int) -> Iterator[BatchTable]:
    """Cut a table where `rows_max` records, or the bytes of a compressed group, are reached."""
    rows = np.maximum(batches.record_count, 1)
    size = np.where(batches.codec == 0, 0, batches.size)
    weight = np.maximum(rows / rows_max, size / COMPRESSED_BYTES_MAX)
    group = np.floor(np.cumsum(weight) - weight).astype(np.int64)
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(batches)]
    for start, stop in pairwise(cuts):
        yield batches.slice(start, stop)
