"""Static members of a group: one that comes again keeps its place, its former self is fenced."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from sparklog.coordinator.classic.member import Member
from sparklog.coordinator.classic.members import Members
from sparklog.coordinator.requests import LeaveRequest, MemberIdentity, Protocol
from sparklog.coordinator.timers import Timers
from sparklog.errors import ErrorCode
from tests.group_language import DELAY_MS, GROUP, RANGE, SESSION_MS, Groups, code_of, stable


def at_most(times: int, call: Callable[..., None]) -> Callable[..., None]:
    """The same function, which fails after so many calls."""
    calls = count()

    def counted(*given: Any) -> None:
        assert next(calls) < times
        call(*given)

    return counted


class TestStaticMembers:
    def test_one_that_comes_again_keeps_its_place_without_a_rebalance(self) -> None:
        groups = Groups()
        [ada] = stable(groups, "ada", instance_id="first")
        again = groups.member("ada", instance_id="first")
        again.joins()
        assert again.answer is not None
        assert (again.answer.error_code, again.generation, groups.state) == (0, 1, "Stable")
        assert again.is_told_to(again.syncs()).assignment == b"ada"
        assert ada.heartbeats() == ErrorCode.FENCED_INSTANCE_ID

    def test_one_that_leads_is_told_to_assign_nothing(self) -> None:
        groups = Groups()
        stable(groups, "ada", instance_id="first")
        again = groups.member("ada", instance_id="first")
        again.joins()
        assert again.answer is not None
        assert again.leads
        assert again.answer.skip_assignment

    def test_an_older_client_that_leads_is_told_its_old_id_as_leader(self) -> None:
        groups = Groups()
        [ada] = stable(groups, "ada", instance_id="first")
        again = groups.member("ada", instance_id="first", skips_assignment=False)
        again.joins()
        assert again.answer is not None
        assert (again.answer.leader, again.answer.members) == (ada.member_id, ())

    def test_another_protocol_asks_for_a_rebalance(self) -> None:
        groups = Groups()
        stable(groups, "ada", instance_id="first", protocols=(RANGE, Protocol("sticky", b"")))
        again = groups.member("ada", instance_id="first", protocols=(Protocol("sticky", b""),))
        again.joins()
        assert again.answer is not None
        assert (again.answer.generation, again.answer.protocol_name) == (2, "sticky")

    def test_what_waits_in_its_name_is_fenced(self) -> None:
        groups = Groups()
        ada = groups.member("ada", instance_id="first")
        token = ada.joins()
        again = groups.member("ada", instance_id="first")
        again.joins()
        assert groups.answers[token].error_code == ErrorCode.FENCED_INSTANCE_ID
        groups.passes(DELAY_MS)
        assert code_of(again) == 0

    def test_one_between_join_and_sync_has_the_others_join_again(self) -> None:
        groups = Groups()
        ada = groups.member("ada", instance_id="first")
        ada.joins()
        groups.passes(DELAY_MS)
        again = groups.member("ada", instance_id="first")
        again.joins()
        assert again.answer is not None
        assert again.answer.generation == 2

    def test_one_that_comes_again_before_its_sync_must_sync_in_time(self) -> None:
        groups = Groups()
        ada = groups.member("ada", rebalance_timeout_ms=10_000)
        fields: dict[str, Any] = {"instance_id": "first", "rebalance_timeout_ms": 10_000}
        bob = groups.member("bob", **fields)
        for one in (ada, bob):
            one.joins()
        groups.passes(2 * DELAY_MS)
        assert ada.leads
        ada.syncs()
        again = groups.member("bob", **fields)
        again.joins()
        assert (code_of(again), groups.state) == (0, "Stable")
        groups.passes(10_000)
        assert again.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        ("instance_id", "code"),
        [("first", ErrorCode.FENCED_INSTANCE_ID), ("second", ErrorCode.UNKNOWN_MEMBER_ID)],
    )
    def test_a_pending_id_is_no_static_member(self, instance_id: str, code: int) -> None:
        groups = Groups()
        stable(groups, "ada", instance_id="first")
        bob = groups.member("bob")
        bob.asks_to_join()
        assert bob.answer is not None
        bob.member_id = bob.answer.member_id
        bob.joins(instance_id=instance_id)
        assert code_of(bob) == code
        bob.joins()
        assert bob.answer is None

    def test_one_that_does_not_come_keeps_its_place_for_its_session(self) -> None:
        groups = Groups()
        fields = {"rebalance_timeout_ms": 10_000}
        ada = stable(groups, "ada", instance_id="first", **fields)[0]
        bob = groups.member("bob", **fields)
        bob.joins()
        groups.passes(10_000)
        assert code_of(bob) == 0
        assert ada.heartbeats() == ErrorCode.ILLEGAL_GENERATION

    def test_when_only_such_are_left_their_sessions_decide(self) -> None:
        groups = Groups()
        fields = {"rebalance_timeout_ms": 10_000}
        ada = stable(groups, "ada", instance_id="first", **fields)[0]
        bob = groups.member("bob", **fields)
        bob.joins()
        bob.leaves()
        groups.passes(10_000)
        assert groups.state == "PreparingRebalance"
        assert ada.heartbeats() == ErrorCode.REBALANCE_IN_PROGRESS
        groups.passes(SESSION_MS)
        assert groups.state == "Empty"

    def test_with_a_rebalance_timeout_of_0_their_sessions_decide_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        groups = Groups()
        ada = groups.member("ada", instance_id="first", rebalance_timeout_ms=0)
        bob = groups.member("bob", instance_id="second", rebalance_timeout_ms=60_000)
        for one in (bob, ada):
            one.joins()
        groups.passes(2 * DELAY_MS)
        assert (bob.leads, ada.leads) == (True, False)
        bob.syncs()
        ada.syncs()
        monkeypatch.setattr(Timers, "set", at_most(100, Timers.set))  # else it may never end
        bob.leaves()
        monkeypatch.undo()
        assert groups.state == "PreparingRebalance"
        groups.passes(SESSION_MS)
        assert groups.state == "Empty"

    def test_one_that_waited_for_a_sync_longer_than_its_session_has_a_new_one(self) -> None:
        groups = Groups()
        fields = {"rebalance_timeout_ms": 300_000}
        ada = groups.member("ada", instance_id="first", **fields)
        bob = groups.member("bob", instance_id="second", session_timeout_ms=10_000, **fields)
        for one in (ada, bob):
            one.joins()
        groups.passes(2 * DELAY_MS)
        assert (ada.leads, bob.leads) == (True, False)
        bob.syncs()
        groups.passes(SESSION_MS)
        assert groups.state == "PreparingRebalance"
        groups.passes(10_000)
        assert groups.state == "Empty"

    def test_an_administrator_removes_one_by_its_instance(self) -> None:
        groups = Groups()
        stable(groups, "ada", instance_id="first")
        members = MemberIdentity("", "first"), MemberIdentity("", "second")
        codes = groups.told(LeaveRequest(GROUP, members)).members
        assert codes == (0, ErrorCode.UNKNOWN_MEMBER_ID)
        assert groups.state == "Empty"

    def test_an_instance_that_is_unknown(self) -> None:
        groups = Groups()
        stable(groups, "ada")
        bob = groups.member("bob", instance_id="second")
        bob.member_id = "bob-7"
        assert bob.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_of_two_with_one_instance_id_the_last_has_it(self) -> None:
        """An old log may have such a group."""
        members = Members()
        ada, bob = (Member(name, "first", "", "", 1, 1, ()) for name in ("ada", "bob"))
        members.add(ada)
        members.add(bob)
        members.remove(ada)
        assert members.static_id("first") == "bob"
        members.remove(bob)
        assert members.static_id("first") is None
