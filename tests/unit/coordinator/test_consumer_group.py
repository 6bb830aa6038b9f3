"""The machine of a consumer group, by the rules of KIP-848 and of Kafka 4.1.1."""

from typing import Any
from weakref import ref

import pytest

from sparklog.coordinator.consumer.consumer_member import ConsumerMember
from sparklog.coordinator.consumer.consumer_records import member_record
from sparklog.coordinator.requests import LeaveRequest, MemberIdentity
from sparklog.errors import ErrorCode
from sparklog.model import TopicDescription
from tests.consumer_language import REBALANCE_MS, SESSION_MS, Consumers, renamed, settle, topic_id
from tests.group_language import GROUP


class TestJoining:
    def test_the_first_member_has_every_partition_at_once(self) -> None:
        ada = Consumers(flights=4).reader("ada")
        answer = ada.joins()
        assert (answer.error_code, answer.member_id, answer.epoch) == (0, "ada", 1)
        assert answer.interval_ms == 5_000
        assert ada.numbers == [0, 1, 2, 3]

    def test_a_second_one_waits_until_the_first_has_given_up_its_half(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada")
        bob = group.reader("bob")
        assert bob.joins().assignment == frozenset()
        assert group.group.state == "Reconciling"
        kept = ada.beats()
        assert kept.epoch == 1, "it keeps its epoch until it has given up"
        assert bob.beats().assignment is None, "ada has not said that she has given up"
        ada.beats()
        bob.beats()
        assert sorted([*ada.numbers, *bob.numbers]) == [0, 1, 2, 3]
        assert (len(ada.numbers), ada.epoch, bob.epoch) == (2, 2, 2)
        assert group.group.state == "Stable"

    def test_a_heartbeat_that_changes_nothing_writes_nothing(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada")
        written = len(group.log)
        assert ada.beats().assignment is None
        assert len(group.log) == written

    def test_a_full_heartbeat_is_told_its_assignment_again(self) -> None:
        (ada,) = Consumers(flights=1).readers("ada")
        told = ada.beats(topic_names=("flights",), rebalance_timeout_ms=REBALANCE_MS)
        assert told.assignment == frozenset({(topic_id("flights"), 0)})

    def test_a_member_that_reads_nothing_yet_has_an_epoch(self) -> None:
        answer = Consumers(flights=1).reader("ada").joins(topic_names=())
        assert (answer.error_code, answer.epoch, answer.assignment) == (0, 1, frozenset())

    def test_a_full_group_takes_nobody_else(self) -> None:
        group = Consumers({"consumer_max_size": 1}, flights=1)
        (ada,) = group.readers("ada")
        assert group.reader("bob").joins().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert ada.beats().error_code == 0


class TestMalformed:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"group_id": ""}, "GroupId can't be empty."),
            ({"member_id": ""}, "MemberId can't be empty."),
            ({"instance_id": ""}, "InstanceId can't be empty."),
            ({"rack_id": ""}, "RackId can't be empty."),
            ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
            ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
            ({"owned": frozenset({("t", 0)})}, "TopicPartitions must be empty when (re-)joining."),
            (
                {"topic_names": None},
                (
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining."
                ),
            ),
            ({"epoch": -2}, "InstanceId can't be null."),
            ({"epoch": -3}, "MemberEpoch is invalid."),
        ],
    )
    def test_it_is_an_invalid_request(self, fields: dict[str, Any], message: str) -> None:
        answer = Consumers(flights=1).reader("ada").joins(**fields)
        assert (answer.error_code, answer.message) == (ErrorCode.INVALID_REQUEST, message)

    def test_an_assignor_must_be_known(self) -> None:
        answer = Consumers(flights=1).reader("ada").joins(assignor="sticky")
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert answer.message == (
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
        )

    def test_a_regular_expression_must_be_one(self) -> None:
        answer = Consumers(flights=1).reader("ada", topic_regex="(").joins()
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "`(` is not a valid regular expression: missing ): (" in str(answer.message)


class TestEpochs:
    def test_a_stranger_is_unknown(self) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        bob = group.reader("bob")
        bob.epoch = 1
        assert bob.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_group_that_is_not_there_cannot_be_heartbeated(self) -> None:
        bob = Consumers(flights=1).reader("bob")
        bob.epoch = 1
        answer = bob.asks()
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.message == "Group readers not found."

    @pytest.mark.parametrize(("epoch", "word"), [(9, "greater"), (1, "smaller")])
    def test_another_epoch_is_fenced(self, epoch: int, word: str) -> None:
        group = Consumers(flights=2)
        ada, _ = group.readers("ada", "bob")
        group.has(flights=8)
        settle(ada)
        ada.epoch = epoch
        answer = ada.asks()
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert word in str(answer.message)

    def test_the_epoch_before_is_taken_when_the_answer_was_lost(self) -> None:
        group = Consumers(flights=2)
        (ada,) = group.readers("ada")
        group.has(flights=4)
        lost = ada.asks()
        again = ada.beats(topic_names=("flights",), rebalance_timeout_ms=REBALANCE_MS)
        assert (lost.epoch, again.epoch) == (2, 2)
        assert ada.numbers == [0, 1, 2, 3]

    def test_but_not_from_one_that_does_not_say_what_it_has(self) -> None:
        group = Consumers(flights=2)
        (ada,) = group.readers("ada")
        group.has(flights=4)
        ada.asks()
        assert ada.asks(owned=None).error_code == ErrorCode.FENCED_MEMBER_EPOCH


class TestLeaving:
    def test_a_members_partitions_go_to_the_others(self) -> None:
        group = Consumers(flights=4)
        ada, bob = group.readers("ada", "bob")
        assert bob.leaves()[:4] == (0, None, "bob", -1)
        settle(ada)
        assert ada.numbers == [0, 1, 2, 3]

    def test_a_silent_member_is_removed_after_its_session(self) -> None:
        group = Consumers(flights=4)
        ada, bob = group.readers("ada", "bob")
        group.passes(SESSION_MS - 1)
        ada.beats()
        group.passes(1)
        settle(ada)
        assert ada.numbers == [0, 1, 2, 3]
        assert bob.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_one_that_does_not_give_up_is_removed_after_its_rebalance_timeout(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada")
        bob = group.reader("bob")
        bob.joins()
        ada.asks()
        for _ in range(3):
            group.passes(REBALANCE_MS // 3)
            bob.beats()
            ada.asks()
        assert ada.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        settle(bob)
        assert bob.numbers == [0, 1, 2, 3]

    def test_one_that_gave_up_in_time_is_not(self) -> None:
        group = Consumers(flights=4)
        ada, bob = group.readers("ada", "bob")
        for _ in range(4):
            group.passes(REBALANCE_MS // 3)
            settle(ada, bob)
        assert group.group.state == "Stable"

    def test_the_last_one_leaves_an_empty_group(self) -> None:
        group = Consumers(flights=1)
        (ada,) = group.readers("ada")
        ada.leaves()
        assert (group.group.state, group.group.members) == ("Empty", ())

    @pytest.mark.parametrize(
        ("member_id", "instance_id", "code"),
        [
            ("ada", None, 0),
            ("", "i", 0),
            ("ada", "i", 0),
            ("ada", "j", ErrorCode.FENCED_INSTANCE_ID),
            ("eva", None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_an_administrator_removes_members(
        self, member_id: str, instance_id: str | None, code: int
    ) -> None:
        group = Consumers(flights=1)
        group.readers("ada", instance_id="i")
        answer = group.told(LeaveRequest(GROUP, (MemberIdentity(member_id, instance_id),)))
        assert answer == (0, (code,))
        assert bool(group.group.members) == bool(code)

    def test_a_stranger_cannot_leave(self) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        assert group.reader("bob").leaves().error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestStaticMembers:
    def test_one_that_comes_again_has_its_partitions_and_nobody_else_moves(self) -> None:
        group = Consumers(flights=4)
        ada, bob = (group.reader(name, instance_id=f"i-{name}") for name in ("ada", "bob"))
        for one in (ada, bob):
            one.joins()
        settle(ada, bob)
        epoch, held = group.group.epoch, bob.numbers
        assert bob.leaves(-2)[:4] == (0, None, "bob", -2)
        bert = renamed(bob, "bert")
        assert not bert.joins().error_code
        assert (bert.numbers, bert.epoch) == (held, epoch)
        assert group.group.epoch == epoch
        assert {one.member_id for one in group.group.members} == {"ada", "bert"}

    def test_nobody_takes_the_place_of_one_that_has_not_left(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", instance_id="i")
        answer = renamed(ada, "eva").joins()
        assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID

    def test_the_former_self_is_fenced(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", instance_id="i")
        ada.leaves(-2)
        renamed(ada, "eva").joins()
        assert ada.asks().error_code == ErrorCode.FENCED_INSTANCE_ID
        assert ada.leaves().error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_one_that_stays_away_is_removed_after_its_session(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", instance_id="i")
        ada.leaves(-2)
        group.passes(SESSION_MS)
        assert group.group.members == ()
        ada.epoch = 1
        assert ada.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_partitions_that_one_had_to_give_up_do_not_end_its_session(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", instance_id="i", rebalance_timeout_ms=10)
        bob = group.reader("bob")
        bob.joins()
        ada.beats()
        ada.leaves(-2)
        group.passes(SESSION_MS - 1)
        assert {one.member_id for one in group.group.members} == {"ada", "bob"}

    def test_one_may_leave_for_good(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", instance_id="i")
        assert ada.leaves().error_code == 0
        assert renamed(ada, "eva").joins().error_code == 0


class TestTopics:
    def test_new_partitions_are_given_out(self) -> None:
        group = Consumers(flights=2)
        ada, bob = group.readers("ada", "bob")
        group.has(flights=6)
        settle(ada, bob)
        assert (len(ada.numbers), len(bob.numbers)) == (3, 3)

    def test_a_topic_may_be_read_before_it_is_there(self) -> None:
        group = Consumers(trains=2)
        (ada,) = group.readers("ada")
        assert ada.numbers == []
        group.has(flights=2)
        settle(ada)
        assert ada.numbers == [0, 1]

    def test_topics_that_nobody_reads_move_nothing(self) -> None:
        group = Consumers(flights=2)
        (ada,) = group.readers("ada")
        group.has(trains=2)
        settle(ada)
        assert ada.epoch == 1

    def test_a_member_may_read_others(self) -> None:
        group = Consumers(flights=2, trains=1)
        (ada,) = group.readers("ada")
        ada.beats(topic_names=("trains",))
        settle(ada)
        assert ada.places == {("trains", 0)}

    def test_a_regular_expression_finds_whole_names(self) -> None:
        group = Consumers(flights=1, flights_old=1, my_flights=1)
        (ada,) = group.readers("ada", topic_regex="flights.*")
        assert {name for name, _ in ada.places} == {"flights", "flights_old"}
        group.has(flights_new=1)
        settle(ada)
        assert {name for name, _ in ada.places} == {"flights", "flights_old", "flights_new"}

    def test_but_those_alone_that_its_member_may_read(self) -> None:
        group = Consumers(flights=1, flights_old=1)
        ada = group.reader("ada", topic_regex="flights.*")
        ada.joins(may_read=lambda name: name == "flights")
        assert {name for name, _ in ada.places} == {"flights"}

    def test_a_new_topic_is_divided_at_once_among_members_with_the_same_one(self) -> None:
        group = Consumers()
        ada, bob = group.readers("ada", "bob", topic_regex="flights.*")
        group.has(flights=4)
        ada.beats()
        bob.beats()
        assert (len(ada.numbers), len(bob.numbers)) == (2, 2)

    def test_a_new_topic_is_divided_among_members_with_different_ones(self) -> None:
        group = Consumers()
        ada, bob = group.reader("ada", topic_regex="fl.*"), group.reader("bob", topic_regex=".*ts")
        ada.joins()
        bob.joins()
        group.has(flights=4)
        settle(ada, bob)
        assert (len(ada.numbers), len(bob.numbers)) == (2, 2)

    def test_a_new_topic_is_divided_though_a_static_member_begins_anew(self) -> None:
        group = Consumers()
        ada = group.reader("ada", topic_regex="fl.*", instance_id="i")
        bob = group.reader("bob", topic_regex=".*ts")
        ada.joins()
        bob.joins()
        group.has(flights=4)
        bob.beats()
        ada.leaves(-2)
        ada = renamed(ada, "ada anew")
        ada.joins()
        settle(ada, bob)
        assert (len(ada.numbers), len(bob.numbers)) == (2, 2)

    def test_a_new_topic_is_divided_though_the_coordinator_moves(self) -> None:
        """Goal: all count whose expressions match. Method: ada alone sees it before the move."""
        group = Consumers()
        ada, bob = group.reader("ada", topic_regex="fl.*"), group.reader("bob", topic_regex=".*ts")
        ada.joins()
        bob.joins()
        group.has(flights=4)
        ada.beats()
        group.restarts()
        settle(ada, bob)
        assert (len(ada.numbers), len(bob.numbers)) == (2, 2)

    def test_a_move_of_the_coordinator_alone_moves_no_partition(self) -> None:
        """Goal: nor if a member's expression matches topics that it may not read."""
        group = Consumers(flights=1, secrets=4)
        ada, bob = group.reader("ada", topic_regex=".*"), group.reader("bob", topic_regex=".*ts")
        ada.joins()
        bob.joins(may_read=lambda name: name == "flights")
        for _ in range(4):
            ada.beats()
            bob.beats(may_read=lambda name: name == "flights")
        written = len(group.log)
        group.restarts()
        ada.beats()
        bob.beats(may_read=lambda name: name == "flights")
        assert len(group.log) == written
        assert (len(ada.places), len(bob.places)) == (4, 1)

    def test_a_new_topic_that_a_member_may_not_read_goes_to_the_others(self) -> None:
        group = Consumers()
        ada, bob = group.readers("ada", "bob", topic_regex="flights.*")
        group.has(flights=4)
        ada.beats()
        bob.beats(may_read=lambda _: False)
        ada.beats()
        assert (ada.numbers, bob.numbers) == ([0, 1, 2, 3], [])

    def test_it_may_be_given_up_for_names(self) -> None:
        group = Consumers(flights=1, flights_old=1)
        (ada,) = group.readers("ada", topic_regex="flights.*")
        ada.beats(topic_regex="", topic_names=("flights",))
        settle(ada)
        assert ada.places == {("flights", 0)}

    def test_the_assignor_is_the_one_that_most_ask_for(self) -> None:
        group = Consumers(flights=4)
        readers = [
            group.reader("a", assignor="range"),
            group.reader("b", assignor="range"),
            group.reader("c", assignor="uniform"),
        ]
        for one in readers:
            one.joins()
        settle(*readers)
        assert group.group.assignor == "range"
        assert [one.numbers for one in readers] == [[0, 1], [2], [3]]

    def test_an_assignor_of_a_broker_that_is_unknown_here_does_not_count(self) -> None:
        group = Consumers(flights=2)
        (ada,) = group.readers("ada")
        left = ConsumerMember(member_id="ada", topic_names=("flights",), assignor="sticky")
        group.log.append(member_record(GROUP, left))
        group.restarts()
        group.has(flights=3)
        assert ada.beats().error_code == 0
        assert (ada.numbers, group.group.assignor) == ([0, 1, 2], "uniform")

    def test_an_expression_of_a_broker_that_is_invalid_here_matches_nothing(self) -> None:
        group = Consumers(flights=2)
        (ada,) = group.readers("ada")
        left = ConsumerMember(member_id="ada", topic_regex="(")
        group.log.append(member_record(GROUP, left))
        group.restarts()
        assert ada.beats().error_code == 0
        assert ada.numbers == []

    def test_an_empty_group_does_not_keep_them_in_memory(self) -> None:
        class Topics(dict[str, TopicDescription]):
            """A mapping that can be watched."""

        group = Consumers(flights=2)
        group.topics = Topics(group.topics)
        kept = ref(group.topics)
        (ada,) = group.readers("ada")
        ada.leaves()
        group.topics = {}
        assert kept() is None
