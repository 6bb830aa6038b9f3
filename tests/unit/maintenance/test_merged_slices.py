"""Tails of many partitions at once: their slices become slices of one shared segment.

Goal: the log has the same records, and each new row says what its bytes say. Method: the rows are
compared with those that a SegmentBuilder makes of the bytes.
"""

from pathlib import Path
from types import ModuleType

import pytest

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.errors import StorageError
from sparklog.fleet import LocalFleet
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_writer import SharedSegment
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merging import merged_slices, spans, tail
from sparklog.maintenance.merging.merged_slices import SliceGroup, merge_slices
from sparklog.maintenance.merging.tail import merge_tails
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import TopicEdit
from sparklog.model import SegmentEntry
from sparklog.record.scan import scan_batches
from sparklog.storage import open_files
from sparklog.testing import Record, TemporaryLogDir

NOW_MS = 1_700_000_000_000
TEN_MINUTES_MS = 600_000
MOST = 8
LEAST = 4
PARTITIONS = 3


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SLICES_MAX", MOST)
    monkeypatch.setattr(tail, "SLICES_MIN", LEAST)
    monkeypatch.setattr(tail, "JOIN_SLICES_MAX", MOST)
    monkeypatch.setattr(tail, "MANY", 1)


class Logs:
    """Topics of three partitions; the clock stands still."""

    def __init__(self, path: Path, *names: str, **config: object) -> None:
        self.path = path
        self.clock = ManualClock(NOW_MS)
        self.log_dir = TemporaryLogDir(path)
        given = {name.replace("_", "."): str(value) for name, value in config.items()}
        self.topics = [self.log_dir.topic(name, PARTITIONS, config=given) for name in names]
        self.catalog = Catalog(open_files(str(path)), self.clock)

    def produce(self, count: int, timestamp: int | None = None) -> "Logs":
        for number in range(count):
            for topic in self.topics:
                records = [
                    Record(f"{number}", f"{number}", partition=partition, timestamp=timestamp)
                    for partition in range(PARTITIONS)
                ]
                topic.produce(*records)
        return self

    @property
    def context(self) -> JobContext:
        return JobContext(self.catalog, LocalFleet())

    def merge(self) -> list[Outcome]:
        topics = list(self.catalog.topics().values())
        return list(merge_tails(self.context, self.catalog.image(*topics), topics))

    def groups(self, name: str = "a") -> list[SliceGroup]:
        topic = self.catalog.topic(name)
        logs = self.catalog.topic_image(topic).partitions
        return [SliceGroup(topic, tuple(logs[at].entries())) for at in range(PARTITIONS)]

    @property
    def segments(self) -> list[SegmentEntry]:
        return [
            entry
            for topic in self.catalog.topics().values()
            for log in self.catalog.topic_image(topic).partitions.values()
            for entry in log.entries()
        ]

    @property
    def records(self) -> list[list[Record]]:
        return [topic.records() for topic in self.topics]

    def of_bytes(self, entry: SegmentEntry) -> SegmentEntry:
        """The row of a slice as its bytes tell it."""
        data = self.catalog.files.read(entry.log_path, entry.log_position, entry.log_bytes)
        builder = SegmentBuilder(entry.base_offset, entry.partition)
        builder.append(scan_batches(data).batches, data=data)
        summary, _ = builder.finish()
        row = summary.entry(entry.base_offset, entry.created_ms, entry.log_path)
        return row._replace(log_position=entry.log_position)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "log", "a", "b")


def test_all_partitions_share_a_segment(logs: Logs) -> None:
    before = logs.produce(MOST + 1).records
    [outcome] = logs.merge()
    assert (outcome.counts["segments"], outcome.counts["into"]) == (6 * (MOST + 1), 6)
    assert [logs.of_bytes(entry) for entry in logs.segments] == logs.segments
    assert len({entry.log_path for entry in logs.segments}) == 1
    assert logs.records == before


def test_what_comes_behind_is_joined_with_it(logs: Logs) -> None:
    logs.produce(MOST + 1).merge()
    before = logs.produce(MOST).records
    logs.merge()
    assert [logs.of_bytes(entry) for entry in logs.segments] == logs.segments
    assert len(logs.segments) == 6
    assert logs.records == before


def test_a_slice_is_not_copied_again_before_enough_have_come_behind_it(logs: Logs) -> None:
    logs.produce(8 * MOST).merge()
    large = logs.segments
    before = logs.produce(MOST).records
    logs.merge()
    assert [entry.record_count for entry in logs.segments] == [8 * MOST, MOST] * 6
    assert set(large) < set(logs.segments)
    assert logs.records == before

    logs.produce(2 * MOST).merge()
    assert [entry.record_count for entry in logs.segments] == [11 * MOST] * 6


def test_several_large_slices_stay(logs: Logs) -> None:
    logs.produce(40 * MOST).merge()
    logs.produce(5 * MOST).merge()
    large = logs.segments
    before = logs.produce(MOST).records
    logs.merge()
    assert [entry.record_count for entry in logs.segments] == [40 * MOST, 5 * MOST, MOST] * 6
    assert set(large) < set(logs.segments)
    assert logs.records == before


def test_large_slices_that_stay_count_for_a_segment(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.produce(8 * MOST).merge()
    most_bytes = max(entry.log_bytes for entry in logs.segments)
    monkeypatch.setattr(tail, "JOIN_BYTES_MAX", most_bytes)
    logs.produce(MOST).merge()
    assert not any(entry.is_shared for entry in logs.segments)


def test_not_all_are_merged_in_the_same_second(logs: Logs) -> None:
    logs.produce(LEAST)
    merged = [
        sum(outcome.counts["into"] for outcome in logs.produce(1).merge())
        for _ in range(MOST + 1 - LEAST)
    ]
    assert sum(merged) == 6
    assert max(merged) < 6


def test_a_few_tails_become_segments(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MANY", 6)
    assert logs.produce(MOST).merge() == []
    assert [one.counts["into"] for one in logs.produce(1).merge()] == [3, 3]
    assert not any(entry.is_shared for entry in logs.segments)


def test_old_slices_become_segments(logs: Logs) -> None:
    logs.produce(MOST + 1).merge()
    newest_ms = max(entry.created_ms for entry in logs.segments)
    logs.clock.advance(newest_ms - NOW_MS + TEN_MINUTES_MS + 1)
    logs.merge()
    assert not any(entry.is_shared for entry in logs.segments)


def test_large_slices_become_segments(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "JOIN_BYTES_MAX", 100)
    assert logs.produce(MOST).merge() == []
    assert [one.counts["into"] for one in logs.produce(1).merge()] == [3, 3]
    assert not any(entry.is_shared for entry in logs.segments)


def test_slices_with_a_gap_become_segments(logs: Logs) -> None:
    logs.produce(MOST + 1)
    topic, group = logs.groups()[0]
    logs.catalog.commit(topic, lambda _: TopicEdit(remove=[group[2].key]), operation="TEST")
    before = logs.records
    logs.produce(1).merge()
    is_shared = [entry.is_shared for entry in logs.segments if entry.partition == 0]
    assert is_shared == [False, True]
    assert [len(records) for records in logs.records] == [len(one) + 3 for one in before]


def test_slices_of_distant_times_do_not_become_one(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "log", "a", "b", segment_ms=1000)
    for number in range(MOST + 1):
        logs.produce(1, NOW_MS - 600 * (MOST - number))
    logs.merge()
    spans = {entry.max_timestamp - (entry.min_timestamp or 0) for entry in logs.segments}
    assert spans == {600, 0}


def test_slices_behind_a_segment_are_joined_alone(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.produce(MOST + 1)
    with monkeypatch.context() as patched:
        patched.setattr(tail, "MANY", 6)
        logs.merge()
    before = logs.produce(MOST + 1).records
    logs.merge()
    assert [entry.is_shared for entry in logs.segments] == [False, True] * 6
    assert logs.records == before


def test_the_newest_of_a_compacted_topic_stays(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "log", "a", cleanup_policy="compact").produce(MOST + 1)
    logs.merge()
    assert [entry.record_count for entry in logs.segments] == [MOST, 1] * PARTITIONS


@pytest.mark.parametrize(
    ("module", "limit", "value"),
    [
        (spans, "SPAN_BYTES_MAX", 0),
        (merged_slices, "JOINED_BYTES_MAX", 0),
        (merged_slices, "STEP_SLICES", 1),
        (merged_slices, "STEP_SLICES", 20),
    ],
)
def test_with_other_limits(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, module: ModuleType, limit: str, value: int
) -> None:
    monkeypatch.setattr(module, limit, value)
    before = logs.produce(MOST + 1).records
    [outcome] = logs.merge()
    assert outcome.counts["into"] == 6
    assert [logs.of_bytes(entry) for entry in logs.segments] == logs.segments
    assert logs.records == before


def test_so_many_groups_share_a_segment(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "ROUND_GROUPS", 4)
    assert [one.counts["into"] for one in logs.produce(MOST + 1).merge()] == [4, 2]


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_damaged_slice_stops_its_partition_alone(logs: Logs, *, is_alone: bool) -> None:
    groups = logs.produce(MOST + 1).groups()
    wrong = SliceGroup(groups[1].topic, (groups[1].group[0]._replace(log_crc32c=1),))
    asked = [wrong] if is_alone else [groups[0], wrong, groups[2]]
    outcome, refused = merge_slices(logs.context, asked)
    assert outcome.counts["into"] == len(asked) - 1
    assert refused == [wrong]


def test_a_slice_that_is_missing_is_a_problem(logs: Logs) -> None:
    path = logs.produce(MOST + 1).segments[0].log_path
    (logs.path / path).unlink()
    outcomes = logs.merge()
    assert outcomes[0].counts["into"] == 3
    assert all(path in one.problems[0] for one in outcomes[1:])
    assert len(outcomes) == 4


def test_what_another_has_merged_is_left_alone(logs: Logs) -> None:
    groups = logs.produce(MOST + 1).groups()
    merge_slices(logs.context, groups[:1])
    before = logs.segments
    assert merge_slices(logs.context, groups[:1])[0].counts["conflicts"] == 1
    assert logs.segments == before


def test_a_topic_that_was_deleted_is_left_alone(logs: Logs) -> None:
    groups = [*logs.produce(MOST + 1).groups("a"), *logs.groups("b")]
    AdminClient(logs.path).delete_topics(["a"])
    outcome, _ = merge_slices(logs.context, groups)
    assert (outcome.counts["into"], outcome.counts["conflicts"]) == (3, 3)


def test_without_timestamps_the_newest_time_counts(logs: Logs) -> None:
    groups = [
        SliceGroup(
            one.topic,
            tuple(
                entry._replace(max_timestamp=-1, min_timestamp=-1, created_ms=entry.base_offset)
                for entry in one.group
            ),
        )
        for one in logs.produce(2).groups()
    ]
    made = [merged_slices._row(one.group, "p", 0, 0) for one in groups]
    assert [one.created_ms for one in made] == [1, 1, 1]


def test_the_segment_is_dropped_if_it_cannot_be_written(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: SharedSegment) -> None:
        raise StorageError("the disk is full")

    before = logs.produce(MOST + 1).segments
    files = sorted((logs.path / "__shared").iterdir())
    monkeypatch.setattr(SharedSegment, "close", fails)
    with pytest.raises(StorageError):
        logs.merge()
    assert logs.segments == before
    assert sorted((logs.path / "__shared").iterdir()) == files
