"""A write as its driver sees it: planned once, written by tasks, committed topic by topic."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sparklog.errors import InvalidOptionError
from sparklog.log_writer import (
    WriteOptions,
    WritePlan,
    commit_write,
    in_order,
    is_committed,
    mixed,
    plan_write,
    plan_write_to,
)
from sparklog.metadata.catalog import Catalog
from sparklog.model import OffsetRange, TopicPartition
from sparklog.spark.write_task import TopicSegments, WriteTask
from sparklog.storage.files import Files

FILES_MAX: Final = 1000
"""Above this many files rows are better clustered by partition before they are written."""

TaskSegments = tuple[int, Mapping[str, TopicSegments]]
"""A task's number, and the segments that it wrote by topic."""


@dataclass(frozen=True)
class ProduceResult:
    """What a produce got.

    `ranges` holds the offsets of each partition that got records. `replayed` are the topics that
    had this write already (by txnAppId and txnVersion); those in `forgotten` had it so long ago
    that their offsets are no longer known.
    """

    ranges: Mapping[TopicPartition, OffsetRange]
    replayed: frozenset[str] = field(default_factory=frozenset)
    forgotten: frozenset[str] = field(default_factory=frozenset)

    @property
    def count(self) -> int:
        """How many offsets were taken: one a record, and those left out by allowOffsetGaps."""
        return sum(got.span for got in self.ranges.values())


@dataclass(frozen=True)
class WriteJob:
    """One write of rows to one topic, or to those that the column `topic` names. Picklable.

    `topic` None means that the column decides. `seed` is drawn once, so that a task that runs again
    does the same again. `app_id` and `version` make the write happen once.
    """

    files: Files
    plans: Mapping[str, WritePlan]
    topic: str | None
    seed: int
    app_id: str | None = None
    version: int | None = None

    @classmethod
    def planned(
        cls, catalog: Catalog, given: Mapping[str, Any], columns: Collection[str]
    ) -> "WriteJob":
        """Plan a write as typed PRODUCE_OPTIONS ask, from one snapshot of each topic.

        `columns` are those of the rows. Raises InvalidOptionError, UnknownTopicError, LogDirError.
        """
        if (given["txnAppId"] is None) != (given["txnVersion"] is None):
            raise InvalidOptionError(
                "options txnAppId and txnVersion go together", option="txnAppId"
            )
        options, topic = _write_options(given, columns), given["topic"]
        if topic is not None:
            plans = {topic: plan_write(catalog, topic, options)}
        else:
            topics = catalog.topics()
            plans = {name: plan_write_to(catalog, topics[name], options) for name in topics}
        seed = int.from_bytes(os.urandom(6), "big")
        return cls(catalog.files, plans, topic, seed, given["txnAppId"], given["txnVersion"])

    def catalog(self) -> Catalog:
        """Return the topics of the log dir, for a commit in another process than planned it."""
        flush = all(plan.options.flush for plan in self.plans.values())
        return Catalog(self.files, flush=flush)

    def task(self) -> WriteTask:
        """Return what each task runs."""
        return WriteTask(self.files, self.plans, self.topic, seed=self.seed)

    def is_committed(self, catalog: Catalog) -> bool:
        """Whether this write has landed already; with several topics only the commit can tell."""
        if self.topic is None or self.app_id is None or self.version is None:
            return False
        store = catalog.store(self.plans[self.topic].topic)
        return is_committed(store, self.app_id, self.version)

    def commit(self, catalog: Catalog, written: Iterable[TaskSegments]) -> ProduceResult:
        """Make what the tasks wrote visible, one commit a topic, and return its offsets.

        Segments get offsets in (task, file) order, or have their own. Raises what `commit_write`
        raises.
        """
        written = list(written)
        names = {name for _, by_topic in written for name in by_topic}
        names |= {self.topic} if self.topic is not None else set()
        result = ProduceResult({})
        for name in sorted(names):
            parts = [(task, of_topic[name]) for task, of_topic in written if name in of_topic]
            plan = _one_plan([part.plan for _, part in parts]) or self.plans[name]
            pending = in_order((task, part.entries) for task, part in parts)
            store = catalog.store(plan.topic)
            got = commit_write(store, plan, pending, app_id=self.app_id, version=self.version)
            ranges = {TopicPartition(name, one.partition): one for one in got.ranges or ()}
            result = replace(
                result,
                ranges={**result.ranges, **ranges},
                replayed=result.replayed | ({name} if got.replayed else set()),
                forgotten=result.forgotten | ({name} if got.ranges is None else set()),
            )
        return result


def _one_plan(plans: Sequence[WritePlan]) -> WritePlan | None:
    """The plan under which all tasks wrote; None when none did."""
    if len({plan.options.keeps_offsets for plan in plans}) > 1:
        raise mixed(plans[0])
    return plans[0] if plans else None


def _write_options(given: Mapping[str, Any], columns: Collection[str]) -> WriteOptions:
    keeps_offsets, allows_gaps = "offset" in columns, given["allowOffsetGaps"]
    if allows_gaps and not keeps_offsets:
        raise InvalidOptionError(
            "option allowOffsetGaps is about the column offset, and there is none",
            option="allowOffsetGaps",
        )
    return replace(
        WriteOptions.of(given), keeps_offsets=keeps_offsets, allow_offset_gaps=allows_gaps
    )
