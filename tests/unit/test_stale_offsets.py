"""Committed offsets of a deleted topic do not apply to a new topic of its name."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, CommittedOffset, NewTopic
from sparklog.clock import ManualClock
from sparklog.coordinator.offsets import offset_record
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.edit import PartitionState, TopicEdit
from sparklog.metadata.log_clock import LogClock
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.group_logs import append_records

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

    def test_one_by_one_neither(self, world: World, behind: AdminClient) -> None:
        world.delete("flights")
        world.clock.advance(1)
        world.make("trucks")
        behind.each.create_topics([NewTopic("flights", 1)])
        assert world.committed == ONLY_TRAINS


class TestLogClock:
    def test_tells_the_time(self, world: World) -> None:
        catalog = world.catalog
        assert LogClock(world.clock, catalog.log).now_ms() == world.clock.now_ms()
        catalog.image()
        world.clock.advance(5)
        assert LogClock(world.clock, catalog.log).now_ms() == world.clock.now_ms()

    def test_but_none_before_the_newest_entry(self, world: World) -> None:
        catalog, late = world.catalog, ManualClock(0)
        catalog.image()
        assert LogClock(late, catalog.log).now_ms() == world.clock.now_ms()

    def test_passes_the_rest_on(self, world: World) -> None:
        clock = LogClock(world.clock, world.catalog.log)
        before_ms = clock.boot_ms()
        clock.sleep_ms(5)
        assert clock.boot_ms() == world.clock.boot_ms() == before_ms + 5
