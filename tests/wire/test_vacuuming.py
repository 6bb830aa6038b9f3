"""A housekeeper vacuums what its gateway leads: no scheduler runs, and rows and files stay few."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import StoragePermissionError
from sparklog.log.names import SHARED
from sparklog.log_reader.slices import read_slices
from sparklog.maintenance.job import Outcome, Step
from sparklog.maintenance.vacuuming import vacuum_overdue
from sparklog.maintenance.vacuuming.vacuum_overdue import LATE_MS
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.leases import acquire
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import TopicImage
from sparklog.storage.files import FileStat
from sparklog.storage.local import LocalFiles
from sparklog.wire import tidying
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.tidying import Tidying
from tests.appends import Appender
from tests.client_batches import NOW_MS, client_batch
from tests.logs import values
from tests.naive.records import rows

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class World:
    """A gateway and its housekeeper, whose clock only the test moves."""

    def __init__(self, log_dir: str) -> None:
        AdminClient(log_dir, clock=ManualClock(NOW_MS)).create_topics([NewTopic("t", 1)])
        self.log_dir = log_dir
        self.gateway = Appender(log_dir)
        self.catalog = self.gateway.catalog
        self.tidying = Tidying(self.catalog, 0)

    def produce(self, value: str, **fields: Any) -> None:
        """Commit a record, which is merged an hour later; the merge takes older ones along."""
        self.gateway.append(("t", 0, client_batch(value, **fields)))
        self.wait(HOUR_MS)
        assert self.tidying.tidy_topics() > 0

    def wait(self, ms: int) -> None:
        self.catalog.clock.sleep_ms(ms)

    @property
    def image(self) -> TopicImage:
        return self.catalog.topic_image(self.catalog.topic("t"))

    @property
    def shared(self) -> int:
        """How many shared segments have a row; each has a file."""
        count = len(self.catalog.image().shared)
        assert len(list(Path(self.log_dir, SHARED).iterdir())) == count
        return count


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(str(tmp_path / "log"))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one row be worth a step."""
    monkeypatch.setattr(vacuum_overdue, "MANY", 1)


def test_rows_and_files_stay_few_and_all_records_are_there(world: World) -> None:
    hours = 72
    for hour in range(hours):
        world.produce(str(hour))
        world.tidying.vacuum()

    most = (DAY_MS + LATE_MS) // HOUR_MS + 1
    assert world.shared <= most
    assert len(world.image.removed) <= most
    named = [*world.image.removed, *world.image.partition(0).entries()]
    files = list(Path(world.log_dir, topic_directory(world.image.description), "t-0").iterdir())
    assert len([one for one in files if one.suffix == ".log"]) == len(named)
    assert values(world.log_dir) == {0: [str(hour) for hour in range(hours)]}


@pytest.mark.usefixtures("at_once")
def test_who_has_planned_reads_on_for_the_grace(world: World) -> None:
    world.gateway.append(("t", 0, client_batch("a")))
    planned = list(world.image.partition(0).slices(0, 1))
    world.wait(HOUR_MS)
    assert world.tidying.tidy_topics() == 1

    def read() -> list[bytes | None]:
        found = read_slices(world.catalog.files, "", planned)
        return [record.value for some in found for record in rows(some)]

    world.wait(DAY_MS - 1)
    assert (world.tidying.vacuum(), read()) == (0, [b"a"])
    world.wait(1)
    assert (world.tidying.vacuum(), world.shared) == (1, 0)


@pytest.mark.usefixtures("at_once")
def test_states_of_producers_go_after_a_day(world: World) -> None:
    world.produce("a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert world.image.partition(0).producers
    world.wait(DAY_MS)
    world.tidying.vacuum()
    assert not world.image.partition(0).producers


def test_a_few_rows_are_left_to_the_job_for_a_while(world: World) -> None:
    world.produce("a")
    world.wait(DAY_MS + LATE_MS - 1)
    assert world.tidying.vacuum() == 0
    world.wait(1)
    assert world.tidying.vacuum() == 1


@pytest.mark.usefixtures("at_once")
def test_a_step_that_the_scheduler_executes_is_left_to_it(world: World) -> None:
    world.produce("a")
    world.wait(DAY_MS)
    log, now_ms = world.catalog.log, world.catalog.clock.now_ms()
    acquire(log, f"vacuum/{SHARED}", "a scheduler", now_ms)
    assert (world.tidying.vacuum(), world.shared) == (0, 1)


@pytest.mark.usefixtures("at_once")
def test_one_of_the_instances_vacuums_shared_segments(world: World) -> None:
    brokers = {n: Broker(n, "", (Endpoint("PLAINTEXT", "h", n),), None) for n in (0, 1)}
    world.catalog.log.commit(lambda _: Edit(operation="TEST", brokers=brokers))
    leader = leader_of(SHARED, [Instance(n, "h", n) for n in brokers]).node_id
    world.gateway.append(("t", 0, client_batch("a")))
    world.wait(HOUR_MS)
    both = [Tidying(world.catalog, number) for number in brokers]
    assert sum(one.tidy_topics() for one in both) == 1
    world.wait(DAY_MS)
    assert both[1 - leader].vacuum() == 0
    assert both[leader].vacuum() == 1


@pytest.mark.usefixtures("at_once")
def test_a_topic_that_cannot_be_listed_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.produce("a", producer_id=7, producer_epoch=0, base_sequence=0)
    world.wait(DAY_MS)
    listing = LocalFiles.list

    def refuse(files: LocalFiles, directory: str, recursive: bool = False) -> Iterator[FileStat]:
        if directory.startswith("t-"):
            raise StoragePermissionError(f"cannot list {directory}")
        return listing(files, directory, recursive)

    monkeypatch.setattr(LocalFiles, "list", refuse)
    assert (world.tidying.vacuum(), world.shared) == (1, 0)
    assert "t was not vacuumed: cannot list" in caplog.text


def test_a_problem_is_told_and_no_step_follows_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = Outcome(counts={"segments": 2}, problems=["a file could not be deleted"])

    def step(number: int) -> Step:
        if number == 1:
            world.tidying.ending.set()
        return Step(topic="t", rows=[], execute=lambda: outcome)

    def steps(*_: object, **__: object) -> Iterator[Step]:
        return map(step, range(3))

    monkeypatch.setattr(tidying, "overdue_steps", steps)
    assert world.tidying.vacuum() == 4
    assert "t was not vacuumed: a file could not be deleted" in caplog.text
