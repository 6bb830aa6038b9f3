"""AdminClient.each: each topic for itself, all in one commit."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic, Outcome
from sparklog.clock import ManualClock
from sparklog.errors import (
    InvalidConfigError,
    InvalidOptionError,
    InvalidPartitionsError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicError,
)
from sparklog.model import TopicDescription, TopicPartition
from tests.edits import append, segment

Expected = type[Exception] | None


@pytest.fixture
def admin(tmp_path: Path) -> AdminClient:
    found = AdminClient(tmp_path / "log", clock=ManualClock())
    found.create_topics([NewTopic("a", 2), NewTopic("b", 2, {"cleanup.policy": "compact"})])
    return found


def kinds(outcomes: list[Outcome]) -> list[Expected]:
    """The errors of outcomes; None for what was done."""
    return [None if isinstance(one, TopicDescription) else type(one) for one in outcomes]


def version(admin: AdminClient) -> int:
    return admin._catalog.image().version


def test_creates_what_can_be_created_in_one_commit(admin: AdminClient) -> None:
    before = version(admin)
    wanted = [
        NewTopic("c", 1),
        NewTopic("a", 1),
        NewTopic("d", 0),
        NewTopic("c.d"),
        NewTopic("c_d"),
    ]
    found = admin.each.create_topics(wanted)
    expected = [None, TopicExistsError, InvalidPartitionsError, None, InvalidTopicError]
    assert kinds(found) == expected
    assert admin.list_topics() == ["a", "b", "c", "c.d"]
    assert version(admin) == before + 1


def test_commits_nothing_when_nothing_can_be_done(admin: AdminClient) -> None:
    before = version(admin)
    assert kinds(admin.each.create_topics([NewTopic("a", 1)])) == [TopicExistsError]
    assert admin.each.delete_records({}) == {}
    assert version(admin) == before


def test_deletes_by_id(admin: AdminClient) -> None:
    a, b = admin.describe_topics()
    admin.delete_topics(["b"])
    found = admin.each.delete_topics([a.topic_id, b.topic_id, "nothing"])
    assert kinds(found) == [None, UnknownTopicError, UnknownTopicError]
    assert admin.list_topics() == []


def test_grows(admin: AdminClient) -> None:
    found = admin.each.create_partitions({"a": 3, "b": 2, "c": 1})
    assert kinds(found) == [None, InvalidPartitionsError, UnknownTopicError]
    assert [one.num_partitions for one in admin.describe_topics()] == [3, 2]


def test_alters(admin: AdminClient) -> None:
    long, bad = AlterConfigOp("retention.ms", 7), AlterConfigOp("retention.ms", "x")
    found = admin.each.incremental_alter_configs({"b": [long], "a": [bad], "c": [long]})
    assert kinds(found) == [None, InvalidConfigError, UnknownTopicError]
    expected = {"cleanup.policy": "compact", "retention.ms": "7"}
    assert [one.configs for one in admin.describe_topics()] == [{}, expected]


def test_a_config_is_named_once(admin: AdminClient) -> None:
    op = AlterConfigOp("retention.ms", 7)
    found = admin.each.incremental_alter_configs({"a": [op, op], "b": [op]})
    assert kinds(found) == [InvalidOptionError, None]


def test_replaces_configs(admin: AdminClient) -> None:
    found = admin.each.replace_configs({"b": {"retention.ms": "7"}, "a": {"x": "y"}})
    assert kinds(found) == [None, InvalidConfigError]
    assert [one.configs for one in admin.describe_topics()] == [{}, {"retention.ms": "7"}]


def test_validate_only_changes_nothing(admin: AdminClient) -> None:
    before = version(admin)
    [found] = admin.each.create_partitions({"a": 3}, validate_only=True)
    assert isinstance(found, TopicDescription)
    assert found.num_partitions == 3
    assert version(admin) == before


class TestDeleteRecords:
    def test_raises_log_start_offsets(self, admin: AdminClient) -> None:
        [topic, _] = admin.describe_topics()
        for number in (0, 1):
            append(admin._catalog, topic, segment(number, 10))
        expected = {
            TopicPartition("a", 0): 4,
            TopicPartition("a", 1): 10,
        }
        wanted = {TopicPartition("a", 0): 4, TopicPartition("a", 1): -1}
        assert admin.each.delete_records(wanted) == expected
        assert admin.each.delete_records({TopicPartition("a", 0): 2}) == {TopicPartition("a", 0): 4}

    @pytest.mark.parametrize(
        ("topic", "number", "offset", "error"),
        [
            ("a", 0, 1, OffsetOutOfRangeError),
            ("a", 0, -2, OffsetOutOfRangeError),
            ("a", 2, 0, UnknownTopicError),
            ("c", 0, 0, UnknownTopicError),
            ("b", 0, 0, PolicyViolationError),
        ],
    )
    def test_tells_what_cannot_be_done(
        self, admin: AdminClient, topic: str, number: int, offset: int, error: type[Exception]
    ) -> None:
        partition, good = TopicPartition(topic, number), TopicPartition("a", 1)
        found = admin.each.delete_records({partition: offset, good: 0})
        assert type(found[partition]) is error
        assert found[good] == 0

    def test_a_topic_that_is_deleted_meanwhile_is_unknown(
        self, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topics = admin._catalog.topics()
        admin.delete_topics(["a"])
        monkeypatch.setattr(admin._catalog, "topics", lambda: topics)
        found = admin.each.delete_records({TopicPartition("a", 0): 0})
        assert type(found[TopicPartition("a", 0)]) is UnknownTopicError
