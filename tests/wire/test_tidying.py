"""The housekeeper of an instance keeps the ends of the logs tidy that the instance leads."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.coordinator.offsets_topic import claim, offsets_topic
from sparklog.coordinator.placement import partition_of
from sparklog.errors import StorageError
from sparklog.maintenance.compaction import compact
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.merging.tail import SLICES_MAX
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import PartitionLog
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import TopicDescription
from sparklog.service import housekeeper
from sparklog.service.housekeeper import Service
from sparklog.storage import open_files
from sparklog.testing import TemporaryLogDir
from sparklog.wire import tidying
from sparklog.wire.tidying import Tidying, keep
from tests.client_batches import client_batch
from tests.failing import failing
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import GroupMember, alone
from tests.wire.processes import children, gateway_process, is_alive
from tests.wire.test_produce import produce_request


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the processes of housekeepers from starting: only the tests tidy."""
    monkeypatch.setattr(housekeeper, "SMALL_GROWTH_MS", 3_600_000)
    monkeypatch.setattr(housekeeper, "GROWTH", 1_000_000)


def produced(client: Client, count: int, topic: str = "t") -> None:
    for number in range(count):
        client.ask(produce_request(9, topic, (0, client_batch(str(number)))))


def slices_of(log_dir: Path) -> int:
    catalog = Catalog(open_files(str(log_dir)))
    return sum(one.is_shared for one in catalog.partition(catalog.topic("t"), 0).entries())


def test_slices_become_a_segment(running: RunningGateway, client: Client, tmp_path: Path) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    produced(client, SLICES_MAX + 1)
    running.tidying.tidy_topics()
    assert slices_of(tmp_path / "log") == 0
    values = TemporaryLogDir(tmp_path / "log")["t"].values()
    assert values == [str(number).encode() for number in range(SLICES_MAX + 1)]


def test_a_topic_is_merged_that_was_touched_since_the_first_look(
    running: RunningGateway, client: Client
) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    produced(client, SLICES_MAX + 1)
    fold(running.server.gateway.catalog.log)
    assert running.tidying.tidy_topics() == 0
    produced(client, 1)
    fold(running.server.gateway.catalog.log)
    assert running.tidying.tidy_topics() == SLICES_MAX + 2


def test_each_instance_merges_what_it_leads(tmp_path: Path) -> None:
    with gateway(tmp_path / "log") as first, gateway(tmp_path / "log") as second:
        first.server.gateway.admin.create_topics([NewTopic(f"t{n}", 1) for n in range(6)])
        with Client(first.port) as client:
            for number in range(6):
                produced(client, SLICES_MAX + 1, f"t{number}")
        merged = [one.tidying.tidy_topics() for one in (first, second)]
    assert sum(merged) == 6 * (SLICES_MAX + 1)
    assert all(merged)


@pytest.mark.parametrize("kind", [StorageError, ValueError])
def test_an_error_is_told_to_the_log(
    running: RunningGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    monkeypatch.setattr(tidying, "merge_tails", failing(kind, "the disk is gone"))
    running.tidying.tidy_topics()
    assert "the disk is gone" in caplog.text


def test_an_error_that_lasts_does_not_fill_the_log(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tidying, "merge_tails", failing(StorageError, "the disk is gone"))
    for _ in range(3):
        running.tidying.tidy_topics()
    assert caplog.messages == ["a merge, compaction or vacuum failed: the disk is gone"]


def test_a_run_that_fails_is_no_round(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[None] = []
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    produced(client, 1)
    tidies = Tidying(running.server.gateway.catalog, 0, lambda: rounds.append(None))
    tidies.tidy_topics()
    assert len(rounds) == 1
    monkeypatch.setattr(tidying, "merge_tails", lambda *_: 1 / 0)
    tidies.tidy_topics()
    assert len(rounds) == 1


def test_a_problem_of_a_merge_is_told_to_the_log(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problems = ["a-b-0: damaged", "a-b-1: damaged", "c-0: gone: d"]
    found = [Outcome(counts={"segments": 0}, problems=[one]) for one in problems]
    monkeypatch.setattr(tidying, "merge_tails", lambda *_: found)
    for _ in range(2):
        running.tidying.tidy_topics()
    some = "a-b-1: damaged; c-0: gone: d"
    assert caplog.messages == [f"tails that were not merged: 3, such as {some}"]


def test_a_problem_before_an_error_is_told_to_the_log(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def merges(*_: object) -> Iterator[Outcome]:
        yield Outcome(counts={"segments": 0}, problems=["t-0: damaged"])
        raise StorageError("the disk is gone")

    monkeypatch.setattr(tidying, "merge_tails", merges)
    running.tidying.tidy_topics()
    assert caplog.messages == [
        "tails that were not merged: 1, such as t-0: damaged",
        "a merge, compaction or vacuum failed: the disk is gone",
    ]


def test_a_trouble_of_merges_does_not_hide_one_of_vacuum(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("merge_tails", "overdue_steps"):
        monkeypatch.setattr(tidying, name, failing(StorageError, "the disk is gone"))
    running.tidying.tidy_topics()
    running.tidying.vacuum()
    assert len(caplog.messages) == 2


def test_it_stops_between_two_merges_when_the_gateway_ends(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge(count: int) -> Outcome:
        if count == 2:
            running.tidying.ending.set()
        return Outcome(counts={"segments": count})

    monkeypatch.setattr(tidying, "merge_tails", lambda *_: map(merge, (1, 2, 4)))
    assert running.tidying.tidy_topics() == 3


class TestGroups:
    @pytest.fixture(autouse=True)
    def always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tidying, "COMPACT_EVERY", 1)
        monkeypatch.setattr(tidying, "MERGE_ALL_EVERY", 1)

    @pytest.fixture
    def running(self, tmp_path: Path) -> Iterator[RunningGateway]:
        with gateway(tmp_path / "log", group_initial_rebalance_delay_ms=0) as found:
            yield found

    @pytest.fixture
    def commits(self, running: RunningGateway, client: Client) -> GroupMember:
        """A member that has committed 40 times, among them slices that became a segment."""
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        member = alone(client)
        for offset in range(SLICES_MAX + 8):
            assert member.commit({("t", 0): offset}) == [ErrorCode.none]
        assert running.tidying.tidy_groups() > SLICES_MAX
        return member

    def test_there_is_nothing_to_do_before_the_first_group(self, running: RunningGateway) -> None:
        assert (running.tidying.tidy_groups(), running.tidying.compact_groups()) == (0, 0)

    def test_the_partitions_are_merged_in_their_turn(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "MERGE_ALL_EVERY", 2)
        for offset in range(SLICES_MAX + 8):
            assert commits.commit({("t", 0): offset}) == [ErrorCode.none]
        merged = sorted(running.tidying.tidy_groups() for _ in range(2))
        assert merged[0] == 0
        assert merged[1] > SLICES_MAX

    def test_the_problems_of_a_round_have_one_line_beside_those_of_topics(
        self,
        running: RunningGateway,
        commits: GroupMember,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        found = Outcome(counts={"segments": 0}, problems=["t-0: damaged"])
        for name in ("merge_tails", "merge_tails_in_turn"):
            monkeypatch.setattr(tidying, name, lambda *_, **__: [found])
        caplog.clear()
        running.tidying.tidy_groups()
        running.tidying.tidy_topics()
        assert caplog.messages == [
            f"tails that were not merged: {count}, such as t-0: damaged" for count in (5, 1)
        ]

    def test_an_instance_compacts_its_own(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = offsets_log(running)
        assert before.cleaner_offset == 0
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        running.tidying.tidy_groups()
        log = offsets_log(running)
        assert log.cleaner_offset > SLICES_MAX
        assert log.log_end_offset == before.log_end_offset
        assert sum(one.record_count or 0 for one in log.entries()) < 12
        assert commits.heartbeat() is ErrorCode.none
        assert commits.commit({("t", 0): 99}) == [ErrorCode.none]
        read = running.server.gateway.admin.list_consumer_group_offsets("readers")
        assert [one and one.offset for one in read.values()] == [99]

    def test_instances_share_the_partitions_whoever_leads_the_topic(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []

        def compacted(_: JobContext, __: TopicDescription, number: int) -> None:
            asked.append(number)

        monkeypatch.setattr(tidying, "DIRTY_BYTES", 0)
        monkeypatch.setattr(compact, "compact_partition", compacted)
        with gateway(tmp_path / "log") as first, gateway(tmp_path / "log") as second:
            catalog = first.server.gateway.catalog
            topic = offsets_topic(catalog, catalog.clock, 20)
            for number in range(20):
                claim(catalog, topic, number)
            counts = []
            for one in (first, second):
                one.tidying.compact_groups()
                counts.append(len(asked))
        assert sorted(asked) == list(range(20))
        assert 0 < counts[0] < counts[1]

    def test_nothing_is_merged_or_compacted_when_the_gateway_ends(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        running.tidying.ending.set()
        assert (running.tidying.tidy_groups(), running.tidying.compact_groups()) == (0, 0)
        running.tidying.ending.clear()
        assert running.tidying.compact_groups() == 1

    def test_what_is_not_dirty_enough_is_left(
        self, running: RunningGateway, commits: GroupMember, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "DIRTY_BYTES", 1)
        assert [running.tidying.compact_groups() for _ in range(2)] == [1, 0]

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
        running.tidying.compact_groups()
        assert "was not compacted: a segment is damaged" in caplog.text


class TestKeeping:
    """The process's main thread, run in this process."""

    def test_it_merges_and_folds_until_the_gateway_is_gone(
        self,
        running: RunningGateway,
        client: Client,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(tidying, "TOPICS_S", 0.001)
        monkeypatch.setattr("sparklog.metadata.upkeep.housekeeping.FOLD_EVERY", 8)
        monkeypatch.setattr("sparklog.metadata.upkeep.housekeeping.FOLD_PAUSE_MS", 1)
        monkeypatch.setattr("sparklog.metadata.upkeep.housekeeping.LOOK_S", 0.001)
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])
        produced(client, SLICES_MAX + 1)
        there, here = os.pipe()
        told = tmp_path / "told"
        try:
            with told.open("wb") as out:
                gone = Gone(there, here, out.fileno(), lambda: is_tidy(tmp_path / "log"))
                keep(str(tmp_path / "log"), running.server.gateway.instances.own.node_id, gone)
        finally:
            os.close(there)
        assert is_tidy(tmp_path / "log")
        assert told.stat().st_size > 0

    def test_a_process_without_threads_ends(
        self, running: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch, (tmp_path / "told").open("wb") as out:
            patch.setattr(Thread, "start", failing(RuntimeError, "can't start new thread"))
            with pytest.raises(RuntimeError, match="can't start"):
                keep(str(tmp_path / "log"), 0, Service(SystemClock(), 0, out.fileno()))


class Gone(Service):
    """A gateway that goes when `is_time` says so."""

    def __init__(self, there: int, here: int, out: int, is_time: Callable[[], bool]) -> None:
        super().__init__(SystemClock(), there, out)
        self._here, self._is_time = here, is_time

    def waits(self, version: int, seconds: float) -> bool:
        if self._is_time():
            os.close(self._here)
        return super().waits(version, seconds)


def is_tidy(log_dir: Path) -> bool:
    """Whether the metadata log is folded and topic t has no slices."""
    image = Catalog(open_files(str(log_dir))).log.image()
    return image.fold.cover > 0 and slices_of(log_dir) == 0


@pytest.mark.slow
class TestTheProcess:
    @pytest.fixture(autouse=True)
    def idle(self) -> None:
        """Let the processes start."""

    def test_it_works_beside_the_gateway_and_ends_with_it(self, tmp_path: Path) -> None:
        with gateway(tmp_path / "log") as running, Client(running.port) as client:
            found = running.server.gateway
            found.admin.create_topics([NewTopic("t", 1)])
            count = SLICES_MAX + 1
            produced(client, count)
            until(lambda: slices_of(tmp_path / "log") < SLICES_MAX)
            pid = found.housekeeper.pid
            assert pid is not None
        assert not is_alive(pid)
        assert len(TemporaryLogDir(tmp_path / "log")["t"].values()) == count

    def test_signals_do_not_end_it_but_the_end_of_the_gateway_does(self, tmp_path: Path) -> None:
        AdminClient(tmp_path / "log").create_topics([NewTopic("t", 1)])
        with gateway_process(tmp_path / "log") as process:
            with Client(process.port) as client:
                produced(client, SLICES_MAX + 1)
                until(lambda: slices_of(tmp_path / "log") < SLICES_MAX)
                [found] = children(process.pid)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    os.kill(found, number)
                produced(client, SLICES_MAX + 1)
                until(lambda: slices_of(tmp_path / "log") < SLICES_MAX)
                assert is_alive(found)
            process.kill()
            until(lambda: not is_alive(found))
            process.start()


def offsets_log(running: RunningGateway) -> PartitionLog:
    """The partition of the group `readers`."""
    catalog = running.server.gateway.catalog
    topic = catalog.topic("__consumer_offsets")
    return catalog.partition(topic, partition_of("readers", topic.num_partitions))
