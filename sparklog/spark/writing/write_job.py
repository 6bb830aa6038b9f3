"""A write as its driver sees it: planned once, written by tasks, committed at once."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sparklog.errors import InvalidOptionError
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.log_writer import (
    PRODUCE,
    WriteOptions,
    WritePlan,
    in_order,
    mixed,
    plan_write,
    plan_write_on,
    write_of,
)
from sparklog.metadata.catalog import Catalog, Landed, Write, topic_of
from sparklog.model import TopicPartition
from sparklog.spark.writing.produce_result import ProduceResult
from sparklog.spark.writing.write_task import TopicSegments, WriteTask
from sparklog.storage.files import Files

FILES_MAX: Final = 1000
"""If a write would make more files, its rows should be clustered by partition first."""

TaskSegments = tuple[int, Mapping[str, TopicSegments]]
"""A task's number, and the segments that it wrote by topic."""


@dataclass(frozen=True)
class WriteJob:
    """One write of rows to one topic, or to those that the column `topic` names. Picklable.

    `topic` None means that the column decides. `seed` is drawn once, so that a task that runs again
    does the same again. `app_id` and `version` make the write happen once; `is_micro_batch` says
    that they are a query and the number of its micro-batch.
    """

    files: Files
    plans: Mapping[str, WritePlan]
    topic: str | None
    seed: int
    app_id: str | None = None
    version: int | None = None
    is_micro_batch: bool = False

    @classmethod
    def planned(
        cls, catalog: Catalog, given: Mapping[str, Any], columns: Collection[str]
    ) -> "WriteJob":
        """Plan a write as typed PRODUCE_OPTIONS ask, from the newest image of each topic.

        `columns` are those of the rows. Raises InvalidOptionError, UnknownTopicError, LogDirError,
        and InvalidTopicError for an internal topic.
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
            # Opened together: each alone would read the runs anew.
            image, now_ms = catalog.image(*topics.values()), catalog.clock.now_ms()
            plans = {
                name: plan_write_on(topic_of(image, topic), now_ms, options)
                for name, topic in topics.items()
                if name not in INTERNAL_TOPICS
            }
        seed = int.from_bytes(os.urandom(6), "big")
        return cls(catalog.files, plans, topic, seed, given["txnAppId"], given["txnVersion"])

    def catalog(self) -> Catalog:
        """Return a catalog of the log dir, for a commit in another process than the plan."""
        flush = all(plan.options.flush for plan in self.plans.values())
        return Catalog(self.files, flush=flush)

    def task(self) -> WriteTask:
        """Return the function that each task runs."""
        return WriteTask(self.files, self.plans, self.topic, seed=self.seed)

    def is_committed(self, catalog: Catalog) -> bool:
        """Whether this write has landed already: in every topic that its rows may name."""
        app_id, version = self.app_id, self.version
        if app_id is None or version is None:
            return False
        topics = [plan.topic for plan in self.plans.values()]
        return bool(topics) and all(
            catalog.is_committed(topic, app_id, version) for topic in topics
        )

    def commit(
        self,
        catalog: Catalog,
        written: Iterable[TaskSegments],
        *,
        operation: str = PRODUCE,
        parameters: Mapping[str, str] | None = None,
    ) -> ProduceResult:
        """Make what the tasks wrote visible, all topics in one commit, and return its offsets.

        Segments get offsets in (task, file) order, or have their own. The log's history shows
        `operation` and `parameters`, by default the application and its version. Raises what
        `commit_write` raises; then nothing of any topic is visible, except perhaps after
        CommitOutcomeUnknownError.
        """
        written = list(written)
        names = {name for _, by_topic in written for name in by_topic}
        names |= {self.topic} if self.topic is not None else set()
        writes = [self.write(name, written) for name in sorted(names)]
        told = self.told() if parameters is None else parameters
        landed = catalog.commit_all(writes, operation=operation, parameters=told)
        return result_of(zip(sorted(names), landed, strict=True))

    def replayed(self, catalog: Catalog) -> ProduceResult:
        """Return the answer of a write that `is_committed`."""
        writes = [self.write(name, ()) for name in sorted(self.plans)]
        landed = catalog.commit_all(writes, operation=PRODUCE)
        return result_of(zip(sorted(self.plans), landed, strict=True))

    def write(self, name: str, written: Collection[TaskSegments]) -> Write:
        """Return one topic's part of the commit."""
        parts = [(task, of_topic[name]) for task, of_topic in written if name in of_topic]
        plan = _one_plan([part.plan for _, part in parts]) or self.plans[name]
        pending = in_order((task, part.entries) for task, part in parts)
        return write_of(
            plan,
            pending,
            app_id=self.app_id,
            version=self.version,
            is_micro_batch=self.is_micro_batch,
        )

    def told(self) -> dict[str, str]:
        """Return the parameters that the log's history shows; {} for a write without `app_id`."""
        if self.app_id is None:
            return {}
        return {"txnAppId": self.app_id, "txnVersion": str(self.version)}


def writing_catalog(files: Files, given: Mapping[str, Any]) -> Catalog:
    """Return the catalog of a log dir for a write by typed PRODUCE_OPTIONS."""
    return Catalog(files, flush=given["flush"] == "fsync")


def result_of(landed: Iterable[tuple[str, Landed]]) -> ProduceResult:
    """Return the answers of topics as one."""
    by_topic = dict(landed)
    return ProduceResult(
        {
            TopicPartition(name, one.partition): one
            for name, got in by_topic.items()
            for one in got.ranges or ()
        },
        frozenset(name for name, got in by_topic.items() if got.replayed),
        frozenset(name for name, got in by_topic.items() if got.ranges is None),
    )


def _one_plan(plans: Sequence[WritePlan]) -> WritePlan | None:
    """Return the plan under which all tasks wrote; None if none has written.

    Raises UnexpectedAppendOffsetError if only some of them had offsets of their own.
    """
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
