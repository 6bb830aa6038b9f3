"""How much a micro-batch takes: the connector's arithmetic, its vectors, and a naive twin."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.config.options import STREAM_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError
from sparklog.model import TopicPartition
from sparklog.spark.reading.limits import Limits, milliseconds

MINUTE = 60_000


def limits(**options: Any) -> Limits:
    return Limits.of(parse_options(STREAM_OPTIONS, options)[0])


def of(*offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", partition): offset for partition, offset in enumerate(offsets)}


class TestMaxOffsets:
    def test_is_shared_as_in_the_connectors_own_test(self) -> None:
        """KafkaMicroBatchSourceSuite, "maxOffsetsPerTrigger": sizes 101, 11 and 1, limit 10."""
        ten, ends = limits(maxOffsetsPerTrigger=10), of(101, 11, 1)

        assert ten.cut(of(0, 0, 0), ends) == of(8, 1, 1)
        assert ten.cut(of(8, 1, 1), ends) == of(17, 2, 1)

    def test_left_out_takes_all(self) -> None:
        assert limits().cut(of(1), of(2**62)) == of(2**62)

    def test_does_not_overflow(self) -> None:
        """SPARK-26718: limit * size is above 2**63."""
        assert limits(maxOffsetsPerTrigger=2**63 - 1).cut({}, of(2**62, 5)) == of(2**62, 5)

    def test_gives_new_partitions_their_share_from_0_on(self) -> None:
        assert limits(maxOffsetsPerTrigger=4).cut(of(10), of(14, 4)) == of(12, 2)

    def test_leaves_an_end_before_the_start_to_be_found_out(self) -> None:
        assert limits(maxOffsetsPerTrigger=4).cut(of(10, 0), of(7, 9)) == of(7, 4)

    @given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))), st.integers(1, 10**7))
    def test_always_gets_on_and_never_beyond_the_ends(
        self, pairs: list[tuple[int, int]], limit: int
    ) -> None:
        starts = of(*(start for start, _ in pairs))
        ends = of(*(start + size for start, size in pairs))
        cut = limits(maxOffsetsPerTrigger=limit).cut(starts, ends)
        taken = {key: offset - starts[key] for key, offset in cut.items()}

        assert all(starts[key] + (starts[key] < ends[key]) <= cut[key] <= ends[key] for key in ends)
        assert sum(taken.values()) <= limit + sum(count == 1 for count in taken.values())


class TestMinOffsets:
    def test_are_waited_for(self) -> None:
        hundred = limits(minOffsetsPerTrigger=100)

        assert hundred.waits(of(0, 0), of(50, 49), since_last_ms=0)
        assert not hundred.waits(of(0, 0), of(50, 50), since_last_ms=0)

    def test_are_not_waited_for_longer_than_the_delay(self) -> None:
        patient = limits(minOffsetsPerTrigger=100, maxTriggerDelay="5m")

        assert patient.waits(of(0), of(1), since_last_ms=5 * MINUTE - 1)
        assert not patient.waits(of(0), of(1), since_last_ms=5 * MINUTE)

    def test_left_out_waits_for_nothing(self) -> None:
        assert not limits().waits(of(0), of(0), since_last_ms=0)

    def test_are_not_above_the_most(self) -> None:
        assert limits(minOffsetsPerTrigger=5, maxOffsetsPerTrigger=5).min_offsets == 5
        with pytest.raises(InvalidOptionError, match="minOffsetsPerTrigger=6 is above max"):
            limits(minOffsetsPerTrigger=6, maxOffsetsPerTrigger=5)


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("15m", 15 * MINUTE),
            ("15min", 15 * MINUTE),
            ("90s", 90_000),
            ("2h", 120 * MINUTE),
            ("1d", 1440 * MINUTE),
            ("250ms", 250),
            ("7", 7),
            ("2500us", 2),
            ("5 s", 5000),
        ],
    )
    def test_have_javas_units(self, text: str, expected: int) -> None:
        assert milliseconds(text) == expected

    def test_may_be_in_upper_case(self) -> None:
        assert limits(maxTriggerDelay="15M").max_delay_ms == 15 * MINUTE

    @pytest.mark.parametrize("text", ["", "m", "1.5m", "-1s", "1w"])
    def test_are_refused_otherwise(self, text: str) -> None:
        with pytest.raises(InvalidOptionError, match="maxTriggerDelay=.* is not allowed"):
            limits(maxTriggerDelay=text)
