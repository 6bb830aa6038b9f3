"""Where logs ended at a time: by the history of the metadata log, read back and followed."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic, log_ends
from sparklog.admin.log_ends import COMMITS_MAX, KEPT_MS, STEP_MS, LogEnds
from sparklog.clock import ManualClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.logs import FOREVER, append_to, columns
from tests.sweeping import DAY_MS, sweep

MINUTE_MS = 60_000


class Ends:
    """The ends of partition 0 of the topic `t`, and its writer."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.catalog = Catalog(open_files(str(directory)), self.clock, flush=False)
        admin = AdminClient(directory, clock=self.clock)
        [self.topic] = admin.create_topics([NewTopic("t", 2, config=FOREVER)])
        self.ends = LogEnds(self.catalog)

    def append(self, count: int = 1, partition: int = 0) -> None:
        """Records, and a minute that passes."""
        append_to(self.catalog, partition, columns(range(count)))
        self.clock.advance(MINUTE_MS)

    def ago(self, *minutes: int, partition: int = 0) -> list[int | None]:
        """The ends so many minutes ago."""
        self.ends.follow()
        end = self.catalog.partition(self.topic, partition).log_end_offset
        place, now_ms = (self.topic.topic_id, partition), self.clock.now_ms()
        return [self.ends.at(place, now_ms - one * MINUTE_MS, end) for one in minutes]


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path / "log")


def test_they_are_read_back(ends: Ends) -> None:
    ends.append(3)
    ends.append(2)
    assert ends.ago(0, 1, 2, 3) == [5, 5, 3, 0]
    assert ends.ago(1, partition=1) == [0]


def test_they_are_followed(ends: Ends) -> None:
    ends.append(3)
    assert ends.ago(0) == [3]
    ends.append(2)
    assert ends.ago(0, 1, 2) == [5, 5, 3]
    assert ends.ago(0, 1, 2) == [5, 5, 3]


def test_what_is_older_than_an_hour_is_forgotten(ends: Ends) -> None:
    for _ in range(3):
        ends.append()
    assert ends.ago(3, 4) == [1, 0]
    ends.clock.advance(KEPT_MS - MINUTE_MS)
    ends.append()
    assert ends.ago(1, 2, 61, 62) == [4, 3, 3, None]


def test_what_is_older_than_an_hour_is_not_read(ends: Ends) -> None:
    for _ in range(3):
        ends.append()
    ends.clock.advance(KEPT_MS - MINUTE_MS)
    ends.append()
    assert ends.ago(1, 2, 60, 62) == [4, 3, 3, None]


def test_after_a_long_time_they_are_read_back_anew(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.append()
    assert ends.ago(1) == [1]
    monkeypatch.setattr(log_ends, "COMMITS_MAX", 2)
    for _ in range(4):
        ends.append()
    assert ends.ago(1, 2, 3, 4) == [5, 4, 3, None]
    assert COMMITS_MAX > 2


def test_those_of_an_erased_topic_are_forgotten(ends: Ends, tmp_path: Path) -> None:
    ends.append()
    assert ends.ago(0) == [1]
    AdminClient(tmp_path / "log", clock=ends.clock).delete_topics(["t"])
    ends.ends.follow()
    assert len(ends.ends._steps) == 1
    ends.clock.advance(2 * DAY_MS)
    sweep(str(tmp_path / "log"), clock=ends.clock)
    ends.ends.follow()
    assert not ends.ends._steps


def test_appends_of_one_second_are_one_step(ends: Ends) -> None:
    for _ in range(3):
        append_to(ends.catalog, 0, columns("a"))
        ends.clock.advance(STEP_MS // 10)
    ends.clock.advance(MINUTE_MS)
    assert ends.ago(0, 2) == [3, 0]


def test_a_merge_ends_no_log(ends: Ends) -> None:
    for _ in range(4):
        ends.append()
    context = JobContext(ends.catalog, LocalFleet())
    [outcome] = [one.execute() for one in merge_segments(context, ["t"], {"seal": True})]
    assert outcome.counts["segments"] == 4
    ends.clock.advance(MINUTE_MS)
    assert ends.ago(0, 1, 2, 5) == [4, 4, 4, 1]
