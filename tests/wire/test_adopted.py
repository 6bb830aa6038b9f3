"""A broker's __consumer_offsets is imported: members and offsets of its groups go on here."""

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import CorruptionError, InvalidOptionError, LogDirError
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.interop.imports.import_log import ImportOptions, PartitionReport, import_log_dirs
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.wire.gateways import Client, gateway
from tests.wire.grouping import GroupMember, alone

FLIGHTS = ("flights", 0)
QUICK = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 3}
BOTH = ("flights", OFFSETS_TOPIC)


class Move:
    """Groups that lived elsewhere, as a broker's directory, and the log dir to adopt them."""

    def __init__(self, folder: Path) -> None:
        self.broker = folder / "broker"
        self.others: list[str] = []
        """Directories of other brokers of the same cluster."""
        self.log_dir = folder / "log"
        old = folder / "old"
        AdminClient(old).create_topics([NewTopic("flights", 1)])
        with gateway(old, **QUICK) as running, Client(running.port) as client:
            self.member = alone(client)
            assert self.member.commit({FLIGHTS: 7}) == [ErrorCode.none]
            assert GroupMember(client, "simple").commit({FLIGHTS: 2}) == [ErrorCode.none]
        catalog = Catalog(open_files(str(old)))
        export_to(catalog, str(self.broker), ExportOptions(topics=BOTH))

    def adopt(self, *topics: str, **config: str) -> list[PartitionReport]:
        admin, catalog = AdminClient(self.log_dir), Catalog(open_files(str(self.log_dir)))
        options = ImportOptions(topics=topics, config=config)
        return import_log_dirs(admin, catalog, [str(self.broker), *self.others], options)

    def partition(self, number: int) -> Path:
        return self.broker / f"{OFFSETS_TOPIC}-{number}"


@pytest.fixture
def move(tmp_path: Path) -> Move:
    return Move(tmp_path)


def test_a_member_goes_on_in_its_generation(move: Move) -> None:
    assert [one.problem for one in move.adopt(*BOTH)] == [None] * 4
    with gateway(move.log_dir, **QUICK) as running, Client(running.port) as client:
        member = move.member
        member.client = client
        assert member.heartbeat() is ErrorCode.none
        assert bytes(member.sync().assignment) == b"everything"
        assert member.committed() == {FLIGHTS: 7}
        assert member.commit({FLIGHTS: 8}) == [ErrorCode.none]
        assert GroupMember(client, "simple").committed() == {FLIGHTS: 2}
    assert AdminClient(move.log_dir).describe_topics([OFFSETS_TOPIC])[0].num_partitions == 3


def test_the_partitions_of_several_brokers_are_one_topic(move: Move, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for number in (0, 2):
        move.partition(number).rename(other / move.partition(number).name)
    move.others.append(str(other))
    assert [one.problem for one in move.adopt(*BOTH)] == [None] * 4
    with gateway(move.log_dir, **QUICK) as running, Client(running.port) as client:
        move.member.client = client
        assert move.member.commit({FLIGHTS: 8}) == [ErrorCode.none]
        assert GroupMember(client, "simple").committed() == {FLIGHTS: 2}


def test_what_came_since_is_taken_until_a_group_has_gone_on_here(move: Move) -> None:
    move.adopt(*BOTH)
    assert [one.problem for one in move.adopt(*BOTH)] == [None] * 4
    with gateway(move.log_dir, **QUICK) as running, Client(running.port) as client:
        assert GroupMember(client, "simple").commit({FLIGHTS: 3}) == [ErrorCode.none]
    problems = [one.problem for one in move.adopt(OFFSETS_TOPIC)]
    assert len([one for one in problems if one is not None]) == 1


class TestRefused:
    def test_a_topic_that_is_not_whole(self, move: Move) -> None:
        move.partition(1).rename(move.broker / "elsewhere-1")
        with pytest.raises(LogDirError, match="2 of at least 3 partitions"):
            move.adopt(OFFSETS_TOPIC)

    def test_a_partition_that_is_none(self, move: Move, tmp_path: Path) -> None:
        move.partition(2).rename(tmp_path / "elsewhere")
        move.partition(2).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(CorruptionError, match="symbolic link"):
            move.adopt(OFFSETS_TOPIC)

    def test_another_number_of_partitions(self, move: Move) -> None:
        with (
            gateway(move.log_dir, offsets_topic_num_partitions=5) as running,
            Client(running.port) as client,
        ):
            alone(client)
        with pytest.raises(LogDirError, match="5 partitions here and 3 there"):
            move.adopt(OFFSETS_TOPIC)

    def test_configs(self, move: Move) -> None:
        with pytest.raises(InvalidOptionError, match="configs of its own"):
            move.adopt(OFFSETS_TOPIC, **{"retention.ms": "1"})
