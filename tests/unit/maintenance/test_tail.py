"""merge_tails: which tails are due, and that nothing but their rows changes."""

from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merging import tail
from sparklog.maintenance.merging.tail import (
    SLICES_MAX,
    merge_tails,
    merge_tails_in_turn,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry
from sparklog.storage import open_files
from sparklog.testing import Record, TemporaryLogDir
from tests.tracing import TracingFiles

NOW_MS = 1_700_000_000_000
TEN_MINUTES_MS = 600_000


class Log:
    """One topic with one partition; the clock stands still."""

    def __init__(self, path: Path, partitions: int = 1, **config: object) -> None:
        self.clock = ManualClock(NOW_MS)
        self.log_dir = TemporaryLogDir(path)
        given = {name.replace("_", "."): str(value) for name, value in config.items()}
        self.topic = self.log_dir.topic("t", partitions, config=given)
        self.catalog = Catalog(open_files(str(path)), self.clock)

    def produce(self, count: int, value: str = "v") -> "Log":
        for number in range(count):
            self.topic.produce(f"{value}{number}")
        return self

    def merge(self) -> list[Outcome]:
        topic = self.catalog.topic("t")
        image = self.catalog.image(topic)
        return list(merge_tails(JobContext(self.catalog, LocalFleet()), image, [topic]))

    def merge_in_turn(self, *, is_turn: bool) -> list[Outcome]:
        topic = self.catalog.topic("t")
        image = self.catalog.image(topic)
        context = JobContext(self.catalog, LocalFleet())
        return list(merge_tails_in_turn(context, image, topic, range(3), is_turn=is_turn))

    @property
    def segments(self) -> list[SegmentEntry]:
        return self.catalog.partition(self.catalog.topic("t"), 0).entries()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def test_a_few_slices_stay(log: Log) -> None:
    assert log.produce(SLICES_MAX).merge() == []
    assert len(log.segments) == SLICES_MAX


def test_more_become_one_segment_with_the_same_records(log: Log) -> None:
    before = log.produce(SLICES_MAX + 1).topic.values()
    [outcome] = log.merge()
    assert outcome.counts["segments"] == SLICES_MAX + 1
    [segment] = log.segments
    assert not segment.is_shared
    assert log.topic.values() == before


def test_what_comes_behind_is_joined_with_it(log: Log) -> None:
    log.produce(SLICES_MAX + 1).merge()
    before = log.produce(SLICES_MAX + 1).topic.values()
    log.merge()
    assert len(log.segments) == 1
    assert log.topic.values() == before


def test_old_timestamps_between_new_ones_do_not_keep_rows(log: Log) -> None:
    """As in transactions of old records: their end markers carry the present."""
    for _ in range(3):
        for number in range(SLICES_MAX + 1):
            log.topic.produce(Record(str(number), timestamp=0 if number % 2 else NOW_MS))
        log.merge()
    assert len(log.segments) == 1
    assert len(log.topic.values()) == 3 * (SLICES_MAX + 1)


def test_as_many_bytes_as_a_segment_of_its_own_are_due(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", sparklog_shared_segment_max_bytes=2000)
    assert log.produce(1, "x" * 1200).merge() == []
    [outcome] = log.produce(1, "x" * 1200).merge()
    assert outcome.counts["into"] == 1


def test_an_old_slice_is_due_alone(log: Log) -> None:
    log.produce(1)
    log.clock.advance(log.segments[0].created_ms - NOW_MS + TEN_MINUTES_MS + 1)
    [outcome] = log.merge()
    assert outcome.counts == {
        "segments": 1,
        "into": 1,
        "bytes": log.segments[0].log_bytes,
        "conflicts": 0,
    }


def test_the_newest_of_a_compacted_topic_stays(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", cleanup_policy="compact")
    for number in range(SLICES_MAX + 1):
        log.topic.produce(Record(str(number), key=str(number)))
    log.merge()
    assert [one.is_shared for one in log.segments] == [False, True]


def test_an_old_slice_of_a_compacted_topic_stays_while_it_is_the_newest(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", cleanup_policy="compact")
    log.topic.produce(Record("x", key="x"))
    [slice_] = log.segments
    log.clock.advance(slice_.created_ms - NOW_MS + TEN_MINUTES_MS + 1)
    assert log.merge() == []
    assert log.segments == [slice_]


def test_a_topic_that_was_not_opened_is_left_alone(log: Log) -> None:
    topic = log.produce(SLICES_MAX + 1).catalog.topic("t")
    closed = {topic.topic_id: TopicImage(topic, 1, is_open=False)}
    image = log.catalog.image().with_topics(closed)
    context = JobContext(log.catalog, LocalFleet())
    assert list(merge_tails(context, image, [topic])) == []
    assert list(merge_tails_in_turn(context, image, topic, [0], is_turn=True)) == []


@pytest.mark.parametrize(("slices", "commits"), [(2 * SLICES_MAX + 1, 2), (1000, 1)])
def test_a_commit_merges_a_few_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: int, commits: int
) -> None:
    monkeypatch.setattr(tail, "STEP_SLICES", slices)
    log = Log(tmp_path / "log", 2)
    for partition in [0, 1] * (SLICES_MAX + 1):
        log.topic.produce(Record("v", partition=partition))
    assert [one.counts["into"] for one in log.merge()] == [2 // commits] * commits


def test_no_slice_of_a_fast_producer_stays_behind(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "ROWS_MAX", SLICES_MAX + 1)
    before = log.produce(2 * SLICES_MAX).topic.values()
    [outcome] = log.merge()
    assert (outcome.counts["segments"], outcome.counts["into"]) == (2 * SLICES_MAX, 1)
    assert log.topic.values() == before


def test_a_tail_is_merged_in_its_turn(log: Log) -> None:
    before = log.produce(SLICES_MAX + 1).topic.values()
    assert log.merge_in_turn(is_turn=False) == []
    [outcome] = log.merge_in_turn(is_turn=True)
    assert outcome.counts["segments"] == SLICES_MAX + 1
    assert log.merge_in_turn(is_turn=True) == []
    assert log.topic.values() == before


@pytest.mark.parametrize(("most_bytes", "reads"), [(tail.TOGETHER_BYTES_MAX, 1), (1, 3)])
def test_tails_in_turn_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, reads: int
) -> None:
    monkeypatch.setattr(tail, "TOGETHER_BYTES_MAX", most_bytes)
    log = Log(tmp_path / "log", 3)
    for number in range(SLICES_MAX + 1):
        log.topic.produce(*(Record(f"{number}", partition=partition) for partition in range(3)))
    before = log.topic.values()
    files = TracingFiles(log.catalog.files)
    log.catalog = Catalog(files, log.clock)
    outcomes = log.merge_in_turn(is_turn=True)
    of_slices = [one for one in files.trace if one[0] == "read" and one[1].startswith("__shared/")]
    assert [one.counts["segments"] for one in outcomes] == [SLICES_MAX + 1] * 3
    assert len(of_slices) == reads * (SLICES_MAX + 1)
    assert log.topic.values() == before


def test_tails_in_turn_are_joined_with_the_segments_before_them(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", 2)
    for _ in range(2):
        for number in range(SLICES_MAX + 1):
            log.topic.produce(*(Record(f"{number}", partition=partition) for partition in range(2)))
        before = log.topic.values()
        log.merge_in_turn(is_turn=True)
        assert [one.is_shared for one in log.segments] == [False]
        assert log.topic.values() == before


def test_a_long_tail_does_not_wait_for_its_turn(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    most = SLICES_MAX + 8
    monkeypatch.setattr(tail, "LONG_SLICES_MAX", most)
    assert log.produce(most).merge_in_turn(is_turn=False) == []
    [outcome] = log.produce(1).merge_in_turn(is_turn=False)
    assert outcome.counts["segments"] == most + 1
