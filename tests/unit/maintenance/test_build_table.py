"""build_table over files and metadata, judged by delta-rs; stitching: tests/unit/table."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.errors import StorageFullError
from sparklog.log_writer import WriteOptions
from sparklog.maintenance import build_table as job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import NOTHING_TO_DO, executed
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import AbortedRange
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import Operation
from sparklog.table.delta_log import CHECKPOINT_INTERVAL
from sparklog.table.marks import Mark
from sparklog.table.of_topic import VACUUMED, Change, commit
from tests.compaction import keyed_batch, sent
from tests.erasing import flip
from tests.logs import append, append_to, catalog, columns, log_files, rows
from tests.maintenance import alter, context_of, make_unreadable, run
from tests.partitions import Partition, batch, marker
from tests.tables import (
    WITH_TABLE,
    build,
    context_and_topic,
    counted,
    delta,
    marks_of,
    problems,
    records_of,
    snapshot_of,
    table_of,
    table_path,
    topic_with_table,
)
from tests.tracing import TracingFiles


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of two partitions: three records in the first, two in the second."""
    log_dir = topic_with_table(tmp_path / "log")
    append(log_dir, 0, ["a", "b", None], keys=["k", "k", "l"], timestamps=[5, 6, 7])
    append(log_dir, 1, ["c", "d"])
    return log_dir


def set_config(log_dir: str, **config: object) -> None:
    alter(log_dir, **{f"sparklog.table.{name}": value for name, value in config.items()})


def partition_with_table(*pieces: Any, **columns: Any) -> Partition:
    partition = Partition()
    context_of(partition, WITH_TABLE)
    return partition.append(*pieces, **columns)


class TestBuilding:
    def test_copies_every_record_and_marks_where_it_ended(self, log_dir: str) -> None:
        build(log_dir)

        for number, records in rows(log_dir).items():
            found = table_of(log_dir).filter(pc.field("partition") == number)
            assert [one[:4] for one in records_of(found)] == [
                (row.offset, row.timestamp, row.key, row.value) for row in records
            ]
        assert marks_of(log_dir) == {0: Mark(0, 3), 1: Mark(0, 2)}

    def test_makes_a_table_that_others_read(self, log_dir: str) -> None:
        build(log_dir)

        table = delta(log_dir)
        assert table.to_pyarrow_table().num_rows == 5
        assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
        topic_id = Path(table.table_uri.rstrip("/")).parent.name[-22:]
        assert table.transaction_version(f"sparklog/{topic_id}/0") == 3

    def test_goes_on_where_it_ended(self, log_dir: str) -> None:
        build(log_dir)
        append(log_dir, 0, ["e"])

        assert counted(build(log_dir), "records") == [1]
        assert build(log_dir) == []
        assert delta(log_dir).version() == 1

    def test_leaves_topics_without_a_table_alone(self, log_dir: str) -> None:
        set_config(log_dir, enable="false")

        assert run(job.build_table, log_dir, rebuild=False) == (NOTHING_TO_DO, [])

    def test_begins_at_the_log_start(self, log_dir: str) -> None:
        AdminClient(log_dir).delete_records({("t", 0): 2})

        assert counted(build(log_dir), "records") == [3]
        assert marks_of(log_dir)[0] == Mark(2, 3)

    def test_tells_which_offsets_were_removed_before_they_were_copied(self, log_dir: str) -> None:
        build(log_dir)
        append(log_dir, 0, ["e", "f"])
        AdminClient(log_dir).delete_records({("t", 0): 4})
        (report,) = build(log_dir)

        assert report.outcome is not None
        assert report.outcome.notes == [
            "t-0: offsets [3, 4) were removed from the log before they were copied"
        ]
        assert marks_of(log_dir)[0] == Mark(0, 5)

    def test_shows_its_plan_and_does_nothing_in_a_dry_run(self, log_dir: str) -> None:
        (report,) = build(log_dir, dry_run=True)

        assert [(row["partition"], row["start"], row["end"]) for row in report.rows] == [
            (0, 0, 3),
            (1, 0, 2),
        ]
        assert not snapshot_of(log_dir).exists

    def test_waits_for_the_target_lag_unless_a_file_is_full(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_config(log_dir, target_lag_ms=3_600_000)
        assert build(log_dir) == []

        monkeypatch.setattr(job, "UNIT_BYTES", 80)
        assert counted(build(log_dir), "records") == [3]
        assert marks_of(log_dir) == {0: Mark(0, 3)}

    def test_waits_as_long_if_segments_are_merged_meanwhile(self) -> None:
        """A merged segment has new records and, after the first copy, old ones, too."""
        minute_ms, partition, copied = 60_000, Partition(), list[int]()
        lag = {"sparklog.table.target.lag.ms": str(10 * minute_ms)}
        clock = context_of(partition, WITH_TABLE | lag).clock
        assert isinstance(clock, ManualClock)
        for _ in range(40):
            clock.advance(minute_ms)
            partition.append(batch(clock.now_ms()), created_ms=clock.now_ms())
            run(merge_segments, partition, seal=False)
            copied += counted(build(partition), "records")
        assert copied == [11, 10, 10]

    def test_commits_a_backfill_in_steps(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(log_dir, 0, ["e"])
        monkeypatch.setattr(job, "UNIT_BYTES", 1)
        monkeypatch.setattr(job, "STEP_UNITS", 2)

        assert counted(build(log_dir), "records") == [4, 2]
        assert marks_of(log_dir) == {0: Mark(0, 4), 1: Mark(0, 2)}

    def test_a_topic_whose_metadata_is_damaged_holds_up_no_other(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_unreadable(monkeypatch, "t")

        assert problems(build(log_dir)) == ["t: a run cannot be read"]


class TestTransactions:
    def test_ends_before_one_that_is_open(self) -> None:
        partition = partition_with_table(keyed_batch("a"), sent("b"))
        partition.commit(transactions={0: (OpenTransaction(7, 1),)})
        build(partition)

        assert marks_of(partition) == {0: Mark(0, 1)}

    def test_leaves_out_what_was_aborted(self) -> None:
        aborted = (AbortedRange(7, 1, 1),)
        partition = partition_with_table(keyed_batch("a"), sent("b"), marker(), aborted=aborted)
        build(partition)

        assert [one.offset for one in records_of(table_of(partition))] == [0]
        assert marks_of(partition) == {0: Mark(0, 3)}


class TestDamage:
    @pytest.fixture
    def damaged(self, tmp_path: Path) -> str:
        """A topic of two partitions with files of their own; that of the first is damaged."""
        log_dir = topic_with_table(tmp_path / "log", sparklog_shared_segment_max_bytes=0)
        append(log_dir, 0, ["a", "b"])
        append(log_dir, 1, ["c", "d"])
        flip(log_files(log_dir)[0], 70)
        return log_dir

    def test_holds_up_its_own_partition_only(self, damaged: str) -> None:
        (line,) = problems(build(damaged))

        assert line.startswith("t-0: ")
        assert marks_of(damaged) == {1: Mark(0, 2)}

    def test_holds_up_what_comes_behind_it(
        self, damaged: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(damaged, 0, ["e"])
        monkeypatch.setattr(job, "UNIT_BYTES", 1)
        monkeypatch.setattr(job, "STEP_UNITS", 1)

        assert len(problems(build(damaged))) == 1
        assert marks_of(damaged) == {1: Mark(0, 2)}


class TestRestoredLogDir:
    @pytest.fixture
    def restored(self, log_dir: str, tmp_path: Path) -> str:
        """A log dir whose log is a backup, older than its table."""
        backup = shutil.copytree(log_dir, tmp_path / "backup")
        append(log_dir, 0, ["lost"])
        build(log_dir)
        table = table_path(log_dir)
        shutil.copytree(table, backup / table.relative_to(log_dir))
        return str(backup)

    def test_has_a_table_that_is_ahead(self, restored: str) -> None:
        (line,) = problems(build(restored))

        assert "has records of version 4 of log" in line

    def test_gets_a_new_one_by_a_rebuild(self, restored: str) -> None:
        build(restored, rebuild=True)

        assert marks_of(restored) == {0: Mark(0, 3), 1: Mark(0, 2)}


class TestAtOnce:
    def test_one_of_two_builds_lands(self, log_dir: str) -> None:
        context = context_of(log_dir)
        (step,) = job.build_table(context, [], {"rebuild": False})
        build(log_dir)

        assert executed(step).counts == {"conflicts": 1}
        assert len(table_of(log_dir)) == 5


class TestForeignChanges:
    @pytest.fixture(autouse=True)
    def built(self, log_dir: str) -> None:
        build(log_dir)

    def one_row(self, log_dir: str) -> Any:
        return delta(log_dir).to_pyarrow_table().slice(0, 1)

    def test_stop_the_build_and_are_named(self, log_dir: str) -> None:
        write_deltalake(delta(log_dir), self.one_row(log_dir), mode="append")

        (line,) = problems(build(log_dir))
        assert "version 1 of the table is WRITE by delta-rs" in line
        assert "build_table --rebuild" in line

    def test_a_restore_is_one(self, log_dir: str) -> None:
        append(log_dir, 0, ["e"])
        build(log_dir)
        delta(log_dir).restore(0)

        (line,) = problems(build(log_dir))
        assert "version 2 of the table is RESTORE by delta-rs" in line
        assert "its files hold 5 rows, sparklog has put 6 there" in line

    def test_stay_known_behind_a_vacuum_and_its_checkpoint(self, log_dir: str) -> None:
        """An UPDATE leaves the number of rows as it was."""
        delta(log_dir).update({"timestampType": "1"}, predicate="offset = 0")
        context, topic = context_and_topic(log_dir)
        for _ in range(CHECKPOINT_INTERVAL):
            commit(context.files, topic, context.clock, Change(operation=VACUUMED))

        assert snapshot_of(log_dir).version > CHECKPOINT_INTERVAL
        (line,) = problems(build(log_dir))
        assert "version 1 of the table is UPDATE by delta-rs" in line

    def test_are_undone_by_a_rebuild(self, log_dir: str) -> None:
        delta(log_dir).delete("offset = 0")
        assert counted(build(log_dir, rebuild=True), "rebuilt") == [1]

        assert len(table_of(log_dir)) == 5
        assert problems(build(log_dir)) == []

    def test_are_forgotten_by_a_rebuild_with_a_checkpoint(self, log_dir: str) -> None:
        delta(log_dir).delete("offset = 0")
        context, topic = context_and_topic(log_dir)
        while snapshot_of(log_dir).version < CHECKPOINT_INTERVAL - 1:
            commit(context.files, topic, context.clock, Change(operation=VACUUMED))

        assert problems(build(log_dir, rebuild=True)) == []
        assert len(table_of(log_dir)) == 5

    def test_a_rebuild_says_why_a_topic_keeps_no_table(self, log_dir: str) -> None:
        """Errors of reads and of erase tell to rebuild a table, also if it is no longer built."""
        alter(log_dir, sparklog_table_enable="false")
        (step,) = job.build_table(context_of(log_dir), ["t"], {"rebuild": True})

        (line,) = executed(step).problems
        assert "'t' keeps no table: set its config sparklog.table.enable=true" in line

    def test_a_rebuild_shows_its_plan(self, log_dir: str) -> None:
        reports = build(log_dir, rebuild=True, dry_run=True)

        assert [row["action"] for one in reports for row in one.rows] == [
            "empty the table",
            "copy",
            "copy",
        ]
        assert delta(log_dir).version() == 0

    def test_a_deleted_table_is_built_anew(self, log_dir: str) -> None:
        shutil.rmtree(delta(log_dir).table_uri.removeprefix("file://"))
        build(log_dir)

        assert len(table_of(log_dir)) == 5


def test_takes_a_batch_of_log_append_time() -> None:
    partition = partition_with_table(batch(1, 2, append_time=9))
    build(partition)

    assert [one.timestamp_type for one in records_of(table_of(partition))] == [1, 1]


class TestLimits:
    def test_thousands_of_small_partitions_are_one_file(self, tmp_path: Path) -> None:
        log_dir = topic_with_table(tmp_path / "log", 5000)
        append_to(catalog(log_dir), range(5000), columns(range(5000)))

        assert counted(build(log_dir), "files") == [1]
        assert set(marks_of(log_dir).values()) == {Mark(0, 1)}

    def test_a_full_disk_leaves_log_and_table_as_they_are(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build(log_dir)
        append(log_dir, 0, ["e"])
        before = rows(log_dir)

        def full(*_: object, **__: object) -> None:
            raise StorageFullError("no space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "create", full)
            assert problems(build(log_dir)) == ["t-0: no space left on device"]
        assert (rows(log_dir), marks_of(log_dir)[0]) == (before, Mark(0, 3))
        assert counted(build(log_dir), "records") == [1]

    def test_a_produce_does_the_same_with_and_without_a_table(self, tmp_path: Path) -> None:
        on = topic_with_table(tmp_path / "on", 1)
        off = topic_with_table(tmp_path / "off", 1, sparklog_table_enable="false")
        build(on)

        assert steps_of_a_produce(on) == steps_of_a_produce(off)


def steps_of_a_produce(log_dir: str) -> list[str]:
    """What is asked of the storage: files, entries and syncs among it."""
    trace: list[Operation] = []
    found = Catalog(TracingFiles(LocalFiles(log_dir), trace))
    append_to(found, 0, columns(["a"]), options=WriteOptions())
    return [step.kind for step in trace]
