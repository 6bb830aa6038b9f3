"""What a read will read: topics, bounds and data loss, decided from options without a JVM."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sparklog.admin import AdminClient
from sparklog.config.options import CONSUME_OPTIONS, parse_options
from sparklog.errors import (
    InvalidOptionError,
    OffsetOutOfRangeError,
    SparklogWarning,
    UnknownTopicError,
)
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.image import Image
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED, TopicDescription
from sparklog.spark.reading.plan import ReadRange, SliceFinder, plan_read
from tests.edits import edited
from tests.logs import append, catalog, new_topic

Spans = dict[str, tuple[int, int]]

T0 = 1_700_000_000_000
SECOND = 1000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic `t`: 4 partitions of 25 records, one a second; `other`: 1 of 10; `empty`: 2 of 0."""
    log_dir = new_topic(tmp_path_factory.mktemp("plan") / "log")
    new_topic(log_dir, "other", 1)
    new_topic(log_dir, "empty", 2)
    small = WriteOptions(segment_bytes=700, batch_size=200, flush=False)
    times = [T0 + second * SECOND for second in range(25)]
    for partition in range(4):
        append(log_dir, partition, range(25), timestamps=times, options=small)
    append(log_dir, 0, range(10), topic="other")
    return log_dir


@pytest.fixture
def trimmed(tmp_path: Path) -> str:
    """20 records in partition 0, of which the first 12 are deleted."""
    log_dir = new_topic(tmp_path / "log", partitions=1)
    append(log_dir, 0, range(20))
    AdminClient(log_dir).delete_records({("t", 0): 12})
    return log_dir


def ranges(log_dir: str, **options: Any) -> list[ReadRange]:
    return plan_read(catalog(log_dir), parse_options(CONSUME_OPTIONS, options)[0])


def spans(log_dir: str, **options: Any) -> Spans:
    found = ranges(log_dir, **options)
    return {f"{one.topic}-{one.partition}": (one.start, one.end) for one in found}


def all_of_t(start: int = 0, end: int = 25) -> Spans:
    return {f"t-{partition}": (start, end) for partition in range(4)}


def of(values: Mapping[int, int], topic: str = "t") -> str:
    return json.dumps({topic: {str(partition): value for partition, value in values.items()}})


class TestTopics:
    def test_may_be_subscribed_to(self, log: str) -> None:
        assert spans(log, subscribe="t") == all_of_t()
        assert spans(log, subscribe=" other ,, t,other") == {"other-0": (0, 10), **all_of_t()}

    def test_may_match_a_pattern_anywhere_in_their_names(self, log: str) -> None:
        assert spans(log, subscribePattern="th|^x") == {"other-0": (0, 10)}
        assert spans(log, subscribePattern="^zz") == {}

    def test_may_be_assigned_by_partition(self, log: str) -> None:
        assert spans(log, assign='{"t": [2, 0], "other": [0]}') == {
            "other-0": (0, 10),
            "t-0": (0, 25),
            "t-2": (0, 25),
        }

    def test_without_records_are_left_out(self, log: str) -> None:
        assert spans(log, subscribe="empty") == {}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"subscribe": "tt"}, "unknown topic 'tt'"),
            ({"assign": '{"t": [4]}'}, "has no partition 4"),
            ({"subscribe": "t", "endingOffsets": '{"other": {"0": 5}}'}, "other-0, which the read"),
        ],
    )
    def test_must_exist(self, log: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(UnknownTopicError, match=message):
            ranges(log, **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "give one of the options assign, subscribe and subscribePattern, not none"),
            ({"subscribe": "t", "assign": "{}"}, r"not \['assign', 'subscribe'\]"),
            ({"subscribe": " , "}, "no topics to read"),
            ({"subscribePattern": "("}, "is no regular expression"),
            ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean startingOffsets?"),
            ({"subscribe": "t", "kafka.bootstrap.servers": "x"}, "unknown option kafka.boot"),
            ({"subscribe": "t", "minPartitions": 0}, "it takes an integer from 1"),
            ({"subscribe": "t", "includeHeaders": "yes"}, "it takes true or false"),
        ],
    )
    def test_are_named_in_one_way(self, log: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidOptionError, match=message):
            ranges(log, **options)


class TestOffsets:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"startingOffsets": "earliest", "endingOffsets": "latest"}, all_of_t()),
            (
                {"startingOffsets": of({0: 5, 1: 24, 2: -2, 3: 25})},
                {"t-0": (5, 25), "t-1": (24, 25), "t-2": (0, 25)},
            ),
            (
                {"endingOffsets": of({0: 5, 1: 0, 2: -1})},
                {"t-0": (0, 5), "t-2": (0, 25), "t-3": (0, 25)},
            ),
            ({"startingOffsets": '{"t": "earliest"}'}, all_of_t()),
            (
                {"startingOffsets": of({0: 10, 1: 11}), "endingOffsets": of({0: 12, 1: 12})},
                {**all_of_t(), "t-0": (10, 12), "t-1": (11, 12)},
            ),
        ],
    )
    def test_bound_the_read(self, log: str, options: dict[str, Any], expected: Spans) -> None:
        assert spans(log, subscribe="t", **options) == expected

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"endingOffsets": of({0: 26})}, r"t-0: offsets \[0, 26\) are not all in the log"),
            ({"startingOffsets": of({0: 26})}, "the starting offset 26 is above the ending offset"),
            ({"startingOffsets": of({2: 9}), "endingOffsets": of({2: 8})}, "t-2: the starting"),
        ],
    )
    def test_must_lie_in_the_log(self, log: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match=message):
            ranges(log, subscribe="t", **options)


class TestTimes:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"startingTimestamp": T0 + 20 * SECOND}, all_of_t(20)),
            ({"startingTimestamp": T0 + 20 * SECOND + 1}, all_of_t(21)),
            ({"endingTimestamp": T0 + 5 * SECOND}, all_of_t(0, 5)),
            ({"endingTimestamp": T0 + 500 * SECOND}, all_of_t()),
            ({"startingTimestamp": 0, "endingTimestamp": 0}, {}),
            (
                {"startingTimestamp": T0 + 7 * SECOND, "endingTimestamp": T0 + 9 * SECOND},
                all_of_t(7, 9),
            ),
            (
                {
                    "startingOffsetsByTimestamp": of({0: T0 + 20 * SECOND}),
                    "endingOffsetsByTimestamp": of({1: T0 + 3 * SECOND}),
                },
                {**all_of_t(), "t-0": (20, 25), "t-1": (0, 3)},
            ),
            (
                {
                    "startingOffsetsByTimestamp": of({0: T0 + 500 * SECOND}),
                    "startingOffsetsByTimestampStrategy": "LATEST",
                },
                {f"t-{partition}": (0, 25) for partition in (1, 2, 3)},
            ),
        ],
    )
    def test_bound_the_read(self, log: str, options: dict[str, Any], expected: Spans) -> None:
        assert spans(log, subscribe="t", **options) == expected

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"startingTimestamp": T0 + 9 * SECOND, "endingTimestamp": T0 + 7 * SECOND},
                f"t-0: the starting time {T0 + 9 * SECOND} is after the ending time",
            ),
            (
                {"startingTimestamp": T0 + 1, "endingTimestamp": T0},
                f"t-0: the starting time {T0 + 1} is after the ending time {T0}",
            ),
            (
                {"startingTimestamp": T0 + 9 * SECOND, "endingOffsets": of({2: 8})},
                "t-2: the starting offset 9 is above the ending offset 8",
            ),
            (
                {"startingOffsets": of({2: 9}), "endingTimestamp": T0 + 8 * SECOND},
                "t-2: the starting offset 9 is above the ending offset 8",
            ),
        ],
    )
    def test_do_not_end_before_they_begin(
        self, log: str, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(OffsetOutOfRangeError, match=message):
            ranges(log, subscribe="t", **options)

    def test_that_nothing_follows_are_an_error_at_the_start(self, log: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="Strategy=latest would start at the log"):
            ranges(log, subscribe="t", startingTimestamp=T0 + 500 * SECOND)


class TestSplits:
    def test_follow_the_options(self, log: str) -> None:
        assert len(ranges(log, subscribe="t", minPartitions=8)) == 8
        assert len(ranges(log, subscribe="t", maxRecordsPerPartition=10)) == 12


class TestDataLoss:
    def test_is_an_error_when_offsets_were_named(self, trimmed: str) -> None:
        assert spans(trimmed, subscribe="t") == {"t-0": (12, 20)}
        with pytest.raises(OffsetOutOfRangeError, match=r"\[5, 20\) are not all .* holds \[12, 20"):
            ranges(trimmed, subscribe="t", startingOffsets=of({0: 5}))

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(5, 15, {"t-0": (12, 15)}), (5, 50, {"t-0": (12, 20)}), (2, 4, {}), (30, 40, {})],
    )
    def test_may_be_skipped(self, trimmed: str, start: int, end: int, expected: Spans) -> None:
        bounds = {"startingOffsets": of({0: start}), "endingOffsets": of({0: end})}
        with pytest.warns(SparklogWarning, match="reading what there is"):
            found = spans(trimmed, subscribe="t", failOnDataLoss="false", **bounds)

        assert found == expected


class TestOpenTransaction:
    """A reader of committed records ends before the first one: the last stable offset."""

    COMMITTED: ClassVar[Mapping[str, Any]] = {"subscribe": "t", "isolation.level": READ_COMMITTED}

    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        """20 records in partition 0, one a second, with transactions open from 12 and 15 on."""
        log_dir = new_topic(tmp_path / "log", partitions=1)
        append(log_dir, 0, range(20), timestamps=[T0 + second * SECOND for second in range(20)])
        opened, found = (OpenTransaction(8, 15), OpenTransaction(7, 12)), catalog(log_dir)
        edited(found, found.topic("t"), transactions={0: opened})
        return log_dir

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, (0, 12)),
            ({"endingOffsets": of({0: -1})}, (0, 12)),
            ({"endingOffsets": of({0: 12})}, (0, 12)),
            ({"endingTimestamp": T0 + 5 * SECOND}, (0, 5)),
            ({"endingTimestamp": T0 + 14 * SECOND}, (0, 12)),
            ({"startingTimestamp": T0 + 11 * SECOND}, (11, 12)),
        ],
    )
    def test_ends_the_read(
        self, log_dir: str, options: dict[str, Any], expected: tuple[int, int]
    ) -> None:
        assert spans(log_dir, **self.COMMITTED, **options) == {"t-0": expected}

    def test_is_nothing_to_readers_of_uncommitted_records(self, log_dir: str) -> None:
        assert spans(log_dir, subscribe="t") == {"t-0": (0, 20)}

    def test_hides_the_times_behind_it(self, log_dir: str) -> None:
        late: dict[str, Any] = {**self.COMMITTED, "startingTimestamp": T0 + 12 * SECOND}

        with pytest.raises(OffsetOutOfRangeError, match="no record at or after timestamp"):
            ranges(log_dir, **late)
        assert spans(log_dir, **late, startingOffsetsByTimestampStrategy="latest") == {}

    def test_keeps_named_offsets_back(self, log_dir: str) -> None:
        behind: dict[str, Any] = {**self.COMMITTED, "endingOffsets": of({0: 20})}

        with pytest.raises(
            OffsetOutOfRangeError,
            match=r"\[0, 12\) for read_committed: a transaction is open at 12",
        ):
            ranges(log_dir, **behind)
        with pytest.warns(SparklogWarning, match="reading what there is"):
            assert spans(log_dir, **behind, failOnDataLoss="false") == {"t-0": (0, 12)}


class BusyCatalog(Catalog):
    """One that somebody else commits to after every look: a record to topics `a` and `b` each."""

    def image(self, *topics: TopicDescription) -> Image:
        found = super().image(*topics)
        for name in ("a", "b"):
            append(self.files.uri, 0, ["x"], topic=name)
        return found


class TestTopicsOfOneRead:
    def test_are_read_as_of_one_version(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", "a", 1)
        new_topic(log_dir, "b", 1)
        for name in ("a", "b"):
            append(log_dir, 0, ["x"], topic=name)
        busy = BusyCatalog(catalog(log_dir).files)
        found = plan_read(busy, parse_options(CONSUME_OPTIONS, {"subscribe": "a,b"})[0])

        assert [(one.topic, one.end) for one in found] == [("a", 1), ("b", 1)]


def finder(log_dir: str, *, fails: bool = True) -> SliceFinder:
    return SliceFinder(catalog(log_dir), READ_UNCOMMITTED, fails=fails)


class TestSlices:
    def wanted(self, log_dir: str, start: int, end: int) -> ReadRange:
        return ReadRange("t", catalog(log_dir).topic("t").topic_id, 0, start, end)

    def test_cover_a_range(self, log: str) -> None:
        found = finder(log).slices(self.wanted(log, 3, 20))

        assert [piece.start for piece in found] == [3, *(piece.end for piece in found[:-1])]
        assert found[-1].end == 20

    def test_below_the_log_start_are_lost(self, trimmed: str) -> None:
        wanted = self.wanted(trimmed, 5, 15)

        with pytest.raises(OffsetOutOfRangeError, match=r"\[5, 15\) are not all in the log"):
            finder(trimmed).slices(wanted)
        with pytest.warns(SparklogWarning, match="reading what there is"):
            (piece,) = finder(trimmed, fails=False).slices(wanted)
        assert (piece.start, piece.end) == (12, 15)

    def test_of_a_topic_that_was_made_again_are_not_the_same(self, trimmed: str) -> None:
        wanted = self.wanted(trimmed, 12, 15)
        AdminClient(trimmed).delete_topics(["t"])
        new_topic(trimmed)
        append(trimmed, 0, range(20))

        with pytest.raises(UnknownTopicError, match="'t' was deleted after the read was planned"):
            finder(trimmed).slices(wanted)
