"""Slices of segments to records: windows of the file, checked, decoded, in the order of the log."""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from sparklog.log_reader.indexes import start_position
from sparklog.log_reader.topic import Slice
from sparklog.log_reader.windows import windows
from sparklog.record.batches import BatchTable
from sparklog.record.decode import ALL, DecodedRecords
from sparklog.storage.files import Files

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
    position = start_position(files, directory, entry, piece.start)
    for window in windows(files, directory, entry, position):
        for batches in _groups(window.batches, rows_max):
            yield window.decoded(batches, columns, piece.start, piece.end)
        if int(window.batches.last_offset[-1]) + entry.shift >= piece.end - 1:
            return


def _groups(batches: BatchTable, rows_max: int) -> Iterator[BatchTable]:
    """Cut a table where `rows_max` records, or the bytes of a compressed group, are reached."""
    rows = np.maximum(batches.record_count, 1)
    size = np.where(batches.codec == 0, 0, batches.size)
    weight = np.maximum(rows / rows_max, size / COMPRESSED_BYTES_MAX)
    group = np.floor(np.cumsum(weight) - weight).astype(np.int64)
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(batches)]
    for start, stop in pairwise(cuts):
        yield batches.slice(start, stop)
