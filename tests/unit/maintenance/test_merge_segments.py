"""The job over files and metadata; which segments it joins: tests/unit/log/test_merge.py.

What goes wrong, and races: test_merge_faults.py.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sparklog.indexes import rebuild_indexes
from sparklog.log import key_index
from sparklog.log.key_index import KeyHashes
from sparklog.log.names import LOG_SUFFIX
from sparklog.log_reader.key_hashes import key_hashes
from sparklog.maintenance.merging import merge_segments as job
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.maintenance.verification.verify import verify
from sparklog.model import AbortedRange, Codec
from sparklog.storage.memory import MemoryFiles
from tests.edits import at, spans
from tests.logs import append, image, log_files, rows, values
from tests.maintenance import context_of, make_unreadable, new_topic, outcome_of, run
from tests.partitions import DIRECTORY, NOW_MS, Partition, batch, marker, message_set, partitions

FOREVER = {"segment.ms": str(2**63 - 1)}

merge = partial(outcome_of, merge_segments, configs=FOREVER, seal=False)
"""Merge, and return the outcome of the only step."""


def small() -> Partition:
    """Three segments of two records each."""
    return Partition().append(batch(1, 5)).append(batch(4, 2)).append(batch(3, 3))


def magic0_wrapper() -> Partition:
    """What no import makes: a compressed entry of magic 0 in a segment that is not sealed."""
    wrapper = message_set(1, 2, magic=0, codec="gzip")
    return Partition().append(wrapper).append(wrapper)


class TestLog:
    @given(partitions())
    def test_reads_the_same_before_and_after(self, partition: Partition) -> None:
        start, count = partition.log.log_start_offset, len(partition.segments)
        outcomes = [
            each.outcome for each in run(merge_segments, partition, seal=False, configs=FOREVER)[1]
        ]

        assert partition.read(start) == partition.expected(start)
        saved = sum(one.counts["segments"] - one.counts["into"] for one in outcomes if one)
        assert len(partition.segments) == count - saved
        problems = [problem for one in outcomes if one for problem in one.problems]
        assert all("compressed entry of magic 0" in problem for problem in problems)

    def test_keeps_what_cannot_be_moved(self) -> None:
        partition = magic0_wrapper()

        (problem,) = merge(partition).problems
        assert "position 0, offset 3: a compressed entry of magic 0" in problem

    @given(partitions())
    def test_answers_times_as_before(self, partition: Partition) -> None:
        run(merge_segments, partition, seal=False, configs=FOREVER)

        for time in (0, 3, 9, 2**61):
            assert partition.reader.list_offset(0, time) == partition.expected_offset(time)

    def test_has_one_segment_whose_bytes_are_a_brokers(self) -> None:
        partition = small()
        data = b"".join(piece(base) for base, piece in ((0, batch(1, 5)), (2, batch(4, 2))))
        data += batch(3, 3)(4)

        merge(partition)

        (entry,) = partition.segments
        assert partition.bytes_of(partition.path(LOG_SUFFIX)) == data
        assert (entry.base_offset, entry.file_base_offset, entry.next_offset) == (0, 0, 6)

    def test_is_sealed_wherever_it_begins(self) -> None:
        partition = small().delete_records(2)
        merge(partition)

        first, second = partition.segments
        assert (second.base_offset, second.file_base_offset) == (2, 2)
        assert first.next_offset == 2
        assert partition.read(2) == partition.expected(2)

    def test_keeps_gaps_between_segments_and_at_their_end(self) -> None:
        partition = Partition().append(batch(1), 0, sealed=True).append(3, batch(2), sealed=True)
        partition.append(batch(3))
        merge(partition)

        (entry,) = partition.segments
        assert (entry.next_offset, entry.record_count) == (6, 3)
        assert partition.read() == partition.expected()

    def test_ends_where_its_last_segment_ends(self) -> None:
        partition = small()
        last = partition.segments[-1]
        path = last.log_path.replace("0004.log", "00ff.log")
        partition.files.link_or_copy(f"{DIRECTORY}/{last.log_path}", f"{DIRECTORY}/{path}")
        longer = last._replace(next_offset=9, record_count=None, log_path=path)
        partition.commit(remove=[last.key], removed_ms=NOW_MS)
        partition.commit(segments=[at(6, longer)], allow_gaps=True)
        merge(partition)

        assert [entry.next_offset for entry in partition.segments] == [11]
        assert partition.end == 11


class TestRow:
    def test_says_what_the_rows_before_said(self) -> None:
        partition = Partition()
        partition.append(batch(1, 9, codec=Codec.GZIP), min_timestamp=1)
        partition.append(batch(4, 2), marker(10), min_timestamp=2)
        partition.append(batch(4), batch(3), min_timestamp=3)
        merge(partition)

        (entry,) = partition.segments
        assert (entry.record_count, entry.batch_count, entry.codec) == (7, 5, None)
        assert (entry.min_timestamp, entry.max_timestamp_offset) == (1, 4)
        assert (entry.producer_ids, entry.transactional) == ((7,), True)
        assert entry.max_leader_epoch == 5

    def test_takes_the_earliest_delete_horizon(self) -> None:
        partition = Partition()
        for horizon in (None, 9, 7):
            partition.append(batch(1), delete_horizon_ms=horizon)
        merge(partition)

        assert partition.segments[0].delete_horizon_ms == 7

    def test_tells_aborted_spans_from_its_own_base(self) -> None:
        partition = Partition().append(batch(1, 1), aborted=(AbortedRange(7, 0, 3),))
        partition.append(batch(1, 1), aborted=(AbortedRange(7, -2, 1), AbortedRange(8, 0, 0)))
        merge(partition)

        spans = (AbortedRange(8, 2, 2), AbortedRange(7, 0, 3))
        assert partition.segments[0].aborted == spans

    @pytest.mark.parametrize(("timestamp", "created_ms"), [(0, 5), (-1, 8)])
    def test_is_as_old_as_its_oldest_part_or_its_newest_if_that_decides_retention(
        self, timestamp: int, created_ms: int
    ) -> None:
        partition = Partition()
        partition.append(batch(timestamp), created_ms=5).append(batch(timestamp), created_ms=8)
        merge(partition)

        assert partition.segments[0].created_ms == created_ms

    def test_counts_message_sets_as_far_as_rows_tell(self) -> None:
        wrapper = message_set(1, 2, magic=1, codec="gzip")
        known = Partition().append(wrapper, record_count=2).append(wrapper, record_count=2)
        unknown = Partition().append(wrapper, record_count=2).append(wrapper)
        for partition in (known, unknown):
            merge(partition)

        assert known.segments[0].record_count == 4
        assert unknown.segments[0].record_count is None
        assert known.read() == unknown.read() == known.expected()

    @given(partitions())
    def test_has_the_indexes_of_its_log(self, partition: Partition) -> None:
        """Also of segments without indexes, and with those of another interval."""
        run(merge_segments, partition, seal=False, configs=FOREVER)
        made = [entry for entry in partition.segments if entry.created_ms != NOW_MS]

        assert not {e.log_path for e in made} & {
            e.log_path for e in rebuild_indexes(partition.catalog, "t")
        }


class TestKeyIndex:
    def test_holds_the_keys_of_all_segments(self) -> None:
        partition = keyed()
        assert merge(partition).problems == []

        (entry,) = partition.segments
        found = key_hashes(partition.files, DIRECTORY, entry)
        pairs = zip(found.hashes.tolist(), found.deltas.tolist(), strict=True)
        assert sorted(pairs) == [(0, 0), (1, 1), (10, 2), (11, 3), (20, 4), (21, 5)]
        assert entry.key_index_path == entry.log_path.replace(".log", ".keyindex")
        assert outcome_of(verify, partition, repair=False).problems == []

    def test_that_is_damaged_stops_its_group(self) -> None:
        partition = keyed()
        path = f"{DIRECTORY}/{partition.segments[1].key_index_path}"
        partition.flip_byte(path, 0)

        expected = f"t-0: {path}: the checksum of its directory is wrong"
        assert merge(partition).problems == [expected]
        assert len(partition.segments) == 3

    def test_is_durable_before_the_commit(self) -> None:
        partition = keyed()
        assert isinstance(partition.files, MemoryFiles)
        partition.files.sync(stat.path for stat in partition.files.list(recursive=True))
        merge(partition)
        partition.files.lose_unsynced()

        assert len(key_hashes(partition.files, DIRECTORY, partition.segments[0]).hashes) == 6


def keyed() -> Partition:
    """Three segments of two records; the keys of segment n have the hashes 10 n and 10 n + 1."""
    partition = small()
    for number, entry in enumerate(partition.segments):
        hashes = np.array([10 * number + 1, 10 * number])
        data = key_index.encode(KeyHashes(hashes, np.array([1, 0])))
        path = entry.log_path.replace(".log", ".keyindex")
        partition.files.write_new(f"{DIRECTORY}/{path}", data)
        partition.with_columns(entry, key_index_path=path, key_index_bytes=len(data))
    return partition


class TestStep:
    def test_a_dry_run_says_what_would_be_joined(self) -> None:
        partition = small()
        size = sum(entry.log_bytes for entry in partition.segments)
        code, (report,) = run(merge_segments, partition, seal=False, configs=FOREVER, dry_run=True)

        row = {"partition": 0, "base_offset": 0, "next_offset": 6, "segments": 3, "bytes": size}
        assert (code, report.rows) == (DONE, [row])
        assert len(partition.segments) == 3

    def test_counts_what_it_did(self) -> None:
        partition = small()
        size = sum(entry.log_bytes for entry in partition.segments)

        counts = {"segments": 3, "into": 1, "bytes": size, "conflicts": 0}
        assert merge(partition).counts == counts

    def test_a_large_topic_takes_several_steps(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(job, "STEP_BYTES", 1)
        log_dir = new_topic(tmp_path / "log", partitions=2, config=FOREVER)
        for number in range(4):
            append(log_dir, number % 2, range(9))
        version = image(log_dir).version
        code, reports = run(merge_segments, log_dir, seal=False)

        assert (code, [row["partition"] for one in reports for row in one.rows]) == (DONE, [0, 1])
        assert (len(reports), image(log_dir).version) == (2, version + 2)

    def test_a_second_run_has_nothing_to_do(self) -> None:
        partition = small()
        merge(partition)

        assert run(merge_segments, partition, seal=False, configs=FOREVER) == (NOTHING_TO_DO, [])

    def test_leaves_the_newest_segment_of_a_compacted_topic(self) -> None:
        partition = small()
        merge(partition, configs=FOREVER | {"cleanup.policy": "compact"})

        assert spans(partition.image) == [(0, 4), (4, 6)]

    def test_seals_it_when_asked(self) -> None:
        partition = small()
        merge(partition, configs=FOREVER | {"cleanup.policy": "compact"}, seal=True)

        assert spans(partition.image) == [(0, 6)]

    def test_leaves_a_closed_topic(self) -> None:
        partition = small()
        context_of(partition, FOREVER)
        partition.delete_topic()

        assert run(merge_segments, partition, seal=False) == (NOTHING_TO_DO, [])

    def test_a_topic_that_cannot_be_read_fails_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_dir = new_topic(tmp_path / "log", "a", config=FOREVER)
        new_topic(log_dir, "b", config=FOREVER)
        for _ in range(2):
            append(log_dir, 0, "xy", topic="b")
        make_unreadable(monkeypatch, "a")
        code, (broken, done) = run(merge_segments, log_dir, seal=False)

        assert code == FAILED
        assert (broken.topic, broken.is_failed) == ("a", True)
        assert (done.topic, done.is_failed) == ("b", False)
        assert values(log_dir, "b") == {0: ["x", "y", "x", "y"]}

    def test_works_on_files_of_the_machine(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2, config=FOREVER)
        for number in range(6):
            append(log_dir, number % 2, range(number, number + 9))
        before, version = rows(log_dir), image(log_dir).version
        outcome = outcome_of(merge_segments, log_dir, seal=False)

        assert rows(log_dir) == before
        assert (outcome.counts["segments"], outcome.counts["into"]) == (6, 2)
        assert image(log_dir).version == version + 1
        assert len(log_files(log_dir)) == 8
