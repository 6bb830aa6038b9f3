"""Files of one writer: whole batches, rolled, indexed, and synced once at the end."""

import pyarrow as pa
import pytest

from sparklog.config import TopicConfig
from sparklog.log.compaction import plan_compaction
from sparklog.log.merge import MergeLimits, plan_merge
from sparklog.model import SegmentEntry
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from sparklog.storage.memory import MemoryFiles
from tests.logs import columns
from tests.writing import HOUR_MS, NOW_MS, at, plan, writer


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def rolled(files: MemoryFiles, timestamps: list[int]) -> list[SegmentEntry]:
    """The segments, several, of one write to partition 0."""
    written = writer(files, plan(segment_bytes=300, batch_size=150))
    written.write(columns(range(len(timestamps)), timestamps=timestamps), at(0, len(timestamps)))
    return written.close()


class TestFiles:
    def test_hold_whole_batches_numbered_from_zero(self, files: MemoryFiles) -> None:
        written = writer(files)
        written.write(columns(range(10)), at(1, 10))
        written.write(columns(range(5)), at(1, 5))
        (entry,) = written.close()
        data = files.read(f"t-0123456789abcdefghijkl/{entry.log_path}")
        found = scan_batches(data)
        verify_checksums(data, found.batches)

        assert found.batches.base_offset.tolist() == [0, 10]
        assert (entry.partition, entry.base_offset, entry.next_offset) == (1, 0, 15)
        assert (entry.log_bytes, entry.record_count, entry.batch_count) == (len(data), 15, 2)
        assert entry.file_base_offset == 0

    def test_without_a_batch_size_have_a_batch_for_each_record(self, files: MemoryFiles) -> None:
        written = writer(files, plan(batch_size=0))
        written.write(columns(range(10)), at(0, 10))
        (entry,) = written.close()

        assert (entry.batch_count, entry.record_count) == (10, 10)

    def test_roll_and_number_on(self, files: MemoryFiles) -> None:
        written = writer(files, plan(segment_bytes=300, batch_size=150))
        written.write(columns(range(100)), at(0, 100))
        entries = written.close()

        assert len(entries) > 2
        assert [entry.base_offset for entry in entries[1:]] == [
            entry.next_offset for entry in entries[:-1]
        ]
        assert entries[-1].next_offset == 100
        assert max(entry.log_bytes for entry in entries) <= 300

    def test_roll_between_two_writes(self, files: MemoryFiles) -> None:
        written = writer(files, plan(segment_bytes=200))
        written.write(columns(range(10)), at(0, 10))
        written.write(columns(range(10)), at(0, 10))

        assert [(entry.base_offset, entry.next_offset) for entry in written.close()] == [
            (0, 10),
            (10, 20),
        ]

    def test_are_one_a_partition_in_order(self, files: MemoryFiles) -> None:
        written = writer(files, plan(partitions=3))
        written.write(columns(range(6)), pa.array([2, 0, 1, 2, 0, 1], pa.int32()))

        assert [entry.partition for entry in written.close()] == [0, 1, 2]

    def test_have_indexes_where_the_topic_builds_them(self, files: MemoryFiles) -> None:
        built = writer(files, plan({"index.interval.bytes": 0}, batch_size=100))
        built.write(columns(range(100)), at(0, 100))
        (entry,) = built.close()
        later = writer(files, plan({"index.build": "job"}))
        later.write(columns(range(100)), at(0, 100))
        (bare,) = later.close()

        assert entry.index_path == entry.log_path.replace(".log", ".index")
        assert entry.time_index_path == entry.log_path.replace(".log", ".timeindex")
        assert entry.index_bytes
        assert entry.time_index_bytes
        assert (bare.index_path, bare.index_bytes, bare.time_index_bytes) == (None, None, None)

    def test_know_their_smallest_timestamp_around_every_roll(self, files: MemoryFiles) -> None:
        times = [1000 + 10 * (n // 2) - 5 * (n % 2) for n in range(100)]
        written = rolled(files, times)

        assert len(written) > 3
        for entry in written:
            assert entry.min_timestamp == min(times[entry.base_offset : entry.next_offset])

    def test_are_compacted_after_max_compaction_lag_ms(self, files: MemoryFiles) -> None:
        written = rolled(files, [NOW_MS] * 100)
        config = TopicConfig.parse(
            {"min.cleanable.dirty.ratio": 1, "max.compaction.lag.ms": HOUR_MS}
        )

        assert plan_compaction(written, 0, config, NOW_MS + HOUR_MS) is None
        assert plan_compaction(written, 0, config, NOW_MS + HOUR_MS + 1) is not None

    def test_are_merged_however_old_records_may_be(self, files: MemoryFiles) -> None:
        written = rolled(files, [NOW_MS] * 100)

        assert plan_merge(written, MergeLimits.of(TopicConfig.parse({}))) == [tuple(written)]

    def test_of_an_object_store_are_closed_before_they_fill_the_memory(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.log_writer.topic_writer.HELD_BYTES_MAX", 300)
        written = writer(files)
        for partition, count in ((0, 5), (1, 20), (0, 5), (1, 20)):
            written.write(columns(range(count)), at(partition, count))

        assert [(entry.partition, entry.base_offset) for entry in written.close()] == [
            (0, 0),
            (1, 0),
            (1, 20),
        ]

    def test_of_no_rows_are_none(self, files: MemoryFiles) -> None:
        written = writer(files)
        written.write(columns([]), None)

        assert written.close() == []
        assert files.trace == []


class TestDurability:
    def test_is_one_sync_of_everything_at_the_end(self, files: MemoryFiles) -> None:
        written = writer(files, plan({"index.interval.bytes": 0}, batch_size=100))
        written.write(columns(range(100)), at(0, 100))
        written.write(columns(range(100)), at(1, 100))
        written.close()
        made = [step.path for step in files.trace if step.kind == "close"]
        synced = [step.path for step in files.trace if step.kind == "sync"]
        before = files.trace[: -len(synced)]

        assert len(made) == 6
        assert set(made) <= set(synced)
        assert all(step.kind != "sync" for step in before)

    def test_is_left_to_the_system_without_flush(self, files: MemoryFiles) -> None:
        written = writer(files, plan(flush=False))
        written.write(columns(range(10)), None)
        written.close()

        assert all(step.kind != "sync" for step in files.trace)
