"""A job over an object store ends behind every request that writes, and runs again.

The process is cut off from the store (`tests.cutting`): the store has done the request, and of a
bulk delete maybe the later half alone, but nobody gets the answer. Whoever reads then sees each
partition, and the table, as they were before the job or as they are after it, and `verify` misses
nothing. The next run finishes; behind it `vacuum` leaves a sound log.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import pytest

from sparklog.admin.erase import erase
from sparklog.clock import Clock, SystemClock
from sparklog.errors import CorruptRecordError
from sparklog.fleet import LocalFleet
from sparklog.log_writer import PRODUCE, WriteOptions, write_of
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Job, JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO, JobRun, StepReport
from sparklog.maintenance.table_files import TIER_FILES
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.check import paths_of
from sparklog.storage.files import Files
from sparklog.storage.memory import MemoryFiles
from sparklog.table.of_topic import delta_log
from tests.cutting import CuttingProxy, copied, is_killed
from tests.erasing import ALICE, share
from tests.logs import OWN_FILES, append, catalog, client, image, new_topic, rows
from tests.metadata_logs import keep_house_now
from tests.s3 import S3Server, s3_server
from tests.sweeping import DAY_MS, later, written
from tests.tables import WITH_TABLE, rows_of_files

__all__ = ["s3_server"]

pytestmark = [pytest.mark.slow, pytest.mark.s3]

NEXT_DAY, LATER, LAST = later(), later(3 * DAY_MS), later(6 * DAY_MS)
"""When small segments are due for a merge, when vacuum may take them, and the rest."""


def run(
    job: Job, files: Files, *, clock: Clock | None = None, **options: Any
) -> tuple[int, list[str]]:
    """Run a job over every topic; return its exit code, and the lines of its reports."""
    reports: list[StepReport] = []
    context = JobContext(Catalog(files, clock, after_commit=keep_house_now), LocalFleet())
    code = JobRun(name="job", job=job, options=options).run(context, reports.append)
    outcomes = [one.outcome for one in reports if one.outcome is not None]
    return code, [line for one in outcomes for line in (*one.problems, *one.notes)]


def erase_alice(files: Files) -> tuple[int, list[str]]:
    """Erase, told as a job tells it."""
    report = erase(Catalog(files), "t", [ALICE], LocalFleet())
    return NOTHING_TO_DO if report.is_empty else DONE, []


# --- logs that have work for a job ---------------------------------------------------------------


def segments(files: Files, **config: object) -> None:
    """Two partitions of two segments each, of several batches."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    new_topic(files, "t", 2, {**OWN_FILES, "retention.ms": -1, **given})
    for number in range(4):
        options = WriteOptions(batch_size=300, flush=False)
        append(files, number % 2, range(number, number + 20), options=options)


def slices(files: Files) -> None:
    """Two partitions whose records lie in shared segments."""
    new_topic(files, "t", 2, {"retention.ms": -1})
    for number in range(4):
        append(files, number % 2, range(number, number + 5))


def dirty(files: Files) -> None:
    """Two partitions of a compacted topic: a clean segment each, and newer values behind it."""
    new_topic(files, "t", 2, {**OWN_FILES, "cleanup.policy": "compact"})
    for partition in (0, 1):
        append(files, partition, [1, 2, 3], keys="abc")
        append(files, partition, [4], keys="d")
    run(compact, files, force=True, reindex=False)
    for partition in (0, 1):
        append(files, partition, [5, 6], keys="ad")
        append(files, partition, [7], keys="b")


def garbage(files: Files) -> None:
    """Something of everything that vacuum takes: segments, orphans, a receipt, a topic, slices."""
    segments(files, retention_bytes=1)
    run(retention, files)
    for topic, config in (("gone", OWN_FILES), ("shared", {})):
        new_topic(files, topic, 1, config)
        append(files, 0, range(5), topic=topic)
    client(files).delete_topics(["gone"])
    written(files, ["of nobody"])
    plan, entries = written(files, ["by key"])
    catalog(files).commit_all([write_of(plan, entries, app_id="key")], operation=PRODUCE)
    run(merge_segments, files, seal=False, clock=NEXT_DAY)


def unbuilt(files: Files) -> None:
    """A table one file short of a merge, and records that it has not got yet."""
    new_topic(files, "t", 2, {**WITH_TABLE, **OWN_FILES})
    for number in range(TIER_FILES - 1):
        append(files, number % 2, [number])
        run(build_table, files, rebuild=False)
    append(files, 0, ["last"])


def hers(files: Files) -> None:
    """A shared segment and a table, each with records of hers and of others."""
    new_topic(files, "t", 2, WITH_TABLE)
    share(files, ["t"])
    run(build_table, files, rebuild=False)


def damaged(files: Files) -> None:
    """A segment whose second batch is damaged."""
    new_topic(files, "t", 1, OWN_FILES)
    append(files, 0, range(40), options=WriteOptions(batch_size=300, flush=False))
    (path,) = (one.path for one in files.list(recursive=True) if one.path.endswith(".log"))
    data = bytearray(files.read(path))
    data[len(data) // 2] ^= 1
    files.overwrite(path, data)


class Case(NamedTuple):
    """How a log is made, a job that has work there, and how many writes the job needs at least."""

    fill: Callable[[Files], object]
    work: Callable[[Files], tuple[int, list[str]]]
    writes: int


CASES = {
    "build_index": Case(
        partial(segments, index_build="job"),
        partial(run, build_index, check=False, rebuild=False),
        5,
    ),
    "build_table": Case(unbuilt, partial(run, build_table, rebuild=False), 4),
    "compact": Case(dirty, partial(run, compact, force=True, reindex=False), 7),
    "erase": Case(hers, erase_alice, 9),
    "merge_segments": Case(segments, partial(run, merge_segments, seal=False), 5),
    "merge_slices": Case(slices, partial(run, merge_segments, seal=False, clock=NEXT_DAY), 5),
    "retention": Case(partial(segments, retention_bytes=1), partial(run, retention), 1),
    "vacuum": Case(garbage, partial(run, vacuum, clock=LATER), 12),
    "verify": Case(damaged, partial(run, verify, repair=True, records=False), 8),
}


# --- what must hold ------------------------------------------------------------------------------


def said(files: Files) -> dict[Any, Any]:
    """The records of each partition, None where they are damaged, and the rows of the table."""
    topic = catalog(files).topic("t")
    found: dict[Any, Any] = {}
    try:
        found |= rows(files)
    except CorruptRecordError:
        found[0] = None
    if "sparklog.table.enable" in topic.configs:
        snapshot = delta_log(files, topic, SystemClock()).snapshot()
        found["table"] = rows_of_files(files, topic, snapshot.files).to_pylist()
    return found


def swept(files: Files) -> int:
    """Run vacuum twice when all delays are over; return the exit code of the second run."""
    return [run(vacuum, files, clock=LAST)[0] for _ in range(2)][-1]


def check(files: Files) -> list[str]:
    """What verify has to tell then."""
    return run(verify, files, clock=LAST, repair=False, records=True)[1]


def missing(files: Files) -> set[str]:
    """The files that live segments name, and that are not there."""
    topic = image(files)
    directory = topic_directory(topic.description)
    there = {one.path.removeprefix(f"{directory}/") for one in files.list(recursive=True)}
    entries = [entry for log in topic.partitions.values() for entry in log.entries()]
    return {path for entry in entries for path in paths_of(entry)} - there


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[CuttingProxy]:
    with CuttingProxy(s3_server.endpoint) as found:
        yield found


@pytest.fixture(autouse=True)
def _without_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit of a process probes the store: for each job the same four cases more."""
    monkeypatch.setattr("sparklog.metadata.log.probe_conditional_put", lambda _: None)


class TestCutOff:
    @pytest.mark.parametrize("name", sorted(CASES))
    def test_behind_any_write_leaves_old_or_new_and_the_next_run_the_rest(
        self, s3_server: S3Server, proxy: CuttingProxy, name: str
    ) -> None:
        """Goal: nothing lost, nothing half done. Method: the store loses each write's answer."""
        fill, work, writes = CASES[name]
        template = MemoryFiles(SystemClock())
        fill(template)
        before, alive = said(template), deepcopy(template)
        assert work(alive)[0] == DONE
        after, step, is_cut = said(alive), 0, True
        while is_cut:
            step += 1
            files = copied(template, s3_server.new_log_dir(), proxy)
            is_cut = is_killed(proxy, partial(work, files), step)
            found = said(files)
            assert all(found[part] in (before[part], after[part]) for part in before)
            assert missing(files) == set()
            assert work(files)[0] in (DONE, NOTHING_TO_DO)
            assert said(files) == after
            assert swept(files) == NOTHING_TO_DO
            assert (check(files), said(files)) == ([], after)
        assert step > writes
