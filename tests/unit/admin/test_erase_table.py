"""Erase in the table of a topic: old or new, whoever builds beside it."""

import json
from pathlib import Path

import pytest

from sparklog.admin.erase import OUTSIDE, erase
from sparklog.admin.erase_table import begin, end
from sparklog.clock import ManualClock
from sparklog.errors import CommitConflictError, StorageFullError, UsageError
from sparklog.maintenance.verification.verify import verify
from sparklog.table.footer import opened
from sparklog.table.of_topic import delta_log, table_directory
from tests.erasing import ALICE, SECRET, Meanwhile, build_beside, erased, holding, keyed, swept
from tests.logs import append, catalog, rows
from tests.maintenance import run
from tests.metadata_logs import CrashError, CrashingLocalFiles
from tests.sweeping import DAY_MS, later, sweep
from tests.tables import build, delta, problems, snapshot_of, table_of, topic_with_table


def is_being_erased(log_dir: str) -> bool:
    """Whether the table says that an erasure is under way."""
    found = catalog(log_dir)
    topic = found.topic("t")
    snapshot = delta_log(found.files, topic, found.clock).snapshot()
    return snapshot.marks(topic.topic_id).is_being_erased


class TestTable:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        found = topic_with_table(tmp_path / "log", partitions=1)
        keyed(found)
        return found

    def test_loses_the_rows_and_later_the_files(self, log_dir: str) -> None:
        build(log_dir)
        report = erased(log_dir, ALICE)

        assert report.table == (3, 1)
        assert table_of(log_dir)["offset"].to_pylist() == [1, 2, 4, 5, 7, 8]
        assert run(verify, log_dir, repair=False, records=True, table=True)[0] == 0
        assert swept(log_dir) == []

    def test_a_file_with_nothing_else_goes_whole(self, tmp_path: Path) -> None:
        log_dir = topic_with_table(tmp_path / "log", partitions=1)
        append(log_dir, 0, [SECRET], keys=[ALICE])
        build(log_dir)
        erased(log_dir, ALICE)

        assert table_of(log_dir).num_rows == 0
        assert swept(log_dir) == []

    def test_is_built_on_from_its_marks(self, log_dir: str) -> None:
        build(log_dir)
        erased(log_dir, ALICE)
        keyed(log_dir)
        reports = build(log_dir)

        assert problems(reports) == []
        assert table_of(log_dir).num_rows == 6 + 9

    def test_is_erased_although_no_checkpoint_can_be_written(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Else it would say for ever that an erasure is under way."""
        build(log_dir)

        def full(_: object) -> bytes:
            raise StorageFullError("no space left on device")

        monkeypatch.setattr("sparklog.table.delta_log.CHECKPOINT_INTERVAL", 1)
        monkeypatch.setattr("sparklog.table.checkpoint.encode", full)
        report = erased(log_dir, ALICE)

        assert (report.table, is_being_erased(log_dir)) == ((3, 1), False)
        assert {one.rpartition(": ")[2] for one in caplog.messages} == {"no space left on device"}

    def test_a_dry_run_counts_the_rows(self, log_dir: str) -> None:
        build(log_dir)

        assert erased(log_dir, ALICE, dry_run=True).table == (3, 1)
        assert table_of(log_dir).num_rows == 9

    def test_a_build_that_read_the_log_before_is_refused(self, log_dir: str) -> None:
        build_beside(log_dir, lambda: erased(log_dir, ALICE))

        assert table_of(log_dir).num_rows == 0
        build(log_dir)
        assert table_of(log_dir)["offset"].to_pylist() == [1, 2, 4, 5, 7, 8]
        assert swept(log_dir) == []

    def test_a_build_that_lands_first_is_searched_again(self, log_dir: str) -> None:
        keyed(log_dir)
        fleet = Meanwhile("erase table", lambda: build(log_dir))
        report = erase(catalog(log_dir), "t", [ALICE], fleet)

        assert report.table.rows == 0  # the build has read the log that was erased already
        assert table_of(log_dir).num_rows == 12

    def test_files_that_go_meanwhile_are_looked_for_anew(self, log_dir: str) -> None:
        build(log_dir)
        fleet = Meanwhile("erase table", lambda: build(log_dir, rebuild=True))
        report = erase(catalog(log_dir), "t", [ALICE], fleet)

        assert report.table == (0, 0)
        assert table_of(log_dir)["offset"].to_pylist() == [1, 2, 4, 5, 7, 8]

    def test_is_old_or_new_wherever_it_is_killed(self, tmp_path: Path) -> None:
        crash_at, is_done = 0, False
        while not is_done:
            log_dir = topic_with_table(tmp_path / str(crash_at), partitions=1)
            keyed(log_dir)
            build(log_dir)
            try:
                erased(log_dir, ALICE, files=CrashingLocalFiles(log_dir, crash_at))
                is_done = True
            except CrashError:
                in_table, in_log = table_of(log_dir).num_rows, len(rows(log_dir)[0])
                assert {in_table, in_log} <= {6, 9}
                assert in_table == in_log or is_being_erased(log_dir)
            erased(log_dir, ALICE)
            assert not is_being_erased(log_dir)
            assert problems(build(log_dir)) == []
            assert table_of(log_dir)["offset"].to_pylist() == [1, 2, 4, 5, 7, 8]
            assert swept(log_dir) == []
            crash_at += 1

        assert crash_at > 5

    def test_is_under_way_until_the_last_of_two_ends(self, log_dir: str) -> None:
        found = catalog(log_dir)
        topic = found.topic("t")
        first, second = begin(found, topic), begin(found, topic)

        end(found, topic, first)
        assert is_being_erased(log_dir)
        end(found, topic, second)
        assert not is_being_erased(log_dir)

    def test_when_other_commits_are_first_again_and_again(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.admin.erase_table.ROUNDS_MAX", 1)

        with pytest.raises(CommitConflictError, match="the table of topic 't'"):
            erased(log_dir, ALICE)


class TestOtherWriters:
    """Somebody runs OPTIMIZE on the table; its files have names that are not ours."""

    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        found = topic_with_table(tmp_path / "log", partitions=1)
        for _ in range(2):
            for _ in range(2):
                keyed(found)
                build(found)
            delta(found).optimize.compact()
        return found

    def test_leave_old_versions_that_vacuum_takes(self, log_dir: str) -> None:
        report = erased(log_dir, ALICE)
        sweep(log_dir, clock=ManualClock(report.files_gone_ms))

        assert report.table == (12, 1)
        assert report.outside == OUTSIDE
        assert holding(log_dir, ALICE, SECRET) == []
        assert len(delta(log_dir).to_pyarrow_table()) == 24

    def test_have_rows_in_an_order_that_stays(self, log_dir: str) -> None:
        """Their files may be too large to be sorted in memory."""
        delta(log_dir).optimize.z_order(["timestampType"])
        (before,) = files_in_order(log_dir)
        erased(log_dir, ALICE)
        (after,) = files_in_order(log_dir)

        assert after == [at for at in before if at % 3]
        assert [one.is_sorted for one in snapshot_of(log_dir).files.values()] == [False]

    def test_may_leave_out_how_many_rows_a_file_has(self, log_dir: str) -> None:
        """Spark does so with spark.databricks.delta.stats.collect=false."""
        (entry,) = [
            path
            for path in Path(log_dir).glob("t-*/table/_delta_log/*.json")
            if snapshot_of(log_dir).version == int(path.name.partition(".")[0])
        ]
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        entry.write_text("".join(f"{json.dumps(one)}\n" for one in actions))
        erased(log_dir, ALICE)

        assert problems(build(log_dir)) == []
        assert table_of(log_dir).num_rows == 24

    def test_leave_files_that_no_commit_names_to_the_report(self, log_dir: str) -> None:
        (path, *_) = (Path(log_dir) / one for one in holding(log_dir, SECRET) if "-c000." in one)
        path.with_name("part-00000-killed-c000.parquet").write_bytes(path.read_bytes())
        report = erased(log_dir, ALICE)
        sweep(log_dir, clock=ManualClock(report.files_gone_ms))

        assert report.outside[0].startswith("1 files in t-")
        assert ["killed" in one for one in holding(log_dir, SECRET)] == [True]

    def test_keep_their_files_while_they_have_changed_rows(self, log_dir: str) -> None:
        delta(log_dir).delete("offset = 1")
        before = files_of(log_dir)
        sweep(log_dir, clock=later(4 * DAY_MS))

        assert {one for one in before if "-c000." in one} <= files_of(log_dir)

    def test_are_refused_before_the_log_is_touched(self, log_dir: str) -> None:
        before = rows(log_dir)
        delta(log_dir).delete("offset = 1")

        with pytest.raises(UsageError, match="is no copy of its log any more"):
            erased(log_dir, ALICE)
        assert rows(log_dir) == before


def files_in_order(log_dir: str) -> list[list[int]]:
    """The offsets in each file of the table, as they stand there."""
    found = catalog(log_dir)
    directory = table_directory(found.topic("t"))
    return [
        opened(found.files, f"{directory}/{path}").read()["offset"].to_pylist()
        for path in snapshot_of(log_dir).files
    ]


def files_of(log_dir: str) -> set[str]:
    return {path.name for path in Path(log_dir).glob("t-*/table/*.parquet")}
