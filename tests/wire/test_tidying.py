"""An instance keeps the ends of the logs tidy that it leads."""

from itertools import pairwise
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.coordinator.placement import partition_of
from sparklog.errors import StorageError
from sparklog.maintenance import compact
from sparklog.maintenance.job import Outcome
from sparklog.maintenance.tail import SLICES_MAX
from sparklog.metadata.image import PartitionLog
from sparklog.testing import TemporaryLogDir
from sparklog.wire import tidying
from tests.client_batches import client_batch
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import GroupMember, alone
from tests.wire.test_produce import produce_request


def produced(client: Client, count: int) -> None:
    for number in range(count):
        client.ask(produce_request(9, "t", (0, client_batch(str(number)))))


def test_slices_become_a_segment(running: RunningGateway, client: Client, tmp_path: Path) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    produced(client, SLICES_MAX + 1)
    running.server.gateway.tidying.tidy_topics()
    catalog = running.server.gateway.catalog
    assert not any(one.is_shared for one in catalog.partition(catalog.topic("t"), 0).entries())
    values = TemporaryLogDir(tmp_path / "log")["t"].values()
    assert values == [str(number).encode() for number in range(SLICES_MAX + 1)]


def test_it_happens_while_the_gateway_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidying, "INTERVAL_S", 0.001)
    with gateway(tmp_path / "log") as running, Client(running.port) as client:
        found = running.server.gateway
        found.admin.create_topics([NewTopic("t", 1)])
        count = 0
        while not found.tidying.merged:
            produced(client, SLICES_MAX)
            count += SLICES_MAX
    assert len(TemporaryLogDir(tmp_path / "log")["t"].values()) == count


@pytest.mark.parametrize("kind", [StorageError, ValueError])
def test_an_error_is_told_to_the_log(
    running: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    def fails(*_: object) -> None:
        raise kind("the disk is gone")

    monkeypatch.setattr(tidying, "merge_tails", fails)
    running.server.gateway.tidying.tidy_topics()
    assert "the disk is gone" in caplog.text


def test_a_problem_of_a_merge_is_told_to_the_log(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = Outcome(counts={"segments": 0}, problems=["a slice is damaged"])
    monkeypatch.setattr(tidying, "merge_tails", lambda *_: [found])
    running.server.gateway.tidying.tidy_topics()
    assert "a tail was not merged: a slice is damaged" in caplog.text


def test_it_stops_between_two_merges_when_the_gateway_ends(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = running.server.gateway.tidying

    def merge(count: int) -> Outcome:
        own.is_ending = count == 2
        return Outcome(counts={"segments": count})

    monkeypatch.setattr(tidying, "merge_tails", lambda *_: map(merge, (1, 2, 4)))
    before = own.merged
    own.tidy_topics()
    assert own.merged - before == 3


def test_groups_are_tidied_while_the_gateway_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "INTERVAL_S", 0.001)
    monkeypatch.setattr(tidying, "GROUPS_RUNS", 1)
    with gateway(tmp_path / "log") as running, Client(running.port) as client:
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        member, offset = alone(client), 0
        while not running.server.gateway.tidying.merged:
            offset += 1
            assert member.commit({("t", 0): offset}) == [ErrorCode.none]
    assert offset > SLICES_MAX / 2


class TestGroups:
    @pytest.fixture(autouse=True)
    def always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tidying, "INTERVAL_S", 3600)  # only the tests tidy
        monkeypatch.setattr(tidying, "COMPACT_LOOKS", 1)
        monkeypatch.setattr(tidying, "GROUPS_RUNS", 1)

    @pytest.fixture
    def commits(self, running: RunningGateway, client: Client) -> GroupMember:
        """A member that has committed 40 times, among them slices that became a segment."""
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        member = alone(client)
        for offset in range(SLICES_MAX + 8):
            assert member.commit({("t", 0): offset}) == [ErrorCode.none]
        running.server.gateway.tidying.tidy_groups()
        return member

    def test_the_partitions_are_merged_in_their_turn(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "GROUPS_RUNS", 2)
        for offset in range(SLICES_MAX + 8):
            assert commits.commit({("t", 0): offset}) == [ErrorCode.none]
        own = running.server.gateway.tidying
        merged = [own.merged]
        for _ in range(2):
            own.tidy_groups()
            merged.append(own.merged)
        assert merged[0] > SLICES_MAX
        assert sorted({second - first > SLICES_MAX for first, second in pairwise(merged)}) == [
            False,
            True,
        ]

    def test_an_instance_compacts_its_own(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = offsets_log(running)
        assert (before.cleaner_offset, running.server.gateway.tidying.compacted) == (0, 0)
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        running.server.gateway.tidying.tidy_groups()
        log = offsets_log(running)
        assert running.server.gateway.tidying.compacted == 1
        assert log.cleaner_offset > SLICES_MAX
        assert log.log_end_offset == before.log_end_offset
        assert sum(one.record_count or 0 for one in log.entries()) < 12
        assert commits.heartbeat() is ErrorCode.none
        assert commits.commit({("t", 0): 99}) == [ErrorCode.none]
        read = running.server.gateway.admin.list_consumer_group_offsets("readers")
        assert [one and one.offset for one in read.values()] == [99]

    def test_nothing_is_compacted_when_the_gateway_ends(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        own = running.server.gateway.tidying
        own.is_ending = True
        own.tidy_groups()
        assert own.compacted == 0
        own.is_ending = False
        own.tidy_groups()
        assert own.compacted == 1

    def test_what_is_not_dirty_enough_is_left(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        for _ in range(2):
            running.server.gateway.tidying.tidy_groups()
        assert running.server.gateway.tidying.compacted == 1

    def test_a_problem_is_told_to_the_log(
        self,
        running: RunningGateway,
        commits: GroupMember,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        found = Outcome(problems=["a segment is damaged"])
        monkeypatch.setattr(compact, "compact_partition", lambda *_: found)
        running.server.gateway.tidying.tidy_groups()
        assert "was not compacted: a segment is damaged" in caplog.text


def offsets_log(running: RunningGateway) -> PartitionLog:
    """The partition of the group `readers`."""
    catalog = running.server.gateway.catalog
    topic = catalog.topic("__consumer_offsets")
    return catalog.partition(topic, partition_of("readers", topic.num_partitions))
