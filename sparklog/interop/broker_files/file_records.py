"""Walks a `.log` as Kafka's FileRecords does: the same batches, and the same refusals.

    | offset 8 | size 4 | epoch or crc 4 | magic 1 | ...     size counts what follows it

A walk ends without an error if fewer than 18 bytes, or less than a whole batch, are left
(FileLogInputStream.nextBatch). A size below 14 is an error. A magic above 1 is read as 2, any other
magic (it is a signed byte) as that of a message set. A batch may be smaller than its header.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.scan import scan_batches

Bytes = NDArray[np.uint8]

WINDOW_BYTES: Final = 8 * 1024 * 1024
FILE_BYTES_MAX: Final = 2**31 - 1
"""A segment's size is an int32 (FileRecords)."""


class OddBatch(NamedTuple):
    """A batch that Kafka's walk accepts, although no writer writes such a batch."""

    position: int
    size: int
    magic: int


def int_at(view: Bytes, at: int, size: int) -> int:
    """Return the signed big-endian integer in the `size` bytes at `at`."""
    return int.from_bytes(view[at : at + size].tobytes(), "big", signed=True)


def walk(
    view: Bytes, file: str, start: int = 0, end: int | None = None
) -> Iterator[BatchTable | OddBatch]:
    """Yield the batches of [start, end) in file order; well-formed ones as tables.

    Raises CorruptRecordError, with Kafka's message, for a size below 14.
    """
    position = start
    end = len(view) if end is None else end
    while end - position > layout.HEADER_PREFIX:
        scan = scan_batches(view, position, end, max_bytes=WINDOW_BYTES)
        if len(scan.batches):
            yield scan.batches
            position = scan.end
            continue
        size = int_at(view, position + layout.LENGTH, 4)
        if size < layout.LEGACY_MIN_LENGTH_V0:
            raise CorruptRecordError(
                f"Found record size {size} smaller than minimum record overhead "
                f"({layout.LEGACY_MIN_LENGTH_V0}) in file {file}.",
                file=file,
                position=position,
            )
        if size > end - position - layout.LOG_OVERHEAD:
            return
        size += layout.LOG_OVERHEAD
        yield OddBatch(position, size, int_at(view, position + layout.MAGIC, 1))
        position += size
