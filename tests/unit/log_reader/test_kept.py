"""Segments that are kept open: few, the same for everybody, and never those that were replaced."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparklog.errors import CorruptRecordError, MissingFileError, SparklogWarning
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.log.windows import LOOKUP_BYTES
from sparklog.log_reader import TopicReader, kept
from sparklog.log_reader.find import find_offset
from sparklog.log_reader.kept import KeptSegments
from sparklog.model import TimestampOffset
from sparklog.storage.memory import MemoryFiles
from tests.partitions import DIRECTORY, TOPIC, Partition, batch

TIMES = (-3, *range(8))


class Kept:
    """A partition, and readers of it that share what is kept."""

    def __init__(self, segments: int = 1) -> None:
        self.files = MemoryFiles()
        self.partition = Partition(self.files)
        for _ in range(segments):
            self.partition.append(*(batch(time, time + 1) for time in range(0, 8, 2)))
        self.segments = KeptSegments(self.files)

    @property
    def reader(self) -> TopicReader:
        return TopicReader(self.files, TOPIC, self.partition.image, self.segments)

    def check(self) -> None:
        """Every time and every offset is answered as it must be."""
        reader = self.reader
        for time in TIMES:
            assert reader.list_offset(0, time) == self.partition.expected_offset(time)
        for record in self.partition.expected():
            place = find_offset(reader, 0, record.offset)
            assert place is not None
            assert (place.timestamp, place.offset) == (record.timestamp, record.offset)

    def opened(self) -> int:
        """How many files, or parts of them, the next lookups open."""
        self.files.trace.clear()
        self.check()
        return len([step for step in self.files.trace if step.kind in ("view", "read", "keep")])


class TestKeptSegments:
    def test_are_opened_once_whoever_reads(self) -> None:
        log = Kept(segments=3)

        assert log.opened() > 0
        assert log.opened() == 0

    def test_are_the_same_for_later_snapshots(self) -> None:
        log = Kept()
        log.check()
        log.partition.append(batch(99))

        entry = log.reader.image.segments(0).entry(0)
        assert log.reader.opened(entry) is log.reader.opened(entry._replace())

    def test_are_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kept, "SEGMENTS", 2)
        monkeypatch.setattr(kept, "PARTS", 2)
        log = Kept(segments=3)
        first = log.reader.opened(log.partition.segments[0])

        assert log.opened() > 0
        assert log.opened() > 0
        assert log.reader.opened(log.partition.segments[0]) is not first

    def test_are_let_go(self) -> None:
        log = Kept()
        before = log.opened()

        log.segments.let_go()
        assert log.opened() == before

    def test_hold_no_long_parts(self) -> None:
        log = Kept()
        log.partition.append(batch(9, size=LOOKUP_BYTES))
        segment = log.reader.opened(log.partition.segments[1])
        log.files.trace.clear()

        for _ in range(2):
            segment.read(0, LOOKUP_BYTES + 1)
        assert [step.kind for step in log.files.trace] == ["view", "view"]

    def test_are_others_when_an_index_was_replaced(self) -> None:
        log = Kept()
        log.check()
        old = log.partition.segments[0]
        path = log.partition.path(INDEX_SUFFIX)
        log.files.link_or_copy(path, f"{path}x")
        log.files.delete(path)
        log.partition.with_columns(old, index_path=f"{old.index_path}x")

        log.check()

    def test_are_not_asked_for_when_they_were_removed(self) -> None:
        log = Kept(segments=2)
        log.check()
        removed = log.partition.segments[0].key
        log.partition.commit(remove=[removed], removed_ms=1)

        assert log.reader.list_offset(0, 0) == TimestampOffset(0, 8)

    def test_are_for_several_threads(self) -> None:
        log = Kept(segments=4)

        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda _: log.check(), range(16)):
                pass


class TestDamage:
    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_of_an_index_is_told_every_time(self, suffix: str) -> None:
        log = Kept()
        log.partition.remove(log.partition.path(suffix))

        for _ in range(2):
            with pytest.warns(SparklogWarning, match="the file is missing"):
                log.check()

    def test_of_a_missing_index_ends_when_it_is_back(self) -> None:
        log = Kept()
        path = log.partition.path(INDEX_SUFFIX)
        data = log.partition.bytes_of(path)
        log.partition.remove(path)
        with pytest.warns(SparklogWarning):
            log.check()
        log.partition.put(path, data)

        with warnings.catch_warnings(action="error"):
            log.check()

    def test_of_a_log_is_an_error_every_time(self) -> None:
        log = Kept()
        log.partition.flip_byte(log.partition.path(LOG_SUFFIX), 70)

        for _ in range(2):
            with pytest.raises(CorruptRecordError, match=f"{DIRECTORY}.* position 0, offset 0"):
                log.reader.list_offset(0, 0)

    def test_of_a_missing_log_is_an_error_until_it_is_back(self) -> None:
        log = Kept()
        path = log.partition.path(LOG_SUFFIX)
        data = log.partition.bytes_of(path)
        log.partition.remove(path)
        with pytest.raises(MissingFileError):
            log.reader.list_offset(0, 0)
        log.partition.put(path, data)

        log.check()
