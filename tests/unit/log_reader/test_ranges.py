"""Ranges of files: the whole batches of a fetch, as a naive walk over all batches finds them."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, MissingFileError, SparklogWarning
from sparklog.log.names import INDEX_SUFFIX
from sparklog.log_reader import ranges
from sparklog.log_reader.ranges import BatchRanges, FileRange, Wanted
from sparklog.record.scan import scan_batches
from sparklog.storage.kept_file import KeptFile
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.partitions import DIRECTORY, Partition, batch, marker, message_set, partitions

MANY = 2**30
Offsets = tuple[int, int]


def found(
    partition: Partition,
    start: int,
    max_bytes: int = MANY,
    end: int | None = None,
    within: BatchRanges | None = None,
    **options: Any,
) -> list[Offsets]:
    """The first and last offsets of the batches that are found."""
    slices = partition.log.slices(start, partition.end if end is None else end)
    within = within or BatchRanges(partition.files)
    pieces = within.find(DIRECTORY, slices, max_bytes, **options)
    return spans(b"".join(bytes_of(one) for one in pieces))


def bytes_of(piece: memoryview | FileRange) -> bytes:
    if isinstance(piece, FileRange):
        return bytes(piece.file(piece.start, len(piece)))
    return bytes(piece)


def spans(data: bytes) -> list[Offsets]:
    scan = scan_batches(data)
    assert scan.end == len(data)
    return [*zip(scan.batches.base_offset.tolist(), scan.batches.last_offset.tolist(), strict=True)]


def expected(
    partition: Partition, start: int, max_bytes: int, end: int, *, at_least_one: bool
) -> list[Offsets]:
    """The same, of all batches one after another."""
    chosen: list[Offsets] = []
    for entry in partition.segments:
        table = scan_batches(partition.bytes_of(f"{DIRECTORY}/{entry.log_path}")).batches
        columns = (table.base_offset + entry.shift, table.last_offset + entry.shift, table.size)
        for first, last, size in zip(*(one.tolist() for one in columns), strict=True):
            if start == end or last < start or (first >= end and end < partition.end):
                continue
            if size > max_bytes and not (at_least_one and not chosen):
                return chosen
            chosen.append((first, last))
            max_bytes -= size
    return chosen


def has_wrappers(partition: Partition) -> bool:
    paths = [f"{DIRECTORY}/{entry.log_path}" for entry in partition.segments]
    return any(scan_batches(partition.bytes_of(one)).batches.is_wrapper.any() for one in paths)


@given(partitions(), st.data())
def test_any_fetch_is_answered_as_a_walk_over_all_batches_answers_it(
    partition: Partition, data: st.DataObject
) -> None:
    low, high = partition.log.log_start_offset, partition.end
    within = BatchRanges(partition.files)
    for _ in range(3):
        start = data.draw(st.integers(low, high))
        # Where a wrapper begins is not known; no transaction ends a log of them.
        end = high if has_wrappers(partition) else data.draw(st.integers(start, high))
        max_bytes = data.draw(st.integers(0, 1000))
        options = {"at_least_one": data.draw(st.booleans())}
        answer = found(partition, start, max_bytes, end, within, **options)
        assert answer == expected(partition, start, max_bytes, end, **options)
        wanted = Wanted(DIRECTORY, partition.log.slices(start, end), max_bytes)
        ahead = within.ahead_of([wanted], data.draw(st.integers(0, 1000)))
        assert found(partition, start, max_bytes, end, ahead, **options) == answer


class TestLocal:
    """Two segments of three batches of two records; the second is not sealed."""

    ALL = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11))

    @pytest.fixture
    def log(self, tmp_path: Path) -> Partition:
        three = [batch(1, 2), batch(3, 4), batch(5, 6)]
        return Partition(LocalFiles(str(tmp_path))).append(*three).append(*three)

    @pytest.mark.parametrize("at_once", [False, True])
    @pytest.mark.parametrize("start", range(12))
    def test_every_offset_is_found(self, log: Partition, start: int, at_once: bool) -> None:
        assert found(log, start, at_once=at_once) == [*self.ALL[start // 2 :]]

    def test_an_end_in_a_gap_is_before_the_message_behind_it(self, tmp_path: Path) -> None:
        pieces = batch(1), 1, message_set(2, magic=0), batch(3)
        log = Partition(LocalFiles(str(tmp_path))).append(*pieces)
        assert found(log, 0, end=2) == [(0, 0)]
        assert found(log, 0) == [(0, 0), (2, 2), (3, 3)]

    def test_a_sealed_segment_is_not_read(self, log: Partition) -> None:
        [first, second] = BatchRanges(log.files).find(DIRECTORY, log.log.slices(2, 12), MANY)
        assert isinstance(first, FileRange)
        assert isinstance(second, memoryview)

    def test_a_reader_goes_on_without_the_index(
        self, log: Partition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        within = BatchRanges(log.files)
        size = len(log.bytes_of(log.path())) // 3
        assert found(log, 0, size, within=within) == [(0, 1)]
        monkeypatch.setattr(ranges, "floor_of", None)
        [piece] = within.find(DIRECTORY, log.log.slices(2, 6), MANY)
        assert spans(bytes_of(piece)) == [(2, 3), (4, 5)]

    def test_what_is_remembered_is_bounded(
        self, log: Partition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ranges, "POSITIONS", 2)
        within = BatchRanges(log.files)
        for start in (0, 2, 6, 8, 0):
            assert found(log, start, 1, within=within, at_least_one=True) == [(start, start + 1)]
            assert len(within._known) <= 2

    def test_a_file_outlives_its_deletion(self, log: Partition) -> None:
        within = BatchRanges(log.files)
        [piece] = within.find(DIRECTORY, log.log.slices(0, 6), MANY)
        log.remove(log.path())
        within.let_go()
        assert spans(bytes_of(piece)) == [*self.ALL[:3]]
        with pytest.raises(MissingFileError):
            found(log, 0, within=within)

    def test_what_must_be_read_from_disk_is_waited_for(
        self, log: Partition, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(KeptFile, "seems_cached", lambda *_: False)
        with pytest.raises(BlockingIOError):
            found(log, 0, at_once=True)
        assert found(log, 0) == [*self.ALL]

    def test_a_file_that_was_cut_is_damage(self, log: Partition) -> None:
        log.shrink(log.path(), 1)
        with pytest.raises(CorruptRecordError, match="it was cut"):
            found(log, 2)


class TestRemote:
    def test_a_fetch_reads_each_file_once(self) -> None:
        files = MemoryFiles()
        log = Partition(files).append(*[batch(1)] * 9).append(batch(1))
        within = BatchRanges(files)
        for start, size, reads in ((0, MANY, 2), (0, 200, 1), (2, 200, 1), (1, 200, 1)):
            wanted = [Wanted(DIRECTORY, log.log.slices(start, log.end), size)]
            files.trace.clear()
            found(log, start, size, within=within.ahead_of(wanted, size))
            assert [one.kind for one in files.trace if one.kind == "read"] == ["read"] * reads

    def test_an_unknown_place_in_a_large_segment_is_looked_for_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ranges, "SMALL_BYTES", 0)
        log = Partition().append(batch(1), batch(2)).append(batch(3))
        within = BatchRanges(log.files)
        wanted = Wanted(DIRECTORY, log.log.slices(1, 3), MANY)

        assert [one.path for one in within._ranges_of([wanted], MANY)] == [log.path(slot=1)]
        assert found(log, 1, within=within.ahead_of([wanted], MANY)) == [(1, 1), (2, 2)]

    def test_nothing_is_at_once(self) -> None:
        with pytest.raises(BlockingIOError):
            found(Partition().append(batch(1)), 0, at_once=True)


class TestDamage:
    def test_before_it_batches_are_found(self) -> None:
        log = Partition().append(batch(1), batch(2), batch(3), interval=None)
        size = len(log.bytes_of(log.path())) // 3
        log.put_offset(log.path(), size, 7)
        assert found(log, 0, 2 * size, 2) == [(0, 0)]
        with pytest.raises(CorruptRecordError, match="position"):
            found(log, 1)

    def test_within_a_segment_that_is_not_sealed_ends_the_answer(self) -> None:
        log = (
            Partition().append(batch(1)).append(batch(2), batch(3), interval=None).append(batch(4))
        )
        size = len(log.bytes_of(log.path(slot=1))) // 2
        log.zero(log.path(slot=1), size, size + 61)
        assert found(log, 0) == [(0, 0), (1, 1)]
        with pytest.raises(CorruptRecordError, match="offset 2"):
            found(log, 2)

    def test_of_a_later_segment_ends_the_answer(self) -> None:
        log = Partition().append(batch(1)).append(batch(2), batch(3), interval=None)
        log.zero(log.path(slot=1), 0, 61)
        assert found(log, 0, MANY, 2) == [(0, 0)]

    def test_at_the_front_of_a_segment_that_is_not_sealed_is_told(self) -> None:
        log = Partition().append(batch(1)).append(batch(2))
        log.zero(log.path(slot=1), 0, 61)
        with pytest.raises(CorruptRecordError, match="offset 1"):
            found(log, 1)

    def test_of_an_index_is_warned_of_and_hides_nothing(self) -> None:
        log = Partition().append(*(batch(one) for one in range(9)))
        index = bytearray(log.bytes_of(log.path(INDEX_SUFFIX)))
        for at in range(7, len(index), 8):
            index[at] ^= 1
        log.put(log.path(INDEX_SUFFIX), bytes(index))
        with pytest.warns(SparklogWarning, match="scanned instead"):
            assert found(log, 5) == [(5, 5), (6, 6), (7, 7), (8, 8)]


class TestOtherFormats:
    @pytest.mark.parametrize("codec", [None, "gzip"])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_message_sets_are_found(self, magic: int, codec: str | None) -> None:
        sets = [message_set(1, 2, 3, magic=magic, codec=codec) for _ in range(3)]
        log = Partition().append(*sets, sealed=True)
        [*whole] = found(log, 0)
        assert found(log, 3) == whole[len(whole) // 3 :]

    def test_markers_and_gaps_are_passed_over(self) -> None:
        log = Partition().append(batch(1, 2), 3, marker(), 2, batch(5))
        assert found(log, 2) == [(5, 5), (8, 8)]
        assert found(log, 6, end=8) == []

    def test_a_segment_whose_last_offsets_are_gone_is_passed_over(self) -> None:
        log = Partition().append(batch(1)).append(batch(2))
        first, second = log.segments
        gap = Partition(log.files)
        gap.commit(segments=[first._replace(next_offset=8)])
        gap.commit(segments=[second._replace(base_offset=8, next_offset=9)])
        with warnings.catch_warnings(action="error"):
            assert found(gap, 4) == [(8, 8)]
