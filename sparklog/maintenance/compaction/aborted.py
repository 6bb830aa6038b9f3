"""Leaves out the records of aborted transactions: compaction does not compare their keys."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sparklog.log.windows import windows
from sparklog.log_reader.isolation import AbortedSpan, is_aborted
from sparklog.log_reader.opened import opened
from sparklog.model import SegmentEntry
from sparklog.record.decode import DecodedRecords
from sparklog.storage.files import Files


def without_aborted(
    files: Files,
    directory: str,
    entry: SegmentEntry,
    spans: Sequence[AbortedSpan],
    records: Iterable[DecodedRecords],
) -> Iterator[DecodedRecords]:
    """Yield `key` and `offset` of a segment's records, without those of the aborted `spans`."""
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
