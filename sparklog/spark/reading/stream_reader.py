"""The streaming reader of the data source: new offsets, the limits of a batch, its segments.

For each run of a query Spark keeps one reader in a process of its own. This reader plans the
micro-batches. Its copies in the tasks only read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from sparklog.clock import Clock, SystemClock
from sparklog.errors import LogDirError, UnknownTopicError
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicPartition, offsets_json
from sparklog.spark.reading.limits import Limits, Offsets
from sparklog.spark.reading.plan import ReadRange, SliceFinder, cut, lost, plan_start, readers_of
from sparklog.spark.reading.position import Json, Position
from sparklog.spark.reading.read_task import RangePartition, ReadTask
from sparklog.spark.reading.selection import missing, selected
from sparklog.spark.reading.waiting import Waiting, held_back
from sparklog.storage.files import Files
from sparklog.storage.log_dir import open_log_dir

if TYPE_CHECKING:
    from sparklog.spark.reading.groups import GroupCommits

NOT_SELECTED: Final = "is not selected any more"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what `options` (parsed CONSUME_OPTIONS and STREAM_OPTIONS) select, batch by batch."""

    def __init__(
        self, files: Files, options: Mapping[str, Any], clock: Clock | None = None
    ) -> None:
        self._files = files
        self._options = dict(options)
        self._fails = bool(options["failOnDataLoss"])
        self._isolation = str(options["isolation.level"])
        self._limits = Limits.of(options)
        self._clock = clock or SystemClock()
        self._task = ReadTask(files, options)
        self._initial: Json | None = None
        self._newest: Position | None = None
        self._log_starts: Offsets = {}
        """The log start offsets that were seen last."""
        self._waiting: Waiting | None = None
        self._is_available_now = False
        self._last_batch_ms = 0

    @cached_property
    def _catalog(self) -> Catalog:
        return Catalog(self._files, self._clock)

    @cached_property
    def _commits(self) -> "GroupCommits | None":
        group_id = self._options["groupId"]
        if not group_id:
            return None
        from sparklog.spark.reading.groups import GroupCommits

        return GroupCommits(self._catalog, group_id)

    def initialOffset(self) -> Json:
        """Return where a new stream begins; every call in one run returns the same."""
        if self._initial is None:
            self._initial = Position(plan_start(self._catalog, self._options)).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that options set; with one, ReadAllAvailable means Trigger.Once."""
        if self._limits.max_offsets is not None:
            return ReadMaxRows(self._limits.max_offsets)
        if self._limits.min_offsets is not None:
            return ReadMinRows(self._limits.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream: the log ends at the next call of `latestOffset`."""
        self._is_available_now = True
        self._newest = None

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return where the next micro-batch ends; `start` itself if there is none.

        The first micro-batch is made even if it has no records: its end tells the checkpoint where
        the stream began.
        """
        before = Position.of_json(start)
        commits = None if before.is_initial else self._commits
        if commits is not None:
            commits.commit(before)  # when Spark asks, the micro-batches up to `before` are done
        end = self._next(before, start, limit)
        if commits is not None and end == start:
            commits.wait()  # no records wait, and an AvailableNow run ends now
        return end

    def _next(self, before: Position, start: Json, limit: ReadLimit) -> Json:
        newest = self._look(before)
        began = before.offsets if before.is_initial else None
        ended = replace(newest, start=began)
        # Offsets below the log start have no records; the limits do not count them.
        starts = self._log_starts
        begins = {key: max(at, starts.get(key, 0)) for key, at in before.begins(ended).items()}
        if not isinstance(limit, ReadAllAvailable):
            # With ReadAllAvailable (Trigger.Once) there is no later micro-batch to wait for.
            waited_ms = self._clock.now_ms() - self._last_batch_ms
            waits = self._limits.waits(begins, newest.offsets, waited_ms)
            if waits and not self._is_available_now:
                return start
            ended = replace(ended, offsets=self._limits.cut(begins, newest.offsets))
        if not before.is_initial and ended == replace(before, start=None):
            return start
        self._last_batch_ms = self._clock.now_ms()
        return ended.to_json()

    def reportLatestOffset(self) -> Json | None:
        """Return the ends that were seen last, for the query's progress to show the lag.

        If the stream waits at an open transaction, they name it (`sparklog.spark.reading.waiting`).
        """
        if self._newest is None:
            return None
        ends: Json = offsets_json(self._newest.offsets)
        return ends if self._waiting is None else ends | self._waiting.told()

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the ranges of a micro-batch; lost records are an error, or a warning."""
        after = Position.of_json(end)
        begins, ids = Position.of_json(start).begins(after), after.ids or {}
        ranges = [
            ReadRange(key.topic, ids[key.topic], key.partition, begins[key], offset)
            for key, offset in after.offsets.items()
            if offset != begins[key]
        ]
        for one in ranges:
            if one.size < 0:
                self._lost(one.topic, f"ends at {one.end}, before {one.start}", one.partition)
        finder = SliceFinder(self._catalog, self._isolation, fails=self._fails)
        return [
            RangePartition(wanted, finder.slices(wanted)) for wanted in cut(ranges, self._options)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in the order of the log."""
        return self._task.read(partition)

    def _look(self, before: Position) -> Position:
        """Return the ends of the selected partitions; for AvailableNow, those of the first look."""
        if self._newest is None or not self._is_available_now:
            newest = self._ends(before)
            self._check(before, newest)
            self._newest = newest
        return self._newest

    def _ends(self, before: Position) -> Position:
        """Return where each partition ends now, to a reader of this isolation level.

        A stream may be past the last stable offset already: it began there, or it was
        read_uncommitted before. Then its end stays at its position. Commits of others are
        made durable first: a power cut must not take back records that a checkpoint has passed.
        """
        wanted = selected(self._catalog, self._options, must_exist=False)
        readers = readers_of(self._catalog, wanted)
        logs = {key: readers[key.topic].partition(key.partition) for key in wanted}
        ids = {topic.name: topic.topic_id for topic in wanted.values()}
        ends = {key: log.log_end_offset for key, log in logs.items()}
        self._log_starts = {key: log.log_start_offset for key, log in logs.items()}
        begins = before.begins(Position(ends, ids, before.offsets))
        held = held_back(wanted, readers, self._isolation)
        if held and self._waiting is None:
            self._waiting = Waiting(self._catalog, self._clock)
        if self._waiting is not None:
            self._waiting.look(held)
        stable = {key: log.end_offset(self._isolation) for key, log in logs.items()}
        offsets = {key: max(stable[key], min(begins[key], ends[key])) for key in wanted}
        self._catalog.log.sync()
        return Position(offsets, ids, cluster=open_log_dir(self._files).cluster_id)

    def _check(self, before: Position, newest: Position) -> None:
        """Check that all topics exist, and that log dir and topics are those of the checkpoint.

        New topics are allowed. Any other difference is an error, or a warning if failOnDataLoss is
        false.
        """
        for error in missing(self._catalog, self._options, before.offsets):
            lost(error, fails=self._fails)
        known, ids = before.ids or {}, newest.ids or {}
        if before.cluster not in (None, newest.cluster):
            problem = (
                f"{self._files.uri}: the checkpoint of the stream belongs to cluster id "
                f"{before.cluster}, and the log dir has {newest.cluster}: it was restored or "
                f"replaced, so its offsets may name other records"
            )
            lost(LogDirError(problem), fails=self._fails)
        for topic in sorted({key.topic for key in before.offsets}):
            if topic not in ids:
                exists = topic in self._catalog.topics()
                self._lost(topic, NOT_SELECTED if exists else "does not exist any more")
            elif known.get(topic, ids[topic]) != ids[topic]:
                self._lost(topic, "was deleted and created again")
        for key in sorted(set(before.offsets) - set(newest.offsets)):
            if key.topic in ids:
                self._lost(key.topic, NOT_SELECTED, key.partition)

    def _lost(self, topic: str, event: str, partition: int | None = None) -> None:
        where = f"topic {topic!r}" if partition is None else str(TopicPartition(topic, partition))
        problem = f"{where}, which the checkpoint of the stream names, {event}"
        lost(UnknownTopicError(problem, topic=topic), fails=self._fails)
