"""The job over segments and metadata; which segments it takes: tests/unit/log/test_compaction.py.

test_compact_step.py tests a step and its rows, test_compact_faults.py tests failures.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.metadata.state.edit import OpenTransaction
from sparklog.model import AbortedRange, Codec
from tests.compaction import (
    LARGE,
    MANY_ROUNDS,
    T0,
    Compacted,
    Rounds,
    check_rounds,
    current,
    keyed_batch,
    of_producer,
    rounds,
    sent,
)
from tests.partitions import marker

TRANSACTIONAL = 16


class TestAnyLog:
    @given(rounds, st.sampled_from(list(Codec)))
    @example([["a=1", "a"], 0, ["b=1"], 1000, ["a=1"], 0], Codec.NONE)
    @example(MANY_ROUNDS, Codec.LZ4)
    def test_leaves_what_a_dictionary_leaves(self, steps: Rounds, codec: Codec) -> None:
        check_rounds(steps, codec)

    @given(rounds)
    @example(MANY_ROUNDS)
    def test_never_brings_back_what_a_tombstone_has_deleted(self, steps: Rounds) -> None:
        """Goal: every round leaves each key's last word. Method: rounds wherever they may be."""
        log = Compacted(delete_retention_ms=0)
        for step in steps:
            if isinstance(step, int):
                log.wait(1).compact()
            else:
                log.put(*step)
            assert current(log.records) == current(log.partition.records)


class TestRecords:
    def test_the_latest_of_each_key_stays(self) -> None:
        log = Compacted().put("a=1", "b=2").put("a=3").put("newest=0")
        log.compact()

        assert log.shown() == "b=2 a=3 newest=0"
        assert [record.offset for record in log.records] == [1, 2, 3]

    def test_older_ones_in_the_clean_part_go(self) -> None:
        log = Compacted().put("a=1", "b=2").put("x=0")
        log.compact()
        log.put("a=3").put("newest=0").compact()

        assert log.shown() == "b=2 x=0 a=3 newest=0"

    def test_those_of_the_newest_segment_stay_and_drop_nothing(self) -> None:
        log = Compacted().put("a=1").put("a=2", "a=3")
        log.compact()

        assert log.shown() == "a=1 a=2 a=3"

    def test_those_without_a_key_go(self) -> None:
        log = Compacted().put("=1", "a=1", "=").put("=newest")
        log.compact()

        assert log.shown() == "a=1 =newest"

    def test_below_the_log_start_count_for_nothing(self) -> None:
        log = Compacted().put("a=1").put("b=1", "a=2").put("c=1").put("newest=0")
        log.partition.delete_records(2)
        log.compact()

        assert log.spans[0] == (0, 1)
        assert [one.offset for one in log.partition.read(2)] == [2, 3, 4]

    def test_of_a_clean_segment_without_a_key_index_are_read(self) -> None:
        log = Compacted().put("a=1", "b=1").put("x=0")
        log.compact()
        clean = log.partition.segments[0]
        log.partition.with_columns(clean, key_index_path=None, key_index_bytes=None)
        log.put("a=2").put("newest=0").compact()

        assert log.shown() == "b=1 x=0 a=2 newest=0"

    def test_several_indexed_segments_are_asked(self) -> None:
        log = Compacted().put("a" + LARGE, "k=1").put("x=0")
        log.compact()
        log.put("k=2", "b" + LARGE * 2).put("y=0").compact()
        log.put("a=1", "b=1").put("newest=0").compact()

        assert log.shown() == "x=0 k=2 y=0 a=1 b=1 newest=0"


class TestTombstone:
    def test_stays_for_its_time_and_goes_in_the_next_round(self) -> None:
        log = Compacted().put("a=1", "a").put("b=1")
        log.compact()
        assert log.shown() == "a b=1"

        log.put("c=1").wait(999).compact()
        assert log.shown() == "a b=1 c=1"
        log.put("newest=0").wait(1).compact()
        assert log.shown() == "b=1 c=1 newest=0"

    def test_goes_from_a_clean_segment_that_nothing_else_touches(self) -> None:
        log = Compacted().put("a", "b" + LARGE).put("c=1")
        log.compact()
        log.put("newest=0").wait(1000).compact()

        assert log.shown() == f"b{LARGE} c=1 newest=0"

    def test_waits_in_its_row(self) -> None:
        log = Compacted().put("a", "b=1").put("b")
        log.compact()

        assert log.partition.segments[0].delete_horizon_ms == log.now_ms + 1000

    def test_takes_older_values_of_the_clean_part_with_it(self) -> None:
        log = Compacted().put("a" + LARGE).put("x=0")
        log.compact()
        log.put("a").put("newest=0").compact()

        assert log.shown() == "x=0 a newest=0"


class TestCleanPart:
    def test_stays_as_it_is_where_nothing_is_superseded(self) -> None:
        log = Compacted().put("a" + LARGE).put("b=1")
        log.compact()
        before = log.partition.segments[0]
        log.put("c=1").put("newest=0").compact()

        assert log.partition.segments[0] == before
        assert log.spans == [(0, 1), (1, 3), (3, 4)]

    def test_is_not_read_where_it_stays(self) -> None:
        log = Compacted().put("a" + LARGE).put("b=1")
        log.compact()
        log.put("c=1").put("newest=0")
        log.partition.remove(log.partition.path())

        assert log.compacted().problems == []

    def test_never_becomes_more_segments_than_there_were(self) -> None:
        log = Compacted()
        for number in range(8):
            log.put(f"{number % 3}=" + "x" * 40 * number).put("k=1")
            before = len(log.spans)
            log.compact()
            assert len(log.spans) <= before

        assert log.partition.log.cleaner_offset == log.partition.end - 1

    def test_ends_where_the_newest_segment_begins(self) -> None:
        log = Compacted().put("a=1").put("b=1").skip(5).put("newest=0")
        log.compact()

        assert log.partition.log.cleaner_offset == 7
        assert log.spans == [(0, 2), (7, 8)]


class TestSparseLog:
    def test_of_far_offsets_is_compacted_in_groups(self) -> None:
        """No segment may span more than an index can say: 2^31 - 1 offsets."""
        log = Compacted().put("a=1", "b=1").skip(2**31 - 2).put("a=2").put("c=1")
        log.skip(2**33).put("b=2", "c=2").put("newest=0")
        log.compact()

        far = 2**31 + 2 + 2**33
        assert log.spans == [(2**31, 2**31 + 2), (far, far + 2), (far + 2, far + 3)]
        assert log.shown() == "a=2 b=2 c=2 newest=0"

    def test_keeps_offsets_that_fit_together(self) -> None:
        log = Compacted().put("a=1", "b=1").skip(2**31 - 3).put("a=2").put("newest=0")
        log.compact()

        assert log.spans == [(0, 2**31), (2**31, 2**31 + 1)]
        assert [one.offset for one in log.records] == [1, 2**31 - 1, 2**31]

    def test_finds_older_records_far_below(self) -> None:
        log = Compacted().put("a" + LARGE, "b" + LARGE).put("x=0")
        log.compact()
        log.skip(2**40).put("b=2").put("newest=0").compact()

        assert log.shown() == f"a{LARGE} x=0 b=2 newest=0"


class TestEmptied:
    def test_segments_are_no_segment(self) -> None:
        log = (
            Compacted(segment_bytes=2**20)
            .put("=" + "x" * 2**19)
            .put("a=" + "x" * (2**20 - 500))
            .put("newest=0")
        )
        outcome = log.compacted()

        assert log.spans == [(1, 2), (2, 3)]
        assert (outcome.counts["segments_before"], outcome.counts["segments_after"]) == (2, 1)

    def test_the_last_batch_of_the_round_stays_as_a_header(self) -> None:
        """So that the log's end is known when the newest segment has gone (Kafka's rule)."""
        log = Compacted().put("a=1").put("=1").put("newest=0")
        log.compact()

        entry = log.partition.segments[0]
        assert (entry.next_offset, entry.batch_count, entry.record_count) == (2, 2, 1)

    def test_the_last_batch_of_an_active_producer_stays_as_a_header(self) -> None:
        old, last = keyed_batch("a=1", time=T0), keyed_batch("a=2", time=T0)
        now = Compacted().now_ms
        log = Compacted().add(of_producer(old, time=now), of_producer(last, time=now))
        log.add(of_producer(keyed_batch("a=3"), 8, time=now)).put("a=4").put("newest=0").compact()

        assert log.shown() == "a=4 newest=0"
        assert log.partition.segments[0].batch_count == 3
        assert log.partition.segments[0].producer_ids == (7, 8)

    def test_a_producer_is_forgotten_after_a_day(self) -> None:
        now = Compacted().now_ms - 24 * 3600 * 1000 - 1
        log = Compacted().add(of_producer(keyed_batch("a=1"), time=now)).put("a=2")
        log.put("newest=0").compact()

        assert log.partition.segments[0].producer_ids == ()

    def test_a_producer_that_goes_on_needs_no_header(self) -> None:
        now = Compacted().now_ms
        log = Compacted().add(of_producer(keyed_batch("a=1"), time=now)).put("a=2")
        log.add(of_producer(keyed_batch("newest=0"), time=now)).compact()

        assert log.partition.segments[0].batch_count == 1


class TestTransactions:
    def test_aborted_records_go_and_drop_nothing(self) -> None:
        lost = of_producer(keyed_batch("a=lost", "b=lost"), attributes=TRANSACTIONAL)
        log = Compacted().put("a=1").add(lost, marker(), aborted=(AbortedRange(7, 0, 2),))
        log.put("c=1").put("newest=0").compact()

        assert log.shown() == "a=1 c=1 newest=0"

    def test_that_are_open_end_the_round(self) -> None:
        log = Compacted().put("a=1").put("a=2").add(sent("b=1")).put("a=3").put("newest=0")
        log.partition.commit(transactions={0: (OpenTransaction(7, 2),)})
        log.compact()

        assert log.shown() == "a=2 b=1 a=3 newest=0"
        assert log.partition.log.cleaner_offset == 2

    def test_markers_stay(self) -> None:
        kept = of_producer(keyed_batch("a=1"), attributes=TRANSACTIONAL)
        log = Compacted().add(kept, marker()).put("a=2").put("newest=0")
        log.compact()

        entry = log.partition.segments[0]
        assert log.shown() == "a=2 newest=0"
        assert (entry.transactional, entry.batch_count) == (True, 2)
