"""Records of aborted transactions: no reader should see them, so compaction drops them.

A manifest's row knows the aborted transactions of its segment as spans of offsets and a producer;
what lies in a span is the producer's if its batch says so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.log.windows import windows
from sparklog.log_reader.opened import opened
from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable
from sparklog.record.decode import DecodedRecords
from sparklog.storage.files import Files


class AbortedSpan(NamedTuple):
    """An aborted transaction: its producer, and its first and last offset in the log."""

    producer_id: int
    first: int
    last: int


def aborted_spans(segments: Iterable[SegmentEntry]) -> tuple[AbortedSpan, ...]:
    """Return the aborted transactions that the rows of a partition know, each once."""
    spans = {
        AbortedSpan(
            one.producer_id, entry.base_offset + one.first_delta, entry.base_offset + one.last_delta
        )
        for entry in segments
        for one in entry.aborted
    }
    return tuple(sorted(spans))


def is_aborted(batches: BatchTable, shift: int, spans: Sequence[AbortedSpan]) -> NDArray[np.bool_]:
    """Return which batches hold records of one; `shift` leads to the log's offsets."""
    found = np.zeros(len(batches), np.bool_)
    offsets = batches.base_offset + shift
    for span in spans:
        found |= (batches.producer_id == span.producer_id) & (
            (offsets >= span.first) & (offsets <= span.last)
        )
    return found & batches.is_transactional & ~batches.is_control


def without_aborted(
    files: Files,
    directory: str,
    entry: SegmentEntry,
    spans: Sequence[AbortedSpan],
    records: Iterable[DecodedRecords],
) -> Iterator[DecodedRecords]:
    """Yield `key` and `offset` of a segment's records, without those of aborted transactions."""
    firsts, lasts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for window in windows(opened(files, directory, entry)):
        batches = window.batches.take(is_aborted(window.batches, entry.shift, spans))
        firsts.append(batches.base_offset + entry.shift)
        lasts.append(batches.last_offset + entry.shift)
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    for some in records:
        offsets = some.offset.to_numpy()
        batch = np.searchsorted(first, offsets, "right") - 1
        inside = (batch >= 0) & (offsets <= np.append(last, -1)[batch])
        kept = pa.array(~inside)
        yield replace(
            some,
            num_rows=int((~inside).sum()),
            key=some.key.filter(kept),
            offset=some.offset.filter(kept),
        )
