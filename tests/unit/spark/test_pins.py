"""A read has the segments that it was planned on, in all of its tasks, until vacuum takes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.config.options import CONSUME_OPTIONS, parse_options
from sparklog.errors import OffsetOutOfRangeError, UnknownTopicError
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import READ_UNCOMMITTED
from sparklog.spark.reading.pins import pinned, pinned_slices
from sparklog.spark.reading.plan import ReadRange, SliceFinder, plan_pinned, plan_read, with_pins
from sparklog.spark.reading.read_task import RangePartition, ReadTask
from tests.erasing import ALICE, erased, keyed
from tests.logs import OWN_FILES, append, catalog, new_topic
from tests.maintenance import outcome_of
from tests.sweeping import DAY_MS, later, sweep

OLD = [*range(9)]
NEW = [1, 2, 4, 5, 7, 8]


@pytest.fixture(params=[{}, OWN_FILES], ids=["shared", "own"])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Nine records in each of two partitions, three of them hers."""
    found = new_topic(tmp_path / "log", partitions=2, config=request.param)
    for partition in (0, 1):
        keyed(found, partition)
    return found


@dataclass(frozen=True)
class Read:
    """A planned read; each range is read by a task of its own."""

    log_dir: str
    options: dict[str, Any]
    ranges: list[ReadRange]

    def offsets(self, number: int) -> list[int]:
        finder = SliceFinder(catalog(self.log_dir), READ_UNCOMMITTED, fails=True)
        partition = RangePartition(self.ranges[number], finder.slices(self.ranges[number]))
        task = ReadTask(catalog(self.log_dir).files, self.options)
        return [one for batch in task.read(partition) for one in batch["offset"].to_pylist()]


def planned(log_dir: str, **options: Any) -> Read:
    parsed = parse_options(CONSUME_OPTIONS, {"subscribe": "t", **options})[0]
    return Read(log_dir, parsed, plan_pinned(catalog(log_dir), parsed).ranges)


class TestErase:
    def test_is_seen_by_no_task_of_an_older_plan(self, log_dir: str) -> None:
        found = planned(log_dir)
        first = found.offsets(0)
        erased(log_dir, ALICE)

        assert [first, found.offsets(1)] == [OLD, OLD]
        assert [planned(log_dir).offsets(number) for number in (0, 1)] == [NEW, NEW]

    def test_is_seen_by_all_when_vacuum_has_taken_the_files(self, log_dir: str) -> None:
        found = planned(log_dir)
        erased(log_dir, ALICE)
        for day in (2, 4):
            sweep(log_dir, clock=later(day * DAY_MS))

        assert [found.offsets(number) for number in (0, 1)] == [NEW, NEW]

    def test_is_passed_when_files_are_gone_and_their_rows_are_not(self, log_dir: str) -> None:
        """As vacuum leaves it when it is killed in between."""
        found = planned(log_dir)
        old = [one.log_path for one in catalog(log_dir).topic_image(topic(log_dir)).segments(0)]
        erased(log_dir, ALICE)
        for path in Path(log_dir).rglob("*.log"):
            if any(str(path).endswith(one) for one in old):
                path.unlink()

        assert found.offsets(0) == NEW

    def test_is_seen_alike_by_the_pieces_of_a_range(self, log_dir: str) -> None:
        append(log_dir, 0, ["more"])
        fold(catalog(log_dir).log)
        append(log_dir, 0, ["more"])
        found = planned(log_dir, maxRecordsPerPartition=4, endingOffsets='{"t": {"0": 9, "1": 9}}')
        first = found.offsets(0)
        erased(log_dir, ALICE)
        fold(catalog(log_dir).log)

        assert first + found.offsets(1) + found.offsets(2) == OLD


def topic(log_dir: str) -> Any:
    return catalog(log_dir).topic("t")


class TestOthers:
    def test_a_merge_is_not_waited_for(self, log_dir: str) -> None:
        keyed(log_dir)
        found = planned(log_dir)
        outcome_of(merge_segments, log_dir, seal=False)

        assert found.offsets(0) == [*range(18)]

    def test_retention_is_told_all_the_same(self, log_dir: str) -> None:
        found = planned(log_dir)
        AdminClient(log_dir).delete_records({("t", 0): 4})

        with pytest.raises(OffsetOutOfRangeError, match="are not all in the log"):
            found.offsets(0)

    def test_a_deleted_topic_is_told_by_the_tasks(self, log_dir: str) -> None:
        parsed = planned(log_dir).options
        ranges = plan_read(catalog(log_dir), parsed)
        AdminClient(log_dir).delete_topics(["t"])
        found = Read(log_dir, parsed, with_pins(catalog(log_dir), ranges))

        assert [one.pin for one in found.ranges] == [None, None]
        with pytest.raises(UnknownTopicError, match="was deleted after the read was planned"):
            found.offsets(0)

    def test_a_gap_has_no_segments(self, log_dir: str) -> None:
        log = catalog(log_dir).partition(topic(log_dir), 0)

        assert pinned_slices(pinned(log, 9, 9), 9, 9) == []

    def test_are_small(self, log_dir: str) -> None:
        for _ in range(40):
            append(log_dir, 0, ["v"])
        (first, _) = planned(log_dir).ranges

        assert first.pin is not None
        assert len(first.pin) < 41 * 100
