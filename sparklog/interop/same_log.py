"""Tells whether a broker's log is the one of which a part was imported before.

A topic may have been deleted and created again, and a log may have been truncated. If such a log
has grown past the imported end, its batches do not continue those here. Two things are compared:

    the first new batch       its leader epoch is not below the last one that was imported
    the last batch below the  if the newest segment here has its offset: both have the same offsets,
    imported end              leader epoch and checksum

A log that ends below the imported end is an older copy. A batch that compaction has cleaned here is
not compared. A broker's cleaning keeps offsets and leader epoch of a batch.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from sparklog.errors import CorruptionError, CorruptRecordError
from sparklog.interop.examine import Source, walked
from sparklog.log.lookup import batch_from
from sparklog.log_reader.opened import ask, opened
from sparklog.model import SegmentEntry
from sparklog.record import layout
from sparklog.record.batches import byte_view
from sparklog.record.scan import BatchHeader, unpack_header
from sparklog.storage.files import Files

ANOTHER: Final = (
    "this is another log than the one that was imported before: import it as another topic"
)


def check_epoch(sources: Iterable[Source], end: int, newest: int) -> None:
    """Refuse a log whose first batch from `end` on has an older leader epoch than `newest`.

    `sources` are in the order of their offsets. Raises CorruptRecordError.
    """
    for source in sources:
        for _, position, batches in walked(source):
            slots = np.flatnonzero(batches.last_offset >= end)
            if len(slots):
                epoch = int(batches.leader_epoch[slots[0]])
                if 0 <= epoch < newest:
                    raise CorruptRecordError(
                        f"leader epoch {epoch}, and up to {newest} was imported: {ANOTHER}",
                        file=source.path,
                        position=position + int(batches.position[slots[0]]),
                        offset=int(batches.base_offset[slots[0]]),
                    )
                return


def check_last(
    sources: Sequence[Source],
    end: int,
    files: Files,
    directory: str,
    entry: SegmentEntry,
    cleaned: int,
) -> None:
    """Refuse a log whose last batch below `end` differs from the batch of this offset here.

    `sources` begin below `end`. `entry` is the newest segment here, in the `directory` of its
    topic; below `cleaned` its batches are not compared. Raises CorruptRecordError.
    """
    found = _last_below(sources, end)
    if found is None or found[2].last_offset < max(entry.base_offset, cleaned):
        return
    path, position, there = found
    here = batch_at(files, directory, entry, there.last_offset)
    if here is not None and not _are_same(here, there):
        raise CorruptRecordError(
            f"the batch of offsets {there.base_offset} to {there.last_offset} is not the one here: "
            f"{ANOTHER}",
            file=path,
            position=position,
            offset=there.base_offset,
        )


def first_new(source: Source, base_offset: int, end: int) -> int:
    """Return the position of the first batch from offset `end` on; the file's size without one.

    Raises CorruptionError if the log is not the one that was imported up to `end`.
    """
    reached = base_offset
    for _, position, batches in walked(source):
        behind = batches.last_offset >= end
        if behind.any():
            slot = int(behind.argmax())
            first = int(batches.base_offset[slot])
            if first < end and not batches.is_wrapper[slot]:
                raise CorruptRecordError(
                    f"the batch of offsets {first} to {batches.last_offset[slot]} was imported in "
                    f"part, up to {end}: {ANOTHER}",
                    file=source.path,
                    position=position + int(batches.position[slot]),
                )
            return position + int(batches.position[slot])
        reached = int(batches.next_offset[-1])
    if source.is_newest and reached < end:
        raise CorruptionError(
            f"{source.path}: the log ends at {reached}, and up to {end} was imported: this is "
            f"another log, or an older copy"
        )
    return source.size


def _last_below(sources: Sequence[Source], end: int) -> tuple[str, int, BatchHeader] | None:
    """Return file, position and header of the last batch below `end`; None without one.

    None also if it is of a message set (magic 0 and 1).
    """
    for source in reversed(sources):
        found = None
        for view, position, batches in walked(source):
            below = batches.slice(0, int(np.count_nonzero(batches.last_offset < end)))
            if len(below):
                found = view, position, below.slice(len(below) - 1)
            if len(below) < len(batches):
                break
        if found is not None:
            view, position, last = found
            at = int(last.position[0])
            is_set = last.magic[0] < layout.MAGIC_V2
            return None if is_set else (source.path, position + at, unpack_header(view, at))
    return None


def batch_at(files: Files, directory: str, entry: SegmentEntry, offset: int) -> BatchHeader | None:
    """Return the header of the batch in a segment here that holds an offset, or of the next one.

    None if it is of a message set, or if there is none.
    """
    segment = opened(files, directory, entry)
    found = ask(segment, directory, partial(batch_from, offset=offset))
    head = b"" if found is None else bytes(segment.read(found.position, layout.BATCH_HEADER_SIZE))
    if len(head) < layout.BATCH_HEADER_SIZE or head[layout.MAGIC] < layout.MAGIC_V2:
        return None
    header = unpack_header(byte_view(head), 0)
    return header._replace(base_offset=header.base_offset + entry.shift)


def _are_same(here: BatchHeader, there: BatchHeader) -> bool:
    """Return True if two batches have the same offsets, leader epoch and checksum.

    The checksum is not compared if compaction has cleaned one of the two.
    """
    is_whole = _is_whole(here) and _is_whole(there)
    return (here.base_offset, here.last_offset, here.leader_epoch) == (
        there.base_offset,
        there.last_offset,
        there.leader_epoch,
    ) and (here.crc == there.crc or not is_whole)


def _is_whole(header: BatchHeader) -> bool:
    has_horizon = bool(header.attributes & layout.DELETE_HORIZON_MASK)
    return header.record_count == header.last_offset_delta + 1 and not has_horizon
