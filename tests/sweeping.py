"""A log with everything in it that vacuum takes, and vacuum as of a later day."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import StorageFullError, StoragePermissionError
from sparklog.fleet import Fleet, LocalFleet
from sparklog.log.names import LOG_SUFFIX, segment_name, uuid7
from sparklog.log_writer import TopicWriter, WriteOptions, plan_write
from sparklog.log_writer.plan import WritePlan
from sparklog.maintenance.job import JobContext, Outcome, Step
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.model import SegmentEntry
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from tests import edits
from tests.edits import edited, segment
from tests.logs import Place, append, catalog, columns, image
from tests.maintenance import new_topic

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def later(ms: int = DAY_MS + HOUR_MS) -> ManualClock:
    """The time in `ms`: on the next day, unless told otherwise."""
    return ManualClock(SystemClock().now_ms() + ms)


@dataclass
class Swept:
    """What a run of vacuum said."""

    code: int
    reports: list[StepReport] = field(default_factory=list)

    def outcome(self, topic: str = "t") -> Outcome:
        """The outcome of a topic's step."""
        found = {report.topic: report.outcome for report in self.reports}[topic]
        assert found is not None
        return found

    def count(self, name: str, topic: str = "t") -> int:
        return self.outcome(topic).counts[name]


def sweep(
    log_dir: Place,
    *topics: str,
    clock: ManualClock | None = None,
    dry_run: bool = False,
    fleet: Fleet | None = None,
    files: Files | None = None,
    drop_unknown: Sequence[str] = (),
) -> Swept:
    """Run vacuum, tomorrow unless `clock` says otherwise."""
    found = Catalog(files or catalog(log_dir).files, clock or later())
    swept = Swept(-1)
    options = {"drop_unknown": drop_unknown}
    job = JobRun(name="vacuum", job=vacuum, topics=topics, options=options, dry_run=dry_run)
    swept.code = job.run(JobContext(found, fleet or LocalFleet()), swept.reports.append)
    return swept


def planned(log_dir: str, *topics: str, clock: ManualClock | None = None) -> Step:
    """Return the only step that vacuum plans, tomorrow unless `clock` says otherwise."""
    context = JobContext(Catalog(LocalFiles(log_dir), clock or later()), LocalFleet())
    (step,) = vacuum(context, topics, {})
    return step


def remove(log_dir: str, *slots: int, clock: ManualClock | None = None) -> list[SegmentEntry]:
    """Remove live segments of partition 0, as retention does; return them."""
    entries = list(image(log_dir).segments(0))
    removed = [entries[slot] for slot in slots]
    now_ms = (clock or SystemClock()).now_ms()
    found = catalog(log_dir)
    edited(found, found.topic("t"), remove=[one.key for one in removed], removed_ms=now_ms)
    return removed


def written(
    log_dir: Place, values: Sequence[object], topic: str = "t"
) -> tuple[WritePlan, list[SegmentEntry]]:
    """Files of a produce to partition 0 that has not committed yet."""
    found = catalog(log_dir)
    plan = plan_write(found, topic, WriteOptions(flush=False))
    writer = TopicWriter(found.files, plan, SystemClock(), seed=0)
    writer.write(columns(values), pa.array([0] * len(values), pa.int32()))
    return plan, writer.close()


def directory_of(log_dir: str, topic: str = "t") -> Path:
    """A topic's directory on this machine."""
    return Path(log_dir) / topic_directory(catalog(log_dir).topic(topic))


def put(directory: Path, path: str = "", born_ms: int | None = None) -> Path:
    """Put a file where nobody expects one; without a path under a name of ours."""
    made = SystemClock().now_ms() if born_ms is None else born_ms
    name = segment_name(0, uuid7(made, os.urandom(10)), LOG_SUFFIX)
    file = directory / (path or f"t-0/{name}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"orphan")
    return file


def make_old(path: Path) -> None:
    """Give a file a modification time of years ago."""
    os.utime(path, (1_600_000_000, 1_600_000_000))


def two_topics(path: Path) -> str:
    """A topic that stays, and one that is deleted."""
    log_dir = new_topic(path)
    new_topic(log_dir, "gone")
    for topic in ("t", "gone"):
        append(log_dir, 0, range(20), topic=topic)
    return log_dir


def delete(log_dir: str, topic: str = "gone") -> Path:
    """Delete a topic; return its directory."""
    directory = directory_of(log_dir, topic)
    AdminClient(log_dir).delete_topics([topic])
    return directory


class Full(LocalFiles):
    """A disk that takes no entry until a file was deleted."""

    has_room = False

    def put_new(self, path: str, *arguments: Any, **options: Any) -> bool:
        if not self.has_room:
            raise StorageFullError(f"cannot put {path}")
        return super().put_new(path, *arguments, **options)

    def delete(self, path: str) -> None:
        self.has_room = True
        super().delete(path)


class Stuck(LocalFiles):
    """Files that cannot be deleted."""

    def delete(self, path: str) -> None:
        raise StoragePermissionError(f"cannot delete {path}")


def put_shared(log_dir: str) -> str:
    """Put a shared segment of now that nobody names; return its path."""
    name = f"{uuid7(SystemClock().now_ms(), os.urandom(10))}.log"
    put(Path(log_dir), f"__shared/{name}")
    return f"__shared/{name}"


def add_slices(log_dir: str, topic: str, path: str) -> SegmentEntry:
    """Let a topic name a slice of a shared segment."""
    found = catalog(log_dir)
    entry = segment(0, records=2, log_path=path, log_position=3, log_bytes=3)
    edits.append(found, found.topic(topic), entry)
    return image(log_dir, topic).partition(0).entries()[-1]
