"""Small files of a table merged, old ones dropped."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.clock import ManualClock
from sparklog.errors import CorruptMetadataError
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.runner import executed
from sparklog.maintenance.table_files import (
    TIER_FILES,
    compacted,
    droppable,
    small_groups,
)
from sparklog.model import TopicDescription
from sparklog.storage.memory import MemoryFiles
from sparklog.table.footer import opened, read_newest_ms
from sparklog.table.marks import Mark
from sparklog.table.of_topic import table_directory
from sparklog.table.parquet import ROW_GROUP_ROWS, write_files
from sparklog.table.schema import ARROW_SCHEMA
from sparklog.table.snapshot import DataFile, Snapshot
from tests.compaction import Compacted
from tests.logs import append
from tests.maintenance import context_of
from tests.tables import (
    WITH_TABLE,
    build,
    counted,
    delta,
    marks_of,
    names,
    problems,
    snapshot_of,
    table_of,
    table_path,
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
        found = delta(log_dir).to_pyarrow_table()
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
        with patch("sparklog.table.rows.BATCH_BYTES", batch_bytes):
            (merged,) = compacted(files, ManualClock(), topic, group)
        written = opened(files, f"{table_directory(topic)}/{merged.path}").read()

        found = written.select(["partition", "offset"]).to_pylist()
        assert found == [{"partition": one["partition"], "offset": one["offset"]} for one in rows]

    @pytest.mark.parametrize("is_merged", [False, True])
    def test_a_file_that_is_gone_is_a_problem_unless_another_merge_was_faster(
        self, log_dir: str, is_merged: bool
    ) -> None:
        fill(log_dir, TIER_FILES - 1)
        append(log_dir, 0, ["z"])
        steps = build_table(context_of(log_dir), [], {"rebuild": False})
        next(steps).execute()
        merge = next(steps)
        if is_merged:
            build(log_dir)
        for path in Path(log_dir).glob("t-*/table/*.parquet"):
            if is_merged is (path.name not in snapshot_of(log_dir).files):
                path.unlink()
        outcome = executed(merge)

        assert (outcome.counts.get("conflicts", 0), not outcome.problems) == (is_merged, is_merged)

    def test_a_file_that_is_damaged_is_told(self, log_dir: str) -> None:
        fill(log_dir, TIER_FILES - 1)
        append(log_dir, 0, ["z"])
        next(table_path(log_dir).glob("*.parquet")).write_bytes(b"nothing")

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

    def test_drops_files_without_statistics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another engine may collect none. Then rows are read, but none of a young file."""
        monkeypatch.setattr("sparklog.table.parquet._Statistics.as_json", lambda _: {})
        log = Compacted(**names({**WITH_TABLE, "sparklog.table.retention.ms": "1000"}))
        for newest in (log.now_ms, log.now_ms + 3000):
            log.time = newest
            log.put("a")
            build(log.context)
        spied = Mock(side_effect=read_newest_ms)
        monkeypatch.setattr("sparklog.maintenance.table_files.read_newest_ms", spied)
        assert build(log.context) == []
        assert spied.call_count == 0
        log.wait(1_001)

        assert counted(build(log.context), "dropped_files") == [1]
        assert (marks_of(log.partition), build(log.context)) == ({0: Mark(1, 2)}, [])
        log.wait(3_000)
        spied.side_effect = CorruptMetadataError("damaged")
        assert build(log.context) == []
        spied.side_effect = read_newest_ms
        assert counted(build(log.context), "dropped_files") == [1]

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
