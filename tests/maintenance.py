"""Jobs without Spark, over the one partition of tests.partitions or over a log dir."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparklog.clock import ManualClock
from sparklog.maintenance.fleet import LocalFleet
from sparklog.maintenance.job import Job, JobContext, Outcome
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.manifest.catalog import Catalog
from sparklog.manifest.cluster import ClusterStore, MemoryClusterStore
from sparklog.manifest.store import ManifestStore
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from tests.partitions import TOPIC, Partition


class OneTopic(Catalog):
    """A catalog of the topic of a test's partition."""

    def __init__(self, partition: Partition, configs: Mapping[str, str] | None = None) -> None:
        super().__init__(partition.files, ManualClock())
        self._one = partition
        self._state = MemoryClusterStore()
        topic = TopicDescription("t", TOPIC.topic_id, 1, dict(configs or {}), 0)
        self._state.commit(lambda state: state.with_topics(topic))

    @property
    def cluster(self) -> ClusterStore:
        return self._state

    def store(self, topic: TopicDescription) -> ManifestStore:
        return self._one.store


def context_of(log: Partition | str | Path, configs: Mapping[str, str] | None = None) -> JobContext:
    """What a job of this process works with."""
    if isinstance(log, Partition):
        return JobContext(OneTopic(log, configs), LocalFleet())
    return JobContext(Catalog(open_files(str(log))), LocalFleet())


def run(
    job: Job,
    log: Partition | str | Path,
    *,
    configs: Mapping[str, str] | None = None,
    dry_run: bool = False,
    **options: Any,
) -> tuple[int, list[StepReport]]:
    """Run a job over every topic; return its exit code and its reports."""
    reports: list[StepReport] = []
    one = JobRun(name="job", job=job, options=options, dry_run=dry_run)
    code = one.run(context_of(log, configs), reports.append)
    return code, reports


def outcome_of(job: Job, log: Partition | str | Path, **options: Any) -> Outcome:
    """The outcome of the only step that a job has to do."""
    _, (report,) = run(job, log, **options)
    assert report.outcome is not None
    return report.outcome
