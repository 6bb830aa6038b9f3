"""A produce from the command line: rows to open segments, and one commit when asked."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklog.cli.records.input import InputRows
from sparklog.log_writer import (
    PRODUCE,
    SharedSegment,
    WriteOptions,
    WritePlan,
    counted_from,
    plan_write,
    write_of,
)
from sparklog.log_writer.topic_writer import TopicWriter, bound_memory
from sparklog.metadata.catalog import Catalog, Landed
from sparklog.model import OffsetRange, SegmentEntry, TopicPartition
from sparklog.record.rows import RecordColumns


@dataclass(slots=True)
class Produced:
    """The records that became visible: offsets, records and bytes by partition.

    Several commits of a partition make one range, from the first offset to the last. If others
    produced in between, the range has more offsets than `records`. `replayed` are topics that had
    this write already, and `forgotten` those of them whose offsets are no longer known.
    """

    ranges: dict[TopicPartition, OffsetRange] = field(default_factory=dict)
    records: dict[TopicPartition, int] = field(default_factory=dict)
    size: dict[TopicPartition, int] = field(default_factory=dict)
    replayed: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)

    def add(self, topic: str, got: OffsetRange) -> None:
        """Count a committed range."""
        place = TopicPartition(topic, got.partition)
        first = self.ranges.get(place, got)
        self.ranges[place] = OffsetRange(got.partition, first.start, got.end)
        self.records[place] = self.records.get(place, 0) + got.span

    def add_bytes(self, place: TopicPartition, size: int) -> None:
        """Count the bytes of a committed segment."""
        self.size[place] = self.size.get(place, 0) + size


class Production:
    """Writes rows of any topics of one catalog; `commit` makes them visible, `abort` drops them."""

    def __init__(
        self,
        catalog: Catalog,
        options: WriteOptions,
        transaction: tuple[str | None, int | None] = (None, None),
    ) -> None:
        self.produced = Produced()
        self.pending = 0
        self.clock = catalog.clock
        self._catalog = catalog
        self._options = options
        self._transaction = transaction
        self._open: dict[str, tuple[WritePlan, TopicWriter]] = {}
        self._shared = SharedSegment(catalog.files, catalog.clock)
        self._given: Counter[str] = Counter()

    def open(self, topic: str) -> None:
        """Plan to write to a topic. Raises UnknownTopicError."""
        if topic not in self._open:
            plan = plan_write(self._catalog, topic, self._options)
            seed = int.from_bytes(os.urandom(4))
            writer = TopicWriter(self._catalog.files, plan, self._catalog.clock, seed, self._shared)
            self._open[topic] = plan, writer

    def write(self, topic: str, rows: InputRows) -> None:
        """Append rows; those without a timestamp get the plan's time. Raises as TopicWriter."""
        self.open(topic)
        plan, writer = self._open[topic]
        with counted_from(f"record {self._given[topic] + 1} for topic {topic!r}"):
            writer.write(_record_columns(rows, plan.now_ms), rows.partition)
        self._given[topic] += len(rows)
        self.pending += len(rows)

    def bound_memory(self) -> None:
        """Let the writers of all topics hold no more, together, than one alone may hold."""
        bound_memory(writer for _, writer in self._open.values())

    def commit(self) -> None:
        """Make everything written visible, all topics in one commit. Raises as `commit_write`."""
        app_id, version = self._transaction
        writes, pending = [], []
        for topic in sorted(self._open):
            plan, writer = self._open[topic]
            written = writer.close()
            del self._open[topic]
            if written or app_id is not None:
                writes.append(write_of(plan, written, app_id=app_id, version=version))
                pending.append(written)
        self._shared.close()
        self._shared = SharedSegment(self._catalog.files, self._catalog.clock)
        if writes:
            landed = self._catalog.commit_all(writes, operation=PRODUCE)
            for write, written, got in zip(writes, pending, landed, strict=True):
                self._note(write.topic.name, written, got)
        self.pending = 0

    def _note(self, topic: str, pending: Sequence[SegmentEntry], landed: Landed) -> None:
        if landed.replayed:
            self.produced.replayed.add(topic)
        if landed.ranges is None:
            self.produced.forgotten.add(topic)
        for got in landed.ranges or ():
            self.produced.add(topic, got)
        for entry in () if landed.replayed else pending:
            self.produced.add_bytes(TopicPartition(topic, entry.partition), entry.log_bytes)

    def abort(self) -> None:
        """Drop the rows that were not committed."""
        for _, writer in self._open.values():
            writer.abort()
        self._shared.abort()
        self._open.clear()


def _record_columns(rows: InputRows, now_ms: int) -> RecordColumns:
    if rows.timestamp is None:
        timestamp = np.full(len(rows), now_ms, np.int64)
    else:
        timestamp = rows.timestamp.fill_null(now_ms).to_numpy(zero_copy_only=False)
    return RecordColumns(rows.key, rows.value, timestamp, rows.headers)
