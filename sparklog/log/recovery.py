"""How much of a `.log` can be believed, and its indexes made anew (LogSegment.recover).

The walk goes batch by batch and stops at the first that is not whole, whose checksum differs, or
whose offsets do not follow. What lies there is one of two things:

    torn tail     the end of the file cuts a batch, or only zeros follow: a writer that died. What
                  is before it is sound, and the rest may be cut off.
    corruption    anything else. Never to be cut off in silence.

A committed segment never changes, so nothing in it is a torn tail: give `expected_bytes`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError
from sparklog.log.indexer import INDEX_INTERVAL_BYTES, Indexes
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder, SegmentSummary, offsets_problem
from sparklog.record.batches import BatchTable, Buffer, byte_view
from sparklog.record.scan import Scan, scan_batches, verify_checksums


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """What a `.log` holds that is sound."""

    valid_bytes: int
    """The sound batches are the bytes [0, valid_bytes)."""
    summary: SegmentSummary
    """Of the sound batches; `min_timestamp` is not known, for no record is looked at."""
    indexes: Indexes
    """Of the sound batches, byte for byte as a broker rebuilds them."""
    problem: CorruptRecordError | None
    """What lies at `valid_bytes`, with position and offset; None when the whole file is sound."""
    torn: bool
    """Whether the problem is a torn tail, which may be cut off."""


def recover(
    data: Buffer,
    base_offset: int,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
    *,
    partition: int = 0,
    expected_bytes: int | None = None,
) -> Recovery:
    """Walk a whole `.log` whose own numbering begins at `base_offset`; every checksum is verified.

    `interval_bytes` is index.interval.bytes. `expected_bytes` is the size that the manifest gives a
    committed file: a file of any other size is corrupt, and so is every tail. Raises nothing for
    damage, it is the answer.
    """
    view = byte_view(data)
    scan = scan_batches(view, 0, expected_bytes)
    problem, torn = _stopped(view, scan, base_offset, expected_bytes)
    batches = scan.batches
    for check in (_checksum_problem, _offset_problem):
        found = check(view, batches, base_offset)
        if found is not None:
            problem, torn = found, False
            batches = _before(batches, found)
    valid_bytes = int(batches.end_position[-1]) if len(batches) else 0
    policy = RollPolicy(index_interval_bytes=interval_bytes)
    builder = SegmentBuilder(base_offset, partition, policy)
    builder.append(batches, data=view[:valid_bytes])
    summary, indexes = builder.finish()
    return Recovery(valid_bytes, summary, indexes, problem, torn)


def _stopped(
    view: NDArray[np.uint8], scan: Scan, base_offset: int, expected_bytes: int | None
) -> tuple[CorruptRecordError | None, bool]:
    """Why the walk over headers did not reach the end of the file, and whether the tail is torn.

    Of a batch that goes beyond the end of the file only its size says so, and a damaged size may
    say it too: that cannot be told apart here.
    """
    reason, torn = scan.problem, False
    if expected_bytes is None:
        cut = reason is not None and reason.startswith("truncated")
        torn = cut or not view[scan.end :].any()
    elif len(view) != expected_bytes:
        size = f"the file has {len(view)} bytes, the manifest says {expected_bytes}"
        reason = size if reason is None else f"{size}; {reason}"
    if reason is None:
        return None, False
    due = int(scan.batches.last_offset[-1]) + 1 if len(scan.batches) else base_offset
    return CorruptRecordError(reason, position=scan.end, offset=due), torn


def _checksum_problem(
    view: NDArray[np.uint8], batches: BatchTable, _base_offset: int
) -> CorruptRecordError | None:
    first = None
    while True:
        try:
            verify_checksums(view, batches)
        except CorruptRecordError as error:
            # Formats are verified one after the other, so an earlier batch may differ as well.
            first = error
            batches = _before(batches, error)
        else:
            return first


def _offset_problem(
    _view: NDArray[np.uint8], batches: BatchTable, base_offset: int
) -> CorruptRecordError | None:
    return offsets_problem(batches, base_offset, base_offset) if len(batches) else None


def _before(batches: BatchTable, error: CorruptRecordError) -> BatchTable:
    """The batches before the one that `error` names, whose position is always known here."""
    return batches.slice(0, int(np.searchsorted(batches.position, error.position or 0)))
