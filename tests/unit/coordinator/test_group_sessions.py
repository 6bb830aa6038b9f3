"""Members of a group sync, heartbeat, fall silent and leave, by the rules of Kafka 4.1.1."""

from typing import Any

import pytest

from sparklog.coordinator.requests import LeaveRequest, MemberIdentity
from sparklog.errors import ErrorCode
from tests.group_language import DELAY_MS, SESSION_MS, Client, Groups, stable

REBALANCE_MS = 300_000


def joined(leader: Client, other: Client) -> tuple[Client, Client]:
    """Two clients of a new group that have joined, and wait for their assignments."""
    leader.joins()
    other.joins()
    leader.groups.passes(2 * DELAY_MS)
    assert (leader.leads, other.leads) == (True, False)
    return leader, other


class TestSyncing:
    def test_followers_wait_for_the_leader(self) -> None:
        groups = Groups()
        ada, bob = joined(groups.member("ada"), groups.member("bob"))
        waiting = bob.syncs()
        assert bob.is_told_to(waiting) is None
        mine = ada.syncs({ada.member_id: b"a", bob.member_id: b"b"})
        assert (groups.answers[mine].assignment, groups.answers[waiting].assignment) == (b"a", b"b")
        assert groups.state == "Stable"

    def test_a_rebalance_sends_them_back(self) -> None:
        groups = Groups()
        _, bob = joined(groups.member("ada"), groups.member("bob"))
        first = bob.syncs()
        second = bob.syncs()
        assert groups.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        groups.member("eve").joins()
        assert groups.answers[second].error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_assignment_is_told_again(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        assert ada.is_told_to(ada.syncs()).assignment == b"ada"

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"group_id": "others"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ],
    )
    def test_is_refused(self, fields: dict[str, Any], code: int) -> None:
        ada = stable(Groups(), "ada")[0]
        assert ada.is_told_to(ada.syncs(**fields)).error_code == code

    def test_who_does_not_sync_in_time_is_removed(self) -> None:
        groups = Groups()
        fields = {"rebalance_timeout_ms": 10_000}
        ada, bob = joined(groups.member("ada", **fields), groups.member("bob", **fields))
        ada.syncs()
        groups.passes(10_000)
        assert groups.state == "PreparingRebalance"
        assert bob.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_group_whose_members_all_synced_in_time_goes_on(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada", session_timeout_ms=1_800_000)[0]
        groups.passes(REBALANCE_MS)
        assert ada.heartbeats() == 0


class TestSessions:
    def test_a_heartbeat_keeps_a_member(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        for _ in range(3):
            groups.passes(SESSION_MS - 1)
            assert ada.heartbeats() == 0

    def test_a_member_without_one_is_removed(self) -> None:
        groups = Groups()
        ada, bob = stable(groups, "ada", "bob")
        groups.passes(SESSION_MS - 1)
        bob.heartbeats()
        groups.passes(1)
        assert ada.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID
        assert bob.heartbeats() == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_waits_for_the_others_need_not_heartbeat(self) -> None:
        groups = Groups()
        stable(groups, "ada", session_timeout_ms=1_800_000)
        bob = groups.member("bob", session_timeout_ms=6_000)
        bob.joins()
        groups.passes(REBALANCE_MS - 1)
        assert bob.answer is None

    def test_nor_who_waits_for_the_leader(self) -> None:
        groups = Groups()
        ada = groups.member("ada", session_timeout_ms=60_000)
        bob = groups.member("bob", session_timeout_ms=6_000)
        joined(ada, bob)
        waiting = bob.syncs()
        groups.passes(30_000)
        ada.syncs({bob.member_id: b"b"})
        assert groups.answers[waiting].assignment == b"b"

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": "others"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ],
    )
    def test_a_heartbeat_is_refused(self, fields: dict[str, object], code: int) -> None:
        assert stable(Groups(), "ada")[0].heartbeats(**fields) == code


class TestLeaving:
    def test_the_others_rebalance(self) -> None:
        groups = Groups()
        ada, bob = stable(groups, "ada", "bob")
        assert ada.leaves() == (0,)
        assert bob.heartbeats() == ErrorCode.REBALANCE_IN_PROGRESS
        bob.joins()
        assert bob.leads

    def test_who_has_left_is_unknown(self) -> None:
        ada = stable(Groups(), "ada")[0]
        ada.leaves()
        assert ada.leaves() == (ErrorCode.UNKNOWN_MEMBER_ID,)

    def test_a_group_without_members_is_empty(self) -> None:
        groups = Groups()
        stable(groups, "ada")[0].leaves()
        assert groups.state == "Empty"

    def test_of_a_group_that_is_not_there(self) -> None:
        strangers = MemberIdentity("ada-1"), MemberIdentity("bob-1")
        answer = Groups().told(LeaveRequest("others", strangers))
        assert answer == (ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * 2)

    def test_of_a_group_without_a_name(self) -> None:
        answer = Groups().told(LeaveRequest("", (MemberIdentity("ada-1"),)))
        assert answer == (ErrorCode.INVALID_GROUP_ID, ())
