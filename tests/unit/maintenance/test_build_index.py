"""The job; what an index holds is tested in tests/unit/test_indexes.py."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparklog.indexes import rebuild_indexes
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.storage.memory import MemoryFiles
from tests import edits
from tests.erasing import flip
from tests.logs import append, image, log_files, rows
from tests.maintenance import make_unreadable, new_topic, outcome_of, run
from tests.partitions import DIRECTORY, NOW_MS, TOPIC, Partition, batch

DEFAULT: dict[str, Any] = {"check": False, "rebuild": False}
LIST: dict[str, Any] = {"list": True, "check": False, "rebuild": False}
CHECK: dict[str, Any] = {"check": True, "rebuild": False}
REBUILD: dict[str, Any] = {"check": False, "rebuild": True}
ZERO = {"index.interval.bytes": "0"}
"""The interval of the indexes that tests.partitions writes."""

build = partial(run, build_index, configs=ZERO)


def two(interval: int | None = 0) -> Partition:
    """Two segments of three batches each."""
    parts = [batch(n, n + 1) for n in range(6)]
    return Partition().append(*parts[:3], interval=interval).append(*parts[3:], interval=interval)


def index_bytes(partition: Partition) -> list[bytes]:
    paths = [path for e in partition.segments for path in (e.index_path, e.time_index_path)]
    return [partition.bytes_of(f"{DIRECTORY}/{path}") for path in paths]


class TestWhich:
    def test_sound_indexes_are_nothing_to_do(self) -> None:
        partition = two()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.trace.clear()

        assert build(partition, **DEFAULT) == (NOTHING_TO_DO, [])
        steps = [step for step in partition.files.trace if step.path.startswith(DIRECTORY)]
        assert steps == []

        assert build(partition, **LIST) == (NOTHING_TO_DO, [])
        steps = [step for step in partition.files.trace if step.path.startswith(DIRECTORY)]
        assert [step.kind for step in steps] == ["list"]

    def test_what_was_left_to_the_job_is_built(self) -> None:
        partition = two(interval=None)
        size = sum(entry.log_bytes for entry in partition.segments)
        code, (report,) = build(partition, **DEFAULT)

        row = {"partition": 0, "reason": "not built", "segments": 2, "bytes": size}
        assert (code, report.rows) == (DONE, [row])
        assert index_bytes(partition) == index_bytes(two())
        assert build(partition, **DEFAULT) == (NOTHING_TO_DO, [])

    @pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
    def test_what_is_missing_or_cut_is_built(self, suffix: str) -> None:
        partition, sound = two(), index_bytes(two())
        partition.remove(partition.path(suffix, 0)).shrink(partition.path(suffix, 1), 1)
        assert build(partition, **DEFAULT) == (NOTHING_TO_DO, [])
        _, (report,) = build(partition, **LIST)

        assert [row["reason"] for row in report.rows] == ["missing", "other size"]
        assert index_bytes(partition) == sound

    def test_a_row_that_names_no_file_but_a_size_is_mended(self) -> None:
        partition = two()
        partition.with_columns(partition.segments[0], index_path=None)
        build(partition, **LIST)

        assert index_bytes(partition) == index_bytes(two())

    def test_damage_of_the_same_size_is_found_by_a_check(self) -> None:
        partition, sound = two(), index_bytes(two())
        partition.flip_byte(partition.path(INDEX_SUFFIX, 1), 7)
        before = partition.segments
        assert build(partition, **LIST) == (NOTHING_TO_DO, [])
        outcome = outcome_of(build_index, partition, configs=ZERO, **CHECK)

        size = sum(entry.log_bytes for entry in before)
        assert outcome.counts == {"read": 2, "built": 1, "bytes": size, "conflicts": 0}
        assert index_bytes(partition) == sound
        assert partition.segments[0] == before[0]

    def test_rebuild_builds_everything_under_new_names(self) -> None:
        partition = two()
        before = partition.segments
        outcome = outcome_of(build_index, partition, configs=ZERO, **REBUILD)

        assert outcome.counts["built"] == 2
        assert all(
            entry.index_path != old.index_path
            for entry, old in zip(partition.segments, before, strict=True)
        )
        assert index_bytes(partition) == index_bytes(two())

    def test_the_topics_interval_counts(self) -> None:
        partition = two()
        outcome_of(build_index, partition, **CHECK)

        assert [entry.index_bytes for entry in partition.segments] == [0, 0]

    def test_a_closed_topic_is_left_alone(self) -> None:
        partition = two(interval=None).delete_topic()

        assert run(build_index, partition, **DEFAULT) == (NOTHING_TO_DO, [])

    def test_slices_of_shared_segments_have_none(self) -> None:
        partition = two()
        edits.append(partition.catalog, TOPIC, edits.segment(log_path="__shared/x.log"))

        assert build(partition, **DEFAULT) == (NOTHING_TO_DO, [])
        assert outcome_of(build_index, partition, **CHECK).counts["read"] == 2

    def test_a_dry_run_builds_nothing(self) -> None:
        partition = two(interval=None)
        code, _ = build(partition, dry_run=True, **DEFAULT)

        assert (code, partition.segments[0].index_bytes) == (DONE, None)


class TestFaults:
    def test_a_corrupt_segment_stops_nothing_else(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2, config={"index.build": "job"})
        for partition in range(2):
            append(log_dir, partition, range(9))
        bad = log_files(log_dir)[0]
        flip(bad, 70)
        code, (report,) = run(build_index, log_dir, **DEFAULT)

        assert (code, report.outcome and len(report.outcome.problems)) == (FAILED, 1)
        assert report.as_row()["problems"][0].startswith(f"t-0: {bad.relative_to(log_dir)}")
        now = image(log_dir)
        sizes = [now.segments(partition).entry(0).time_index_bytes for partition in range(2)]
        assert sizes == [None, 12]

    def test_a_topic_that_cannot_be_read_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = new_topic(tmp_path / "log")
        make_unreadable(monkeypatch, "t")

        code, (report,) = run(build_index, log_dir, **DEFAULT)
        assert (code, report.rows[0]["partition"]) == (FAILED, None)

    @pytest.mark.parametrize("kind", ["list", "view", "create", "write", "close", "sync"])
    def test_storage_that_fails_leaves_everything_as_it_was(self, kind: str) -> None:
        partition = two(interval=None)
        before = partition.segments
        assert isinstance(partition.files, MemoryFiles)
        partition.files.fail_next(kind)
        partition.files.fail_next(kind)
        code, _ = build(partition, **LIST)
        partition.files._faults.clear()

        assert (code, partition.segments == before) == (FAILED, True) or kind == "sync"
        build(partition, **DEFAULT)
        assert index_bytes(partition) == index_bytes(two())

    def test_files_are_durable_before_the_commit_names_them(self) -> None:
        partition = two(interval=None)
        assert isinstance(partition.files, MemoryFiles)
        partition.files.sync(stat.path for stat in partition.files.list(recursive=True))
        build(partition, **DEFAULT)
        partition.files.lose_unsynced()

        assert index_bytes(partition) == index_bytes(two())

    def test_a_segment_that_is_gone_meanwhile_is_a_conflict(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = two(interval=None)
        first = partition.segments[0].key
        sync = partition.files.sync

        def late(paths: list[str]) -> None:
            monkeypatch.undo()
            partition.commit(remove=[first], removed_ms=NOW_MS)
            sync(paths)

        monkeypatch.setattr(partition.files, "sync", late)
        counts = outcome_of(build_index, partition, configs=ZERO, **DEFAULT).counts
        assert (counts["built"], counts["conflicts"]) == (1, 1)

    def test_records_are_what_they_were(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=1, config={"index.build": "job"})
        append(log_dir, 0, range(9))
        before = rows(log_dir)
        outcome_of(build_index, log_dir, **DEFAULT)

        assert rows(log_dir) == before


class TestAdminClient:
    def test_finds_nothing_to_mend_after_the_job(self) -> None:
        partition = two(interval=None)
        build(partition, **DEFAULT)

        assert rebuild_indexes(partition.catalog, "t") == []
        assert partition.bytes_of(partition.path(LOG_SUFFIX))
