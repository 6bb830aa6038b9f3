"""AdminClient's groups: read from the log, and changed without a gateway."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, CommittedOffset, ConsumerGroupListing, NewTopic
from sparklog.clock import ManualClock
from sparklog.coordinator import group_log
from sparklog.coordinator.alive import DEAD_MS
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.group_log import FOLLOWED_MS
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import Protocol
from sparklog.errors import (
    CommitConflictError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    InvalidGroupIdError,
    LogDirError,
    OffsetOutOfRangeError,
    UnknownTopicError,
    UsageError,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.cluster import with_broker
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.consumer_language import Consumers
from tests.group_language import FLIGHTS, GROUP, START_MS, Groups, stable
from tests.group_logs import append_records

ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\7flights" + b"\0\0\0\1\0\0\0\0" + b"\xff" * 4
SECOND = TopicPartition("flights", 1)


@pytest.fixture
def admin(tmp_path: Path, clock: ManualClock) -> AdminClient:
    """Of a log dir with the topic `flights`, of two partitions."""
    found = AdminClient(tmp_path / "log", clock=clock)
    found.create_topics([NewTopic("flights", 2)])
    return found


@pytest.fixture
def catalog(tmp_path: Path, admin: AdminClient, clock: ManualClock) -> Catalog:
    return Catalog(open_files(str(tmp_path / "log")), clock, flush=False)


@pytest.fixture
def consumers(catalog: Catalog) -> Consumers:
    """The same of the consumer protocol; one of its topics is gone."""
    group = Consumers(gone=1)
    group.topics |= catalog.topics()
    group.readers("ada", topic_names=("flights", "gone"))
    append_records(catalog, group.log)
    return group


@pytest.fixture
def members(catalog: Catalog) -> Groups:
    """A group with a member, in the log; no gateway is there any more."""
    groups = Groups()
    [ada] = stable(groups, "ada")
    ada.commits(7)
    append_records(catalog, groups.log)
    return groups


def joins(catalog: Catalog, clock: ManualClock, *, lives: bool) -> None:
    """A gateway joins, which shows that it lives, or was killed."""
    broker = Broker(0, "incarnation", (Endpoint("PLAINTEXT", "localhost", 9092),), None)
    catalog.log.commit(lambda image: with_broker(image, broker))
    sleep_ms = clock.sleep_ms

    def beat(ms: float) -> None:
        sleep_ms(ms)
        if lives:
            sign = str(clock.boot_ms() // 3_000).encode()
            catalog.files.overwrite("__gateways/0.json", sign)

    beat(0)
    clock.sleep_ms = beat  # type: ignore[method-assign] # time passes, and it beats


def committed(admin: AdminClient, group: str = GROUP) -> dict[TopicPartition, int]:
    found = admin.list_consumer_group_offsets(group)
    return {place: one.offset for place, one in found.items() if one is not None}


class TestConsumerProtocol:
    """Groups of KIP-848."""

    def test_is_listed_and_described(self, admin: AdminClient, consumers: Consumers) -> None:
        assert admin.list_consumer_groups() == [
            ConsumerGroupListing(GROUP, "Stable", is_simple=False, type="consumer")
        ]
        [found] = admin.describe_consumer_groups([GROUP])
        assert (found.type, found.state, found.partition_assignor) == (
            "consumer",
            "Stable",
            "uniform",
        )
        [ada] = found.members
        assert (ada.member_id, ada.partitions) == ("ada", (FLIGHTS, SECOND))

    def test_is_not_moved_while_a_gateway_may_have_its_members(
        self, admin: AdminClient, catalog: Catalog, consumers: Consumers, clock: ManualClock
    ) -> None:
        joins(catalog, clock, lives=True)
        with pytest.raises(GroupNotEmptyError, match="has 1 members"):
            admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 3})

    def test_loses_its_members_where_there_is_none(
        self, admin: AdminClient, consumers: Consumers
    ) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 3})
        assert committed(admin) == {FLIGHTS: 3}
        [found] = admin.describe_consumer_groups([GROUP])
        assert (found.state, found.members) == ("Empty", ())


class TestReading:
    @pytest.mark.parametrize(
        "read",
        [AdminClient.list_consumer_groups, AdminClient.consumer_group_lags, committed],
    )
    def test_where_no_log_dir_is_nothing_is_known(
        self, tmp_path: Path, read: Callable[[AdminClient], object]
    ) -> None:
        with pytest.raises(LogDirError, match="is not a log dir"):
            read(AdminClient(tmp_path / "typo"))

    def test_before_the_first_group_there_are_none(self, admin: AdminClient) -> None:
        assert (admin.list_consumer_groups(), committed(admin)) == ([], {})

    def test_groups_are_listed_by_name(self, admin: AdminClient, members: Groups) -> None:
        admin.alter_consumer_group_offsets("another", {FLIGHTS: 1})
        assert admin.list_consumer_groups() == [
            ConsumerGroupListing("another", "Empty", is_simple=True),
            ConsumerGroupListing(GROUP, "Stable", is_simple=False),
        ]

    @pytest.mark.parametrize(
        ("chosen", "count"),
        [
            ({"states": ["stable"]}, 1),
            ({"states": ["Empty"]}, 0),
            ({"types": ["Classic"]}, 1),
            ({"types": ["consumer"]}, 0),
        ],
    )
    def test_by_state_and_type(
        self, admin: AdminClient, members: Groups, chosen: dict[str, list[str]], count: int
    ) -> None:
        assert len(admin.list_consumer_groups(**chosen)) == count

    @pytest.mark.parametrize(
        ("assignment", "partitions"), [(ASSIGNED, (FLIGHTS,)), (b"", ()), (b"\0", ())]
    )
    def test_a_group_has_members_with_partitions(
        self,
        admin: AdminClient,
        catalog: Catalog,
        assignment: bytes,
        partitions: tuple[TopicPartition, ...],
    ) -> None:
        groups = Groups()
        ada = groups.member("ada")
        ada.joins()
        groups.passes(3_000)
        assert ada.leads
        ada.syncs({ada.member_id: assignment})
        append_records(catalog, groups.log)
        [found] = admin.describe_consumer_groups([GROUP])
        assert (found.state, found.partition_assignor) == ("Stable", "range")
        [member] = found.members
        assert (member.client_id, member.partitions) == ("ada", partitions)

    def test_members_of_other_protocols_have_none(
        self, admin: AdminClient, catalog: Catalog
    ) -> None:
        groups = Groups()
        stable(groups, "ada", protocol_type="connect", protocols=(Protocol("default", b""),))
        append_records(catalog, groups.log)
        [found] = admin.describe_consumer_groups([GROUP])
        assert [one.partitions for one in found.members] == [()]

    def test_a_group_that_is_not_there_is_told(self, admin: AdminClient) -> None:
        with pytest.raises(GroupIdNotFoundError, match="there is no group 'nobody'"):
            admin.describe_consumer_groups(["nobody"])

    def test_offsets_of_the_partitions_that_are_asked_for(
        self, admin: AdminClient, members: Groups
    ) -> None:
        found = admin.list_consumer_group_offsets(GROUP, [("flights", 0), SECOND])
        assert found[SECOND] is None
        first = found[FLIGHTS]
        assert first is not None
        assert first.offset == 7

    def test_what_others_commit_is_seen(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 1})
        append_records(
            catalog, [offset_record(GROUP, FLIGHTS, CommittedOffset(2, committed_ms=START_MS))]
        )
        assert committed(admin) == {FLIGHTS: 2}

    def test_after_a_long_time_all_is_read_again(
        self,
        admin: AdminClient,
        members: Groups,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        starts = []
        real: Any = vars(group_log)["load"]

        def load(*given: object) -> Any:
            starts.append(given[-1])
            return real(*given)

        monkeypatch.setattr(group_log, "load", load)
        for _ in range(3):
            committed(admin)
            clock.advance(FOLLOWED_MS // 2 + 1)
        clock.advance(FOLLOWED_MS)
        committed(admin)
        assert starts == [0, 2, 2, 0]

    def test_a_topic_that_was_made_anew_is_read_anew(
        self, admin: AdminClient, members: Groups, catalog: Catalog
    ) -> None:
        assert committed(admin) == {FLIGHTS: 7}
        admin.delete_topics([OFFSETS_TOPIC])
        assert committed(admin) == {}
        admin.alter_consumer_group_offsets(GROUP, {SECOND: 1})
        assert committed(admin) == {SECOND: 1}


class TestChanging:
    def test_offsets_are_set_with_their_metadata(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(
            GROUP, {("flights", 0): 5, SECOND: CommittedOffset(6, metadata="by hand")}
        )
        found = admin.list_consumer_group_offsets(GROUP)
        assert [(place, one and one.offset) for place, one in found.items()] == [
            (FLIGHTS, 5),
            (SECOND, 6),
        ]
        second = found[SECOND]
        assert second is not None
        assert second.metadata == "by hand"

    def test_in_one_commit(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 1})
        before = catalog.image().version
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 5, SECOND: 6})
        assert catalog.image().version == before + 1

    def test_no_offsets_are_no_commit(self, admin: AdminClient, catalog: Catalog) -> None:
        before = catalog.image().version
        admin.alter_consumer_group_offsets(GROUP, {})
        assert catalog.image().version == before

    @pytest.mark.parametrize(
        ("group", "offsets", "error"),
        [
            ("", {FLIGHTS: 1}, InvalidGroupIdError),
            ("\u20ac" * 10_923, {FLIGHTS: 1}, InvalidGroupIdError),
            ("\udcff", {FLIGHTS: 1}, InvalidGroupIdError),
            (GROUP, {("nowhere", 0): 1}, UnknownTopicError),
            (GROUP, {("flights", 2): 1}, UnknownTopicError),
            (GROUP, {FLIGHTS: 1, SECOND: -1}, OffsetOutOfRangeError),
            (GROUP, {FLIGHTS: 1, SECOND: 2**63}, OffsetOutOfRangeError),
            (GROUP, {FLIGHTS: CommittedOffset(1, metadata="x" * 4097)}, UsageError),
        ],
    )
    def test_what_is_refused_changes_nothing(
        self,
        admin: AdminClient,
        group: str,
        offsets: dict[tuple[str, int], int | CommittedOffset],
        error: type[Exception],
    ) -> None:
        with pytest.raises(error):
            admin.alter_consumer_group_offsets(group, offsets)
        assert committed(admin, group) == {}

    def test_offsets_are_deleted(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 5, SECOND: 6})
        admin.delete_consumer_group_offsets(GROUP, [("flights", 1)])
        assert committed(admin) == {FLIGHTS: 5}
        admin.delete_consumer_group_offsets(GROUP, [("flights", 1)])
        assert committed(admin) == {FLIGHTS: 5}

    def test_groups_are_deleted(self, admin: AdminClient) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 5})
        admin.delete_consumer_groups([GROUP])
        assert (admin.list_consumer_groups(), committed(admin)) == ([], {})
        with pytest.raises(GroupIdNotFoundError):
            admin.delete_consumer_groups([GROUP])
        with pytest.raises(GroupIdNotFoundError):
            admin.delete_consumer_group_offsets(GROUP, [FLIGHTS])

    def test_an_append_that_fails_leaves_the_group_as_it_was(
        self, admin: AdminClient, catalog: Catalog
    ) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 5})
        topic = catalog.topic(OFFSETS_TOPIC)
        assert topic.configs["cleanup.policy"] == "compact"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_log, "batch_of", lambda *_: b"\0" * 100)
            with pytest.raises(Exception, match=r"."):
                admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 6})
        assert committed(admin) == {FLIGHTS: 5}


class TestMembers:
    def test_while_a_gateway_lives_their_offsets_are_theirs(
        self, admin: AdminClient, members: Groups, catalog: Catalog, clock: ManualClock
    ) -> None:
        joins(catalog, clock, lives=True)
        with pytest.raises(GroupNotEmptyError, match="'readers' has 1 members"):
            admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 0})
        with pytest.raises(GroupNotEmptyError):
            admin.delete_consumer_groups([GROUP])
        with pytest.raises(GroupNotEmptyError):
            admin.delete_consumer_group_offsets(GROUP, [FLIGHTS])
        assert committed(admin) == {FLIGHTS: 7}

    def test_one_that_was_killed_does_not_hold_them(
        self, admin: AdminClient, members: Groups, catalog: Catalog, clock: ManualClock
    ) -> None:
        joins(catalog, clock, lives=False)
        before_ms = clock.boot_ms()
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 0})
        assert committed(admin) == {FLIGHTS: 0}
        assert clock.boot_ms() - before_ms >= DEAD_MS

    def test_without_one_they_are_removed_first(self, admin: AdminClient, members: Groups) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 0})
        [found] = admin.describe_consumer_groups([GROUP])
        assert (found.state, found.members, committed(admin)) == ("Empty", (), {FLIGHTS: 0})

    def test_under_a_leader_epoch_that_shuts_their_coordinator_out(
        self, admin: AdminClient, members: Groups, catalog: Catalog
    ) -> None:
        admin.delete_consumer_groups([GROUP])
        partitions = catalog.topic_image(catalog.topic(OFFSETS_TOPIC))
        assert [partitions.partition(number).leader_epoch for number in range(50)].count(1) == 1
        assert admin.list_consumer_groups() == []

    def test_a_claim_that_another_one_has_won_is_made_again(
        self, admin: AdminClient, members: Groups, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real: Any = vars(group_log)["claim"]
        lost: list[Any] = [None]
        monkeypatch.setattr(group_log, "claim", lambda *given: (lost or [real(*given)]).pop())
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 0})
        assert committed(admin) == {FLIGHTS: 0}


class TestOthers:
    def test_a_change_is_planned_again_when_others_were_first(
        self, admin: AdminClient, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 1})
        others = [offset_record(GROUP, SECOND, CommittedOffset(9, committed_ms=START_MS))]
        real: Any = vars(group_log)["batch_of"]

        def batch_of(*given: object) -> Any:
            if others:
                append_records(catalog, [others.pop()])
            return real(*given)

        monkeypatch.setattr(group_log, "batch_of", batch_of)
        admin.delete_consumer_groups([GROUP])
        assert admin.list_consumer_groups() == []

    def test_but_not_for_ever(
        self, admin: AdminClient, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 1})
        real: Any = vars(group_log)["batch_of"]

        def batch_of(*given: object) -> Any:
            append_records(
                catalog, [offset_record(GROUP, SECOND, CommittedOffset(9, committed_ms=START_MS))]
            )
            return real(*given)

        monkeypatch.setattr(group_log, "batch_of", batch_of)
        monkeypatch.setattr(group_log, "TRIES_MAX", 2)
        with pytest.raises(CommitConflictError, match="others keep writing to __consumer_offsets-"):
            admin.alter_consumer_group_offsets(GROUP, {FLIGHTS: 2})
        assert committed(admin) == {FLIGHTS: 1, SECOND: 9}
