"""Offsets that are deleted while a transaction holds offsets of the group (KIP-496, KIP-98)."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import GroupIdNotFoundError, UnknownTopicError
from sparklog.metadata.plans.transactions import Producer
from sparklog.model import TopicPartition
from tests.transactions import Client, Instance, new_log_dir, ready

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t")


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer whose transaction holds offsets 5 of t-0 and t-1 for group g, 7 of t-0 for h."""
    found = ready(instance)
    found.offsets("g", 5)
    found.offsets("g", 5, partition=1)
    found.offsets("h", 7)
    return found


@pytest.fixture
def admin(instance: Instance, client: Client, tmp_path: Path) -> AdminClient:
    return AdminClient(tmp_path / "log")


def committed(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    found = admin.list_consumer_group_offsets(group)
    return {place: one.offset for place, one in found.items() if one is not None}


def test_a_deleted_group_does_not_come_back(admin: AdminClient, client: Client) -> None:
    admin.alter_consumer_group_offsets("g", {FIRST: 1})
    admin.delete_consumer_groups(["g"])
    client.commit()

    assert [one.group_id for one in admin.list_consumer_groups()] == ["h"]
    assert committed(admin, "h") == {FIRST: 7}


def test_nor_one_that_only_a_transaction_knows(admin: AdminClient, client: Client) -> None:
    admin.delete_consumer_groups(["g"])
    client.commit()

    assert committed(admin, "g") == {}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_consumer_groups(["g"])


def test_nor_a_deleted_offset(admin: AdminClient, client: Client) -> None:
    admin.delete_consumer_group_offsets("g", [SECOND])
    client.commit()

    assert committed(admin, "g") == {FIRST: 5}


def test_nor_one_of_a_topic_that_is_made_again(admin: AdminClient, client: Client) -> None:
    admin.delete_topics(["t"])
    admin.create_topics([NewTopic("t", 2)])
    client.commit()

    assert (committed(admin, "g"), committed(admin, "h")) == ({}, {})


def test_nor_one_that_comes_behind_the_deletion(admin: AdminClient, client: Client) -> None:
    admin.delete_topics(["t"])
    with pytest.raises(UnknownTopicError, match="unknown topic 't'"):
        client.offsets("g", 9)
    admin.create_topics([NewTopic("t", 2)])
    client.commit()

    assert committed(admin, "g") == {}


def test_nor_one_of_a_partition_that_the_new_topic_lacks(
    admin: AdminClient, client: Client
) -> None:
    admin.delete_topics(["t"])
    admin.create_topics([NewTopic("t", 1)])

    with pytest.raises(UnknownTopicError, match="topic 't' has no partition 1"):
        client.offsets("g", 9, partition=1)


def test_another_topic_takes_none_along(admin: AdminClient, client: Client) -> None:
    admin.create_topics([NewTopic("other", 1)])
    held = client.instance.state()
    admin.delete_topics(["other"])

    assert client.instance.state() == held


def test_offsets_of_later_steps_are_committed(admin: AdminClient, client: Client) -> None:
    admin.delete_consumer_groups(["g"])
    client.offsets("g", 8)
    client.commit()

    assert committed(admin, "g") == {FIRST: 8}


def test_a_transaction_that_ends_during_the_deletion_brings_nothing_back(
    admin: AdminClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = admin._groups._log
    change, ended = log.change, list[Producer]()

    def ends_behind(*asked: object) -> object:
        answer = change(*asked)  # type: ignore[arg-type] # as they came
        if not ended:
            ended.append(client.commit())
        return answer

    monkeypatch.setattr(log, "change", ends_behind)
    admin.delete_consumer_groups(["g"])

    assert ended
    assert committed(admin, "g") == {}


def test_an_end_that_drops_offsets_commits_the_others(admin: AdminClient, client: Client) -> None:
    client.produce("x")
    admin.delete_consumer_group_offsets("g", [FIRST, SECOND])
    admin.alter_consumer_group_offsets("g", {FIRST: CommittedOffset(3)})
    client.commit()

    assert client.instance.values() == {0: ["x"], 1: []}
    assert (committed(admin, "g"), committed(admin, "h")) == ({FIRST: 3}, {FIRST: 7})
