import warnings
from pathlib import Path

import pytest
from hypothesis import given

from sparklog.clock import ManualClock
from sparklog.errors import CorruptRecordError, SparklogWarning, UnknownTopicError
from sparklog.indexes import commit_indexes, rebuild_indexes, rebuilt
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.model import SegmentEntry
from sparklog.record.scan import scan_batches
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles, Operation
from tests.naive import log as naive
from tests.partitions import DIRECTORY, NOW_MS, TOPIC, Partition, batch, partitions

INTERVAL = 4096
"""The default of index.interval.bytes."""


def rebuild(partition: Partition) -> list[SegmentEntry]:
    return rebuild_indexes(partition.catalog, "t")


def large(interval: int | None = INTERVAL) -> Partition:
    """Two segments of some ten batches each, with indexes of several entries."""
    times = [range(n, n + 4) for n in range(0, 80, 2)]
    parts = [batch(*each, size=300) for each in times]
    return Partition().append(*parts[:20], interval=interval).append(*parts[20:], interval=interval)


def silent_answers(partition: Partition) -> None:
    """Ask, with every warning an error."""
    with warnings.catch_warnings(action="error"):
        assert partition.read(partition.end - 3) == partition.expected(partition.end - 3)
        for time in (0, 30, 60, 82):
            assert partition.reader.list_offset(0, time) == partition.expected_offset(time)


def batches_of(data: bytes) -> list[naive.Batch]:
    table = scan_batches(data).batches
    columns = (table.last_offset, table.max_timestamp, table.size)
    return [naive.Batch(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


class TestRebuildIndexes:
    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_mends_what_was_damaged_and_nothing_else(self, suffix: str) -> None:
        partition = large()
        sound = partition.bytes_of(partition.path(suffix, 1))
        before = partition.segments
        partition.zero(partition.path(suffix, 1), 0, len(sound))
        with pytest.warns(SparklogWarning, match="rebuild its indexes"):
            partition.reader.list_offset(0, 60)

        mended = rebuild(partition)

        assert mended == [partition.segments[1]] != [before[1]]
        assert partition.segments[0] == before[0]
        assert partition.bytes_of(partition.path(suffix, 1)) == sound
        silent_answers(partition)
        assert rebuild(partition) == []

    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_mends_what_is_missing(self, suffix: str) -> None:
        partition = large()
        partition.remove(partition.path(suffix, 0))

        assert rebuild(partition) == [partition.segments[0]]
        silent_answers(partition)

    def test_builds_what_was_left_to_the_job(self) -> None:
        partition = large(interval=None)
        silent_answers(partition)

        mended = rebuild(partition)

        assert mended == partition.segments
        built = large().segments
        assert [e.index_bytes for e in mended] == [e.index_bytes for e in built]
        assert all(entry.index_bytes and entry.time_index_bytes for entry in mended)
        silent_answers(partition)

    def test_writes_no_file_for_an_index_without_entries(self) -> None:
        partition = Partition().append(batch(-1), interval=None)

        (entry,) = rebuild(partition)

        assert (entry.index_path, entry.index_bytes) == (None, 0)
        assert (entry.time_index_path, entry.time_index_bytes) == (None, 0)
        assert rebuild(partition) == []

    def test_refuses_a_damaged_log_and_leaves_everything_as_it_was(self) -> None:
        partition = large()
        before = partition.segments
        path = partition.path(LOG_SUFFIX, 1)
        partition.remove(partition.path(INDEX_SUFFIX, 1)).flip_byte(path, 70)

        with pytest.raises(CorruptRecordError, match="checksum") as caught:
            rebuild(partition)
        assert (caught.value.file, caught.value.position, caught.value.offset) == (path, 0, 80)
        assert partition.segments == before

    def test_makes_files_durable_before_the_commit_names_them(self) -> None:
        files = MemoryFiles()
        partition = Partition(files).append(batch(1), batch(2), interval=None)
        files.trace.clear()
        catalog = partition.catalog
        version = partition.image.version

        (entry,) = rebuild_indexes(catalog, "t", 0)

        index = f"{DIRECTORY}/{entry.time_index_path}"
        steps = [step.kind for step in files.trace if step.path == index]
        assert steps == ["create", "write", "close", "sync"]
        assert Operation("sync", f"{DIRECTORY}/t-0") in files.trace
        assert partition.image.version == version + 1

    def test_refuses_a_partition_that_does_not_exist(self) -> None:
        with pytest.raises(UnknownTopicError, match="no partition 7"):
            rebuild_indexes(Partition().catalog, "t", 7)

    def test_works_on_files_of_the_machine(self, tmp_path: Path) -> None:
        partition = Partition(LocalFiles(str(tmp_path))).append(batch(1), batch(2), interval=None)

        assert rebuild(partition) == partition.segments


class TestRebuilt:
    @given(partitions())
    def test_gives_kafkas_bytes(self, partition: Partition) -> None:
        """Goal: indexes are a pure function of the log. Method: compare with the naive walk."""
        for slot, entry in enumerate(partition.segments):
            new = rebuilt(partition.files, ManualClock(), TOPIC, entry, 0) or entry

            batches = batches_of(partition.bytes_of(partition.path(LOG_SUFFIX, slot)))
            expected = naive.index_files(batches, entry.file_base_offset, 0)
            found = [
                partition.bytes_of(f"{DIRECTORY}/{path}") if path else b""
                for path in (new.index_path, new.time_index_path)
            ]
            assert tuple(found) == expected


class TestCommitIndexes:
    def test_leaves_out_a_segment_that_was_removed_meanwhile(self) -> None:
        partition = large()
        first, second = partition.segments
        partition.commit(remove=[first.key], removed_ms=NOW_MS)

        made = [(first, first), (second, second)]
        assert commit_indexes(partition.catalog, TOPIC, made) == [second]
        assert commit_indexes(partition.catalog, TOPIC, made[:1]) == []

    def test_leaves_out_a_segment_whose_place_another_has(self) -> None:
        partition = large()
        first, second = partition.segments
        other = second._replace(log_path="t-0/other.log")
        partition.commit(segments=[other], remove=[second.key], removed_ms=NOW_MS)

        made = [(first, first), (second, second)]
        assert commit_indexes(partition.catalog, TOPIC, made) == [first]

    def test_keeps_what_else_changed_meanwhile(self) -> None:
        partition = large(interval=None)
        entry = partition.segments[0]
        new = rebuilt(partition.files, ManualClock(), TOPIC, entry, INTERVAL)
        assert new is not None
        touched = partition.with_columns(entry, key_index_path="t-0/a.keyindex")

        (committed,) = commit_indexes(partition.catalog, TOPIC, [(entry, new)])

        assert committed.key_index_path == touched.key_index_path
        assert committed.index_path == new.index_path

    def test_keeps_an_index_that_another_builder_has_replaced(self) -> None:
        partition = large()
        entry = partition.segments[0]
        new = entry._replace(time_index_path="t-0/new.timeindex")
        touched = partition.with_columns(entry, index_path="t-0/theirs.index")

        (committed,) = commit_indexes(partition.catalog, TOPIC, [(entry, new)])

        assert committed == touched._replace(time_index_path=new.time_index_path)
