"""The lag of a group over the last hour, by its commits and the ends of the logs."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.admin.groups import GroupAdmin
from sparklog.admin.lag_history import HOUR_MS, Commit, LagPoint, lags_of, total
from sparklog.admin.lags import Lags
from sparklog.clock import ManualClock
from sparklog.coordinator import group_log
from sparklog.coordinator.placement import partition_of
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.logs import FOREVER, append_to, columns

MINUTE_MS = 60_000


class TestOfPartition:
    def test_a_commit_counts_from_its_moment_to_the_next(self) -> None:
        commits = [Commit(10, 3), Commit(20, 5)]
        assert lags_of(commits, [9, 10, 19, 20], [5, 5, 6, 6]) == [None, 2, 3, 1]

    def test_it_is_never_negative_and_unknown_where_the_end_is(self) -> None:
        assert lags_of([Commit(0, 9)], [1, 2], [None, 5]) == [None, 0]

    def test_a_sum_is_of_what_is_known(self) -> None:
        assert (total([1, None, 2]), total([None])) == (3, None)


class Reading:
    """Two topics, a group that reads them, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.admin = AdminClient(directory, clock=self.clock)
        self.admin.create_topics([NewTopic(name, 2, config=FOREVER) for name in ("t", "u")])
        self.catalog = Catalog(open_files(str(directory)), self.clock, flush=False)
        self.history = Lags(self.catalog, GroupAdmin(self.catalog)).history

    def appends(self, count: int, topic: str = "t") -> None:
        append_to(self.catalog, 0, columns(range(count)), topic=topic)
        self.clock.advance(MINUTE_MS)

    def commits(self, offset: int, topic: str = "t", group: str = "readers") -> None:
        self.admin.alter_consumer_group_offsets(group, {(topic, 0): offset})
        self.clock.advance(MINUTE_MS)

    def lags(self, count: int, *topics: str) -> list[int | None]:
        """The last lags of the hour."""
        points = self.history.of("readers", lambda name: not topics or name in topics)
        assert [one.time_ms for one in points][:: len(points) - 1] == [
            self.clock.now_ms() - HOUR_MS,
            self.clock.now_ms(),
        ]
        return [one.lag for one in points][-count:]


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path / "log")


def test_it_follows_commits_and_appends(reading: Reading) -> None:
    reading.appends(5)
    reading.commits(2)
    reading.appends(4)
    reading.commits(9)
    reading.commits(1, group="others")
    assert reading.lags(6) == [None, 3, 7, 0, 0, 0]


def test_what_was_committed_before_the_hour_still_counts(reading: Reading) -> None:
    reading.appends(5)
    reading.commits(2)
    reading.clock.advance(2 * HOUR_MS)
    assert reading.lags(61) == [3] * 61
    reading.commits(4)
    assert reading.lags(2) == [1, 1]


def test_of_several_topics_it_is_the_sum_of_those_that_may_be_seen(reading: Reading) -> None:
    for topic in ("t", "u"):
        reading.appends(3, topic)
        reading.commits(1, topic)
    assert reading.lags(1) == [4]
    assert reading.lags(1, "u") == [2]
    assert reading.lags(1, "neither") == [None]
    reading.admin.delete_topics(["t"])
    assert reading.lags(1) == [2]


def test_a_partition_that_is_gone_is_left_out(reading: Reading) -> None:
    reading.admin.alter_consumer_group_offsets("readers", {("u", 1): 0})
    reading.admin.delete_topics(["u"])
    reading.admin.create_topics([NewTopic("u", 1)])
    assert reading.lags(1) == [None]


def test_a_group_that_is_not_there_has_none(reading: Reading) -> None:
    assert set(reading.history.of("readers", bool)) >= {LagPoint(reading.clock.now_ms(), None)}
    reading.commits(0, group="others")
    assert reading.lags(1) == [None]


def test_groups_of_one_partition_of_the_offsets_do_not_mix(reading: Reading) -> None:
    names = (f"group-{number}" for number in range(1000))
    other = next(one for one in names if partition_of(one, 50) == partition_of("readers", 50))
    reading.appends(5)
    reading.commits(2)
    for topic in ("t", "u"):
        reading.commits(4, topic, group=other)
    reading.admin.delete_consumer_group_offsets(other, [("t", 0)])
    assert reading.lags(1) == [3]

    found = GroupAdmin(reading.catalog).read(["readers", other])
    assert [len(offsets) for _, offsets in found.values()] == [1, 1]


def test_only_the_end_of_a_long_log_is_searched(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.appends(5)
    for offset in range(3):
        reading.commits(offset)
    monkeypatch.setattr(group_log, "COMMITS_MAX", 1)
    assert reading.lags(3) == [None, 3, 3]
