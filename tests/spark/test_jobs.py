"""Jobs as Spark runs them: tasks, command lines, and DataFrames that were planned before."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from sparklog.cli.app import run
from sparklog.clock import SystemClock
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.spark import consume
from sparklog.spark.jobs import fleet
from sparklog.spark.jobs.fleet import SparkFleet
from tests.compaction import COMPACTED
from tests.logs import OWN_FILES, append, image, live_rows, log_files, new_topic, rows
from tests.sweeping import sweep
from tests.works import by_parity, digits, halved, smallest, summed

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def started() -> SparkSession:
    raise AssertionError("a session was asked for")


@pytest.fixture
def compacted(tmp_path: Path) -> str:
    """Topic `t`: two partitions of two dirty segments and the newest; `a` is written in each."""
    log_dir = new_topic(tmp_path / "log", partitions=2, config={**COMPACTED, **OWN_FILES})
    for partition in (0, 1):
        append(log_dir, partition, [1, 2], keys="ab")
        append(log_dir, partition, [3], keys="a")
        append(log_dir, partition, [4], keys="a")
    return log_dir


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[int]:
    """Lets Spark send the driver so many bytes of the results of a stage, and no more."""
    conf = spark.sparkContext._jsc.sc().conf()  # what the scheduler asks, stage by stage
    conf.set("spark.driver.maxResultSize", "100000")
    yield 100_000
    conf.remove("spark.driver.maxResultSize")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def values(df: DataFrame) -> list[str]:
    """By partition, in the order of the log."""
    found = df.selectExpr("partition", "offset", "cast(value as string) value").collect()
    return [row.value for row in sorted(found, key=lambda row: (row.partition, row.offset))]


class TestMap:
    def test_answers_in_the_order_of_the_works(self, spark: SparkSession) -> None:
        works = [*range(2, 60, 2), 3]
        answers = SparkFleet(lambda: spark).map(halved, works, "halves")

        assert answers[:-1] == [number // 2 for number in works[:-1]]
        assert isinstance(answers[-1], SparklogError)
        assert str(answers[-1]) == "3 is odd"

    def test_lets_works_share_tasks_when_there_are_many(
        self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fleet, "TASKS_MAX", 2)

        assert SparkFleet(lambda: spark).map(halved, [8, 6, 4, 2], "halves") == [4, 3, 2, 1]

    def test_leaves_no_accumulator_in_the_driver(self, spark: SparkSession) -> None:
        before = set(_accumulatorRegistry)
        tasks = SparkFleet(lambda: spark)
        tasks.map(halved, [8, 6], "halves")
        answers = tasks.shuffle(digits, [12, 34], smallest, 10, "digits")
        answers.join(summed, [0, 1], by_parity, "sums")
        answers.close()

        assert set(_accumulatorRegistry) == before

    def test_raises_a_bug(self, spark: SparkSession) -> None:
        with pytest.raises(PythonException, match="ZeroDivisionError"):
            SparkFleet(lambda: spark).map(halved, [2, 0], "halves")

    def test_of_nothing_starts_no_session(self) -> None:
        assert SparkFleet(started).map(halved, [], "halves") == []
        answers = SparkFleet(started).shuffle(digits, [], smallest, 10, "digits")
        assert answers.view(str) == answers.join(summed, [], by_parity, "sums") == []


class TestShuffle:
    def test_answers_as_one_process_does(self, spark: SparkSession) -> None:
        arguments = digits, [21, 13, 359, 5], smallest, 10, "digits"
        answers = SparkFleet(lambda: spark).shuffle(*arguments)

        expected = LocalFleet().shuffle(*arguments)
        assert sorted(map(str, answers.view(str))) == sorted(map(str, expected.view(str)))

    @pytest.mark.parametrize("tasks", [1, 1000])
    def test_joins_answers_with_works_as_one_process_does(
        self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tasks: int
    ) -> None:
        monkeypatch.setattr(fleet, "TASKS_MAX", tasks)
        arguments = digits, [21, 13, 359, 5], smallest, 10, "digits"
        works = summed, [100, -1, 300], by_parity, "sums"
        answers = SparkFleet(lambda: spark).shuffle(*arguments)
        first, second, third = answers.join(*works)
        answers.close()

        assert [first, str(second), third] == [100, "-1 is negative", 300 + 13 + 5 + 13]

    def test_raises_an_error_of_a_mapper(self, spark: SparkSession) -> None:
        with pytest.raises(PythonException, match="invalid literal"):
            SparkFleet(lambda: spark).shuffle(digits, [1, -1], smallest, 10, "digits")


class TestProgress:
    def test_is_shown_to_a_person(
        self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        SparkFleet(lambda: spark).map(halved, [2, 4, 6], "halves")

        shown = capsys.readouterr().err
        assert "halves" in shown
        assert "3/3" in shown

    @pytest.mark.parametrize("is_quiet", [True, False])
    def test_is_not_shown_elsewhere(
        self, spark: SparkSession, is_quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_quiet)
        SparkFleet(lambda: spark, is_quiet=is_quiet).map(halved, [2], "halves")

        assert capsys.readouterr().err == ""


class TestCommand:
    def test_does_the_job_and_then_has_nothing_to_do(
        self, spark: SparkSession, compacted: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["jobs", "compact", "--log-dir", compacted]) == 0
        (done,) = lines(capsys)
        counts = {"partitions": 2, "segments_before": 4, "segments_after": 2, "problems": []}
        assert (done["job"], done["topic"]) == ("compact", "t")
        assert {name: done[name] for name in counts} == counts
        assert values(consume(spark, compacted, subscribe="t")) == ["2", "3", "4"] * 2

        assert run(["jobs", "compact", "--log-dir", compacted]) == 3
        assert lines(capsys) == []

    def test_fails_for_its_damaged_partition_alone(
        self, spark: SparkSession, compacted: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bad = log_files(compacted)[0]
        data = bytearray(bad.read_bytes())
        data[-1] ^= 1
        bad.write_bytes(data)

        assert run(["jobs", "compact", "--log-dir", compacted, "--quiet"]) == 1
        (done,) = lines(capsys)
        (problem,) = done["problems"]
        assert problem.startswith(f"t-0: {bad.relative_to(compacted)}, position 0, offset 0: ")
        assert done["partitions"] == 1

    def test_plans_without_a_session(
        self, compacted: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules["sparklog.spark.session"], "session", started)
        before = image(compacted).version

        assert run(["jobs", "compact", "--log-dir", compacted, "--topic", "t", "--dry-run"]) == 0
        (planned,) = lines(capsys)
        assert (planned["dry_run"], [row["partition"] for row in planned["plan"]]) == (True, [0, 1])
        assert image(compacted).version == before

    def test_shows_a_table_to_people(
        self,
        spark: SparkSession,
        compacted: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("COLUMNS", "120")
        command = ["jobs", "compact", "--log-dir", compacted, "--format", "text"]
        assert run([*command, "--dry-run"]) == 0
        table = capsys.readouterr().out
        assert "compact t: would do" in table
        assert "partition" in table

        assert run([*command, "--force"]) == 0
        assert "compact t: partitions 2, segments_before 4" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "code", "problem"),
        [
            (["--topic", "nowhere"], 1, "nowhere"),
            (["-S", "colour"], 2, "NAME=VALUE"),
        ],
    )
    def test_says_in_a_line_what_it_cannot_do(
        self,
        compacted: str,
        capsys: pytest.CaptureFixture[str],
        arguments: Sequence[str],
        code: int,
        problem: str,
    ) -> None:
        assert run(["jobs", "compact", "--log-dir", compacted, *arguments]) == code

        captured = capsys.readouterr()
        (line,) = captured.err.splitlines()
        assert line.startswith("sparklog: error: ")
        assert problem in line
        assert captured.out == ""

    def test_is_a_script_too(self, compacted: str) -> None:
        command = [sys.executable, "jobs/compact.py", "--log-dir", compacted, "--dry-run"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)

        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["topic"] == "t"


class TestDriver:
    def test_holds_no_offsets_of_superseded_records(
        self, spark: SparkSession, tmp_path: Path, small_results: int
    ) -> None:
        """Goal: compaction cannot outgrow the driver. Method: more offsets than it may be sent.

        Of 4 bytes each: those of the dirty part, and suspects of a clean segment with their keys.
        """
        count = small_results // 2
        log_dir = new_topic(tmp_path / "log", partitions=1, config={**COMPACTED, **OWN_FILES})
        for number in range(2):
            append(log_dir, 0, [number] * count, keys=range(count))
            append(log_dir, 0, [number] * count, keys=range(count))
            append(log_dir, 0, ["newest"], keys=["n"])
            assert run(["jobs", "compact", "--log-dir", log_dir, "--force"]) == 0

        assert [row.value for row in rows(log_dir)[0]] == [b"newest", *[b"1"] * count, b"newest"]


class TestPlannedBefore:
    """A DataFrame has offsets and segments when it is made; it looks for files that are gone."""

    def test_a_compaction_is_seen_when_vacuum_was_there(
        self, spark: SparkSession, compacted: str
    ) -> None:
        """Also what has run before looks for its files again."""
        has_run = consume(spark, compacted, subscribe="t", maxRecordsPerPartition=2)
        is_new = consume(spark, compacted, subscribe="t")
        assert values(has_run) == ["1", "2", "3", "4"] * 2
        assert run(["jobs", "compact", "--log-dir", compacted]) == 0

        assert values(has_run) == values(is_new) == ["1", "2", "3", "4"] * 2
        sweep(compacted)
        assert values(has_run) == values(is_new) == ["2", "3", "4"] * 2

    def test_a_merge_gives_the_same_rows(self, spark: SparkSession, log_dir: str) -> None:
        for number in range(4):
            append(log_dir, 0, [f"{number}-{one}" for one in range(5)])
        df = consume(spark, log_dir, subscribe="t", maxRecordsPerPartition=7)
        before = values(df)
        assert run(["jobs", "merge_segments", "--log-dir", log_dir, "--seal"]) == 0
        assert len(live_rows(log_dir)) < 4

        assert values(df) == before
        sweep(log_dir)
        assert len(log_files(log_dir)) < 4
        assert values(df) == before

    def test_retention_is_data_loss(self, spark: SparkSession, tmp_path: Path) -> None:
        """Records of 1970 expire; those that stay are read where loss is borne."""
        log_dir = new_topic(tmp_path / "log", partitions=1, config={"retention.ms": 10**12})
        append(log_dir, 0, ["old"])
        append(log_dir, 0, ["new"], timestamps=[SystemClock().now_ms()])
        has_run, is_new = (consume(spark, log_dir, subscribe="t") for _ in range(2))
        lenient = consume(spark, log_dir, subscribe="t", failOnDataLoss=False)
        assert values(has_run) == ["old", "new"]
        assert run(["jobs", "retention", "--log-dir", log_dir]) == 0

        for strict in (has_run, is_new):
            with pytest.raises(PythonException, match="OffsetOutOfRangeError"):
                values(strict)
        assert values(lenient) == ["new"]
