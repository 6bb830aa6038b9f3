"""Followed manifests: at hand when nothing is new, read when something is, never for long."""

from pathlib import Path

import pytest

from api.topics import FollowedTopics
from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import UnknownTopicError
from sparklog.storage.local import LocalFiles
from tests.logs import append


class RemoteFiles(LocalFiles):
    """Files that are asked for over a network, as far as anybody can tell."""

    is_local = False


@pytest.fixture
def topics(log_dir: str) -> FollowedTopics:
    return FollowedTopics(LocalFiles(log_dir), ManualClock(), 20)


@pytest.fixture
def remote(log_dir: str) -> tuple[FollowedTopics, ManualClock]:
    clock = ManualClock()
    return FollowedTopics(RemoteFiles(log_dir), clock, 20), clock


class TestLocal:
    def test_nothing_is_at_hand_before_it_was_read(self, topics: FollowedTopics) -> None:
        before = topics.reader_at_hand("t")
        topics.topics()
        listed = topics.reader_at_hand("t")
        reader = topics.reader("t")

        assert before is listed is None
        assert topics.reader_at_hand("t") is reader is topics.reader("t")

    def test_what_was_committed_is_read(self, topics: FollowedTopics, log_dir: str) -> None:
        first = topics.reader("t")
        append(log_dir, 0, "ab")

        assert topics.reader_at_hand("t") is None
        assert first.log_end_offset(0) == 0
        assert topics.reader("t").log_end_offset(0) == 2

    def test_a_change_of_the_topic_is_read(self, topics: FollowedTopics, log_dir: str) -> None:
        first = topics.reader("t")
        AdminClient(log_dir).create_partitions({"t": 9})
        unknown = topics.reader_at_hand("t")
        topics.topics()
        grown = topics.reader_at_hand("t")

        assert unknown is grown is None
        assert topics.reader("t").topic.num_partitions == 9
        assert topics.reader("t").snapshot is first.snapshot

    def test_whoever_is_busy_is_not_waited_for(self, topics: FollowedTopics) -> None:
        topics.reader("t")
        with topics._lock:
            listing = topics.reader_at_hand("t")
        (followed,) = topics._followed.values()
        with followed.lock:
            reading = topics.reader_at_hand("t")

        assert listing is reading is None

    def test_unknown_topics_are_told(self, topics: FollowedTopics) -> None:
        topics.topics()

        for ask in (topics.reader_at_hand, topics.reader, topics.topic):
            with pytest.raises(UnknownTopicError, match="unknown topic 'u'"):
                ask("u")

    def test_what_is_gone_is_forgotten(self, topics: FollowedTopics, log_dir: str) -> None:
        topics.reader("t")
        ages = topics.ages_ms()
        admin = AdminClient(log_dir)
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("u")])
        topics.topics()

        assert (ages, topics.ages_ms(), topics._followed) == ({"t": 0}, {}, {})

    def test_the_manifest_of_what_is_gone_is_not_kept(
        self, topics: FollowedTopics, log_dir: str
    ) -> None:
        topics.reader("t")
        AdminClient(log_dir).delete_topics(["t"])
        topics.topics()

        assert topics._catalog._stores == {}


class TestRemote:
    def test_is_at_hand_for_a_moment(
        self, remote: tuple[FollowedTopics, ManualClock], log_dir: str
    ) -> None:
        topics, clock = remote
        reader = topics.reader("t")
        append(log_dir, 0, "ab")
        at_once = topics.reader_at_hand("t")
        clock.advance(20)
        later = topics.reader_at_hand("t")
        topics.topics()
        listed = topics.reader_at_hand("t")

        assert at_once is reader
        assert later is listed is None
        assert topics.reader("t").log_end_offset(0) == 2
        assert topics.ages_ms() == {"t": 0}


def test_a_directory_without_a_log_dir_has_none(tmp_path: Path) -> None:
    assert FollowedTopics(LocalFiles(str(tmp_path / "new")), ManualClock(), 1).topics() == {}
