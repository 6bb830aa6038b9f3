import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptRecordError
from sparklog.log.indexer import Indexes
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder, SegmentSummary
from sparklog.model import NO_TIMESTAMP, Codec, SegmentEntry
from sparklog.record.batches import BatchTable
from tests.log_language import batch_lists, table
from tests.naive import log as naive
from tests.naive.log import Batch

SPAN = 2**31 - 1


def summary_of(*tables: BatchTable) -> SegmentSummary:
    builder = SegmentBuilder(0, 3)
    for batches in tables:
        builder.append(batches)
    return builder.finish()[0]


class TestAppend:
    @given(batch_lists(), st.integers(0, 40), st.integers(0, 2**62))
    def test_counts_what_it_is_given(self, batches: list[Batch], cut: int, base: int) -> None:
        """Goal: nothing depends on how a file is cut up. Method: any batches in two pieces."""
        batches = [batch._replace(last_offset=base + batch.last_offset) for batch in batches]
        whole = table(batches, base)
        builder = SegmentBuilder(base, 3)
        builder.append(whole.slice(0, cut))
        builder.append(whole.slice(cut))

        summary, indexes = builder.finish()

        newest = max([batch.max_timestamp for batch in batches], default=-1)
        holder = [batch.last_offset for batch in batches if batch.max_timestamp == newest]
        assert indexes == naive.index_files(batches, base, 4096)
        assert summary.file_next_offset == builder.next_offset
        assert summary.file_next_offset == (batches[-1].last_offset + 1 if batches else base)
        assert summary.log_bytes == builder.log_bytes == sum(batch.size for batch in batches)
        assert summary.batch_count == len(batches)
        assert summary.record_count == summary.file_next_offset - base
        assert summary.max_timestamp == newest
        assert summary.max_timestamp_delta == (holder[0] - base if newest >= 0 else 0)

    @pytest.mark.parametrize(
        ("last", "first"),
        ((5, 3), (5, 4), (3, 5), (5 + SPAN, 5), (2**63 - 1, 5), (-1, -2)),
    )
    def test_refuses_offsets_that_do_not_follow(self, last: int, first: int) -> None:
        builder = SegmentBuilder(0, 0)
        builder.append(table([Batch(4, 9, 100)]))

        with pytest.raises(CorruptRecordError, match=f"offsets {first} to {last}, where 5 or"):
            builder.append(table([Batch(last, 9, 100)], base=first))
        assert (builder.next_offset, builder.batch_count, builder.log_bytes) == (5, 1, 100)

    def test_names_the_place_of_a_batch_inside_the_table(self) -> None:
        batches = table([Batch(4, 9, 100), Batch(3, 9, 100)])

        with pytest.raises(CorruptRecordError) as caught:
            SegmentBuilder(0, 0).append(batches)
        assert (caught.value.position, caught.value.offset) == (100, 5)

    def test_takes_gaps_and_a_span_of_an_int32(self) -> None:
        builder = SegmentBuilder(0, 0)

        builder.append(table([Batch(SPAN, 9, 100)], base=SPAN - 1))

        assert builder.next_offset == SPAN + 1


class TestMinTimestamp:
    def test_is_the_smallest_given(self) -> None:
        builder = SegmentBuilder(0, 0)
        builder.append(table([Batch(0, 9, 100)]), min_timestamp=8)
        builder.append(table([Batch(1, 9, 100)], base=1), min_timestamp=-1)

        assert builder.finish()[0].min_timestamp == -1

    def test_is_that_of_first_records_where_nobody_has_decoded_them(self) -> None:
        builder = SegmentBuilder(0, 0)
        builder.append(table([Batch(0, 9, 100)]), min_timestamp=8)
        builder.append(table([Batch(1, 9, 100)], base=1, base_timestamp=7))

        assert builder.finish()[0].min_timestamp == 7

    def test_is_none_in_an_empty_segment(self) -> None:
        assert summary_of(BatchTable.empty()).min_timestamp == NO_TIMESTAMP


class TestLogCrc32c:
    def test_covers_all_bytes_in_order(self) -> None:
        builder = SegmentBuilder(0, 0)
        builder.append(table([Batch(0, 9, 3)]), data=b"abc")
        builder.append(table([Batch(1, 9, 2)], base=1), data=memoryview(b"de"))

        assert builder.finish()[0].log_crc32c == google_crc32c.value(b"abcde")

    def test_is_unknown_when_bytes_were_not_shown(self) -> None:
        builder = SegmentBuilder(0, 0)
        builder.append(table([Batch(0, 9, 3)]))
        builder.append(table([Batch(1, 9, 2)], base=1), data=b"de")

        assert builder.finish()[0].log_crc32c is None


class TestSummary:
    def test_of_no_batches_is_empty(self) -> None:
        summary = summary_of()

        assert (summary.batch_count, summary.record_count, summary.log_bytes) == (0, 0, 0)
        assert (summary.file_next_offset, summary.max_timestamp) == (0, -1)
        assert (summary.codec, summary.max_leader_epoch, summary.producer_ids) == (None, -1, ())

    def test_knows_the_one_codec(self) -> None:
        lz4 = table([Batch(0, 9, 100)], attributes=Codec.LZ4)

        assert summary_of(lz4).codec == Codec.LZ4

    def test_knows_no_codec_when_batches_differ(self) -> None:
        lz4 = table([Batch(0, 9, 100)], attributes=Codec.LZ4)

        assert summary_of(lz4, table([Batch(1, 9, 100)], base=1)).codec is None

    def test_holds_the_producers_and_the_largest_epoch(self) -> None:
        batches = [
            table([Batch(n, 9, 100)], base=n, producer_id=pid, leader_epoch=epoch)
            for n, (pid, epoch) in enumerate(((9, 1), (-1, 4), (2, 3), (9, 2)))
        ]

        summary = summary_of(*batches)

        assert summary.producer_ids == (2, 9)
        assert summary.max_leader_epoch == 4
        assert not summary.transactional

    def test_is_transactional_when_one_batch_is(self) -> None:
        marked = table([Batch(0, 9, 100)], attributes=0x10)

        assert summary_of(marked, table([Batch(1, 9, 100)], base=1)).transactional

    def test_does_not_count_records_behind_a_closed_message_set(self) -> None:
        wrapper = table([Batch(3, 9, 100)], base=3, magic=1, attributes=1, record_count=-1)

        assert summary_of(wrapper, table([Batch(4, 9, 100)], base=4)).record_count is None


class TestEntry:
    def test_gives_the_segment_its_place_in_the_log(self) -> None:
        builder = SegmentBuilder(0, 3)
        builder.append(table([Batch(4, 9, 5000), Batch(7, 8, 100)]), min_timestamp=2)
        summary, indexes = builder.finish()

        entry = summary.entry(
            100, 77, "a.log", index_path="a.index", time_index_path="a.timeindex", indexes=indexes
        )

        assert entry == SegmentEntry(
            partition=3,
            base_offset=100,
            next_offset=108,
            file_base_offset=0,
            log_path="a.log",
            log_bytes=5100,
            index_path="a.index",
            index_bytes=8,
            time_index_path="a.timeindex",
            time_index_bytes=12,
            record_count=8,
            batch_count=2,
            min_timestamp=2,
            max_timestamp=9,
            max_timestamp_delta=4,
            codec=0,
            max_leader_epoch=0,
            producer_ids=(),
            created_ms=77,
        )

    def test_tells_an_index_without_entries_from_one_not_built(self) -> None:
        summary = summary_of(table([Batch(0, -1, 100)]))

        assert summary.entry(0, 7, "a.log", indexes=Indexes(b"", b"")).index_bytes == 0
        assert summary.entry(0, 7, "a.log").index_bytes is None


class TestFits:
    def test_follows_the_roll_rules_of_the_segment_as_it_stands(self) -> None:
        builder = SegmentBuilder(0, 0, RollPolicy(segment_ms=10), created_ms=50, jitter_ms=1)
        builder.append(table([Batch(0, 100, 61)]))
        more = table([Batch(1, 109, 61), Batch(2, 110, 61)], base=1)

        assert builder.fits(more, now_ms=0) == 1

    def test_uses_the_creation_time_when_records_have_none(self) -> None:
        builder = SegmentBuilder(0, 0, RollPolicy(segment_ms=10), created_ms=50)
        builder.append(table([Batch(0, -1, 61)]))
        more = table([Batch(1, 5, 61)], base=1)

        assert [builder.fits(more, now_ms=now) for now in (60, 61)] == [1, 0]
