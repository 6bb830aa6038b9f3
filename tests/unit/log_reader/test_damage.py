"""Whatever byte of a segment is damaged, no answer is wrong: it is right, or it is an error."""

import warnings
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError, MissingFileError, SparklogWarning
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.state.image import Slice
from sparklog.model import Codec, TimestampOffset
from sparklog.record.scan import scan_batches
from tests.partitions import (
    DIRECTORY,
    Partition,
    Piece,
    batch,
    log_bytes,
    marker,
    message_set,
    outcome,
)

SLOT = 1
"""The segment that is damaged: its offsets in the file and in the log differ."""
TIMES = (0, 101, 111, 112, 151, 201, 301)
MASKS = (0x01, 0xFF)
LEADER_EPOCH = range(12, 16)
"""Bytes of a batch that no checksum covers and no reader looks at."""


def modern() -> Partition:
    """Batches of magic 2 without gaps; no two have the same largest time."""
    parts = (batch(100, 110, 105), batch(90, 95), marker(112), batch(200), batch(150, 151))
    last = batch(300, 20, codec=Codec.ZSTD)
    return Partition().append(batch(40, 50)).append(*parts, last).append(batch(60))


def legacy() -> Partition:
    parts = (message_set(100, 110, 105, magic=1), batch(90, 95), message_set(1, magic=0))
    return Partition().append(batch(40, 50)).append(*parts, batch(200)).append(batch(60))


def answer_or_file(partition: Partition, time: int) -> TimestampOffset | str | None:
    """What ListOffsets answers, or the file that it says is damaged."""
    with warnings.catch_warnings(action="ignore", category=SparklogWarning):
        try:
            return partition.reader.list_offset(0, time)
        except CorruptRecordError as error:
            return error.file


def flips(partition: Partition, suffix: str, masks: Sequence[int] = MASKS) -> Iterator[int]:
    """Damage each byte of a file in turn, and mend it; the position of the byte."""
    path = partition.path(suffix, SLOT)
    sound = partition.bytes_of(path)
    for position in range(len(sound)):
        for mask in masks:
            partition.flip_byte(path, position, mask)
            yield position
            partition.put(path, sound)


class TestFlippedLog:
    @pytest.mark.parametrize("make", (modern, legacy))
    def test_what_lies_before_is_read_and_the_error_names_the_batch(
        self, make: Callable[[], Partition]
    ) -> None:
        partition = make()
        path = partition.path(LOG_SUFFIX, SLOT)
        table = scan_batches(partition.bytes_of(path)).batches
        for position in flips(partition, LOG_SUFFIX):
            records, error = outcome(partition.reading())

            slot = int(table.position.searchsorted(position, "right")) - 1
            start = int(table.position[slot])
            if table.magic[slot] == 2 and position - start in LEADER_EPOCH:
                assert (records, error) == (partition.records, None)
                continue
            offset = int(table.base_offset[slot]) + 2
            assert records == partition.expected(0, offset)
            assert error is not None
            assert (error.file, error.position, error.offset) == (path, start, offset)

    @pytest.mark.parametrize("make", (modern, legacy))
    def test_no_time_is_answered_wrongly(self, make: Callable[[], Partition]) -> None:
        partition = make()
        expected = {time: partition.expected_offset(time) for time in (-3, 101, 151, 300)}
        path = partition.path(LOG_SUFFIX, SLOT)
        for _ in flips(partition, LOG_SUFFIX, (0x10,)):
            for time, answer in expected.items():
                assert answer_or_file(partition, time) in (answer, path)


class TestFlippedOffsetInAGap:
    def test_never_makes_two_records_of_one_offset(self) -> None:
        """Where offsets may be missing, a damaged base offset may pass; the order stays."""
        partition = Partition().append(batch(40)).append(3, batch(1, 2), 9, batch(3), 300, batch(4))
        path = partition.path(LOG_SUFFIX, SLOT)
        starts = scan_batches(partition.bytes_of(path)).batches.position.tolist()
        for start in starts:
            for position in range(start, start + 8):
                partition.flip_byte(path, position, 0x04)
                records, _ = outcome(partition.reading())
                partition.flip_byte(path, position, 0x04)

                offsets = [record.offset for record in records]
                assert offsets == sorted(set(offsets))
                assert offsets[-1] < partition.end
                assert [one.value for one in records] == [
                    one.value for one in partition.records[: len(records)]
                ]

    def test_is_found_where_it_would_lie_outside_the_gap(self) -> None:
        partition = Partition().append(batch(1, 2), 4, batch(3, 4), batch(5))
        path = partition.path()
        second = len(batch(1, 2)(0))

        for base in (1, -1, 2**40):
            partition.put_offset(path, second, base)
            records, error = outcome(partition.reading())

            assert records == partition.expected(0, 2)
            assert error is not None
            assert (error.position, error.offset) == (second, 2)

    @pytest.mark.parametrize("piece", (batch(3, 4), message_set(3, 4, magic=1, codec="gzip")))
    def test_is_found_where_it_overlaps_the_next_batch(self, piece: Piece) -> None:
        pieces = (batch(1, 2), 4, piece, batch(5))
        partition = Partition().append(*pieces)
        second = len(log_bytes(pieces[:1], 0))
        partition.put_offset(partition.path(), second, 8)

        records, error = outcome(partition.reading())

        assert records == partition.expected(0, 2)
        assert error is not None
        assert (error.position, error.offset) == (second, 2)
        assert "offsets 8 to" in str(error)


class TestDamagedIndex:
    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    @pytest.mark.parametrize("make", (modern, legacy))
    def test_a_flipped_byte_changes_no_answer(
        self, make: Callable[[], Partition], suffix: str
    ) -> None:
        partition = make()
        damaged = flips(partition, suffix, (0x01, 0x04, 0x80))
        warned = [self.check(partition, suffix) for _ in damaged]

        assert any(warned)

    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_a_cut_file_changes_no_answer(self, suffix: str) -> None:
        partition = modern()
        sound = partition.bytes_of(partition.path(suffix, SLOT))
        for count in range(1, len(sound) + 1):
            partition.put(partition.path(suffix, SLOT), sound[:-count])

            assert self.check(partition, suffix)

    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_zeros_change_no_answer(self, suffix: str) -> None:
        partition = modern()
        path = partition.path(suffix, SLOT)
        sound = partition.bytes_of(path)
        for start in range(len(sound)):
            partition.zero(path, start, len(sound))
            self.check(partition, suffix)
            partition.put(path, sound).zero(path, 0, start + 1)
            self.check(partition, suffix)
            partition.put(path, sound)

        assert self.check(partition.zero(path, 0, len(sound)), suffix)

    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_a_missing_file_changes_no_answer(self, suffix: str) -> None:
        partition = modern()

        assert self.check(partition.remove(partition.path(suffix, SLOT)), suffix)

    @pytest.mark.parametrize("suffix", (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    def test_the_index_of_another_segment_changes_no_answer(self, suffix: str) -> None:
        other = (
            Partition()
            .append(batch(1))
            .append(*(batch(time, size=5) for time in (7, 8, 9, 10, 11, 12)))
        )
        partition = modern()
        path, data = partition.path(suffix, SLOT), other.bytes_of(other.path(suffix, SLOT))
        size = len(partition.bytes_of(path))

        assert self.check(partition.put(path, (data * 2)[:size]), suffix)

    def check(self, partition: Partition, suffix: str) -> bool:
        """Ask for everything; whether there was a warning, which must name the file."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for start in range(0, partition.end, 3):
                assert partition.read(start) == partition.expected(start)
            for time in TIMES:
                assert partition.reader.list_offset(0, time) == partition.expected_offset(time)
        name = partition.path(suffix, SLOT).rpartition("/")[2]
        assert all(one.category is SparklogWarning for one in caught)
        assert all(name in str(one.message) for one in caught)
        return bool(caught)


class TestDamagedFile:
    def test_a_cut_log_is_read_as_far_as_it_goes(self) -> None:
        partition = modern()
        path = partition.path(LOG_SUFFIX, SLOT)
        sound = partition.bytes_of(path)
        table = scan_batches(sound).batches
        for left in range(len(sound)):
            records, error = outcome(partition.put(path, sound[:left]).reading())

            slot = int(table.end_position.searchsorted(left, "right"))
            assert records == partition.expected(0, int(table.base_offset[slot]) + 2)
            assert error is not None
            assert error.position == table.position[slot]
            assert "it was cut" in str(error)
            assert path in str(error)

    @pytest.mark.parametrize("start", (0, 1, 61, 100))
    def test_zeros_in_a_log_are_no_records(self, start: int) -> None:
        partition = modern()
        path = partition.path(LOG_SUFFIX, SLOT)
        partition.zero(path, start, len(partition.bytes_of(path)))

        records, error = outcome(partition.reading())

        assert error is not None
        assert error.file == path
        assert records == partition.expected(0, error.offset)

    def test_a_missing_log_is_said_by_its_name(self) -> None:
        partition = modern()
        partition.remove(partition.path(LOG_SUFFIX, SLOT))

        with pytest.raises(MissingFileError, match=partition.segments[SLOT].log_path):
            partition.read()

    def test_a_file_of_other_offsets_is_found_by_its_end(self) -> None:
        partition = Partition().append(batch(1, 2), message_set(3, magic=1, codec="gzip"))
        entry = partition.segments[0]._replace(record_count=4, next_offset=4)

        reading = read_slices(partition.files, DIRECTORY, [Slice(entry, 0, 4)])

        with pytest.raises(CorruptRecordError, match="the file ends before offset 4"):
            list(reading)


class TestAnyDamage:
    @given(
        st.lists(st.integers(0, 60), min_size=6, max_size=12, unique=True),
        st.sampled_from((LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)),
        st.data(),
    )
    def test_no_answer_is_wrong(self, times: list[int], suffix: str, data: st.DataObject) -> None:
        """Goal: damage is an error of the log or a warning of the index, never a wrong answer.
        Method: batches of one or two records in any order of time, any byte set to any value.
        """
        partition = Partition().append(batch(0, 1))
        partition.append(*(batch(time, time - 1) for time in times)).append(batch(1))
        path = partition.path(suffix, SLOT)
        position = data.draw(st.integers(0, len(partition.bytes_of(path)) - 1))
        partition.flip_byte(path, position, data.draw(st.integers(1, 255)))
        start = data.draw(st.integers(0, partition.end))
        time = data.draw(st.integers(0, 61))

        with warnings.catch_warnings(action="ignore", category=SparklogWarning):
            records, error = outcome(partition.reading(start))

        damaged_log = path if suffix == LOG_SUFFIX else None
        assert answer_or_file(partition, time) in (partition.expected_offset(time), damaged_log)
        assert records == partition.expected(start)[: len(records)]
        assert error is not None or records == partition.expected(start)
        assert error is None or suffix == LOG_SUFFIX
