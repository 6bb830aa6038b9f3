"""Verify repairs: damage is put aside, and all that can be read stays."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.maintenance.verification import verify as verify_module
from sparklog.maintenance.verification.verify import verify
from sparklog.storage.memory import MemoryFiles
from tests.erasing import flip
from tests.logs import append, log_files, rows
from tests.maintenance import new_topic, outcome_of
from tests.partitions import DIRECTORY, NOW_MS, Partition, partitions
from tests.verifying import check, damaged, repair, sound, two

pytestmark = pytest.mark.slow


def expected_without(partition: Partition, *lost: int) -> list[Any]:
    return [record for record in partition.records if record.offset not in lost]


class TestRepair:
    def test_a_damaged_log_is_put_aside_and_its_sound_batches_go_on(self) -> None:
        partition = damaged()
        path = partition.path(LOG_SUFFIX, 1)
        data, entry = partition.bytes_of(path), partition.segments[1]
        outcome = repair(partition)

        aside = f"{DIRECTORY}/quarantine/{entry.log_path}"
        assert outcome.problems == []
        assert outcome.notes[1:] == [
            f"t-0: put aside as {aside}",
            "t-0: offsets [6, 8) are lost",
        ]
        assert (outcome.counts["damaged"], outcome.counts["repaired"]) == (1, 1)
        assert partition.bytes_of(aside) == partition.bytes_of(path) == data
        assert partition.read() == expected_without(partition, 6, 7)
        new = partition.segments[1]
        assert (new.base_offset, new.next_offset, new.record_count) == (6, 12, 4)
        assert (new.created_ms, new.min_timestamp) == (entry.created_ms, entry.min_timestamp)
        assert sound(check(partition))

    def test_goes_in_rounds_when_segments_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(verify_module, "SEGMENTS_MAX", 1)
        partition = two()
        for slot in range(2):
            partition.flip_byte(partition.path(LOG_SUFFIX, slot), 20)
        outcome = repair(partition)

        counts = [outcome.counts[name] for name in ("segments", "damaged", "repaired")]
        assert (counts, outcome.problems) == ([2, 2, 2], [])

    @given(partitions())
    def test_of_any_segment_keeps_all_other_batches(self, partition: Partition) -> None:
        for slot in range(len(partition.segments)):
            partition.flip_byte(partition.path(LOG_SUFFIX, slot), 20)
        repair(partition)
        start = partition.log.log_start_offset

        assert set(partition.read(start)) <= set(partition.expected(start))
        assert check(partition).problems == []

    def test_a_segment_without_a_sound_batch_goes(self) -> None:
        partition = two()
        path = partition.path(LOG_SUFFIX, 0)
        partition.zero(path, 0, len(partition.bytes_of(path)))
        outcome = repair(partition)

        assert "t-0: offsets [0, 6) are lost" in outcome.notes
        assert [entry.base_offset for entry in partition.segments] == [6]
        assert partition.read() == partition.expected(6)
        assert check(partition).notes == ["t-0: offsets [0, 6) have no segment"]

    def test_a_missing_log_loses_its_row(self) -> None:
        partition = two()
        path = partition.path(LOG_SUFFIX, 0)
        partition.remove(path)
        outcome = repair(partition)

        assert outcome.notes == [
            f"t-0: {path}: the file is missing",
            "t-0: offsets [0, 6) are lost",
        ]
        assert len(partition.segments) == 1
        assert check(partition).problems == []

    def test_a_row_that_says_otherwise_is_written_anew(self) -> None:
        partition = two()
        partition.with_columns(partition.segments[1], record_count=5, min_timestamp=3)
        outcome = repair(partition)

        assert outcome.problems == []
        assert not any("lost" in note for note in outcome.notes)
        assert partition.segments[1].record_count == 6
        assert partition.read() == partition.expected()

    def test_what_a_log_does_not_say_is_kept(self) -> None:
        partition = damaged()
        columns = {"delete_horizon_ms": 5, "txn_index_path": "t-0/x", "min_timestamp": 3}
        partition.with_columns(partition.segments[1], log_crc32c=None, **columns)
        repair(partition)

        new = partition.segments[1]
        assert (new.delete_horizon_ms, new.txn_index_path) == (5, "t-0/x")

    @pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
    def test_indexes_are_built_anew(self, suffix: str) -> None:
        partition = two()
        right = partition.bytes_of(partition.path(suffix, 1))
        partition.remove(partition.path(suffix, 1))
        outcome = repair(partition)

        log = partition.segments[1].log_path
        assert (outcome.problems, outcome.notes) == ([], [f"t-0: new indexes of {log}"])
        assert partition.bytes_of(partition.path(suffix, 1)) == right
        assert check(partition).problems == []

    def test_a_second_run_goes_on_where_one_died(self) -> None:
        partition = damaged()
        path = partition.segments[1].log_path
        partition.files.link_or_copy(f"{DIRECTORY}/{path}", f"{DIRECTORY}/quarantine/{path}")

        assert repair(partition).problems == []
        assert partition.read() == expected_without(partition, 6, 7)

    @pytest.mark.parametrize("kind", ["link_or_copy", "sync", "create", "write", "close"])
    def test_storage_that_fails_leaves_everything_as_it_was(self, kind: str) -> None:
        partition = damaged()
        before = partition.segments
        assert isinstance(partition.files, MemoryFiles)
        partition.files.fail_next(kind)

        assert len(repair(partition).problems) == 2
        assert partition.segments == before
        assert repair(partition).problems == []

    def test_storage_that_fails_leaves_indexes_as_they_were(self) -> None:
        partition = two()
        partition.remove(partition.path(INDEX_SUFFIX, 1))
        assert isinstance(partition.files, MemoryFiles)
        partition.files.fail_next("create")

        assert len(repair(partition).problems) == 2
        assert repair(partition).problems == []

    def test_everything_is_durable_before_the_commit(self) -> None:
        partition = damaged()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.sync(stat.path for stat in partition.files.list(recursive=True))
        repair(partition)
        partition.files.lose_unsynced()

        assert partition.read() == expected_without(partition, 6, 7)
        assert check(partition).problems == []

    def test_a_segment_that_others_replaced_meanwhile_is_left_to_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = damaged()
        key = partition.segments[1].key
        link = partition.files.link_or_copy

        def late(source: str, target: str) -> None:
            monkeypatch.undo()
            link(source, target)
            partition.commit(remove=[key], removed_ms=NOW_MS)

        monkeypatch.setattr(partition.files, "link_or_copy", late)
        outcome = repair(partition)
        assert outcome.counts["repaired"] == 0
        assert len(partition.segments) == 1

    def test_other_partitions_are_as_they_were(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2)
        for number in range(4):
            append(log_dir, number % 2, range(9))
        before = rows(log_dir)
        flip(log_files(log_dir)[0], 70)
        outcome = outcome_of(verify, log_dir, repair=True, records=True)

        assert (outcome.counts["damaged"], outcome.counts["repaired"]) == (1, 1)
        assert rows(log_dir)[1] == before[1]
        assert rows(log_dir)[0] == before[0][9:]
        assert len(log_files(log_dir)) == 5 - 1
