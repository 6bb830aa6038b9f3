"""Kill -9 after every step of build_table: the table holds what its marks say, and no row twice."""

import secrets
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.maintenance.table_files import TIER_FILES
from tests.crash.maintenance import run
from tests.crash.producer import in_process
from tests.logs import append, rows
from tests.soak.started import run_table_soak
from tests.tables import marks_of, snapshot_of, table_of, topic_with_table

KILLED = -signal.SIGKILL
READS = {"read", "view", "stat", "list", "keep"}
OPTIONS = {"rebuild": False}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table one file short of a merge, and records that it has not got yet."""
    log_dir = topic_with_table(tmp_path_factory.mktemp("log") / "log", 2)
    for number in range(TIER_FILES - 1):
        append(log_dir, number % 2, [f"{number}"])
        run(log_dir, build_table, OPTIONS)
    append(log_dir, 0, ["last"])
    return log_dir


def table_is_exact(log_dir: str) -> bool:
    """Whether the table has every record below its marks once, and no other."""
    table = table_of(log_dir)
    found = Counter(zip(*(table[name].to_pylist() for name in NAMES), strict=True))
    marks = marks_of(log_dir)
    expected = Counter(
        (number, row.offset, row.value)
        for number, records in rows(log_dir).items()
        for row in records
        if marks[number].start <= row.offset < marks[number].end
    )
    return found == expected


NAMES = ("partition", "offset", "value")


@pytest.mark.slow
def test_after_any_step_leaves_a_table_that_is_exact(tmp_path: Path, template: str) -> None:
    """Steps: copy, commit, merge, commit. Method: a process killed after each write of theirs."""
    alive = str(shutil.copytree(template, tmp_path / "alive"))
    code, steps = run(alive, build_table, OPTIONS)
    assert (code, len(snapshot_of(alive).files)) == (DONE, 1)

    for number, step in enumerate(steps, 1):
        if step.kind in READS:
            continue
        log_dir = str(shutil.copytree(template, tmp_path / f"killed-{number}"))
        assert in_process(run, log_dir, build_table, OPTIONS, number) == KILLED
        assert table_is_exact(log_dir)
        assert run(log_dir, build_table, OPTIONS)[0] in (DONE, NOTHING_TO_DO)
        assert table_is_exact(log_dir)
        assert marks_of(log_dir) == marks_of(alive)


@pytest.mark.slow
def test_at_a_dozen_random_steps_leaves_what_the_log_has() -> None:
    """Goal: auto is the log, whoever dies. Method: tests.soak.table, some kills."""
    code, said = run_table_soak(secrets.randbelow(1_000_000), 12)

    assert code == 0, said
