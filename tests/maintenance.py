"""Jobs without Spark, over the one partition of tests.partitions or over a log dir."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.errors import CorruptMetadataError
from sparklog.fleet import LocalFleet
from sparklog.log.names import CLUSTER_METADATA
from sparklog.maintenance.job import Job, JobContext, Outcome
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.follow import FollowedLog
from sparklog.metadata.state.edit import Edit, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from tests import logs
from tests.partitions import TOPIC, Partition


def context_of(log: Partition | str | Path, configs: Mapping[str, str] | None = None) -> JobContext:
    """The context of a job of this process."""
    if isinstance(log, Partition):
        if configs:
            topic = replace(TOPIC, configs=dict(configs))
            edit = Edit(operation="TEST", topics={TOPIC.topic_id: TopicEdit(description=topic)})
            log.catalog.log.commit(lambda _: edit)
        return JobContext(log.catalog, LocalFleet())
    return JobContext(Catalog(open_files(str(log))), LocalFleet())


def new_topic(
    log_dir: str | Path,
    name: str = "t",
    partitions: int = 4,
    config: Mapping[str, object] | None = None,
) -> str:
    """Make a topic whose segments are files of its own, however small they are."""
    return logs.new_topic(log_dir, name, partitions, logs.OWN_FILES | dict(config or {}))


def alter(log_dir: str, **config: object) -> None:
    """Set configs of topic t; an underscore is a point."""
    ops = [AlterConfigOp(name.replace("_", "."), str(value)) for name, value in config.items()]
    AdminClient(log_dir).incremental_alter_configs({"t": ops})


def make_unreadable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a topic's part of the metadata be damaged."""
    read = Catalog.topic_image

    def read_others(catalog: Catalog, topic: TopicDescription) -> TopicImage:
        if topic.name == name:
            raise CorruptMetadataError(f"{name}: a run cannot be read")
        return read(catalog, topic)

    monkeypatch.setattr(Catalog, "topic_image", read_others)
    monkeypatch.setattr(FollowedLog, "known", lambda _log, _topic_id: None)


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
    """The outcome of the only step that a job has to do to a topic."""
    _, reports = run(job, log, **options)
    (report,) = [report for report in reports if report.topic != CLUSTER_METADATA]
    assert report.outcome is not None
    return report.outcome
