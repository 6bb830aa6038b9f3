"""Small files of a table merged, old ones dropped; what vacuum does with those that are left."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.errors import LateWriterError
from sparklog.log.names import uuid7
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import executed
from sparklog.maintenance.table_files import (
    TIER_FILES,
    CompactWork,
    compacted,
    droppable,
    small_groups,
)
from sparklog.maintenance.vacuum import vacuum
from sparklog.model import TopicDescription
from sparklog.storage.memory import MemoryFiles
from sparklog.table.footer import opened
from sparklog.table.marks import Mark
from sparklog.table.of_topic import table_directory
from sparklog.table.parquet import ROW_GROUP_ROWS, write_files
from sparklog.table.schema import ARROW_SCHEMA
from sparklog.table.snapshot import DataFile, Snapshot
from tests.compaction import Compacted
from tests.logs import append
from tests.maintenance import run
from tests.partitions import DIRECTORY
from tests.tables import (
    WITH_TABLE,
    build,
    counted,
    marks_of,
    problems,
    snapshot_of,
    table_of,
    topic_with_table,
)

T0 = datetime(2020, 1, 1, tzinfo=UTC)
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return topic_with_table(tmp_path / "log", 3)


def fill(log_dir: str, times: int) -> None:
    """Two records into each of three partitions, and into the table, so many times."""
    for time in range(times):
        for partition in range(3):
            append(log_dir, partition, [f"{time}a", f"{time}b"], timestamps=[time, time])
        build(log_dir)


class TestMerging:
    def test_makes_one_sorted_file_of_many(self, log_dir: str) -> None:
        fill(log_dir, TIER_FILES - 1)
        before = table_of(log_dir)
        fill(log_dir, 1)

        (one,) = snapshot_of(log_dir).files.values()
        (directory,) = Path(log_dir).glob("t-*/table")
        found = DeltaTable(directory).to_pyarrow_table()
        assert found["partition"].to_pylist() == sorted(found["partition"].to_pylist())
        assert found["offset"].to_pylist() == 3 * list(range(2 * TIER_FILES))
        assert (one.rows, len(before)) == (6 * TIER_FILES, 6 * (TIER_FILES - 1))

    def test_changes_no_row_and_no_mark(self, log_dir: str) -> None:
        fill(log_dir, TIER_FILES)

        assert marks_of(log_dir) == dict.fromkeys(range(3), Mark(0, 2 * TIER_FILES))
        assert problems(build(log_dir)) == []

    def test_has_a_batch_of_a_file_in_memory(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.table.rows.BATCH_BYTES", 1)
        fill(log_dir, TIER_FILES)

        assert len(table_of(log_dir)) == 6 * TIER_FILES

    @given(
        owners=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
        batch_bytes=st.sampled_from([1, 2**20]),
    )
    def test_files_may_lie_between_the_rows_of_another(
        self, owners: list[tuple[int, int]], batch_bytes: int
    ) -> None:
        """An earlier merge may have joined the files around a third one."""
        files, topic = MemoryFiles(), log_topic()
        rows: list[dict[str, Any]] = [
            {"partition": part, "offset": at, "timestamp": T0, "timestampType": 0}
            for at, (part, _) in enumerate(owners)
        ]
        rows.sort(key=lambda row: row["partition"])
        group = [
            data_file(files, topic, [row for row in rows if owners[row["offset"]][1] == owner])
            for owner in sorted({owner for _, owner in owners})
        ]
        work = CompactWork(files=files, clock=ManualClock(), topic=topic, group=group)
        with patch("sparklog.table.rows.BATCH_BYTES", batch_bytes):
            (merged,) = compacted(work)
        written = opened(files, f"{table_directory(topic)}/{merged.path}").read()

        found = written.select(["partition", "offset"]).to_pylist()
        assert found == [{"partition": one["partition"], "offset": one["offset"]} for one in rows]

    def test_a_file_that_is_damaged_is_told(self, log_dir: str) -> None:
        fill(log_dir, TIER_FILES - 1)
        append(log_dir, 0, ["z"])
        (directory,) = Path(log_dir).glob("t-*/table")
        next(directory.glob("*.parquet")).write_bytes(b"nothing")

        assert ["no sound Parquet file" in line for line in problems(build(log_dir))] == [True]

    def test_leaves_large_files_and_those_of_others_alone(self) -> None:
        files = Snapshot(
            version=1,
            files={
                str(number): DataFile(str(number), size, 1, None, {"tags": tags})
                for number, (size, tags) in enumerate(
                    [(100, None), (2**30, OURS), (10**6, OURS)] + [(70_000, OURS)] * TIER_FILES
                )
            },
        )

        assert [[one.bytes for one in group] for group in small_groups(files, -1)] == [
            [70_000] * TIER_FILES
        ]

    @pytest.mark.parametrize(("rows", "groups"), [(ROW_GROUP_ROWS - 1, 1), (ROW_GROUP_ROWS, 0)])
    def test_leaves_a_full_row_group_alone(self, rows: int, groups: int) -> None:
        one = DataFile("", 1000, rows, None, {"tags": OURS})
        files = Snapshot(version=1, files={str(number): one for number in range(TIER_FILES)})

        assert len(small_groups(files, -1)) == groups


def log_topic() -> TopicDescription:
    return TopicDescription("t", "0" * 22, 2, {}, 0)


def data_file(
    files: MemoryFiles, topic: TopicDescription, rows: Sequence[dict[str, Any]]
) -> DataFile:
    """A file of the table, with these rows."""
    batches = pa.Table.from_pylist(rows, schema=ARROW_SCHEMA).to_batches()
    (one,) = write_files(files, table_directory(topic), batches, 0)
    return DataFile(one.path, one.bytes, one.rows, None, {})


OURS = {"sparklog.sorted": "true"}


def file_of(path: str) -> DataFile:
    return DataFile(path, 1, 1, None, {})


class TestRetention:
    def test_drops_whole_files_and_raises_the_table_start(self) -> None:
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1000"}))
        log.time = log.now_ms
        log.put("a", "b")
        build(log.context)
        log.put("c")
        build(log.context)
        log.wait(log.time + 999 - log.now_ms)

        assert counted(build(log.context), "dropped_files") == [1]
        assert marks_of(log.partition) == {0: Mark(2, 3)}
        assert build(log.context) == []

    @pytest.mark.parametrize(("are_known", "files"), [(True, 1), (False, 3)])
    def test_opens_no_file_whose_offsets_are_higher(
        self, are_known: bool, files: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A table may have many thousand files, and each opening is a request to the store."""
        if not are_known:
            monkeypatch.setattr(DataFile, "bounds", None)
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1000"}))
        for text in "abcd":
            log.time = log.now_ms
            log.put(text)
            build(log.context)
            log.wait(400)
        spied = Mock(side_effect=opened)
        monkeypatch.setattr("sparklog.maintenance.table_files.opened", spied)

        assert counted(build(log.context), "dropped_files") == [1]
        assert spied.call_count == files

    def test_drops_all_when_all_is_old(self) -> None:
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1"}))
        log.time = log.now_ms
        log.put("a", "b")
        log.wait(log.time + DAY_MS)
        build(log.context)

        assert marks_of(log.partition) == {0: Mark(2, 2)}

    def test_drops_the_records_of_a_topic_that_gets_few(self) -> None:
        """Each merge would add newer records to the file of the oldest ones."""
        retention_ms = 10 * DAY_MS
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": str(retention_ms)}))
        for day in range(4 * TIER_FILES):
            log.time = log.now_ms
            log.put(f"day {day}")
            build(log.context)
            (mark,) = marks_of(log.partition).values()
            assert mark.end - mark.start <= 2 * retention_ms // DAY_MS + 1
            log.wait(DAY_MS)
        assert mark.start > 0
        assert len(snapshot_of(log.partition).files) < mark.end - mark.start

    def test_rows_without_a_timestamp_are_as_old_as_their_file(self) -> None:
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1000"}))
        log.time = -1
        log.put("a")
        build(log.context)
        assert build(log.context) == []
        assert marks_of(log.partition) == {0: Mark(0, 1)}
        log.wait(1_001)

        assert counted(build(log.context), "dropped_files") == [1]

    @pytest.mark.parametrize(
        ("ranges", "dropped"),
        [
            ({"old": {0: (0, 4)}, "new": {0: (5, 9)}}, ["old"]),
            ({"old": {0: (5, 9)}, "new": {0: (0, 4)}}, []),
            ({"old": {0: (0, 4), 1: (5, 9)}, "new": {1: (0, 4)}}, []),
            ({"old": {0: (0, 4)}, "odd": {0: (5, 6), 1: (3, 4)}, "new": {1: (0, 1)}}, ["old"]),
        ],
    )
    def test_keeps_what_stands_behind_younger_files(self, ranges: Any, dropped: list[str]) -> None:
        expired = [file_of(name) for name in ranges if name != "new"]

        assert [one.path for one in droppable(expired, ranges)] == dropped

    def test_keeps_old_files_while_something_older_stays(self) -> None:
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1000"}))
        log.time = log.now_ms
        log.time += DAY_MS
        log.put("new")
        build(log.context)
        log.time -= DAY_MS
        log.put("old")
        log.wait(log.time + 5000 - log.now_ms)
        build(log.context)

        assert marks_of(log.partition) == {0: Mark(0, 2)}


def names(config: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in config.items()}


class TestVacuum:
    @pytest.fixture
    def log(self) -> Compacted:
        """A table of one merged file, with the small ones beside it."""
        log = Compacted(**names(WITH_TABLE))
        log.wait(10 * DAY_MS)
        for number in range(TIER_FILES):
            log.put(f"{number}")
            build(log.context)
        return log

    def paths(self, log: Compacted) -> list[str]:
        listed = log.partition.files.list(f"{DIRECTORY}/table")
        return [one.path for one in listed if one.path.endswith(".parquet")]

    def vacuumed(self, log: Compacted, wait_ms: int) -> list[str]:
        log.wait(wait_ms)
        for step in vacuum(log.context, ["t"], {}):
            step.execute()
        return self.paths(log)

    def test_unlinks_what_was_removed_when_readers_are_done(self, log: Compacted) -> None:
        assert len(self.vacuumed(log, DAY_MS - 1)) == TIER_FILES + 1
        assert len(self.vacuumed(log, 1)) == 1

    def test_a_checkpoint_lists_what_was_removed_until_readers_are_done(
        self, log: Compacted
    ) -> None:
        topic = log.partition.image.description
        configs = {**topic.configs, "sparklog.reader.grace.ms": str(30 * DAY_MS)}
        log.partition.commit(description=replace(topic, configs=configs))
        removed = set(snapshot_of(log.partition).removed)
        for number in range(12):
            log.put(f"more {number}")
            build(log.context)
            assert removed <= set(self.vacuumed_names(log, DAY_MS))
        assert len(removed) == TIER_FILES

    def vacuumed_names(self, log: Compacted, wait_ms: int) -> list[str]:
        return [path.rpartition("/")[2] for path in self.vacuumed(log, wait_ms)]

    def test_a_damaged_table_does_not_keep_the_garbage_of_the_log(self, log: Compacted) -> None:
        stray = f"{DIRECTORY}/t-0/{'0' * 20}.{'0' * 8}-0000-7000-8000-{'0' * 12}.log"
        log.partition.files.write_new(stray, b"")
        log.partition.files.write_new(f"{DIRECTORY}/table/_delta_log/{9:020d}.json", b"{")
        log.wait(DAY_MS)
        outcomes = [executed(step) for step in vacuum(log.context, ["t"], {})]

        assert ["cannot be understood" in str(one.problems) for one in outcomes] == [True, False]
        assert stray not in [one.path for one in log.partition.files.list(recursive=True)]

    def test_unlinks_what_no_commit_named(self, log: Compacted) -> None:
        stray = f"{DIRECTORY}/table/part-{'0' * 8}-0000-7000-8000-{'0' * 12}.parquet"
        log.partition.files.write_new(stray, b"")

        assert stray not in self.vacuumed(log, 0)

    def test_obeys_a_delay_that_changed_since_it_began(self, log: Compacted) -> None:
        log.wait(DAY_MS)
        (step,) = vacuum(log.context, ["t"], {})
        topic = log.partition.image.description
        configs = {**topic.configs, "sparklog.reader.grace.ms": str(10 * DAY_MS)}
        log.partition.commit(description=replace(topic, configs=configs))
        step.execute()

        assert len(self.paths(log)) == TIER_FILES + 1

    def test_leaves_orphans_where_it_may_not_commit(self, log: Compacted) -> None:
        """Another engine has raised the table's protocol."""
        orphan = f"{DIRECTORY}/table/part-{uuid7(log.now_ms, bytes(10))}.parquet"
        log.partition.files.write_new(orphan, b"")
        names = [one.path for one in log.partition.files.list(f"{DIRECTORY}/table/_delta_log")]
        version = max(int(name[-25:-5]) for name in names if name.endswith(".json")) + 1
        raised = b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}'
        entry = f"{DIRECTORY}/table/_delta_log/{version:020d}.json"
        log.partition.files.put_new(entry, raised)

        assert orphan in self.vacuumed(log, 100 * DAY_MS)

    def test_leaves_the_files_of_others_alone(self, log: Compacted) -> None:
        other = f"{DIRECTORY}/table/part-00000-1.snappy.parquet"
        log.partition.files.write_new(other, b"")

        assert other in self.vacuumed(log, 100 * DAY_MS)

    def test_finds_nothing_to_do_in_a_table(self, log: Compacted) -> None:
        self.vacuumed(log, DAY_MS)

        assert [*vacuum(log.context, ["t"], {})] == []

    def built_meanwhile(self, log: Compacted, happens: Callable[[], object]) -> None:
        """Build, while something happens after the files were written and before the commit."""

        class Slow:
            def map(self, task: Any, works: Any, what: str) -> Any:
                done = [task(work) for work in works]
                happens()
                return done

        context = JobContext(log.catalog, Slow())  # type: ignore[arg-type] # no shuffle in it
        (step,) = build_table(context, [], {"rebuild": False})
        step.execute()

    def test_a_build_whose_files_it_has_unlinked_is_refused(self, log: Compacted) -> None:
        log.put("late")
        before = table_of(log.partition)

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, lambda: self.vacuumed(log, DAY_MS + 1))
        assert table_of(log.partition).equals(before)

    def test_its_horizon_holds_if_the_config_is_changed_meanwhile(self, log: Compacted) -> None:
        log.put("late")
        configs = {
            **log.partition.image.description.configs,
            "sparklog.orphan.retention.ms": "3600000",
        }
        hasty = replace(log.partition.image.description, configs=configs)

        def happens() -> None:
            log.partition.commit(description=hasty)
            self.vacuumed(log, 3_600_001)

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, happens)

    def test_a_slow_build_lands_if_no_vacuum_ran(self, log: Compacted) -> None:
        log.put("late")
        self.built_meanwhile(log, lambda: log.wait(2 * DAY_MS))
        assert table_of(log.partition).num_rows == TIER_FILES + 1

    def test_the_first_build_is_refused_if_it_took_too_long(self) -> None:
        """There is no table yet in which vacuum could commit its horizon."""
        log = Compacted(**names(WITH_TABLE)).put("late")

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, lambda: log.wait(DAY_MS + 1))


class TestDeletedTopic:
    @pytest.mark.parametrize(("config", "left"), [("true", 0), ("false", 2)])
    def test_takes_its_table_along_unless_told_not_to(
        self, tmp_path: Path, config: str, left: int
    ) -> None:
        own = {"sparklog_table_delete": config, "sparklog_reader_grace_ms": 0}
        log_dir = topic_with_table(tmp_path / "log", 1, file_delete_delay_ms=0, **own)
        append(log_dir, 0, ["a"])
        build(log_dir)
        AdminClient(log_dir).delete_topics(["t"])
        run(vacuum, log_dir)
        run(vacuum, log_dir)

        assert len([one for one in Path(log_dir).glob("t-*/table/**/*") if one.is_file()]) == left
