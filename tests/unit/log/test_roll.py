import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import RecordTooLargeError
from sparklog.log.indexer import Indexer
from sparklog.log.roll import OpenSegment, RollPolicy
from sparklog.record.batches import BatchTable
from tests.log_language import batch_lists, table
from tests.naive import log as naive
from tests.naive.log import Batch

NOW = 1_700_000_000_000
SPAN = 2**31 - 1


def segment(
    written: list[Batch], policy: RollPolicy, base: int = 0, jitter: int = 0
) -> OpenSegment:
    indexer = Indexer(base, policy.index_interval_bytes, policy.segment_index_bytes)
    indexer.append(table(written, base))
    first = written[0].max_timestamp if written else -1
    return OpenSegment(base, indexer.bytes, first, NOW, jitter, indexer)


def fits(
    policy: RollPolicy, written: list[Batch], more: list[Batch], now_ms: int = NOW, jitter: int = 0
) -> int:
    base = written[-1].last_offset + 1 if written else 0
    return policy.fits(segment(written, policy, jitter=jitter), table(more, base), now_ms)


def batches(*sizes: int, time: int = 5, first: int = 0) -> list[Batch]:
    return [Batch(first + slot, time, size) for slot, size in enumerate(sizes)]


class TestBytes:
    def test_a_segment_may_be_filled_to_the_last_byte(self) -> None:
        assert fits(RollPolicy(segment_bytes=300), batches(100), batches(100, 100, first=1)) == 2

    def test_a_batch_that_would_go_beyond_rolls(self) -> None:
        assert fits(RollPolicy(segment_bytes=299), batches(100), batches(100, 100, first=1)) == 1

    def test_a_full_segment_takes_none(self) -> None:
        assert fits(RollPolicy(segment_bytes=100), batches(100), batches(100, first=1)) == 0

    @pytest.mark.parametrize("written", ([], batches(100)))
    def test_a_batch_that_fits_no_segment_is_refused(self, written: list[Batch]) -> None:
        more = batches(100, 201, first=len(written))

        with pytest.raises(RecordTooLargeError, match="has 201 bytes, .* holds 200 "):
            fits(RollPolicy(segment_bytes=200), written, more)

    def test_no_batches_fit(self) -> None:
        policy = RollPolicy()

        assert policy.fits(segment([], policy), BatchTable.empty(), NOW) == 0


class TestTime:
    POLICY = RollPolicy(segment_ms=1000)

    @pytest.mark.parametrize(("time", "taken"), ((1005, 1), (1006, 0)))
    def test_counts_from_the_first_batch_of_the_segment(self, time: int, taken: int) -> None:
        assert fits(self.POLICY, batches(61, time=5), batches(61, time=time, first=1)) == taken

    def test_counts_from_the_first_batch_that_an_empty_segment_takes(self) -> None:
        more = [Batch(0, 5, 61), Batch(1, 1005, 61), Batch(2, 1006, 61)]

        assert fits(self.POLICY, [], more) == 2

    def test_a_batch_older_than_the_first_does_not_roll(self) -> None:
        assert fits(self.POLICY, batches(61, time=NOW), batches(61, time=-1, first=1)) == 1

    def test_jitter_rolls_earlier(self) -> None:
        more = batches(61, time=996, first=1)

        assert fits(self.POLICY, batches(61, time=5), more, jitter=9) == 1
        assert fits(self.POLICY, batches(61, time=5), more, jitter=10) == 0

    @pytest.mark.parametrize(("age_ms", "taken"), ((1000, 2), (1001, 0)))
    def test_is_the_wall_clock_when_the_first_batch_has_none(self, age_ms: int, taken: int) -> None:
        more = batches(61, 61, time=2**63 - 1, first=1)

        assert fits(self.POLICY, batches(61, time=-1), more, NOW + age_ms) == taken

    def test_an_empty_segment_takes_one_batch_however_old_it_is(self) -> None:
        assert fits(self.POLICY, [], batches(61, 61, time=-1), NOW + 1001) == 1

    def test_never_overflows(self) -> None:
        policy = RollPolicy(segment_ms=2**63 - 1)

        assert fits(policy, batches(61, time=5), batches(61, time=2**63 - 1, first=1)) == 1


class TestIndexFull:
    def test_rolls_when_the_time_index_has_one_slot_left(self) -> None:
        policy = RollPolicy(segment_index_bytes=24, index_interval_bytes=0)
        more = [Batch(n, n, 61) for n in range(4)]

        assert fits(policy, [], more) == 2

    def test_rolls_when_the_offset_index_is_full(self) -> None:
        policy = RollPolicy(segment_index_bytes=24, index_interval_bytes=0)

        assert fits(policy, [], batches(*[61] * 9, time=-1)) == 4

    def test_an_empty_segment_takes_one_batch_however_small_the_index(self) -> None:
        assert fits(RollPolicy(segment_index_bytes=0), [], batches(61, 61)) == 1


class TestSpan:
    def test_the_last_offset_may_lie_an_int32_above_the_base(self) -> None:
        more = [Batch(SPAN - 1, 5, 61), Batch(SPAN, 5, 61), Batch(SPAN + 1, 5, 61)]

        assert fits(RollPolicy(), [], more) == 2

    def test_an_empty_segment_with_a_base_too_low_takes_none(self) -> None:
        policy = RollPolicy()
        far = table([Batch(SPAN + 1, 5, 61)], base=SPAN + 1)

        assert policy.fits(segment([], policy), far, NOW) == 0
        assert policy.fits(segment([], policy, base=SPAN + 1), far, NOW) == 1


class TestFits:
    @given(
        batch_lists(),
        st.integers(20_000, 300_000),
        st.integers(0, 10),
        st.sampled_from((0, 61, 4096)),
        st.integers(0, 200),
        st.integers(0, 20),
    )
    def test_agrees_with_the_rules_batch_by_batch(
        self, more: list[Batch], size: int, span_ms: int, interval: int, index: int, age_ms: int
    ) -> None:
        """Goal: the vectorised rules are Kafka's. Method: any batches into an empty segment."""
        rules = (size, span_ms, interval, index)
        policy = RollPolicy(
            segment_bytes=size,
            segment_ms=span_ms,
            index_interval_bytes=interval,
            segment_index_bytes=index,
        )
        count = min(1, len(more))
        while count < len(more) and not naive.rolls_before(
            more[:count], more[count], rules, 0, age_ms
        ):
            count += 1

        first = fits(policy, [], more, NOW + age_ms)
        rest = fits(policy, more[:1], more[1:], NOW + age_ms)

        assert first == count
        assert rest == max(count - 1, 0)


class TestJitter:
    def test_is_zero_unless_configured(self) -> None:
        assert RollPolicy().draw_jitter(12345) == 0

    @given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
    def test_is_below_both_settings(self, random: int, jitter: int, segment_ms: int) -> None:
        """Goal: jitter never outlasts segment.ms. Method: any random number and settings."""
        drawn = RollPolicy(jitter_ms=jitter, segment_ms=segment_ms).draw_jitter(random)

        assert 0 <= drawn < min(jitter, segment_ms)
