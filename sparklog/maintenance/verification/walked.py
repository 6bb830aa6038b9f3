"""The walk through a part of a log, which finds its transactions; a task of `verify --repair`.

    log         a(7)   b(8)   COMMIT(7)   c(8)   ABORT(8)   d(9)     producer ids in parentheses
    opened      9 from 5
    shown       8 in [1, 4], if no row hides it

It tells what is open in truth, and which aborted transactions readers would be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparklog.log.windows import checked_windows
from sparklog.log_reader.isolation import AbortedSpan, aborted_spans
from sparklog.log_reader.opened import damage_in, opened
from sparklog.maintenance.verification.verified_producers import AbortedSpans
from sparklog.metadata.catalog import topic_directory
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.batches import BatchTable, byte_view
from sparklog.record.markers import ABORT, NO_MARKER, marker_kinds
from sparklog.storage.files import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkWork:
    """The work of a task: the batches of a partition in the offsets [start, end)."""

    files: Files
    topic: TopicDescription
    entries: Sequence[SegmentEntry]
    start: int
    end: int


class Walked:
    """The transactions in a part of a log. `add` takes all batches of the part, in order.

    `opened` has the first record of each producer behind its last marker and the last gap. `shown`
    are aborted transactions with a record that a row does not hide. `unknown` has the first record
    of each transaction whose marker may be lost, by producer.
    """

    def __init__(self, start: int) -> None:
        self.opened: dict[int, int] = {}
        self.shown: list[AbortedSpan] = []
        self.unknown: dict[int, list[int]] = {}
        self._start = self._next = start
        self._has_shown: set[int] = set()

    def add(self, batches: BatchTable, kinds: NDArray[np.int64], hidden: NDArray[np.bool_]) -> None:
        """Take batches with offsets of the log; those below the start of the part do not count."""
        first = int(np.searchsorted(batches.last_offset, self._start))
        some = batches.slice(first)
        gaps = some.base_offset > some.due_offsets(self._next)
        self._next = max(self._next, int(batches.last_offset[-1]) + 1)
        counts = some.is_transactional & (some.is_control | (some.record_count > 0))
        counts &= some.producer_id >= 0
        rows = np.flatnonzero(gaps | counts)
        columns = (some.producer_id, some.base_offset, some.is_control, kinds[first:])
        events = (one[rows].tolist() for one in (gaps, counts, *columns, hidden[first:]))
        for is_gap, is_event, *event in zip(*events, strict=True):
            if is_gap:
                self._lose()
            if is_event:
                self._take(*event)

    def end(self, end_offset: int) -> None:
        """Take note that no batch comes before this offset."""
        if self._next < end_offset:
            self._lose()

    def _lose(self) -> None:
        """Forget what is open: it may have ended in a gap of offsets."""
        for producer, first in self.opened.items():
            self.unknown.setdefault(producer, []).append(first)
        self.opened.clear()
        self._has_shown.clear()

    def _take(
        self, producer: int, offset: int, is_control: bool, kind: int, is_hidden: bool
    ) -> None:
        if not is_control:
            self.opened.setdefault(producer, offset)
            if not is_hidden:
                self._has_shown.add(producer)
            return
        first = self.opened.pop(producer, None)
        if first is not None and kind == NO_MARKER:
            self.unknown.setdefault(producer, []).append(first)
        elif kind == ABORT and first is not None and producer in self._has_shown:
            self.shown.append(AbortedSpan(producer, first, offset))
        self._has_shown.discard(producer)


def walked(work: WalkWork) -> Walked:
    """Walk through the batches. Raises CorruptRecordError and MissingFileError, with the file."""
    directory, found = topic_directory(work.topic), Walked(work.start)
    for entry in work.entries:
        spans = AbortedSpans(aborted_spans([entry]))
        with damage_in(directory, entry):
            for window in checked_windows(opened(work.files, directory, entry)):
                batches = window.batches.raised(entry.shift)
                kinds = marker_kinds(byte_view(window.data), batches)
                found.add(batches, kinds, spans.hide(batches.producer_id, batches.base_offset))
    found.end(work.end)
    return found
