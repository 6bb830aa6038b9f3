"""Compaction over damaged files, failing storage, and beside others who commit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.errors import SparklogError, UsageError
from sparklog.fleet import Answers, LocalFleet
from sparklog.log.names import LOG_SUFFIX
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.metadata.state.edit import PartitionState
from sparklog.storage.memory import MemoryFiles
from tests.compaction import COMPACTED, LARGE, Compacted, current
from tests.erasing import flip
from tests.logs import append, image, rows
from tests.maintenance import context_of, make_unreadable, new_topic, outcome_of, run
from tests.partitions import Partition
from tests.sweeping import directory_of

KINDS = ("create", "write", "close", "sync", "view")


def two_rounds() -> Compacted:
    """A clean segment that holds an older `a`, two dirty ones, and the newest."""
    log = Compacted().put("a=1", "b" + LARGE, "=").put("x=0")
    log.compact()
    return log.put("a=2").put("newest=0")


def files_of(log: Compacted) -> MemoryFiles:
    assert isinstance(log.partition.files, MemoryFiles)
    return log.partition.files


def paths_of(log: Compacted) -> list[str]:
    return [stat.path for stat in log.partition.files.list(recursive=True)]


def too_many(_number: int, _values: object) -> None:
    raise UsageError("more than 2^31 bytes of keys")


class TestDamagedSegment:
    @pytest.mark.parametrize("number", [0, 2])
    def test_stops_its_own_partition(self, tmp_path: Path, number: int) -> None:
        """A clean segment that must be looked into, and a dirty one."""
        log_dir = new_topic(tmp_path / "log", partitions=2, config=COMPACTED)
        for partition in (0, 1):
            append(log_dir, partition, ["a1", "b1"], keys="ab")
            append(log_dir, partition, ["c1"], keys="c")
        assert outcome_of(compact, log_dir, force=True, reindex=False).problems == []
        for partition in (0, 1):
            append(log_dir, partition, ["a2"], keys="a")
            append(log_dir, partition, ["newest"], keys="n")
        before = rows(log_dir)
        entries = {entry.base_offset: entry for entry in image(log_dir).segments(0)}
        bad = directory_of(log_dir) / entries[number].log_path
        flip(bad, 70)
        outcome = outcome_of(compact, log_dir, force=True, reindex=False)

        (problem,) = outcome.problems
        assert problem.startswith(f"t-0: {bad.relative_to(log_dir)}, position 0, offset {number}: ")
        assert outcome.counts["partitions"] == 1
        flip(bad, 70)
        found = rows(log_dir)
        assert found[0] == before[0]
        assert [row.value for row in found[1]] == [b"b1", b"c1", b"a2", b"newest"]

    def test_is_found_whichever_byte_is_damaged(self) -> None:
        """Goal: damage is never copied. Method: bytes in turn of a clean and a dirty segment.

        All of the header, but for the leader epoch, which only the row's checksum covers; and every
        seventh of the records, which one checksum covers.
        """
        for slot in (0, 1):
            log = two_rounds()
            path, shown = log.partition.path(LOG_SUFFIX, slot), log.shown()
            size = log.partition.segments[slot].log_bytes
            for position in [*range(12), *range(16, 61), *range(61, size, 7), size - 1]:
                log.partition.flip_byte(path, position)
                (problem,) = log.compacted().problems
                log.partition.flip_byte(path, position)

                assert problem.startswith(f"t-0: {path}, position 0, offset {(0, 3)[slot]}: ")
            assert (log.shown(), len(log.spans)) == (shown, 4)

    @pytest.mark.parametrize("position", [7, 12, 15])
    def test_is_found_where_no_checksum_of_a_batch_reaches(self, position: int) -> None:
        """In a base offset that a gap allows, and in a leader epoch."""
        log = Compacted().put("a=1").put("b=1", "c=1", "c=2").put("a=2").put("z=1")
        log.compact()
        shown, path = log.shown(), log.partition.path(LOG_SUFFIX, 0)
        log.partition.flip_byte(path, position, 1)
        assert len(log.partition.read()) == 4

        (problem,) = log.put("b=2").put("z=2").compacted().problems
        assert "its row says" in problem
        log.partition.flip_byte(path, position, 1)
        assert log.shown() == f"{shown} b=2 z=2"

    def test_leaves_no_unfinished_file(self) -> None:
        log = two_rounds()
        path = log.partition.path(LOG_SUFFIX, 0)
        second = log.partition.segments[0].log_bytes - 1
        before = paths_of(log)
        log.partition.flip_byte(path, second)

        assert len(log.compacted().problems) == 1
        assert paths_of(log) == before

    def test_that_is_missing_is_named(self) -> None:
        log = two_rounds()
        path = log.partition.path(LOG_SUFFIX, 1)
        log.partition.remove(path)

        (problem,) = log.compacted().problems
        assert path in problem

    def test_is_compacted_once_it_is_sound_again(self) -> None:
        log = two_rounds()
        path = log.partition.path(LOG_SUFFIX, 1)
        log.partition.flip_byte(path, 65)
        log.compact()
        log.partition.flip_byte(path, 65)

        assert log.compacted().problems == []
        assert log.shown() == f"b{LARGE} x=0 a=2 newest=0"


class TestKeyIndex:
    def index(self, log: Compacted) -> str:
        entry = log.partition.segments[0]
        assert entry.key_index_path is not None
        return log.partition.path().replace(entry.log_path, entry.key_index_path)

    def check(self, log: Compacted, problem: str) -> None:
        """The partition cannot be compacted, and nothing of it is dropped."""
        shown, spans = log.shown(), log.spans
        (found,) = log.compacted().problems

        assert found.startswith("t-0: ")
        assert self.index(log) in found
        assert problem in found
        assert (log.shown(), log.spans) == (shown, spans)

    @pytest.mark.parametrize(
        ("harm", "problem"),
        [
            (lambda partition, path: partition.flip_byte(path, 0), "checksum"),
            (lambda partition, path: partition.flip_byte(path, 2048), "checksum"),
            (lambda partition, path: partition.flip_byte(path, -1), "checksum"),
            (lambda partition, path: partition.shrink(path, 12), "checksum"),
            (Partition.remove, "no such file"),
        ],
        ids=["first byte", "checksum", "last byte", "cut", "missing"],
    )
    def test_that_is_damaged_or_missing_stops_the_partition(
        self, harm: Callable[[Partition, str], object], problem: str
    ) -> None:
        log = two_rounds()
        harm(log.partition, self.index(log))

        self.check(log, problem)

    def test_that_is_damaged_is_done_without_when_asked(self) -> None:
        log = two_rounds()
        log.partition.flip_byte(self.index(log), 0)
        sound = two_rounds()
        sound.compacted()

        assert log.compacted(reindex=True).problems == []
        assert log.shown() == sound.shown()
        log.put("later=1").put("newest=0")
        assert log.compacted().problems == []

    def test_whose_size_nobody_knows_stops_the_partition(self) -> None:
        log = two_rounds()
        log.partition.with_columns(log.partition.segments[0], key_index_bytes=None)

        self.check(log, "which do not take 0 bytes")


class TestFailingStorage:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("after", range(6))
    def test_leaves_a_lawful_log_and_the_next_run_completes(self, kind: str, after: int) -> None:
        log = two_rounds()
        shown, wanted = log.shown(), two_rounds()
        wanted.compact()
        files_of(log).fail_next(kind, after=after)
        first, _ = run(compact, log.partition, configs=COMPACTED, force=True, reindex=False)
        files_of(log)._faults.clear()
        between = log.shown()
        second, _ = run(compact, log.partition, configs=COMPACTED, force=True, reindex=False)

        assert (first, second) in {(FAILED, DONE), (DONE, NOTHING_TO_DO)}
        assert between == (shown if first == FAILED else wanted.shown())
        assert log.shown() == wanted.shown()

    def test_files_are_durable_before_the_commit_names_them(self) -> None:
        log = two_rounds()
        files_of(log).sync(paths_of(log))
        log.compact()
        kept = log.shown()
        files_of(log).lose_unsynced()
        log.put("x=1").put("z=0")

        assert kept == f"b{LARGE} x=0 a=2 newest=0"
        assert log.shown() == f"{kept} x=1 z=0"
        assert log.compacted().problems == []

    def test_an_error_of_a_reducer_fails_the_step(self) -> None:
        class Failing(LocalFleet):
            def shuffle(
                self, mapper: Any, works: Any, _reducer: Any, count: int, what: str
            ) -> Answers[Any]:
                return super().shuffle(mapper, works, too_many, count, what)

        log = two_rounds()
        context = JobContext(log.catalog, Failing())
        (step,) = compact(context, [], {"force": True, "reindex": False})

        with pytest.raises(SparklogError, match="more than 2"):
            step.execute()

    def test_a_topic_that_cannot_be_read_stops_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=1, config=COMPACTED)
        new_topic(log_dir, "u", partitions=1, config=COMPACTED)
        for topic in "tu":
            append(log_dir, 0, ["1"], keys="a", topic=topic)
            append(log_dir, 0, ["2"], keys="a", topic=topic)
        make_unreadable(monkeypatch, "t")
        code, reports = run(compact, log_dir, force=True, reindex=False)

        assert code == FAILED
        assert {one.topic: one.is_failed for one in reports} == {"t": True, "u": False}


class TestRace:
    def conflicts(self, log: Compacted) -> int:
        return log.compacted().counts.get("conflicts", 0)

    def test_of_two_compactions_one_wins(self) -> None:
        log = two_rounds()
        log.meanwhile(log.compact)

        counts = log.compacted().counts
        assert counts == {
            "partitions": 0,
            "segments_before": 0,
            "segments_after": 0,
            "bytes_before": 0,
            "bytes_after": 0,
            "conflicts": 1,
        }
        assert log.shown() == f"b{LARGE} x=0 a=2 newest=0"
        assert log.plan(force=True) == []

    def test_of_a_newer_round_and_an_older_the_first_wins(self) -> None:
        """The older one planned before more was written, the newer one after."""
        log = two_rounds()
        log.meanwhile(lambda: log.put("b=2").put("z=0").compact())

        assert self.conflicts(log) == 1
        assert log.shown() == "x=0 a=2 newest=0 b=2 z=0"

    def test_a_produce_may_come_between(self) -> None:
        log = two_rounds()
        log.meanwhile(lambda: log.put("a=3"))

        assert self.conflicts(log) == 0
        assert log.shown() == f"b{LARGE} x=0 a=2 newest=0 a=3"

    def test_a_merge_of_its_segments_may_not(self) -> None:
        configs = COMPACTED | {"segment.ms": str(2**63 - 1)}
        log = Compacted().put("a=1").put("a=2").put("b=1").put("newest=0")
        log.meanwhile(lambda: run(merge_segments, log.partition, configs=configs, seal=False))

        assert self.conflicts(log) == 1
        assert log.shown() == "a=1 a=2 b=1 newest=0"

    def test_the_policy_may_change_and_then_nothing_lands(self) -> None:
        log = two_rounds()
        before = log.shown()
        log.meanwhile(lambda: context_of(log.partition, {"cleanup.policy": "delete"}))

        assert self.conflicts(log) == 1
        assert log.shown() == before

    def test_records_deleted_meanwhile_stay_deleted(self) -> None:
        log = two_rounds()
        log.meanwhile(lambda: log.partition.delete_records(4))

        assert self.conflicts(log) == 0
        assert [one.offset for one in log.partition.read(4)] == [4, 5]

    def test_segments_removed_meanwhile_stay_removed(self) -> None:
        log = two_rounds()
        starts = {0: PartitionState(log_start_offset=4)}
        keys = [log.partition.segments[0].key]
        log.meanwhile(lambda: log.partition.commit(remove=keys, removed_ms=5, partitions=starts))

        assert self.conflicts(log) == 1
        assert [one.offset for one in log.partition.read(4)] == [4, 5]


class TestReader:
    def test_that_planned_before_reads_on(self) -> None:
        log = two_rounds()
        before = log.records
        reading = log.partition.reading()
        first = next(reading)
        log.compact()

        assert [first, *reading] == before

    def test_that_planned_several_rounds_before_reads_on(self) -> None:
        log = two_rounds()
        before, reading = log.records, log.partition.reading()
        first = next(reading)
        for number in range(3):
            log.put(f"a={number}", "b=1", "x").put("z=0").wait(1000).compact()

        assert [first, *reading] == before
        assert current(log.records) == current(log.partition.records)

    def test_of_old_files_finds_them_untouched(self) -> None:
        log = two_rounds()
        before = {path: log.partition.bytes_of(path) for path in paths_of(log)}
        log.compact()

        assert {path: log.partition.bytes_of(path) for path in before} == before
