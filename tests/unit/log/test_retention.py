from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.config.topic import TopicConfig
from sparklog.log.retention import Expired, Segments, expired_segments
from tests.naive.retention import Retention, Segment, walk

NOW = 1_700_000_000_000


def columns(segments: Sequence[Segment]) -> Segments:
    return Segments(
        np.array([segment.base_offset for segment in segments], np.int64),
        np.array([segment.log_bytes for segment in segments], np.int64),
        np.array(
            [s.max_timestamp if s.max_timestamp >= 0 else s.created_ms for s in segments], np.int64
        ),
    )


def segments(count: int, records: int = 5, size: int = 1, time: int = NOW) -> list[Segment]:
    """As Kafka's own tests make them: so many segments of so many records of this size."""
    return [Segment(n * records, records * size, time, NOW) for n in range(count)]


def expired(found: Sequence[Segment], start: int = 0, end: int = 1000, **config: str) -> Expired:
    """`config` are topic configs, with _ for each dot."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    return expired_segments(columns(found), start, end, TopicConfig.parse(given), NOW)


class TestStartOffset:
    """UnifiedLogTest.testLogDeletionAfterDeleteRecords: 15 records in 3 segments."""

    @pytest.mark.parametrize(
        ("start", "count"), [(0, 0), (1, 0), (4, 0), (5, 1), (6, 1), (9, 1), (10, 2), (15, 2)]
    )
    def test_a_segment_goes_when_the_next_begins_at_or_below_it(
        self, start: int, count: int
    ) -> None:
        assert expired(segments(3), start, 15) == Expired(count, 0, 0, start)

    @pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", ""])
    def test_is_asked_whatever_the_cleanup_policy(self, policy: str) -> None:
        assert expired(segments(3), 5, 15, cleanup_policy=policy).by_start_offset == 1

    def test_a_gap_behind_a_segment_is_part_of_it(self) -> None:
        found = [Segment(0, 5, NOW, NOW), Segment(10, 5, NOW, NOW)]

        assert expired(found, 9, 15) == Expired(0, 0, 0, 9)
        assert expired(found, 10, 15) == Expired(1, 0, 0, 10)


class TestSize:
    """Vectors of UnifiedLogTest and LogManagerTest, with their sizes of one record."""

    @pytest.mark.parametrize(
        ("limit", "count"), [(-1, 0), (16, 0), (15, 0), (11, 0), (10, 1), (6, 1), (5, 2), (0, 3)]
    )
    def test_what_stays_is_never_less_than_the_limit(self, limit: int, count: int) -> None:
        assert expired(segments(3), end=15, retention_bytes=str(limit)).by_size == count

    @pytest.mark.parametrize("size", [10, 73])
    def test_maintains_a_size(self, size: int) -> None:
        """LogManagerTest.testCleanupSegmentsToMaintainSize: 200 records, 6 segments stay."""
        limit = 5 * 10 * size + 10
        found = expired(segments(20, 10, size), retention_bytes=str(limit))

        assert found == Expired(0, 14, 0, 140)

    def test_all_may_go_and_the_log_goes_on_at_its_end(self) -> None:
        assert expired(segments(3), end=15, retention_bytes="0") == Expired(0, 3, 0, 15)


class TestTime:
    @pytest.mark.parametrize(("age", "count"), [(9_999, 0), (10_000, 0), (10_001, 3)])
    def test_as_old_as_the_limit_is_not_too_old(self, age: int, count: int) -> None:
        found = segments(3, time=NOW - age)

        assert expired(found, end=15, retention_ms="10000").by_time == count

    def test_the_newest_segment_goes_too_and_the_log_goes_on_at_its_end(self) -> None:
        assert expired(segments(3, time=10), end=15, retention_ms="10000") == Expired(0, 0, 3, 15)

    def test_a_young_segment_protects_the_later_ones(self) -> None:
        found = [segment._replace(max_timestamp=10) for segment in segments(3)]
        found[1] = found[1]._replace(max_timestamp=NOW)

        assert expired(found, end=15) == Expired(0, 0, 1, 5)

    def test_a_time_in_the_future_keeps_a_segment(self) -> None:
        assert expired(segments(3, time=2**63 - 1), end=15, retention_ms="0").by_time == 0

    def test_a_segment_without_timestamps_is_as_old_as_its_file(self) -> None:
        found = [segment._replace(created_ms=NOW - 11) for segment in segments(2, time=-1)]

        assert expired(found, end=10, retention_ms="10").by_time == 2
        assert expired(found, end=10, retention_ms="11").by_time == 0

    def test_the_time_zero_is_a_timestamp(self) -> None:
        assert expired(segments(1, time=0), end=5).by_time == 1

    @pytest.mark.parametrize("policy", ["compact", ""])
    def test_is_not_asked_without_the_policy(self, policy: str) -> None:
        found = segments(3, time=10)

        assert expired(found, cleanup_policy=policy, retention_bytes="0").total == 0

    def test_is_asked_of_a_compacted_topic_that_deletes(self) -> None:
        found = segments(3, time=10)

        assert expired(found, cleanup_policy="compact,delete", retention_ms="10000").by_time == 3


class TestOrder:
    def test_each_rule_begins_where_the_one_before_ended(self) -> None:
        found = segments(6)
        found[2] = found[2]._replace(max_timestamp=10)

        assert expired(found, 5, 30, retention_bytes="20") == Expired(1, 1, 1, 15)

    def test_a_log_without_segments_has_nothing_to_lose(self) -> None:
        assert expired([], 7, 7, retention_bytes="0") == Expired(0, 0, 0, 7)

    def test_the_log_start_never_falls(self) -> None:
        found = [segment._replace(max_timestamp=10) for segment in segments(1)]

        assert expired([*found, Segment(5, 5, NOW, NOW)], 7, 10) == Expired(1, 0, 0, 7)


times = st.one_of(st.integers(-1, 12), st.integers(0, 2**63 - 1), st.just(NOW - 10))
limits = st.one_of(st.integers(-1, 40), st.integers(-1, 2**63 - 1))
rows = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2**31), times, st.integers(NOW - 20, NOW)),
    max_size=8,
)


class TestTwin:
    @given(rows, st.integers(0, 50), st.booleans(), limits, limits)
    @example([(1, 1, -1, NOW), (1, 1, 5, NOW)], 1, True, 2, 10)
    @example([(1, 1, 5, NOW), (1, 1, 5, NOW)], 0, True, 1, -1)
    def test_walks_as_kafka_does(
        self,
        rows: list[tuple[int, int, int, int]],
        start: int,
        is_deleted: bool,
        retention_bytes: int,
        retention_ms: int,
    ) -> None:
        """Goal: Kafka's strictness. Method: against a walk, segment by segment."""
        ends = np.cumsum([0, *(row[0] for row in rows)]).tolist()
        found = [Segment(base, *row[1:]) for base, row in zip(ends, rows, strict=False)]
        start = min(start, ends[-1])
        config = TopicConfig.parse(
            {
                "cleanup.policy": "delete" if is_deleted else "compact",
                "retention.bytes": retention_bytes,
                "retention.ms": retention_ms,
            }
        )
        walked = walk(found, start, Retention(is_deleted, retention_bytes, retention_ms), NOW)

        answer = expired_segments(columns(found), start, ends[-1], config, NOW)
        assert answer[:3] == walked
        assert answer.log_start_offset == max(start, ends[sum(walked)] if sum(walked) else 0)
