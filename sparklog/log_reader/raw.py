"""Slices of segments to record batches as they lie in the files: never decoded.

A sealed segment's bytes are mapped and handed on as they are. One that is not sealed is copied, and
each batch gets the log's base offset, which lies outside its checksum (see record.layout).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.log.lookup import checked_floor
from sparklog.log.windows import windows
from sparklog.log_reader.isolation import committed
from sparklog.log_reader.opened import ask, damage_in, opened_ahead
from sparklog.metadata.state.image import Slice
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.record.batches import BatchTable, byte_view, with_offsets_raised
from sparklog.storage.files import Files, flat_view

PIECE_BYTES: Final = 1024 * 1024
"""How many bytes are mapped, and handed on, at once."""


def raw_batches(
    files: Files,
    directory: str,
    slices: Iterable[Slice],
    max_bytes: int,
    piece_bytes: int = PIECE_BYTES,
    isolation: str = READ_UNCOMMITTED,
) -> Iterator[memoryview]:
    """Yield whole record batches that hold the offsets of slices, in the order of the log.

    As in the answer to a fetch, the first batch may begin before the first offset, the last one may
    end after the last offset, and the first batch is yielded even if it is larger than `max_bytes`.
    `directory` is the topic's. With `isolation` READ_COMMITTED batches of aborted transactions are
    left out. The order of batches is checked; checksums are not verified, because the reader that
    decodes the records does that. Raises CorruptRecordError, which names file, position and offset,
    after all batches before the damage were yielded, and MissingFileError.
    """
    left, is_first = max_bytes, True
    for piece, segment in opened_ahead(files, directory, slices):
        entry = piece.segment
        floor = ask(segment, directory, partial(checked_floor, offset=piece.start))
        with damage_in(directory, entry):
            for window in windows(segment, floor, piece_bytes):
                batches = window.needed(piece.start, piece.end)
                if isolation == READ_COMMITTED:
                    batches = committed(batches, entry)
                fits = int(np.searchsorted(np.cumsum(batches.size), left, "right"))
                taken = batches.slice(0, max(fits, int(is_first)))
                if len(taken):
                    # Batches that are left out cut the others into runs that lie back to back.
                    for run in taken.cut(taken.position[1:] != taken.end_position[:-1]):
                        yield _bytes(byte_view(window.data), run, entry.shift)
                    left, is_first = left - int(taken.size.sum()), False
                if len(taken) < len(batches):
                    return
                if window.next_offset >= piece.end:
                    break


def _bytes(data: NDArray[np.uint8], batches: BatchTable, shift: int) -> memoryview:
    if shift:
        return flat_view(with_offsets_raised(data, batches, shift))
    return flat_view(data[int(batches.position[0]) : int(batches.end_position[-1])])
