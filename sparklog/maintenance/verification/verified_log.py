"""Compares aborted spans, open transactions and producers with the batches of a partition.

The traces of its segments are joined, in the order of offsets. Only what is certainly wrong is
told. Compaction and retention drop batches and markers, so nothing is said

    of transactions across a gap of offsets, or below the log start
    of a producer without a state, or with one without batches: the state may have been forgotten
    of batches in a state that lie before the last gap, were imported, or are below the log start
"""

from collections.abc import Iterator
from copy import copy

from sparklog.log_reader.opened import log_path
from sparklog.maintenance.verification.ended import Ended, Unnamed, Wrong, unnamed
from sparklog.maintenance.verification.verified_producers import (
    NEVER,
    NOWHERE,
    LastBatch,
    OpenPart,
    Trace,
    Traces,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.image import PartitionLog, TopicImage
from sparklog.metadata.state.producers import ProducerState
from sparklog.model import SegmentEntry


class LogStates:
    """Joins the traces of a topic's segments, partition by partition, in the order of offsets."""

    def __init__(self, image: TopicImage) -> None:
        self._image = image
        self._directory = topic_directory(image.description)
        self._log: _LogState | None = None
        self.wrong: list[Wrong] = []
        """The open transactions that the image has wrongly."""

    def add(self, entry: SegmentEntry, traces: Traces | None) -> list[str]:
        """Take the next segment; return its problems, and those of a partition that is complete.

        `traces` are None for a damaged segment. It may be left out, too: both are a gap.
        """
        problems = []
        if self._log is None or self._log.partition != entry.partition:
            problems = self.finish()
            self._log = _LogState(self._image.partition(entry.partition), self._directory)
        if traces is not None and entry.next_offset > self._log.start:
            problems += self._log.added(entry, traces)
        return problems

    def finish(self) -> list[str]:
        """Return the problems of the last partition, and note its wrong transactions."""
        if self._log is None:
            return []
        self.wrong += self._log.unnamed()
        self.wrong += self._log.ended()
        return list(self._log.problems())


class _LogState:
    """The producers and transactions of one partition, in the batches so far.

    `_parts` are the parts of transactions without a marker yet, with the paths of their segments.
    `_markers` are the first ones in transactions that the image says are open. `_batches` are the
    last ones of those producers that the image names.
    """

    def __init__(self, log: PartitionLog, directory: str) -> None:
        self.partition = log.partition
        self.start = log.log_start_offset
        self._log = log
        self._directory = directory
        # A copy: else the image would keep the states of all partitions.
        self._states = copy(log.idempotence).states
        self._opened = {one.producer_id: one.first_offset for one in log.transactions}
        self._next = self._dense_from = NOWHERE
        self._parts: dict[int, list[tuple[str, OpenPart]]] = {}
        self._markers: dict[int, tuple[int, int]] = {}
        self._batches: dict[int, LastBatch] = {}

    def added(self, entry: SegmentEntry, traces: Traces) -> Iterator[str]:
        """Take a segment; yield the problems of its row, and of those before it."""
        path = f"{self._log.name}: {log_path(self._directory, entry)}"  # it may be a shared one
        yield from (f"{path}: {problem}" for problem in traces.problems)
        if entry.base_offset != self._next:
            self._parts.clear()
            self._dense_from = entry.base_offset
        for producer, trace in traces.by_producer.items():
            yield from self._open_and_ended(producer, trace)
            self._note(producer, trace)
        if traces.has_gap:
            self._parts.clear()
            self._dense_from = traces.dense_from
        for producer, trace in traces.by_producer.items():
            if trace.part is not None:
                self._parts.setdefault(producer, []).append((path, trace.part))
        self._next = entry.next_offset

    def _open_and_ended(self, producer: int, trace: Trace) -> Iterator[str]:
        if trace.end is None:
            return
        kind, offset = trace.end
        for path, part in self._parts.pop(producer, ()):
            problem = part.problem(producer, kind, offset, self._opened.get(producer, NEVER))
            if problem is not None:
                yield f"{path}: {problem}"

    def _note(self, producer: int, trace: Trace) -> None:
        if trace.marker is not None:
            self._markers.setdefault(producer, trace.marker)
        if producer in self._states and trace.batch is not None:
            self._batches[producer] = trace.batch

    def ended(self) -> Iterator[Ended]:
        """Yield the open transactions of the image that have ended, by producer."""
        for producer, (kind, offset) in sorted(self._markers.items()):
            opened = OpenTransaction(producer, self._opened[producer])
            yield Ended(self.partition, opened, kind, offset)

    def unnamed(self) -> list[Unnamed]:
        """Return the open transactions that the image lacks, or has from a later offset on."""
        parts = self._parts.items() if self._is_complete else ()
        opened = {producer: some[0][1].first for producer, some in parts}
        return unnamed(self.partition, opened, self._opened)

    def problems(self) -> Iterator[str]:
        """Yield what the image says wrongly of producers."""
        for producer, state in sorted(self._states.items()):
            found = self._batches.get(producer)
            if state.batches and self._is_wrong(state, found):
                yield f"{self._log.name}: {_difference(state, found)}"

    @property
    def _is_complete(self) -> bool:
        return self._next == self._log.log_end_offset

    def _is_wrong(self, state: ProducerState, found: LastBatch | None) -> bool:
        said = state.batches[-1].last_offset
        if found is not None and found.last_offset == said:
            last = (state.epoch, state.batches[-1].last_sequence)
            return found.is_whole and (found.epoch, found.last_sequence) != last
        # An imported state comes from a broker's snapshot, whatever the log has.
        known_from = max(self._dense_from, self._log.imported_end_offset)
        is_missing = self._is_complete and known_from <= said
        return is_missing or (found is not None and found.last_offset > said)


def _difference(state: ProducerState, found: LastBatch | None) -> str:
    said = state.batches[-1]
    known = "it has none there"
    if found is not None:
        at = f"offset {found.last_offset}, with sequence {found.last_sequence}"
        known = f"its last one ends at {at} of epoch {found.epoch}"
    return (
        f"the metadata say that the last batch of producer {state.producer_id} ends at offset "
        f"{said.last_offset}, with sequence {said.last_sequence} of epoch {state.epoch}; in the "
        f"log {known}"
    )
