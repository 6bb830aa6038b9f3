"""A consumer group keeps its members over a takeover, and its offsets, whatever its kind."""

from typing import Any

import pytest

from sparklog.coordinator.consumer.subscriptions import Subscriptions
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    ConsumerDescribeRequest,
    ConsumerHeartbeat,
    FetchRequest,
    ListRequest,
)
from sparklog.errors import ErrorCode
from sparklog.model import TopicPartition
from tests.consumer_language import REBALANCE_MS, SESSION_MS, Consumers, settle
from tests.group_language import FLIGHTS, GROUP, TRAINS, stable


class TestTakeover:
    def test_a_group_goes_on_where_it_was(self) -> None:
        group = Consumers(flights=4, trains=2)
        readers = [
            *group.readers("ada", topic_names=("flights", "trains"), instance_id="i"),
            *group.readers("bob", topic_regex="fl.*", rack_id="r1"),
        ]
        settle(*readers)
        before, written = group.group, len(group.log)
        group.restarts()
        assert group.group == before
        settle(*readers)
        assert len(group.log) == written, "nobody is moved"

    def test_every_member_has_a_fresh_session(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada")
        group.passes(SESSION_MS - 1)
        group.restarts()
        group.passes(SESSION_MS - 1)
        assert ada.beats().error_code == 0
        group.passes(SESSION_MS)
        assert ada.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_one_that_had_to_give_up_has_its_time_anew(self) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada")
        group.reader("bob").joins()
        ada.asks()
        group.restarts()
        for _ in range(3):
            group.passes(REBALANCE_MS // 3)
            ada.asks()
        assert ada.asks().error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_those_that_left_are_not_there(self) -> None:
        group = Consumers(flights=4)
        _, bob = group.readers("ada", "bob")
        bob.leaves()
        group.restarts()
        assert [one.member_id for one in group.group.members] == ["ada"]

    def test_a_record_of_a_member_that_is_gone_is_passed_over(self) -> None:
        group = Consumers(flights=1)
        (ada,) = group.readers("ada")
        ada.leaves()
        group.deletes()
        group.log = [record for record in group.log if record.value is None]
        group.restarts()
        assert group.names() == []


class TestOffsets:
    def test_a_member_commits_in_its_epoch(self) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        answer = group.commits(7, generation=1, member_id="ada")
        assert answer.partitions == {FLIGHTS: 0}
        assert group.committed() == {FLIGHTS: 7}

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"generation": 2, "member_id": "ada"}, ErrorCode.STALE_MEMBER_EPOCH),
            (
                {"generation": 2, "member_id": "ada", "is_transactional": True},
                ErrorCode.ILLEGAL_GENERATION,
            ),
            ({"generation": 1, "member_id": "eva"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation": 1, "member_id": "ada", "version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ],
    )
    def test_others_do_not(self, fields: dict[str, Any], code: int) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        assert group.commits(7, **fields).partitions == {FLIGHTS: code}

    def test_anybody_may_when_the_group_is_empty(self) -> None:
        group = Consumers(flights=1)
        group.readers("ada")[0].leaves()
        assert group.commits(7).partitions == {FLIGHTS: 0}

    @pytest.mark.parametrize(
        ("member_id", "epoch", "code"),
        [
            ("ada", 1, 0),
            (None, -1, 0),
            ("ada", 2, ErrorCode.STALE_MEMBER_EPOCH),
            ("eva", 1, ErrorCode.UNKNOWN_MEMBER_ID),
            (None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_a_member_fetches_in_its_epoch(
        self, member_id: str | None, epoch: int, code: int
    ) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        assert group.told(FetchRequest(GROUP, None, member_id, epoch)).error_code == code

    def test_those_of_topics_that_are_read_are_not_deleted(self) -> None:
        group = Consumers(flights=1, trains=1)
        group.readers("ada")
        for place in (FLIGHTS, TRAINS):
            offsets = {place: CommittedOffset(7)}
            group.told(CommitRequest(GROUP, offsets, 1, "ada"))
        codes = group.deletes_offsets(FLIGHTS, TRAINS).partitions
        assert codes == {FLIGHTS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, TRAINS: 0}

    def test_those_of_topics_that_are_not_read_expire(self) -> None:
        group = Consumers({"offsets_retention_ms": 1_000_000}, flights=1, trains=1)
        (ada,) = group.readers("ada")
        for place in (FLIGHTS, TRAINS):
            group.told(CommitRequest(GROUP, {place: CommittedOffset(7)}, 1, "ada"))
        for _ in range(60):
            group.passes(30_000)
            ada.beats()
        assert group.committed() == {FLIGHTS: 7}

    def test_the_topics_of_a_member_are_found_once_for_all_offsets(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group = Consumers(flights=4)
        (ada,) = group.readers("ada", topic_regex="fl.*")
        many = {TopicPartition("flights", number): CommittedOffset(1) for number in range(4)}
        group.told(CommitRequest(GROUP, many, ada.epoch, ada.name))
        names, asked = Subscriptions.names, []

        def counted(*arguments: Any) -> frozenset[str]:
            asked.append(arguments)
            return names(*arguments)

        monkeypatch.setattr(Subscriptions, "names", counted)
        assert not group.shard.expire(group.now).records
        assert set(group.deletes_offsets(*many).partitions.values()) == {
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        }
        assert len(asked) == 2

    def test_those_that_match_an_expression_stay_before_its_member_has_sent_a_heartbeat(
        self,
    ) -> None:
        """So they are there when all gateways were down, and `retention` has run."""
        group = Consumers({"offsets_retention_ms": 1_000}, flights=1)
        group.readers("ada", topic_regex="fl.*")
        group.told(CommitRequest(GROUP, {FLIGHTS: CommittedOffset(7)}, 1, "ada"))
        group.passes(2_000)
        group.restarts()
        assert group.shard.expire(group.now).records == []
        codes = group.deletes_offsets(FLIGHTS).partitions
        assert codes == {FLIGHTS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


class TestKinds:
    def test_a_group_is_listed_with_its_kind(self) -> None:
        group = Consumers(flights=1)
        group.readers("ada")
        assert group.told(ListRequest()) == [(GROUP, "consumer", "Stable", "consumer")]

    def test_a_classic_group_with_members_stays_one(self) -> None:
        group = Consumers(flights=1)
        stable(group, "ada")
        answer = group.reader("bob").joins()
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.message == "Group readers is not a consumer group."

    def test_an_empty_classic_group_becomes_one_of_consumers_with_its_offsets(self) -> None:
        group = Consumers(flights=1)
        (ada,) = stable(group, "ada")
        ada.commits(7)
        ada.leaves()
        assert group.reader("bob").joins().error_code == 0
        for _ in range(2):
            assert group.described() is None, "DescribeGroups tells classic ones alone"
            assert (group.group.state, group.committed()) == ("Stable", {FLIGHTS: 7})
            group.restarts()

    def test_one_that_has_committed_alone_does_too(self) -> None:
        group = Consumers(flights=1)
        group.commits(7)
        (bob,) = group.readers("bob")
        group.restarts()
        assert bob.beats().error_code == 0
        assert group.committed() == {FLIGHTS: 7}

    def test_an_empty_group_of_consumers_becomes_a_classic_one(self) -> None:
        group = Consumers(flights=1)
        (bob,) = group.readers("bob")
        group.commits(7, generation=1, member_id="bob")
        bob.leaves()
        stable(group, "ada")
        for _ in range(2):
            assert group.told(ConsumerDescribeRequest(GROUP)) is None
            assert (group.state, group.committed()) == ("Stable", {FLIGHTS: 7})
            group.restarts()

    def test_one_with_members_takes_no_classic_member(self) -> None:
        group = Consumers(flights=1)
        group.readers("bob")
        ada = group.member("ada")
        ada.joins()
        assert ada.answer is not None
        assert ada.answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert ada.heartbeats() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_it_is_deleted_when_it_is_empty(self) -> None:
        group = Consumers(flights=1)
        (bob,) = group.readers("bob")
        assert group.deletes() == ErrorCode.NON_EMPTY_GROUP
        bob.leaves()
        assert group.deletes() == 0
        group.restarts()
        assert group.names() == []

    def test_one_that_is_refused_leaves_nothing(self) -> None:
        group = Consumers({"consumer_max_size": 0}, flights=1)
        group.told(ConsumerHeartbeat(GROUP, "ada", 0, owned=frozenset(), topic_names=()))
        assert group.reader("ada").joins().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (group.names(), group.log) == ([], [])
