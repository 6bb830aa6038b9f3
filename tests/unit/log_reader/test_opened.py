from collections.abc import Callable
from typing import TypeVar

import pytest

from sparklog.errors import (
    CorruptRecordError,
    MissingFileError,
    SparklogWarning,
    StoragePermissionError,
)
from sparklog.log.lookup import checked_floor
from sparklog.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.log.windows import BEGINNING, SegmentLog
from sparklog.log_reader import opened as module
from sparklog.log_reader.opened import ask, log_path, opened, opened_ahead
from sparklog.storage.memory import MemoryFiles
from tests.partitions import DIRECTORY, Partition, batch

Answer = TypeVar("Answer")

BOTH = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)


def three() -> Partition:
    return Partition().append(batch(1), batch(2), batch(3))


def asking(partition: Partition, question: Callable[[SegmentLog], Answer]) -> Answer:
    segment = opened(partition.files, DIRECTORY, partition.segments[0])
    return ask(segment, DIRECTORY, question)


def asked(partition: Partition) -> tuple[bool, bool]:
    """Whether a question that needs both indexes has them."""

    def has_indexes(segment: SegmentLog) -> tuple[bool, bool]:
        return segment.offset_index() is not None, segment.time_index() is not None

    return asking(partition, has_indexes)


class TestOpened:
    def test_looks_at_no_file_before_it_must(self) -> None:
        files = MemoryFiles()
        partition = Partition(files).append(batch(1), batch(2))
        files.trace.clear()

        segment = opened(files, DIRECTORY, partition.segments[0])
        assert files.trace == []

        segment.read(0, 61)
        segment.offset_index()
        segment.offset_index()
        assert [step.kind for step in files.trace] == ["view", "view"]

    def test_names_the_log(self) -> None:
        partition = three()

        assert log_path(DIRECTORY, partition.segments[0]) == partition.path()


class TestAsk:
    def test_has_both_indexes(self) -> None:
        assert asked(three()) == (True, True)

    def test_has_none_where_none_was_built(self) -> None:
        assert asked(Partition().append(batch(1), batch(2), interval=None)) == (False, False)

    @pytest.mark.parametrize("suffix", BOTH)
    def test_does_without_an_index_that_is_missing(self, suffix: str) -> None:
        partition = three()
        path = partition.path(suffix).removeprefix(f"{DIRECTORY}/")
        partition.remove(partition.path(suffix))

        with pytest.warns(
            SparklogWarning, match=f"{path}: the file is missing; .* scanned"
        ) as told:
            answer = asked(partition)
        assert answer == (suffix != INDEX_SUFFIX, suffix != TIME_INDEX_SUFFIX)
        assert len(told) == 1

    @pytest.mark.parametrize("suffix", BOTH)
    def test_does_without_an_index_of_another_size(self, suffix: str) -> None:
        partition = three()
        size = len(partition.bytes_of(partition.path(suffix)))
        partition.shrink(partition.path(suffix), 1)

        with pytest.warns(SparklogWarning, match=f"has {size - 1} bytes, the metadata says {size}"):
            answer = asked(partition)
        assert answer == (suffix != INDEX_SUFFIX, suffix != TIME_INDEX_SUFFIX)

    @pytest.mark.parametrize("suffix", BOTH)
    def test_takes_an_index_whose_size_nobody_knows(self, suffix: str) -> None:
        partition = three()
        partition.with_columns(partition.segments[0], index_bytes=None, time_index_bytes=None)

        assert asked(partition) == (True, True)

    def test_does_without_both(self) -> None:
        partition = three()
        for suffix in BOTH:
            partition.remove(partition.path(suffix))

        with pytest.warns(SparklogWarning) as told:
            assert asked(partition) == (False, False)
        assert len(told) == 2

    def test_does_without_an_entry_that_is_wrong(self) -> None:
        partition = three()
        partition.flip_byte(partition.path(INDEX_SUFFIX), 7)

        with pytest.warns(SparklogWarning, match=r"\.index: entry \(1, .*rebuild its indexes"):
            floor = asking(partition, lambda one: checked_floor(one, 1))
        assert floor == BEGINNING

    def test_names_the_file_of_a_damaged_log(self) -> None:
        def damaged(_: SegmentLog) -> None:
            raise CorruptRecordError("broken", position=7, offset=8)

        partition = three()

        with pytest.raises(CorruptRecordError, match=f"{partition.path()}, position 7, offset 8"):
            asking(partition, damaged)

    def test_does_not_take_another_failure_for_a_missing_index(self) -> None:
        files = MemoryFiles()
        partition = Partition(files).append(batch(1), batch(2))
        files.fail_next("view", StoragePermissionError("no"))

        with pytest.raises(StoragePermissionError):
            asked(partition)

    def test_says_that_a_log_is_missing(self) -> None:
        partition = three()
        partition.remove(partition.path())

        with pytest.raises(MissingFileError):
            asking(partition, lambda one: one.read(0, 61))


class TestOpenedAhead:
    @pytest.fixture
    def partition(self) -> Partition:
        """Eight segments, in files that an object store might have."""
        partition = Partition()
        for number in range(8):
            partition.append(batch(number))
        partition.files.trace.clear()  # type: ignore[attr-defined] # of MemoryFiles
        return partition

    def kinds(self, partition: Partition) -> list[str]:
        return [step.kind for step in partition.files.trace]  # type: ignore[attr-defined] # as above

    def test_fetches_no_more_than_was_read_before(self, partition: Partition) -> None:
        slices, counts = partition.log.slices(0, 8), []
        for _, segment in opened_ahead(partition.files, DIRECTORY, slices):
            segment.read(0, 61)
            counts.append(len(self.kinds(partition)))

        assert [counts[last] for last in (0, 2, 6, 7)] == [1, 3, 7, 8]

    def test_leaves_large_segments_to_the_reader(
        self, partition: Partition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "SMALL_BYTES", 0)

        assert partition.read() == partition.records
        assert self.kinds(partition) == ["view"] * 8
