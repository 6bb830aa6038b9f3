"""The step of compaction: the rows of its segments, when it is due, and its counts."""

from typing import Any

import pytest

from sparklog.log.names import KEY_INDEX_SUFFIX
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import Outcome
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.model import Codec
from tests.compaction import COMPACTED, LARGE, T0, Compacted
from tests.logs import append, image, rows
from tests.maintenance import new_topic, outcome_of, run

OPTIONS = {"force": False, "reindex": False}


class TestRow:
    def test_says_what_is_left(self) -> None:
        log = Compacted().put("a=1", "b=1", codec=Codec.ZSTD).put("a=2", codec=Codec.ZSTD)
        log.put("newest=0").compact()
        entry = log.partition.segments[0]

        assert (entry.base_offset, entry.file_base_offset, entry.next_offset) == (0, 0, 3)
        assert (entry.record_count, entry.batch_count, entry.codec) == (2, 2, Codec.ZSTD)
        assert (entry.min_timestamp, entry.max_timestamp) == (T0 + 1, T0 + 2)
        assert entry.max_timestamp_offset == 2
        assert entry.delete_horizon_ms is None

    def test_names_a_key_index_beside_the_log(self) -> None:
        log = Compacted().put("a=1", "b=1").put("newest=0")
        log.compact()
        entry = log.partition.segments[0]

        assert entry.key_index_path is not None
        assert entry.key_index_path.startswith("t-0/00000000000000000000.")
        assert entry.key_index_path.endswith(KEY_INDEX_SUFFIX)
        data = log.partition.bytes_of(
            log.partition.path().replace(entry.log_path, entry.key_index_path)
        )
        assert len(data) == entry.key_index_bytes

    def test_has_indexes_that_find_every_record(self) -> None:
        log = Compacted(index_interval_bytes=100)
        log.put(*(f"{number}=" + "x" * 50 for number in range(50)), batch_bytes=200)
        log.put("10=1", "30=1").put("newest=0").compact()
        kept = log.records

        assert (log.partition.segments[0].index_bytes or 0) > 80
        for record in kept:
            assert log.partition.read(record.offset)[0] == record

    def test_keeps_the_time_of_the_append(self) -> None:
        log = Compacted().put("a=1", "b=1", append_time=T0 + 9).put("a=2").put("newest=0")
        log.compact()

        assert [one.timestamp for one in log.records] == [T0 + 9, T0 + 2, T0 + 3]


class TestStep:
    def test_a_dry_run_says_what_would_be_compacted(self) -> None:
        log = Compacted().put("a=1").put("newest=0")
        size = log.partition.segments[0].log_bytes
        code, (report,) = run(compact, log.partition, configs=COMPACTED, dry_run=True, **OPTIONS)

        assert code == DONE
        assert report.rows == [
            {
                "partition": 0,
                "end_offset": 1,
                "dirty_segments": 1,
                "dirty_bytes": size,
                "clean_segments": 0,
                "clean_bytes": 0,
                "dirty_ratio": 1.0,
            }
        ]
        assert log.partition.log.cleaner_offset == 0

    def test_counts_what_it_did(self) -> None:
        log = Compacted().put("a=1").put("a=2").put("newest=0")
        before = sum(entry.log_bytes for entry in log.partition.segments[:-1])

        outcome = log.compact()
        counts = {
            "partitions": 1,
            "segments_before": 2,
            "segments_after": 1,
            "bytes_before": before,
            "bytes_after": log.partition.segments[0].log_bytes,
        }
        assert outcome == Outcome(counts=counts, problems=[])

    @pytest.mark.parametrize("policy", ["delete", ""])
    def test_is_none_for_topics_that_are_not_compacted(self, policy: str) -> None:
        log = Compacted(cleanup_policy=policy).put("a=1").put("newest=0")

        assert log.plan(force=True) == []

    def test_is_one_for_compact_and_delete(self) -> None:
        assert Compacted(cleanup_policy="compact,delete").put("a=1").put("newest=0").plan()

    def test_is_none_when_nothing_is_due(self) -> None:
        log = Compacted().put("a" + LARGE).put("newest=0")
        log.compact()
        log.put("a=1")

        assert log.plan() == []
        assert run(compact, log.partition, configs=COMPACTED, **OPTIONS) == (NOTHING_TO_DO, [])
        assert log.plan(force=True) != []

    def test_is_none_for_a_topic_that_is_being_deleted(self) -> None:
        log = Compacted().put("a=1").put("newest=0")
        log.partition.delete_topic()

        assert log.plan(force=True) == []

    @pytest.mark.parametrize(
        ("configs", "is_due"),
        [
            ({"min_compaction_lag_ms": 10**12}, False),
            ({"min_cleanable_dirty_ratio": 1}, False),
            ({"min_cleanable_dirty_ratio": 1, "max_compaction_lag_ms": 1}, True),
        ],
    )
    def test_obeys_the_configs_of_the_topic(self, configs: dict[str, Any], is_due: bool) -> None:
        assert bool(Compacted(**configs).put("a=1").put("newest=0").plan()) is is_due


class TestPartitions:
    def test_are_compacted_each_on_its_own(self, tmp_path: Any) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=3, config=COMPACTED)
        for number in range(6):
            append(log_dir, number % 2, [number, number + 10], keys=["a", number % 2])
        append(log_dir, 2, ["alone"], keys=["a"])
        version = image(log_dir).version
        outcome = outcome_of(compact, log_dir, force=True, reindex=False)

        assert outcome.counts["partitions"] == 2
        found = {number: [row.value for row in some] for number, some in rows(log_dir).items()}
        assert found == {
            0: [b"2", b"12", b"4", b"14"],
            1: [b"3", b"13", b"5", b"15"],
            2: [b"alone"],
        }
        assert image(log_dir).version == version + 1
