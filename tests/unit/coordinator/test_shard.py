"""A shard: committed offsets, groups that are listed and deleted, and what a replay brings back."""

from typing import Any

import pytest

from sparklog.coordinator import shard
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.records import GROUP_RECORDS, Record, is_offset, read_record
from sparklog.coordinator.requests import CommitRequest, CommittedOffset, FetchRequest, Protocol
from sparklog.errors import CorruptRecordError, ErrorCode
from sparklog.model import TopicPartition
from tests.group_language import FLIGHTS, GROUP, START_MS, TRAINS, Groups, stable

DAY_MS = 24 * 60 * 60 * 1000
RETENTION_MS = 7 * DAY_MS
READS_FLIGHTS = Protocol("range", b"\0\0" + b"\0\0\0\1" + b"\0\7flights" + b"\xff" * 4)


class TestCommitting:
    def test_a_member_commits(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        assert ada.commits(7) == 0
        assert groups.committed() == {FLIGHTS: 7}

    def test_a_commit_is_a_sign_of_life(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        groups.passes(44_999)
        ada.commits(7)
        groups.passes(44_999)
        assert ada.heartbeats() == 0

    def test_a_client_without_a_group_commits(self) -> None:
        groups = Groups()
        assert groups.commits(7).error_code == 0
        assert (groups.state, groups.names(), groups.committed()) == (
            "Empty",
            [GROUP],
            {FLIGHTS: 7},
        )

    def test_but_not_for_a_group_with_members(self) -> None:
        groups = Groups()
        stable(groups, "ada")
        assert groups.commits(7).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_nor_between_join_and_sync(self) -> None:
        groups = Groups()
        ada = groups.member("ada")
        ada.joins()
        groups.passes(3_000)
        assert ada.leads
        assert ada.commits(7) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_the_old_generation_commits_before_it_joins_again(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        groups.member("bob").joins()
        assert ada.commits(7) == 0

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "first"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_who_is_no_member_may_not(self, fields: dict[str, Any], code: int) -> None:
        assert stable(Groups(), "ada")[0].commits(7, **fields) == code

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_nor_a_member_of_a_group_that_is_not_there(self, version: int, code: int) -> None:
        assert Groups().commits(7, generation=1, version=version).error_code == code

    def test_metadata_has_a_bound(self) -> None:
        groups = Groups(offset_metadata_max_bytes=3)
        assert groups.commits(7, metadata="abcd").partitions == {
            FLIGHTS: ErrorCode.OFFSET_METADATA_TOO_LARGE
        }
        assert groups.names() == []
        groups.commits(7, metadata="abc")
        assert groups.told(FetchRequest(GROUP, [FLIGHTS])).offsets[FLIGHTS].metadata == "abc"

    @pytest.mark.parametrize("is_transactional", [False, True])
    def test_metadata_is_no_longer_than_a_record_holds(self, *, is_transactional: bool) -> None:
        groups = Groups(offset_metadata_max_bytes=100_000)

        def code(metadata: str) -> int:
            found = groups.commits(7, metadata=metadata, is_transactional=is_transactional)
            return int(found.partitions[FLIGHTS])

        assert code("x" * 32_767) == ErrorCode.NONE
        assert code("x" * 32_768) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert code("\u20ac" * 10_923) == ErrorCode.OFFSET_METADATA_TOO_LARGE

    def test_nothing_is_written_but_the_offset(self) -> None:
        groups = Groups()
        groups.commits(7)
        assert groups.log == [
            offset_record(GROUP, FLIGHTS, CommittedOffset(7, committed_ms=START_MS))
        ]

    def test_heartbeats_write_nothing(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        written = len(groups.log)
        ada.heartbeats()
        assert (written, len(groups.log)) == (1, 1)


class TestDeleting:
    def test_a_group_without_members_goes_with_its_offsets(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        ada.commits(7)
        assert groups.deletes() == ErrorCode.NON_EMPTY_GROUP
        ada.leaves()
        groups.member("eve").asks_to_join()
        assert groups.deletes() == 0
        groups.restarts()
        assert (groups.names(), groups.committed()) == ([], {})

    def test_its_records_leave_nothing_in_memory(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        ada.commits(7)
        ada.leaves()
        groups.deletes()
        groups.restarts()
        assert not groups.shard._offsets

    @pytest.mark.parametrize(
        ("group", "code"),
        [("others", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)],
    )
    def test_a_group_that_is_not_there(self, group: str, code: int) -> None:
        assert Groups().deletes(group) == code

    def test_offsets_of_a_group_without_members(self) -> None:
        groups = Groups()
        groups.commits(7)
        groups.commits(8, TRAINS)
        assert groups.deletes_offsets(FLIGHTS, FLIGHTS).partitions == {FLIGHTS: 0}
        assert groups.committed() == {TRAINS: 8}
        groups.deletes_offsets(TRAINS)
        assert groups.names() == []
        groups.restarts()
        assert groups.names() == []

    def test_offsets_of_topics_that_members_do_not_read(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada", protocols=(READS_FLIGHTS,))[0]
        ada.commits(7)
        ada.commits(8, TRAINS)
        assert groups.deletes_offsets(FLIGHTS, TRAINS).partitions == {
            FLIGHTS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            TRAINS: 0,
        }
        assert groups.committed() == {FLIGHTS: 7}

    @pytest.mark.parametrize(
        "fields", [{"protocol_type": "connect"}, {"protocols": (Protocol("range", b"\0"),)}]
    )
    def test_not_of_members_that_do_not_tell_their_topics(self, fields: dict[str, object]) -> None:
        groups = Groups()
        stable(groups, "ada", **fields)
        assert groups.deletes_offsets(FLIGHTS).error_code == ErrorCode.NON_EMPTY_GROUP

    def test_not_of_a_group_that_is_not_there(self) -> None:
        assert Groups().deletes_offsets(FLIGHTS).error_code == ErrorCode.GROUP_ID_NOT_FOUND


class TestExpiry:
    def test_offsets_of_a_client_without_a_group_go_after_the_commit(self) -> None:
        groups = Groups()
        groups.commits(7)
        groups.passes(RETENTION_MS - 1)
        assert groups.committed() == {FLIGHTS: 7}
        groups.passes(600_000)
        assert groups.names() == []

    def test_those_of_a_group_go_after_its_last_member(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        ada.commits(7)
        for _ in range(10):
            groups.passes(40_000)
            ada.heartbeats()
        ada.leaves()
        groups.passes(RETENTION_MS - 1)
        assert groups.committed() == {FLIGHTS: 7}
        groups.passes(600_000)
        groups.restarts()
        assert groups.names() == []

    def test_a_stable_group_loses_those_of_topics_that_it_does_not_read(self) -> None:
        groups = Groups(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
        ada = stable(groups, "ada", protocols=(READS_FLIGHTS,))[0]
        ada.commits(7)
        ada.commits(8, TRAINS)
        groups.passes(11_000)
        assert groups.committed() == {FLIGHTS: 7}

    def test_a_group_that_rebalances_loses_none(self) -> None:
        groups = Groups(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000)
        ada = stable(groups, "ada")[0]
        ada.commits(7)
        groups.member("bob").joins()
        groups.passes(10_000)
        assert groups.committed() == {FLIGHTS: 7}

    def test_many_go_in_steps_and_their_group_comes_last(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 2)
        groups = Groups(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
        places = [TopicPartition("flights", number) for number in range(4)]
        for place in places:
            groups.commits(7, place)
        groups.passes(10_000)
        assert list(groups.committed()) == places[2:]
        groups.commits(8, places[3])
        groups.passes(1)
        assert groups.committed() == {places[3]: 8}
        groups.passes(11_000)
        gone = [is_offset(key) for key, value in groups.log if value is None]
        assert gone == [True] * 4 + [False]
        assert groups.names() == []

    def test_a_group_that_is_deleted_between_two_steps_is_passed_over(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 1)
        groups = Groups(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000)
        groups.commits(7)
        groups.told(CommitRequest("others", {FLIGHTS: CommittedOffset(7)}))
        groups.passes(1_000)
        groups.deletes()
        groups.passes(2)
        assert groups.names() == []

    def test_the_next_check_comes_after_the_last_step(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 1)
        groups = Groups(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000)
        groups.commits(7)
        groups.passes(1_001)
        assert groups.names() == []
        assert groups.shard.next_ms == 2_001

    def test_an_old_client_sets_its_own_retention(self) -> None:
        groups = Groups()
        groups.commits(7, retention_ms=DAY_MS)
        groups.restarts()
        groups.passes(DAY_MS - 1)
        assert groups.committed() == {FLIGHTS: 7}
        groups.passes(600_000)
        assert groups.committed() == {}

    def test_the_retention_of_an_old_client_may_end_after_all_times(self) -> None:
        groups = Groups()
        groups.commits(7, retention_ms=2**63 - 1)
        groups.restarts()
        groups.passes(366 * DAY_MS)
        assert groups.committed() == {FLIGHTS: 7}


class TestReplay:
    def test_members_go_on_in_their_generation(self) -> None:
        groups = Groups()
        ada, bob = stable(groups, "ada", "bob")
        before = groups.described()
        groups.restarts()
        assert groups.described() == before
        assert (ada.heartbeats(), bob.heartbeats(), ada.commits(7)) == (0, 0, 0)
        assert bob.is_told_to(bob.syncs()).assignment == b"bob"

    def test_they_have_a_fresh_session(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        groups.timer_ms += 44_999
        groups.restarts()
        groups.passes(44_999)
        assert ada.heartbeats() == 0
        groups.passes(45_000)
        assert ada.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_empty_group_has_its_generation(self) -> None:
        groups = Groups()
        stable(groups, "ada")[0].leaves()
        groups.restarts()
        assert groups.state == "Empty"
        bob = stable(groups, "bob")[0]
        assert bob.generation == 3

    def test_the_last_record_counts(self) -> None:
        groups = Groups()
        groups.commits(7)
        groups.commits(5)
        groups.restarts()
        assert groups.committed() == {FLIGHTS: 5}

    def test_offsets_stay_when_only_the_group_was_deleted(self) -> None:
        groups = Groups()
        groups.commits(7)
        groups.log.append(Record(b"\0\2\0\7readers", None))
        groups.restarts()
        assert (groups.names(), groups.committed()) == ([GROUP], {FLIGHTS: 7})

    def test_records_of_other_protocols_are_passed_over(self) -> None:
        groups = Groups()
        groups.log = [Record(b"\0\3\0\1a", None), Record(b"\0\x63", b"")]
        groups.restarts()
        assert groups.names() == []

    def test_a_damaged_record_is_not(self) -> None:
        with pytest.raises(CorruptRecordError):
            Groups().shard.replay(b"\0\2\0\7", None)

    def test_what_others_append_ends_no_timer(self) -> None:
        groups = Groups()
        stable(groups, "ada")
        groups.shard.replay(b"\0\2\0\7readers", None)
        groups.passes(100_000)
        assert groups.names() == []


def test_a_group_tells_its_assignments_until_there_are_new_ones() -> None:
    groups = Groups()
    stable(groups, "ada", "bob")
    groups.member("eve").joins()
    found = groups.described()
    assert found is not None
    assert (found.state, found.protocol_name) == ("PreparingRebalance", "")
    assert {one.assignment for one in found.members} == {b"ada", b"bob", b""}
    assert {one.metadata for one in found.members} == {b""}


def test_a_group_of_an_older_kafka_is_read() -> None:
    groups = Groups()
    member = b"\0\1m\0\1c\0\2/h" + (9_000).to_bytes(4, "big") + b"\0\0\0\1s" + b"\0\0\0\1a"
    value = (
        b"\0\0" + b"\0\x08consumer" + b"\0\0\0\5" + b"\0\5range" + b"\0\1m" + b"\0\0\0\1" + member
    )
    groups.log = [Record(b"\0\2\0\7readers", value)]
    groups.restarts()
    found = groups.described()
    assert found is not None
    assert (found.state, found.members[0].assignment) == ("Stable", b"a")


def test_records_are_kafkas() -> None:
    groups = Groups()
    stable(groups, "ada", instance_id="first")
    record = read_record(GROUP_RECORDS, *groups.log[-1])
    assert (record.type, record.key, record.version) == (2, {"group": GROUP}, 3)
    assert record.value == {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "first-1",
        "currentStateTimestamp": START_MS + 3_000,
        "members": [
            {
                "memberId": "first-1",
                "groupInstanceId": "first",
                "clientId": "ada",
                "clientHost": "",
                "rebalanceTimeout": 300_000,
                "sessionTimeout": 45_000,
                "subscription": b"range of ",
                "assignment": b"ada",
            }
        ],
    }


def test_offsets_of_several_partitions_are_one_commit() -> None:
    groups = Groups()
    offsets = {TopicPartition("flights", number): CommittedOffset(number) for number in range(3)}
    groups.told(CommitRequest(GROUP, offsets))
    assert groups.committed() == {place: place.partition for place in offsets}
