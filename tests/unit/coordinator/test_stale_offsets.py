"""Committed offsets of a deleted topic do not apply to a new topic of its name."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, CommittedOffset, NewTopic
from sparklog.admin.groups import GroupAdmin
from sparklog.admin.lags import Lags
from sparklog.clock import ManualClock
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.lag_state import LagState
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import PartitionState, TopicEdit
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.group_logs import append_records
from tests.logs import append_to, columns

FLIGHTS, TRAINS = TopicPartition("flights", 0), TopicPartition("trains", 0)


class World:
    """A log dir, and a group that has committed offsets of two topics in it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.clock = ManualClock()
        self.admin = AdminClient(self.path, clock=self.clock)
        self.make("flights")
        self.make("trains")
        self.commit(7)

    def make(self, name: str, admin: AdminClient | None = None) -> None:
        self.clock.advance(1)
        (admin or self.admin).create_topics([NewTopic(name, 1)])

    def delete(self, name: str) -> None:
        self.clock.advance(1)
        self.admin.delete_topics([name])

    def commit(self, offset: int, admin: AdminClient | None = None) -> None:
        self.clock.advance(1)
        found = admin or self.admin
        found.alter_consumer_group_offsets("readers", {FLIGHTS: offset, TRAINS: offset})

    @property
    def catalog(self) -> Catalog:
        return Catalog(open_files(self.path), self.clock, flush=False)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        found = self.admin.list_consumer_group_offsets("readers")
        return {place: one.offset for place, one in found.items() if one is not None}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "log")


BOTH, ONLY_TRAINS = {FLIGHTS: 7, TRAINS: 7}, {TRAINS: 7}


def test_a_new_topic_has_none(world: World) -> None:
    world.delete("flights")
    world.make("flights")
    assert world.committed == ONLY_TRAINS


def test_its_groups_have_no_lag_there(world: World) -> None:
    world.delete("flights")
    world.make("flights")
    lags = world.admin.consumer_group_lags(["readers"])["readers"]
    assert [one.partition for one in lags] == [TRAINS]


def test_it_gets_those_that_are_committed_since_then(world: World) -> None:
    world.delete("flights")
    world.make("flights")
    world.commit(1)
    assert world.committed == {FLIGHTS: 1, TRAINS: 1}


def test_they_are_there_while_no_topic_has_the_name(world: World) -> None:
    world.delete("flights")
    assert world.committed == BOTH


def test_they_are_there_when_the_topic_is_undeleted(world: World) -> None:
    world.delete("flights")
    world.admin.undelete_topic("flights")
    assert world.committed == BOTH


def test_an_imported_topic_has_them(world: World) -> None:
    world.delete("flights")
    world.make("flights")
    state = PartitionState(log_end_offset=9, imported_end_offset=9)
    topic = world.catalog.topic("flights")
    world.catalog.commit(topic, lambda _: TopicEdit(partitions={0: state}), operation="IMPORT")
    assert world.committed == BOTH


def test_those_older_than_consumer_offsets_were_committed_at_a_broker(world: World) -> None:
    catalog = world.catalog
    offset = CommittedOffset(3, committed_ms=catalog.topic(OFFSETS_TOPIC).created_ms - 1)
    append_records(catalog, [offset_record("old", FLIGHTS, offset)], "old")
    world.delete("flights")
    world.make("flights")
    [(place, found)] = world.admin.list_consumer_group_offsets("old").items()
    assert (place, found and found.offset) == (FLIGHTS, 3)


def test_the_first_offset_stays(world: World) -> None:
    world.commit(0)
    world.delete("flights")
    world.make("flights")
    assert world.committed == {FLIGHTS: 0, TRAINS: 0}


class TestLags:
    """The old topic had commits up to 10; the new one has twelve records."""

    @pytest.fixture(autouse=True)
    def made_anew(self, world: World) -> None:
        for offset in (8, 9, 10):
            world.clock.advance(60_000)
            world.commit(offset)
        world.delete("flights")
        world.make("flights")
        append_to(world.catalog, 0, columns(range(12)), topic="flights")

    def test_have_no_past(self, world: World) -> None:
        world.clock.advance(60_000)
        world.commit(1)
        world.clock.advance(60_000)
        history = Lags(world.catalog, GroupAdmin(world.catalog)).history
        points = history.of("readers", lambda name: name == "flights")
        assert {one.lag for one in points} == {None, 11}

    def test_do_not_go_back(self, world: World) -> None:
        world.admin.consumer_group_lags(["readers"])
        for offset in (1, 2, 3):
            world.clock.advance(60_000)
            world.commit(offset)
        lags = world.admin.consumer_group_lags(["readers"])["readers"]
        [state] = [one.state for one in lags if one.partition == FLIGHTS]
        assert state is not LagState.REWIND


class TestClocksThatDiffer:
    """One machine's clock is a day behind."""

    @pytest.fixture
    def behind(self, world: World) -> AdminClient:
        return AdminClient(world.path, clock=ManualClock(world.clock.now_ms() - 86_400_000))

    def test_a_commit_is_not_before_the_creation(self, world: World, behind: AdminClient) -> None:
        world.delete("flights")
        world.make("flights")
        world.commit(1, behind)
        assert world.committed == {FLIGHTS: 1, TRAINS: 1}

    def test_a_creation_is_not_before_a_commit(self, world: World, behind: AdminClient) -> None:
        world.delete("flights")
        world.clock.advance(1)
        world.make("trucks")
        world.make("flights", behind)
        assert world.committed == ONLY_TRAINS

    def test_nor_if_all_clocks_are_behind(self, world: World, behind: AdminClient) -> None:
        """Goal: the times of entries go on, also while no clock has reached the newest one."""
        world.commit(9, behind)
        behind.delete_topics(["flights"])
        behind.create_topics([NewTopic("flights", 1)])
        assert world.committed == {TRAINS: 9}
        world.commit(1, behind)
        assert world.committed == {FLIGHTS: 1, TRAINS: 1}

    def test_one_by_one_neither(self, world: World, behind: AdminClient) -> None:
        world.delete("flights")
        world.clock.advance(1)
        world.make("trucks")
        behind.each.create_topics([NewTopic("flights", 1)])
        assert world.committed == ONLY_TRAINS
