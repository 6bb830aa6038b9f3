import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import OffsetOutOfRangeError, UnknownTopicError, UsageError
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import Slice
from sparklog.model import EARLIEST, LATEST, MAX_TIMESTAMP, UNKNOWN_OFFSET, TimestampOffset
from sparklog.storage.local import LocalFiles
from tests.partitions import Partition, batch, message_set, partitions

FOUR = Partition().append(batch(100, 110, 105), batch(90, 95)).append(batch(110, 110), batch(200))
"""Kafka 4.1.1's answers about these batches are known, though it had them in one segment."""


class TestOpen:
    def test_reads_the_newest_version_of_a_topic(self, tmp_path: Path) -> None:
        AdminClient(tmp_path).create_topics([NewTopic("flights", 2)])
        catalog = Catalog(LocalFiles(str(tmp_path)))

        reader = TopicReader.open(catalog, "flights")

        assert reader.topic.num_partitions == 2
        assert reader.directory == f"flights-{reader.topic.topic_id}"
        assert (reader.partition(1).log_start_offset, reader.partition(1).log_end_offset) == (0, 0)
        assert reader.list_offset(1, 0) == reader.list_offset(1, MAX_TIMESTAMP) == UNKNOWN_OFFSET

    def test_refuses_an_unknown_topic(self, tmp_path: Path) -> None:
        AdminClient(tmp_path).create_topics([NewTopic("flights")])

        with pytest.raises(UnknownTopicError, match="did you mean flights"):
            TopicReader.open(Catalog(LocalFiles(str(tmp_path))), "flight")


class TestPartitions:
    @pytest.mark.parametrize("partition", (-1, 1))
    def test_one_that_does_not_exist_is_refused(self, partition: int) -> None:
        reader = FOUR.reader

        for ask in (
            reader.partition,
            lambda number: reader.list_offset(number, 0),
            lambda number: reader.slices(number, 0, 0),
        ):
            with pytest.raises(UnknownTopicError, match=f"'t' has no partition {partition}"):
                ask(partition)


class TestListOffset:
    @pytest.mark.parametrize(
        ("timestamp", "offset"),
        ((0, 0), (95, 0), (100, 0), (101, 1), (110, 1), (111, 7), (200, 7), (201, -1)),
    )
    def test_of_a_time_is_the_first_record_from_then_on(self, timestamp: int, offset: int) -> None:
        assert FOUR.reader.list_offset(0, timestamp).offset == offset

    def test_beyond_the_log_start_goes_on_where_kafka_gives_up(self) -> None:
        partition = Partition().append(batch(100, 110, 105), batch(90)).append(batch(110))
        partition.delete_records(2)

        assert partition.reader.list_offset(0, 106) == TimestampOffset(110, 4)
        assert partition.reader.list_offset(0, 91) == TimestampOffset(105, 2)

    def test_of_the_ends_is_known_without_a_look_at_files(self) -> None:
        partition = Partition().append(batch(1, 2, 3)).delete_records(2)
        partition.remove(partition.path())

        assert partition.reader.list_offset(0, LATEST) == TimestampOffset(-1, 3)
        assert partition.reader.list_offset(0, EARLIEST) == TimestampOffset(-1, 2)

    @pytest.mark.parametrize("timestamp", (-4, -5, -(2**63)))
    def test_of_another_negative_time_is_refused(self, timestamp: int) -> None:
        with pytest.raises(UsageError, match=rf"timestamp {timestamp} means nothing"):
            FOUR.reader.list_offset(0, timestamp)

    @pytest.mark.parametrize("timestamp", (LATEST, EARLIEST, MAX_TIMESTAMP))
    def test_of_a_negative_time_is_what_kafka_means_by_it(self, timestamp: int) -> None:
        partition = Partition().append(batch(3, 9), 2, batch(9)).delete_records(1)

        assert partition.reader.list_offset(0, timestamp) == partition.expected_offset(timestamp)

    @given(partitions(), st.integers(-3, 11) | st.integers(0, 2**62))
    def test_agrees_with_a_look_at_every_record(self, partition: Partition, timestamp: int) -> None:
        """Goal: shortcuts are exact. Method: any partition and log start, any time."""
        assert partition.reader.list_offset(0, timestamp) == partition.expected_offset(timestamp)


class TestMaxTimestamp:
    def test_is_the_first_record_that_has_it(self) -> None:
        partition = Partition().append(batch(5)).append(batch(1, 9), batch(9)).append(batch(9, 8))

        assert partition.reader.list_offset(0, MAX_TIMESTAMP) == TimestampOffset(9, 2)

    def test_is_none_without_timestamps(self) -> None:
        partition = Partition().append(message_set(1, 2, magic=0)).append(batch(-1))

        assert partition.reader.list_offset(0, MAX_TIMESTAMP) == UNKNOWN_OFFSET

    def test_is_none_when_all_was_deleted(self) -> None:
        partition = Partition().append(batch(5)).delete_records(1)

        assert partition.reader.list_offset(0, MAX_TIMESTAMP) == UNKNOWN_OFFSET

    @pytest.mark.parametrize(
        ("times", "found"),
        (
            (((9, 3), (5,)), (5, 2)),
            (((9, 3), (3,)), (3, 1)),
            (((9, 3), (2,)), (3, 1)),
            (((9, 3), (2,), (3,)), (3, 1)),
            (((9, -1), (-1,)), (-1, -1)),
        ),
    )
    def test_does_not_count_what_lies_below_the_log_start(
        self, times: tuple[tuple[int, ...], ...], found: tuple[int, int]
    ) -> None:
        partition = Partition()
        for each in times:
            partition.append(batch(*each))
        partition.delete_records(1)

        assert partition.reader.list_offset(0, MAX_TIMESTAMP) == TimestampOffset(*found)

    @pytest.mark.parametrize(("last", "found"), ((2, (4, 1)), (4, (4, 1)), (5, (5, 2))))
    def test_does_not_count_records_that_compaction_took(
        self, last: int, found: tuple[int, int]
    ) -> None:
        partition = Partition().append(batch(3)).append(batch(4)).append(batch(last))
        partition.with_columns(partition.segments[2], max_timestamp=99)

        assert partition.reader.list_offset(0, MAX_TIMESTAMP) == TimestampOffset(*found)


class TestSlices:
    PARTITION = Partition().append(batch(1, 2)).append(5, batch(3, 4)).append(batch(5), sealed=True)

    @pytest.mark.parametrize(
        ("start", "end", "spans"),
        (
            (0, 10, [(0, 2), (2, 9), (9, 10)]),
            (1, 3, [(1, 2), (2, 3)]),
            (3, 5, [(3, 5)]),
            (9, 10, [(9, 10)]),
            (4, 4, []),
            (10, 10, []),
        ),
    )
    def test_are_the_parts_of_segments_that_hold_the_range(
        self, start: int, end: int, spans: list[tuple[int, int]]
    ) -> None:
        slices = self.PARTITION.reader.slices(0, start, end)

        assert [(piece.start, piece.end) for piece in slices] == spans
        assert {piece.segment for piece in slices} <= set(self.PARTITION.segments)

    @pytest.mark.parametrize(("start", "end"), ((1, 5), (5, 11), (6, 5), (-1, 5)))
    def test_are_refused_outside_the_log(self, start: int, end: int) -> None:
        partition = Partition().append(batch(1, 2)).append(batch(*range(8))).delete_records(2)

        with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offsets .* are not within the log"):
            partition.reader.slices(0, start, end)

    @pytest.mark.parametrize("end", [4, 5])
    def test_of_one_offset_outside_the_log_say_which(self, end: int) -> None:
        partition = Partition().append(batch(1, 2))

        with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offset 4 is not within the log, \["):
            partition.reader.slices(0, 4, end)

    def test_travel_to_whoever_reads(self) -> None:
        (piece,) = self.PARTITION.reader.slices(0, 0, 2)

        assert pickle.loads(pickle.dumps(piece)) == piece
        assert isinstance(piece, Slice)
