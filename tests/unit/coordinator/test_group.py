"""The machine of a group, by the rules of Kafka 4.1.1 (GroupMetadataManager): joins, rebalances."""

import pytest

from sparklog.coordinator.requests import PROTOCOLS_MAX, ConsumerHeartbeat, Protocol
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import ErrorCode
from tests.group_language import DELAY_MS, GROUP, RANGE, SESSION_MS, Groups, code_of, stable


class TestJoining:
    def test_a_new_member_is_told_its_id_first(self) -> None:
        ada = Groups().member("ada")
        ada.asks_to_join()
        assert ada.answer is not None
        assert (ada.answer.error_code, ada.answer.member_id) == (
            ErrorCode.MEMBER_ID_REQUIRED,
            "ada-1",
        )

    def test_an_old_client_is_not(self) -> None:
        groups = Groups()
        ada = groups.member("ada", needs_member_id=False)
        ada.asks_to_join()
        groups.passes(DELAY_MS)
        assert ada.answer is not None
        assert (ada.answer.member_id, ada.answer.leader) == ("ada-1", "ada-1")

    def test_the_first_rebalance_waits_for_others_as_long_as_some_come(self) -> None:
        groups = Groups()
        ada, bob = groups.member("ada"), groups.member("bob")
        ada.joins()
        groups.passes(DELAY_MS - 1)
        bob.joins()
        groups.passes(DELAY_MS)
        assert ada.answer is None
        groups.passes(1)
        assert (ada.leads, bob.leads) == (True, False)
        assert ada.generation == bob.generation == 1

    def test_it_waits_for_the_rebalance_timeout_at_most(self) -> None:
        groups = Groups()
        first = groups.member("0", rebalance_timeout_ms=10_000)
        first.joins()
        for number in range(1, 8):
            groups.passes(DELAY_MS - 1)
            groups.member(str(number), rebalance_timeout_ms=10_000).joins()
        assert first.answer is not None

    def test_the_leader_is_told_the_members_and_their_metadata(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada", "bob")[0]
        assert ada.answer is not None
        assert [(one.member_id, one.metadata) for one in ada.answer.members] == [
            ("ada-1", RANGE.metadata),
            ("bob-2", RANGE.metadata),
        ]
        assert (ada.answer.protocol_type, ada.answer.protocol_name) == ("consumer", "range")

    def test_the_protocol_is_the_one_with_most_votes_that_all_support(self) -> None:
        groups = Groups()
        a, b, c = (Protocol(name, b"") for name in "abc")
        members = [
            groups.member("1", protocols=(c, a, b)),
            groups.member("2", protocols=(b, a)),
            groups.member("3", protocols=(a, b)),
        ]
        for one in members:
            one.joins()
        groups.passes(3 * DELAY_MS)
        answer = members[0].answer
        assert answer is not None
        assert answer.protocol_name == "a"

    @pytest.mark.parametrize(
        "fields",
        [
            {"protocols": ()},
            {"protocol_type": ""},
            {"protocols": (Protocol("sticky", b""),)},
            {"protocol_type": "connect"},
            {"protocols": (RANGE,) * (PROTOCOLS_MAX + 1)},
        ],
    )
    def test_protocols_that_others_do_not_support_are_refused(
        self, fields: dict[str, object]
    ) -> None:
        groups = Groups()
        stable(groups, "ada")
        bob = groups.member("bob", **fields)
        bob.joins()
        assert code_of(bob) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_group_that_nobody_could_join_is_not_there(self) -> None:
        groups = Groups()
        groups.member("ada", protocols=()).joins()
        assert groups.names() == []

    @pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
    def test_a_session_timeout_has_bounds(self, session_ms: int) -> None:
        ada = Groups().member("ada", session_timeout_ms=session_ms)
        ada.joins()
        assert code_of(ada) == ErrorCode.INVALID_SESSION_TIMEOUT

    def test_a_group_has_a_name(self) -> None:
        ada = Groups().member("ada", group_id="")
        ada.joins()
        assert code_of(ada) == ErrorCode.INVALID_GROUP_ID

    def test_an_id_of_no_member_is_unknown(self) -> None:
        groups = Groups()
        bob = groups.member("bob")
        bob.member_id = "nobody"
        bob.joins()
        assert code_of(bob) == ErrorCode.UNKNOWN_MEMBER_ID
        stable(groups, "ada")
        bob.joins()
        assert code_of(bob) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_id_that_is_not_used_for_a_session_is_forgotten(self) -> None:
        groups = Groups()
        ada = groups.member("ada")
        ada.asks_to_join()
        groups.passes(SESSION_MS)
        assert groups.names() == []

    def test_a_group_of_the_largest_size_takes_no_more(self) -> None:
        groups = Groups(max_size=1)
        ada = stable(groups, "ada")[0]
        bob = groups.member("bob")
        bob.joins()
        assert code_of(bob) == ErrorCode.GROUP_MAX_SIZE_REACHED
        ada.joins()
        assert code_of(ada) == 0

    def test_an_id_that_it_has_refused_is_forgotten(self) -> None:
        groups = Groups(max_size=1)
        ada, bob = groups.member("ada"), groups.member("bob")
        bob.asks_to_join()
        ada.joins()
        bob.member_id = "bob-1"
        bob.joins()
        assert code_of(bob) == ErrorCode.GROUP_MAX_SIZE_REACHED
        groups.passes(DELAY_MS)
        ada.leaves()
        member = ConsumerHeartbeat(
            GROUP, "eve", 0, owned=frozenset(), topic_names=("flights",), rebalance_timeout_ms=1
        )
        assert groups.told(member).error_code == 0
        groups.passes(SESSION_MS - DELAY_MS)
        assert groups.told(member._replace(epoch=1)).error_code == 0

    def test_nobody_waits_for_an_id_that_it_has_refused(self) -> None:
        groups = Groups(max_size=1)
        ada, bob = groups.member("ada"), groups.member("bob")
        bob.asks_to_join()
        ada.joins()
        groups.passes(DELAY_MS)
        assert code_of(ada) == 0
        ada.joins(protocols=(RANGE, Protocol("sticky", b"")))
        assert ada.answer is None
        bob.member_id = "bob-1"
        bob.joins()
        assert (code_of(bob), code_of(ada)) == (ErrorCode.GROUP_MAX_SIZE_REACHED, 0)

    def test_nor_for_a_member_that_it_has_refused(self) -> None:
        """After a restart group.max.size may be smaller than a group."""
        groups = Groups(max_size=2)
        ada, bob = stable(groups, "ada", "bob")
        groups.limits = GroupLimits(max_size=1)
        groups.restarts()
        for one in (ada, bob):
            one.joins(protocols=(RANGE, Protocol("sticky", b"")))
        assert (code_of(ada), code_of(bob)) == (0, ErrorCode.GROUP_MAX_SIZE_REACHED)

    def test_nor_while_it_rebalances(self) -> None:
        groups = Groups(max_size=1)
        ada, bob = groups.member("ada"), groups.member("bob")
        ada.joins()
        bob.joins()
        assert code_of(bob) == ErrorCode.GROUP_MAX_SIZE_REACHED


class TestRebalancing:
    def test_a_new_member_has_all_others_join_again(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        bob = groups.member("bob")
        bob.joins()
        assert groups.state == "PreparingRebalance"
        assert ada.heartbeats() == ErrorCode.REBALANCE_IN_PROGRESS
        assert ada.is_told_to(ada.syncs()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        ada.joins()
        assert (code_of(ada), code_of(bob), groups.state) == (0, 0, "CompletingRebalance")
        assert ada.generation == 2

    def test_who_does_not_come_in_time_is_removed(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada", rebalance_timeout_ms=10_000)[0]
        bob = groups.member("bob", rebalance_timeout_ms=10_000)
        bob.joins()
        groups.passes(10_000)
        assert bob.leads
        assert ada.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_pending_id_is_waited_for(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        bob, eve = groups.member("bob"), groups.member("eve")
        eve.asks_to_join()
        bob.joins()
        ada.joins()
        assert ada.answer is None
        groups.passes(SESSION_MS)
        assert code_of(ada) == 0

    def test_a_pending_id_may_leave(self) -> None:
        groups = Groups()
        ada = stable(groups, "ada")[0]
        bob, eve = groups.member("bob"), groups.member("eve")
        eve.asks_to_join()
        bob.joins()
        ada.joins()
        eve.member_id = "eve-3" if eve.answer is None else eve.answer.member_id
        assert eve.leaves() == (0,)
        assert code_of(ada) == 0

    def test_the_leader_may_ask_for_one(self) -> None:
        groups = Groups()
        ada, bob = stable(groups, "ada", "bob")
        bob.joins()
        assert (code_of(bob), groups.state) == (0, "Stable")
        ada.joins()
        assert (ada.answer, groups.state) == (None, "PreparingRebalance")

    def test_other_metadata_asks_for_one(self) -> None:
        groups = Groups()
        _, bob = stable(groups, "ada", "bob")
        bob.joins(protocols=(Protocol("range", b"more"),))
        assert groups.state == "PreparingRebalance"

    def test_a_join_that_is_sent_again_takes_the_place_of_the_first(self) -> None:
        groups = Groups()
        ada = groups.member("ada")
        first = ada.joins()
        ada.joins()
        assert groups.answers[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        groups.passes(DELAY_MS)
        assert code_of(ada) == 0

    def test_a_join_between_join_and_sync_is_answered_again(self) -> None:
        groups = Groups()
        ada = groups.member("ada")
        ada.joins()
        groups.passes(DELAY_MS)
        assert code_of(ada) == 0
        ada.joins()
        assert (code_of(ada), ada.generation) == (0, 1)

    def test_members_that_all_leave_before_the_first_generation(self) -> None:
        groups = Groups()
        ada = groups.member("ada")
        token = ada.joins()
        assert ada.leaves() == (0,)
        assert groups.answers[token].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        groups.passes(DELAY_MS)
        assert groups.state == "Empty"
