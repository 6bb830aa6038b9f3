"""Rounds of compaction: each reads a bounded number of records, and the next one goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.maintenance.compaction import compact as job
from sparklog.maintenance.compaction.compact import compact
from tests.compaction import COMPACTED, MANY_ROUNDS, Compacted, Rounds, check_rounds, rounds
from tests.logs import append, image, rows
from tests.maintenance import context_of, new_topic

OPTIONS = {"force": True, "reindex": False}


@contextmanager
def records_a_round(count: int) -> Iterator[None]:
    """Let a round read so many records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "ROUND_RECORDS", count)
        yield


def planned(log: Compacted, **options: bool) -> list[tuple[int, int, int]]:
    """Of each round: where it ends, and how many dirty and clean segments it has."""
    given = OPTIONS | options
    rounds = []
    for step in compact(log.context, [], given):
        rounds += [
            (row["end_offset"], row["dirty_segments"], row["clean_segments"]) for row in step.rows
        ]
        step.execute()
    return rounds


def without_key_indexes(log: Compacted) -> Compacted:
    for entry in log.partition.segments[:-1]:
        log.partition.with_columns(entry, key_index_path=None, key_index_bytes=None)
    return log


def four(**configs: Any) -> Compacted:
    """Four dirty segments too large to share one, of two records each, and the newest."""
    log = Compacted(segment_bytes=2**20, **configs)
    for number in range(4):
        log.put(f"k{number}=" + "x" * 600_000, f"a={number}")
    return log.put("newest=0")


class TestAnyLog:
    @given(rounds, st.integers(1, 5))
    @example(MANY_ROUNDS, 1)
    @example(MANY_ROUNDS, 3)
    def test_is_left_as_by_one_round(self, steps: Rounds, count: int) -> None:
        with records_a_round(count):
            check_rounds(steps)


def test_a_process_alone_reads_one_bucket_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "BUCKET_RECORDS", 4)
    log = four(min_cleanable_dirty_ratio=0)
    topic = log.partition.image.description
    ends = []
    while job.compact_partition(log.context, topic, 0) is not None:
        ends.append(log.partition.image.partition(0).cleaner_offset)

    assert ends == [4, 8]


class TestDirtyPart:
    def test_is_taken_part_by_part_until_nothing_is_due(self) -> None:
        log = four()
        with records_a_round(4):
            found = planned(log)

        assert found == [(4, 2, 0), (8, 2, 2)]
        assert [one.key for one in log.records] == [b"k0", b"k1", b"k2", b"k3", b"a", b"newest"]
        assert log.partition.log.cleaner_offset == 8

    def test_is_taken_by_a_segment_at_the_least(self) -> None:
        with records_a_round(1):
            assert [end for end, *_ in planned(four())] == [2, 4, 6, 8]

    def test_that_is_left_waits_until_it_is_due(self) -> None:
        """As in Kafka: what a round has not taken is dirty, and the ratio decides."""
        log = four(min_cleanable_dirty_ratio=0.6)
        with records_a_round(6):
            assert planned(log, force=False) == [(6, 3, 0)]

    def test_that_is_written_meanwhile_waits_for_the_next_run(self) -> None:
        log = four()
        ends = []
        for step in compact(log.context, [], OPTIONS):
            step.execute()
            ends.append(log.partition.log.cleaner_offset)
            log.put("a=5").put("newest=1")

        assert ends == [8]


class TestCleanPart:
    def test_without_key_indexes_is_read_part_by_part(self) -> None:
        log = four()
        planned(log)
        log = without_key_indexes(log).put("k0=2").put("newest=0")
        with records_a_round(3):
            found = planned(log)

        assert [(end, dirty) for end, dirty, _ in found] == [(8, 0), (9, 1), (10, 1)]
        assert [one.offset for one in log.records if one.key == b"k0"] == [9]

    def test_is_indexed_anew_part_by_part(self) -> None:
        log = four()
        planned(log)
        log.put("k0=2").put("newest=0")
        before = {entry.key for entry in log.partition.segments}
        with records_a_round(2):
            found = planned(log, reindex=True)

        assert len(found) > 2
        assert before & {entry.key for entry in log.partition.segments[:-1]} == set()
        assert [one.offset for one in log.records if one.key == b"k0"] == [9]


class TestPartitions:
    def log_dir(self, tmp_path: Any) -> str:
        log_dir = new_topic(tmp_path / "log", partitions=3, config=COMPACTED)
        for partition in range(3):
            for number in range(3):
                append(log_dir, partition, [number], keys="a")
        return log_dir

    def test_share_a_round_as_far_as_their_records_go(self, tmp_path: Any) -> None:
        log_dir = self.log_dir(tmp_path)
        version = image(log_dir).version
        with records_a_round(4):
            steps = compact(context_of(log_dir), [], OPTIONS)
            done = [step.execute().counts["partitions"] for step in steps]

        assert done == [2, 1]
        assert image(log_dir).version == version + 2
        assert [[row.value for row in some] for some in rows(log_dir).values()] == [
            [b"1", b"2"]
        ] * 3

    def test_are_shown_once_in_a_dry_run(self, tmp_path: Any) -> None:
        log_dir = self.log_dir(tmp_path)
        with records_a_round(1):
            steps = compact(context_of(log_dir), [], OPTIONS)
            shown = [[row["partition"] for row in step.rows] for step in steps]

        assert shown == [[0], [1], [2]]

    def test_that_cannot_be_compacted_are_not_tried_again(self) -> None:
        log = four()
        log.partition.flip_byte(log.partition.path(), 70)
        with records_a_round(2):
            problems = [step.execute().problems for step in compact(log.context, [], OPTIONS)]

        assert [len(some) for some in problems] == [1]
