"""A worker: runs the jobs, one after the other, as a scheduler does; and the last run of all."""

import time
from collections.abc import Mapping
from typing import Any, Final

from sparklog.clock import ManualClock, SystemClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.check import paths_of
from sparklog.storage import open_files
from tests.soak.history import Failed, Journal, Ran
from tests.soak.setup import Life

JOBS: Final[Mapping[str, tuple[Job, Mapping[str, Any], int]]] = {
    "build_index": (build_index, {"check": False, "rebuild": False}, 1),
    "retention": (retention, {}, 1),
    "compact": (compact, {"force": False, "reindex": False}, 3),
    "merge_segments": (merge_segments, {"seal": False}, 1),
    "vacuum": (vacuum, {}, 2),
    "verify": (verify, {"repair": False}, 1),
}
"""Each job, its options, and how often it is chosen."""
PAUSE_MAX_S: Final = 0.2
DAY_MS: Final = 86_400_000


def work(life: Life) -> None:
    """Run a job after the other until the deadline, in any order."""
    draw, journal = life.draws(), life.journal()
    context = JobContext(life.catalog(), LocalFleet())
    while time.monotonic() < life.deadline:
        (name,) = draw.choices(list(JOBS), [often for _, _, often in JOBS.values()])
        run(name, context, journal)
        time.sleep(draw.uniform(0, PAUSE_MAX_S))


def run(name: str, context: JobContext, journal: Journal, **options: Any) -> None:
    """Run a job over all topics and write down what it did; problems are anomalies."""
    job, defaults, _ = JOBS[name]
    began = time.monotonic_ns()

    def note(report: StepReport) -> None:
        assert report.outcome is not None
        for problem in report.outcome.problems:
            journal.note(Failed(name, f"{report.topic}: {problem}"))
        ended = time.monotonic_ns()
        journal.note(Ran(name, report.topic, dict(report.outcome.counts), began, ended))

    JobRun(name=name, job=job, options={**defaults, **options}).run(context, note)


def run_all(life: Life) -> list[str]:
    """Run every job a day later, when all delays are over, vacuum once more, and verify.

    Returns the files that are left and that no row names.
    """
    clock = ManualClock(SystemClock().now_ms() + DAY_MS)
    catalog = Catalog(open_files(life.log_dir), clock)
    context, journal = JobContext(catalog, LocalFleet()), life.journal()
    for name in ("retention", "compact", "merge_segments", "build_index", "vacuum"):
        run(name, context, journal, force=True)
    clock.advance(DAY_MS)
    run("vacuum", context, journal)
    run("verify", context, journal)
    return unnamed(catalog)


def unnamed(catalog: Catalog) -> list[str]:
    """Files of segments that no live row names."""
    found = []
    for topic in catalog.topics().values():
        directory = topic_directory(topic)
        logs = catalog.topic_image(topic).partitions.values()
        named = {path for log in logs for entry in log.entries() for path in paths_of(entry)}
        for file in catalog.files.list(directory, recursive=True):
            path = file.path.removeprefix(f"{directory}/")
            if path not in named:
                found.append(file.path)
    return found
