"""Kill -9 after every step of a vacuum, and run it again: no hole at any time, nothing left."""

import shutil
import signal
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock, SystemClock
from sparklog.log_writer import PRODUCE, write_of
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import RECEIPT_TTL_MS
from sparklog.metadata.state.check import paths_of
from sparklog.storage.memory import Operation
from tests.crash.maintenance import run as run_job
from tests.crash.producer import in_process
from tests.logs import append, catalog, image, rows
from tests.maintenance import new_topic
from tests.sweeping import DAY_MS, directory_of, put, remove, written

pytestmark = pytest.mark.slow

KILLED = -signal.SIGKILL
READS = {"read", "view", "stat", "list"}
"""To be killed after one of these is to be killed before it."""


def run(log_dir: str, now_ms: int, steps: int | None = None) -> tuple[int, list[Operation]]:
    """Vacuum as of a time; return the exit code and the steps. Killed after `steps` steps."""
    return run_job(log_dir, vacuum, {}, steps, ManualClock(now_ms))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with something of everything that vacuum takes."""
    log_dir = new_topic(tmp_path_factory.mktemp("log") / "log", partitions=1)
    new_topic(log_dir, "gone")
    append(log_dir, 0, range(5), topic="gone")
    AdminClient(log_dir).delete_topics(["gone"])
    for number in range(3):
        append(log_dir, 0, [f"{number}-{n}" for n in range(5)])
    remove(log_dir, 1)
    plan, entries = written(log_dir, ["by key"])
    found = catalog(log_dir)
    found.commit_all([write_of(plan, entries, app_id="key")], operation=PRODUCE)
    put(directory_of(log_dir))
    return log_dir


def leavings(log_dir: str, now_ms: int) -> tuple[int, int, int, list[str]]:
    """What vacuum has to take away: files, rows, receipts, topics that are no more."""
    topic = image(log_dir)
    files = {path.name for path in Path(log_dir).glob("*/*-0/*")}
    live = {Path(path).name for entry in topic.segments(0) for path in paths_of(entry)}
    topics = sorted(topic.description.name for topic in catalog(log_dir).image().topics.values())
    assert live <= files, "a hole"
    expired = topic.receipts_unused_since(now_ms - RECEIPT_TTL_MS)
    return len(files - live), len(topic.removed), expired, topics


class TestKill:
    def test_after_any_step_leaves_no_hole_and_the_next_run_the_rest(
        self, tmp_path: Path, template: str
    ) -> None:
        """Goal: nothing that is read is lost. Method: a process killed after each step."""
        now_ms, expected = SystemClock().now_ms() + DAY_MS + 60_000, rows(template)
        before = leavings(template, now_ms)
        alive = str(shutil.copytree(template, tmp_path / "alive"))
        code, steps = run(alive, now_ms)
        clean = leavings(alive, now_ms)

        assert (before[1:], clean) == ((1, 1, ["gone", "t"]), (0, 0, 0, ["t"]))
        assert (code, rows(alive)) == (DONE, expected)
        for number, step in enumerate(steps, 1):
            if step.kind in READS:
                continue
            log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
            assert in_process(run, log_dir, now_ms, number) == KILLED
            assert rows(log_dir) == expected
            assert run(log_dir, now_ms)[0] in (DONE, NOTHING_TO_DO)
            assert (leavings(log_dir, now_ms), rows(log_dir)) == (clean, expected)

    def test_files_are_unlinked_between_the_horizon_and_the_rows(
        self, tmp_path: Path, template: str
    ) -> None:
        log_dir = str(shutil.copytree(template, tmp_path / "log"))
        topic = directory_of(log_dir).name
        _, steps = run(log_dir, SystemClock().now_ms() + DAY_MS + 60_000)
        kinds = [
            "unlink" if step.path.startswith(f"{topic}/t-0/") else step.kind
            for step in steps
            if step.kind in ("delete", "put_new")
        ]
        first, last = kinds.index("unlink"), len(kinds) - kinds[::-1].index("unlink")

        assert set(kinds[first:last]) == {"unlink"}
        assert kinds[first - 1] == kinds[last] == "put_new"
