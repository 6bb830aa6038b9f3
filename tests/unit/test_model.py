"""The nouns: arithmetic and text."""

import pytest

from sparklog.model import OffsetRange, SegmentEntry, TopicPartition

UNSEALED = SegmentEntry(
    partition=1,
    base_offset=1_000,
    next_offset=1_010,
    file_base_offset=0,
    log_path="t-1/a.log",
    log_bytes=500,
    max_timestamp=7,
    max_timestamp_delta=3,
    created_ms=1,
)


class TestTopicPartition:
    def test_reads_as_its_directory(self) -> None:
        assert str(TopicPartition("a-b", 3)) == "a-b-3"


class TestOffsetRange:
    def test_spans_from_start_to_before_end(self) -> None:
        assert OffsetRange(partition=0, start=5, end=8).span == 3


class TestSegmentEntry:
    def test_is_moved_and_removed_as_by_its_fields(self) -> None:
        moved = UNSEALED._replace(base_offset=5, next_offset=15)

        assert UNSEALED.moved_to(5) == moved
        assert moved.removed_at(9) == moved._replace(removed_ms=9)
        assert moved.removed_at(9).removed_at(None) == moved

    def test_shift_turns_the_files_offsets_into_the_logs(self) -> None:
        assert UNSEALED.file_base_offset + UNSEALED.shift == UNSEALED.base_offset

    def test_knows_where_its_largest_timestamp_is(self) -> None:
        assert UNSEALED.max_timestamp_offset == 1_003

    def test_spans_its_gaps_too(self) -> None:
        assert UNSEALED.offset_span == 10

    def test_ends_in_the_numbering_of_its_file(self) -> None:
        assert UNSEALED.file_next_offset == 10

    @pytest.mark.parametrize(("records", "is_dense"), ((10, True), (9, False), (None, False)))
    def test_is_dense_when_every_offset_has_its_record(
        self, records: int | None, is_dense: bool
    ) -> None:
        assert UNSEALED._replace(record_count=records).is_dense is is_dense
