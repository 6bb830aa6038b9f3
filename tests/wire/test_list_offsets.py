"""ListOffsets and OffsetForLeaderEpoch, in every version that is served."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.edit import EpochStart, OpenTransaction, PartitionState, TopicEdit
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage import open_files
from sparklog.testing import Record, TemporaryLogDir
from sparklog.wire.handlers.partitions import QUICK
from sparklog.wire.handlers.records.list_offsets import TOGETHER
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing_later
from tests.wire.gateways import Client, RunningGateway, check_others_are_answered, gateway
from tests.wire.requests import SOON, body, part, versions

LATEST, EARLIEST, NEWEST_TIME, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def list_request(
    version: int, *asked: tuple[str, int, int], committed: bool = False, epoch: int = -1
) -> Any:
    """A request; each topic, partition and time is asked for."""
    api, topics = ApiKey.LIST_OFFSETS, list[Any]()
    for name, partition, time in asked:
        fields = {"partition_index": partition, "timestamp": time, "current_leader_epoch": epoch}
        parts = (part(api, version, "ListOffsetsPartition", **fields),)
        topics.append(part(api, version, "ListOffsetsTopic", name=name, partitions=parts))
    told = {"topics": tuple(topics), "isolation_level": int(committed), "timeout": SOON}
    return body(api, version, replica_id=-1, **told)


@pytest.fixture
def no_disk(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage fails."""
    monkeypatch.setattr(
        running.server.gateway, "newest_image", failing_later(StorageError, "the disk is gone")
    )


def answers(answer: Any) -> list[tuple[int, int, int]]:
    """Error code, timestamp and offset of each partition."""
    return [
        (int(one.error_code), one.timestamp, one.offset)
        for topic in answer.topics
        for one in topic.partitions
    ]


def asked(client: Client, time: int, version: int = 10, **options: Any) -> tuple[int, int, int]:
    [found] = answers(client.ask(list_request(version, ("flights", 0, time), **options)))
    return found


@pytest.fixture
def flights(running: RunningGateway, tmp_path: Path) -> None:
    """Records of the times 10, 30 and 20 from offset 1 on, of two leader epochs."""
    log_dir = TemporaryLogDir(tmp_path / "log")
    topic = log_dir.topic("flights")
    for time in (0, 10, 30, 20):
        topic.produce(Record("x", timestamp=time))
    edit(running, partitions={0: PartitionState(log_start_offset=1, leader_epoch=3)})
    edit(running, epochs={0: (EpochStart(1, 1), EpochStart(3, 3))})


def test_a_topic_whose_rows_are_in_a_fold_is_opened(tmp_path: Path) -> None:
    TemporaryLogDir(tmp_path / "log").topic("flights").produce("a", "b")
    fold(Catalog(open_files(str(tmp_path / "log"))).log)
    with gateway(tmp_path / "log") as running, Client(running.port) as client:
        assert asked(client, LATEST) == (0, -1, 2)


def edit(running: RunningGateway, **fields: Any) -> None:
    catalog = running.server.gateway.catalog
    topic = catalog.topic("flights")
    catalog.commit(topic, lambda _: TopicEdit(**fields), operation="TEST")


@pytest.mark.usefixtures("flights")
class TestListOffsets:
    @pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
    def test_tells_offsets(self, client: Client, version: int) -> None:
        times = (EARLIEST, LATEST, 0, 11, 31)
        found = [asked(client, time, version) for time in times]
        assert found == [(0, -1, 1), (0, -1, 4), (0, 10, 1), (0, 30, 2), (0, -1, -1)]

    @pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
    @pytest.mark.parametrize(
        ("time", "since", "expected"),
        [
            (NEWEST_TIME, 7, (0, 30, 2)),
            (EARLIEST_LOCAL, 8, (0, -1, 1)),
            (LATEST_TIERED, 9, (0, -1, -1)),
            (-6, 99, (0, -1, -1)),
        ],
    )
    def test_a_special_time_has_its_first_version(
        self, client: Client, time: int, since: int, expected: tuple[int, int, int], version: int
    ) -> None:
        refused = (ErrorCode.unsupported_version, -1, -1)
        assert asked(client, time, version) == (expected if version >= since else refused)

    def test_tells_leader_epochs(self, client: Client) -> None:
        times = (EARLIEST, LATEST, 11, 31)
        found = [client.ask(list_request(10, ("flights", 0, time))) for time in times]
        assert [one.topics[0].partitions[0].leader_epoch for one in found] == [1, 3, 1, -1]

    def test_a_reader_of_committed_records_ends_at_the_last_stable_offset(
        self, running: RunningGateway, client: Client
    ) -> None:
        edit(running, transactions={0: (OpenTransaction(7, 2),)})
        found = [asked(client, time, committed=True) for time in (LATEST, 11, 10)]
        assert found == [(0, -1, 2), (0, -1, -1), (0, 10, 1)]

    def test_an_end_is_the_newest(self, client: Client, tmp_path: Path) -> None:
        for number in range(4, 8):
            assert asked(client, LATEST) == (0, -1, number)
            TemporaryLogDir(tmp_path / "log")["flights"].produce("x")

    @pytest.mark.parametrize(("name", "partition"), [("flights", 1), ("flights", -1), ("no", 0)])
    def test_what_is_not_there_is_unknown(self, client: Client, name: str, partition: int) -> None:
        [found] = answers(client.ask(list_request(10, (name, partition, LATEST))))
        assert found == (ErrorCode.unknown_topic_or_partition, -1, -1)

    def test_a_partition_is_asked_for_once(self, client: Client) -> None:
        twice = [("flights", 0, LATEST), ("flights", 0, EARLIEST)]
        found = answers(client.ask(list_request(10, *twice)))
        assert found == [(ErrorCode.invalid_request, -1, -1)] * 2

    @pytest.mark.parametrize(
        ("epoch", "error"),
        [(2, ErrorCode.fenced_leader_epoch), (3, 0), (4, ErrorCode.unknown_leader_epoch)],
    )
    def test_the_leader_epoch_is_checked(self, client: Client, epoch: int, error: int) -> None:
        assert asked(client, LATEST, epoch=epoch)[0] == error

    def test_many_partitions_do_not_keep_other_clients_waiting(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        many = [("flights", number, LATEST) for number in range(QUICK + 1)]
        slow = import_module("sparklog.wire.handlers.records.list_offsets"), "_at"
        key, asked = ApiKey.LIST_OFFSETS, list_request(10, *many)
        check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
        unknown = (ErrorCode.unknown_topic_or_partition, -1, -1)
        assert answers(client.receive(key, 10)) == [(0, -1, 4), *[unknown] * QUICK]

    def test_times_of_many_partitions_have_their_answers(
        self, client: Client, tmp_path: Path
    ) -> None:
        count = TOGETHER + 2
        log_dir = TemporaryLogDir(tmp_path / "log")
        topic = log_dir.topic("many", partitions=count)
        topic.produce(*[Record("x", partition=one, timestamp=one) for one in range(count)])
        found = answers(client.ask(list_request(10, *[("many", one, 1) for one in range(count)])))
        assert found == [(0, -1, -1), *[(0, one, 0) for one in range(1, count)]]

    @pytest.mark.usefixtures("no_disk")
    def test_a_storage_that_fails_is_told(self, client: Client) -> None:
        assert asked(client, LATEST) == (ErrorCode.kafka_storage_error, -1, -1)

    def test_damage_is_told(
        self, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for path in (tmp_path / "log").rglob("*.log"):
            path.write_bytes(bytes(path.stat().st_size))
        assert asked(client, 11)[0] == ErrorCode.corrupt_message
        assert "LIST_OFFSETS failed: " in caplog.text


@pytest.mark.usefixtures("flights")
class TestOffsetForLeaderEpoch:
    def asked(
        self, version: int, epoch: int, *numbers: int, topic: str = "flights", current: int = -1
    ) -> Any:
        """A request for partitions of a topic."""
        api = ApiKey.OFFSET_FOR_LEADER_EPOCH
        epochs = {"current_leader_epoch": current, "leader_epoch": epoch}
        parts = tuple(
            part(api, version, "OffsetForLeaderPartition", partition=number, **epochs)
            for number in numbers
        )
        topics = (part(api, version, "OffsetForLeaderTopic", topic=topic, partitions=parts),)
        return body(api, version, topics=topics)

    def ask(
        self, client: Client, version: int, epoch: int, partition: int = 0, **fields: Any
    ) -> tuple[int, int, int]:
        answer = client.ask(self.asked(version, epoch, partition, **fields))
        [found] = answer.topics[0].partitions
        return int(found.error_code), found.leader_epoch, found.end_offset

    @pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
    def test_tells_where_an_epoch_ends(self, client: Client, version: int) -> None:
        found = [self.ask(client, version, epoch) for epoch in (1, 2, 3, 4)]
        assert found == [(0, 1, 3), (0, 1, 3), (0, 3, 4), (0, -1, -1)]

    def test_an_empty_partition_has_the_leaders_epoch(
        self, running: RunningGateway, client: Client
    ) -> None:
        running.server.gateway.admin.create_topics([NewTopic("new")])
        assert self.ask(client, 4, 0, topic="new") == (0, 0, 0)

    def test_what_is_not_there_is_unknown(self, client: Client) -> None:
        unknown = (ErrorCode.unknown_topic_or_partition, -1, -1)
        assert self.ask(client, 4, 1, topic="no") == unknown
        assert self.ask(client, 4, 1, partition=1) == unknown

    def test_the_leader_epoch_is_checked(self, client: Client) -> None:
        assert self.ask(client, 4, 1, current=2) == (ErrorCode.fenced_leader_epoch, -1, -1)
        assert self.ask(client, 4, 1, current=4) == (ErrorCode.unknown_leader_epoch, -1, -1)

    @pytest.mark.usefixtures("no_disk")
    def test_a_storage_that_fails_is_told(self, client: Client) -> None:
        assert self.ask(client, 4, 1) == (ErrorCode.kafka_storage_error, -1, -1)

    def test_many_partitions_do_not_keep_other_clients_waiting(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = import_module("sparklog.wire.handlers.records.leader_epochs"), "_answer"
        asked = self.asked(4, 1, *range(QUICK + 1))
        check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
        answer = client.receive(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        assert [one.end_offset for one in answer.topics[0].partitions] == [3, *[-1] * QUICK]
