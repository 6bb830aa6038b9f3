"""Lag in records and in time: its definition, and that of groups of a log dir."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.admin import AdminClient, CommittedOffset, NewTopic, PartitionLag
from sparklog.clock import ManualClock
from sparklog.coordinator.lag import lag_ms_of, lag_of, total_of
from sparklog.coordinator.lag_state import LagState
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import GroupIdNotFoundError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import PartitionLog
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.erasing import flip
from tests.group_language import Groups
from tests.group_logs import append_records
from tests.logs import FOREVER, append, append_to, catalog, columns
from tests.transactions import Client, new_log_dir

PLACE = TopicPartition("t", 0)
GROUP = "readers"
NOW_MS = 1_700_000_000_000
ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1\0\0\0\1" + b"\xff" * 4


class TestDefinition:
    @given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
    def test_in_records_it_is_what_is_left_of_the_log(self, committed: int, end: int) -> None:
        lag = lag_of(committed, end)
        assert lag is not None
        assert lag == (end - committed if end > committed else 0)

    @pytest.mark.parametrize(("committed", "end"), [(None, 1), (1, None), (None, None)])
    def test_it_is_not_known_where_nothing_is_committed_or_no_log_is(
        self, committed: int | None, end: int | None
    ) -> None:
        assert lag_of(committed, end) is None

    @pytest.mark.parametrize(
        ("lag", "timestamp", "lag_ms"),
        [
            (1, 400, 600),
            (0, 400, 0),  # caught up
            (1, None, 0),  # compaction has removed the rest
            (1, -1, None),  # a record without a time
            (1, 1_200, 0),  # a clock ahead of ours
        ],
    )
    def test_in_time_it_is_the_age_of_the_next_record(
        self, lag: int, timestamp: int | None, lag_ms: int | None
    ) -> None:
        assert lag_ms_of(lag, timestamp, now_ms=1_000) == lag_ms

    def test_a_sum_is_of_what_is_known(self) -> None:
        assert total_of([1, None, 2]) == 3


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """With the topic `t`, of two partitions; the first has three records, a second apart."""
    found = str(tmp_path / "log")
    AdminClient(found).create_topics([NewTopic("t", 2, config=FOREVER)])
    times = [NOW_MS - 3_000, NOW_MS - 2_000, NOW_MS - 1_000]
    append(found, 0, "abc", timestamps=times)
    return found


@pytest.fixture
def admin(log_dir: str) -> AdminClient:
    return AdminClient(log_dir, clock=ManualClock(NOW_MS))


class TestOfGroups:
    @pytest.mark.parametrize(
        ("offset", "lag", "lag_ms"), [(0, 3, 3_000), (2, 1, 1_000), (3, 0, 0), (9, 0, 0)]
    )
    def test_in_records_and_in_time(
        self, admin: AdminClient, offset: int, lag: int, lag_ms: int
    ) -> None:
        committed = CommittedOffset(offset, leader_epoch=0)
        admin.alter_consumer_group_offsets(GROUP, {PLACE: committed})
        state = None if lag else LagState.OK
        expected = PartitionLag(PLACE, offset, 0, 0, 3, lag, lag_ms, state=state)
        assert admin.consumer_group_lags() == {GROUP: [expected]}
        [found] = admin.consumer_group_lags([GROUP], in_time=False)[GROUP]
        assert found == expected._replace(lag_ms=None, state=None)

    def test_below_the_log_start_the_first_record_that_is_left_counts(
        self, admin: AdminClient
    ) -> None:
        admin.alter_consumer_group_offsets(GROUP, {PLACE: 0, ("t", 1): 0})
        admin.delete_records({PLACE: 2})
        first, second = admin.consumer_group_lags()[GROUP]
        assert (first.log_start_offset, first.lag, first.lag_ms) == (2, 3, 1_000)
        assert (second.lag, second.lag_ms) == (0, 0)

    def test_a_marker_of_a_transaction_is_no_record(self, tmp_path: Path) -> None:
        client, clock = Client(new_log_dir(str(tmp_path / "two"), "t")), ManualClock(NOW_MS)
        client.init()
        admin = AdminClient(tmp_path / "two", clock=clock)

        def lag() -> tuple[int | None, int | None, LagState | None]:
            client.produce("x")
            client.commit()
            admin.alter_consumer_group_offsets(GROUP, {PLACE: 1})
            [found] = admin.consumer_group_lags()[GROUP]
            return found.lag, found.lag_ms, found.state

        assert lag() == (1, 0, LagState.OK)
        clock.advance(1_000)
        assert lag()[:2] == (3, 1_000)

    def test_where_no_record_is_left_there_is_no_time(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {PLACE: 0})
        admin.delete_records({PLACE: -1})
        [found] = admin.consumer_group_lags()[GROUP]
        assert (found.lag, found.lag_ms) == (3, 0)

    @pytest.mark.parametrize("damage", [lambda path: flip(path, 30), Path.unlink])
    def test_a_damaged_record_has_no_time_and_hides_no_other_lag(
        self, admin: AdminClient, log_dir: str, damage: Callable[[Path], object]
    ) -> None:
        [path] = Path(log_dir).rglob("*.log")
        append(log_dir, 1, "a", timestamps=[NOW_MS - 5_000])
        admin.alter_consumer_group_offsets(GROUP, {PLACE: 1, ("t", 1): 0})
        damage(path)
        found = admin.consumer_group_lags()[GROUP]
        assert [(one.lag, one.lag_ms) for one in found] == [(2, None), (1, 5_000)]

    def test_no_partition_looks_at_all_partitions_of_its_topic(
        self, admin: AdminClient, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin.create_topics([NewTopic("wide", 8, config=FOREVER)])
        append_to(catalog(log_dir), [*range(8)] * 2, columns(range(16)), topic="wide")
        admin.alter_consumer_group_offsets(GROUP, {("wide", number): 1 for number in range(8)})
        looks: list[PartitionLog] = []

        def looked(log: PartitionLog) -> int:
            looks.append(log)
            return log.state.imported_end_offset

        monkeypatch.setattr(PartitionLog, "imported_end_offset", property(looked))
        found = admin.consumer_group_lags()[GROUP]

        assert [one.lag for one in found] == [1] * 8
        assert len(looks) == 8

    def test_of_a_topic_that_is_gone_only_the_offset_is_known(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {PLACE: 1})
        admin.delete_topics(["t"])
        assert admin.consumer_group_lags() == {
            GROUP: [PartitionLag(PLACE, 1, None, None, None, None)]
        }

    def test_of_a_partition_that_is_gone_too(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {("t", 1): 0})  # 0 counts in any topic "t"
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
        [found] = admin.consumer_group_lags()[GROUP]
        assert (found.current_offset, found.log_end_offset, found.lag) == (0, None, None)

    def test_partitions_of_members_are_there_without_a_commit(
        self, admin: AdminClient, log_dir: str
    ) -> None:
        groups = Groups()
        ada = groups.member("ada", client_host="/10.0.0.1")
        ada.joins()
        groups.passes(3_000)
        assert ada.leads
        ada.syncs({ada.member_id: ASSIGNED})
        append_records(catalog(log_dir), groups.log)
        [found] = admin.consumer_group_lags()[GROUP]
        assert (found.partition, found.current_offset, found.lag) == (("t", 1), None, None)
        assert (found.member_id, found.client_id, found.host) == ("ada-1", "ada", "/10.0.0.1")

    def test_a_group_that_is_not_there_is_told(self, admin: AdminClient) -> None:
        with pytest.raises(GroupIdNotFoundError):
            admin.consumer_group_lags(["nobody"])
        assert admin.consumer_group_lags() == {}

    def test_the_offsets_topic_itself_may_be_read(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {PLACE: 0})
        admin.alter_consumer_group_offsets(GROUP, {(OFFSETS_TOPIC, 0): 0})
        assert len(admin.consumer_group_lags()[GROUP]) == 2


class TestStates:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(NOW_MS)

    @pytest.fixture
    def reading(self, tmp_path: Path, clock: ManualClock) -> AdminClient:
        """With the group, which has committed 0 to 3 of ten records, one every ten seconds."""
        admin = AdminClient(tmp_path / "log", clock=clock)
        admin.create_topics([NewTopic("t", 2, config=FOREVER)])
        found = Catalog(open_files(str(tmp_path / "log")), clock)
        append_to(found, 0, columns(range(10)))
        for offset in range(4):
            admin.alter_consumer_group_offsets(GROUP, {PLACE: offset})
            clock.advance(10_000)
        return admin

    @pytest.mark.parametrize("is_rebuilt", [False, True])
    def test_who_reads_on_is_well_and_who_falls_silent_has_stopped(
        self, reading: AdminClient, tmp_path: Path, clock: ManualClock, is_rebuilt: bool
    ) -> None:
        admin = AdminClient(tmp_path / "log", clock=clock) if is_rebuilt else reading
        assert states(admin) == [LagState.OK]
        clock.advance(100_000)
        assert states(admin) == [LagState.STOP]

    def test_who_is_slower_than_the_producers_gets_a_warning(
        self, reading: AdminClient, tmp_path: Path, clock: ManualClock
    ) -> None:
        found = Catalog(open_files(str(tmp_path / "log")), clock)
        for offset in range(4, 14):
            append_to(found, 0, columns("ab"))
            reading.alter_consumer_group_offsets(GROUP, {PLACE: offset})
            clock.advance(10_000)
        assert states(reading) == [LagState.WARN]

    def test_the_window_outlives_what_compaction_removes(
        self, reading: AdminClient, tmp_path: Path, clock: ManualClock
    ) -> None:
        for offset in (0, 1, 2):
            reading.alter_consumer_group_offsets(GROUP, {PLACE: offset})
            clock.advance(10_000)
        assert states(reading) == [LagState.REWIND]
        found = Catalog(open_files(str(tmp_path / "log")), clock)
        context = JobContext(found, LocalFleet())
        for step in compact(context, [OFFSETS_TOPIC], {"force": True, "reindex": False}):
            assert not step.execute().problems
        assert states(reading) == [LagState.REWIND]
        assert states(AdminClient(tmp_path / "log", clock=clock)) == [LagState.OK]

    def test_one_commit_is_no_window(self, reading: AdminClient) -> None:
        reading.alter_consumer_group_offsets("new", {PLACE: 1, ("t", 1): 0})
        assert [one.state for one in reading.consumer_group_lags(["new"])["new"]] == [
            None,
            LagState.OK,
        ]


def states(admin: AdminClient) -> list[LagState | None]:
    return [one.state for one in admin.consumer_group_lags([GROUP])[GROUP]]
