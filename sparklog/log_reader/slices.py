"""Slices of segments to records: windows of the file, checked, decoded, in the order of the log."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np

from sparklog.log.lookup import checked_floor
from sparklog.log.windows import WINDOW_BYTES, windows
from sparklog.log_reader.isolation import committed
from sparklog.log_reader.opened import ask, damage_in, opened_ahead, scanned
from sparklog.metadata.state.image import Slice
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.record.batches import BatchTable, in_parts
from sparklog.record.decode import ALL, DecodedRecords
from sparklog.storage.files import Files

ROWS_MAX: Final = 65_536
"""About how many records a table has; no table has more than twice as many."""
COMPRESSED_BYTES_MAX: Final = 1024 * 1024
"""How many compressed bytes are decoded at once at most, unless one batch has more."""
DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
"""How many bytes several batches may decompress to at most; one batch alone may have more."""

Decoder = Callable[[BatchTable, int | None], DecodedRecords]
"""Decodes batches, each of which may decompress to the given number of bytes (None: any number)."""


def read_slices(
    files: Files,
    directory: str,
    slices: Iterable[Slice],
    *,
    columns: Collection[str] = ALL,
    rows_max: int = ROWS_MAX,
    window_bytes: int = WINDOW_BYTES,
    isolation: str = READ_UNCOMMITTED,
) -> Iterator[DecodedRecords]:
    """Yield the records of slices in the order of the log, about `rows_max` at a time.

    No table is empty, and none has more than twice `rows_max` records, however many a batch has.
    `directory` is the topic's. With `isolation` READ_COMMITTED records of aborted transactions are
    left out. Memory holds one window of the file and one decoded batch or table, whatever size the
    slices have; of an object store also what is fetched ahead. Raises CorruptRecordError, which
    names file, position and offset, for damage in which a wanted record may have been, after all
    records before it were yielded; MissingFileError if a file is gone.
    """
    for piece, segment in opened_ahead(files, directory, slices):
        entry = piece.segment
        floor = ask(segment, directory, partial(checked_floor, offset=piece.start))
        scan = scanned(files, directory, segment, floor.position, piece.end)
        with damage_in(directory, entry):
            for window in windows(scan, floor, window_bytes):
                decoder = partial(window.decoded, columns, piece.start, piece.end)
                needed = window.needed(piece.start, piece.end)
                if isolation == READ_COMMITTED:
                    needed = committed(needed, entry)
                for records in decoded_in_groups(decoder, needed, rows_max):
                    yield from _parts(records, rows_max)
                if window.next_offset >= piece.end:
                    break


def decoded_in_groups(
    decoder: Decoder, batches: BatchTable, rows_max: int = ROWS_MAX
) -> Iterator[DecodedRecords]:
    """Yield the records of batches, a table for each group that memory can hold.

    However well they are compressed, several batches of a group have DECOMPRESSED_BYTES_MAX at
    most. Raises the errors of `decoder`, after the records of all batches before the damage.
    """
    for group in _groups(batches, rows_max):
        yield from in_parts(group, decoder, DECOMPRESSED_BYTES_MAX)


def _groups(batches: BatchTable, rows_max: int) -> Iterator[BatchTable]:
    """Cut batches into as few groups as the limits allow, all of about the same weight."""
    if not len(batches):
        return
    rows = np.maximum(batches.record_count, 1)
    size = np.where(batches.codec == 0, 0, batches.size)
    weight = np.maximum(rows / rows_max, size / COMPRESSED_BYTES_MAX)
    total = float(weight.sum())
    before = np.cumsum(weight) - weight
    group = np.floor(before * (np.ceil(total) / total)).astype(np.int64)
    yield from batches.cut(np.diff(group))


def _parts(records: DecodedRecords, rows_max: int) -> Iterator[DecodedRecords]:
    """Yield the records, in parts if there are more than twice `rows_max`."""
    if 0 < records.num_rows <= 2 * rows_max:
        yield records
        return
    for start in range(0, records.num_rows, rows_max):
        yield records.slice(start, rows_max)
