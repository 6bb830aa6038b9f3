"""A merge whose files or neighbours are damaged, whose storage fails, or that loses a race."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparklog.indexes import rebuild_indexes
from sparklog.log.names import LOG_SUFFIX
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.metadata.catalog import Landed, TopicPlan
from sparklog.metadata.state.edit import PartitionState
from sparklog.model import TopicDescription
from sparklog.storage.memory import MemoryFiles
from tests.edits import spans
from tests.erasing import flip
from tests.logs import append, image, log_files
from tests.maintenance import new_topic, outcome_of, run
from tests.partitions import DIRECTORY, Partition, batch
from tests.unit.maintenance.test_merge_segments import FOREVER, merge, small

KINDS = ("create", "write", "close", "sync", "view")


def interrupted(
    monkeypatch: pytest.MonkeyPatch, partition: Partition, meanwhile: Callable[[], object]
) -> None:
    """Let somebody do something once the new segments are written, before the commit."""
    commit = partition.catalog.commit

    def late(topic: TopicDescription, plan: TopicPlan, **options: Any) -> Landed:
        monkeypatch.undo()
        meanwhile()
        return commit(topic, plan, **options)

    monkeypatch.setattr(partition.catalog, "commit", late)


class TestFaults:
    @pytest.mark.parametrize("position", [70, 20])
    def test_a_corrupt_segment_stops_its_own_group(self, tmp_path: Path, position: int) -> None:
        """A byte of a record, and one that only the checksum of the whole file covers."""
        log_dir = new_topic(tmp_path / "log", partitions=2, config=FOREVER)
        for number in range(4):
            append(log_dir, number % 2, range(9))
        bad = log_files(log_dir)[0]
        flip(bad, position - 5)
        outcome = outcome_of(merge_segments, log_dir, seal=False)

        (problem,) = outcome.problems
        assert problem.startswith(f"t-0: {bad.relative_to(log_dir)}")
        assert (spans(image(log_dir), 0), spans(image(log_dir), 1)) == (
            [(0, 9), (9, 18)],
            [(0, 18)],
        )

    def test_a_missing_segment_stops_its_group(self) -> None:
        partition = small()
        path = partition.path(LOG_SUFFIX, 1)
        partition.remove(path)

        (problem,) = merge(partition).problems
        assert path in problem
        assert len(partition.segments) == 3

    def test_a_file_that_is_not_what_was_written_is_refused(self) -> None:
        partition = small()
        partition.with_columns(partition.segments[1], log_crc32c=5)

        (problem,) = merge(partition).problems
        assert "its row says 5" in problem
        assert partition.read() == partition.expected()

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("after", range(4))
    def test_storage_that_fails_leaves_the_log_as_it_was(self, kind: str, after: int) -> None:
        partition = small()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.fail_next(kind, after=after)
        first, _ = run(merge_segments, partition, seal=False, configs=FOREVER)
        partition.files._faults.clear()
        assert partition.read() == partition.expected()

        second, _ = run(merge_segments, partition, seal=False, configs=FOREVER)
        assert (first, second) in {(FAILED, DONE), (DONE, NOTHING_TO_DO)}
        assert partition.read() == partition.expected()
        assert len(partition.segments) == 1

    def test_files_are_durable_before_the_commit_names_them(self) -> None:
        partition = small()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.sync(stat.path for stat in partition.files.list(recursive=True))
        merge(partition)
        partition.files.lose_unsynced()

        assert partition.read() == partition.expected()

    def test_an_unfinished_file_is_dropped(self) -> None:
        partition = small()
        before = [stat.path for stat in partition.files.list(DIRECTORY, recursive=True)]
        partition.flip_byte(partition.path(LOG_SUFFIX, 2), 70)
        merge(partition)

        assert [stat.path for stat in partition.files.list(DIRECTORY, recursive=True)] == before


class TestRace:
    def test_of_two_merges_one_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = small()
        interrupted(monkeypatch, partition, lambda: merge(partition))

        assert merge(partition).counts == {"segments": 0, "into": 0, "bytes": 0, "conflicts": 1}
        assert partition.read() == partition.expected()
        assert len(partition.segments) == 1

    def test_a_produce_may_come_between(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = small()
        interrupted(monkeypatch, partition, lambda: partition.append(batch(8)))

        assert merge(partition).counts["into"] == 1
        assert partition.read() == partition.expected()
        assert spans(partition.image) == [(0, 6), (6, 7)]

    def test_what_it_replaces_is_removed_when_it_commits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = small()
        clock = partition.catalog.clock
        interrupted(monkeypatch, partition, lambda: clock.sleep_ms(9_000))
        merge(partition)

        assert [one.removed_ms for one in partition.image.removed] == 3 * [clock.now_ms()]

    def test_indexes_may_come_between(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = Partition().append(batch(1), interval=None).append(batch(1), interval=None)
        rebuild = partial(rebuild_indexes, partition.catalog, "t")
        interrupted(monkeypatch, partition, rebuild)

        assert merge(partition).counts["into"] == 1

    def test_a_key_sidecar_may_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = small()
        first = partition.segments[0]
        interrupted(
            monkeypatch, partition, lambda: partition.with_columns(first, key_index_path="t-0/k")
        )

        assert merge(partition).counts["conflicts"] == 1
        assert partition.segments[0].key_index_path == "t-0/k"

    @pytest.mark.parametrize(("cleaner_offset", "conflicts"), [(0, 0), (4, 1), (6, 0)])
    def test_the_cleaner_offset_may_not_come_into_the_middle(
        self, monkeypatch: pytest.MonkeyPatch, cleaner_offset: int, conflicts: int
    ) -> None:
        partition = small()
        state = PartitionState(cleaner_offset=cleaner_offset)
        interrupted(monkeypatch, partition, lambda: partition.commit(partitions={0: state}))

        assert merge(partition).counts["conflicts"] == conflicts
        assert partition.read() == partition.expected()

    def test_a_reader_that_planned_before_reads_on(self) -> None:
        partition = small()
        reading = partition.reading()
        first = next(reading)
        merge(partition)

        assert [first, *reading] == partition.expected()
