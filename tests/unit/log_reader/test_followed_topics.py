"""Followed topics: kept while nothing is new, read when something is, durable when served."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import StorageError, UnknownTopicError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.local import LocalFiles
from tests.logs import append, catalog


class RemoteFiles(LocalFiles):
    """Files that are asked for over a network, as far as anybody can tell."""

    is_local = False


def followed(files: LocalFiles, clock: ManualClock) -> FollowedTopics:
    return FollowedTopics(Catalog(files, clock), clock, 20)


@pytest.fixture
def topics(log_dir: str) -> FollowedTopics:
    return followed(LocalFiles(log_dir), ManualClock())


@pytest.fixture
def remote(log_dir: str) -> tuple[FollowedTopics, ManualClock]:
    clock = ManualClock()
    return followed(RemoteFiles(log_dir), clock), clock


def end(reader: TopicReader) -> int:
    return reader.partition(0).log_end_offset


class TestNoted:
    def test_an_image_stays_when_an_older_one_was_read_meanwhile(
        self,
        remote: tuple[FollowedTopics, ManualClock],
        log_dir: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        topics, _ = remote

        def noted_meanwhile(log: MetadataLog, _: int) -> None:
            monkeypatch.undo()
            append(log_dir, 0, "ab")
            topics.note(log.image())

        monkeypatch.setattr(MetadataLog, "sync", noted_meanwhile)
        older = topics.image()

        assert older is not None
        assert topics.last_seen is topics.image_at_hand() is not older


class TestLocal:
    def test_nothing_is_at_hand_before_it_was_read(self, topics: FollowedTopics) -> None:
        assert topics.is_behind()
        before = topics.reader_at_hand("t")
        topics.topics()
        reader = topics.reader("t")

        assert before is None
        assert topics.reader_at_hand("t") is reader is topics.reader("t")

    def test_it_is_behind_an_entry_that_something_else_has_read(
        self, topics: FollowedTopics, log_dir: str
    ) -> None:
        topics.image()
        append(log_dir, 0, "a")
        topics._catalog.log.image()
        assert topics.is_behind()
        topics.image()
        assert not topics.is_behind()

    def test_what_was_committed_is_read(self, topics: FollowedTopics, log_dir: str) -> None:
        first = topics.reader("t")
        append(log_dir, 0, "ab")

        assert topics.reader_at_hand("t") is None
        assert end(first) == 0
        assert end(topics.reader("t")) == 2

    def test_a_change_of_the_topic_is_read(self, topics: FollowedTopics, log_dir: str) -> None:
        first = topics.reader("t")
        AdminClient(log_dir).create_partitions({"t": 9})

        assert topics.reader_at_hand("t") is None
        assert topics.reader("t").topic.num_partitions == 9
        assert topics.reader("t") is not first

    def test_a_topic_that_was_folded_is_opened_when_it_is_asked_for(self, log_dir: str) -> None:
        append(log_dir, 0, "ab")
        fold(catalog(log_dir).log)
        topics = followed(LocalFiles(log_dir), ManualClock())
        topics.topics()
        closed = topics.reader_at_hand("t")
        reader = topics.reader("t")

        assert closed is None
        assert end(reader) == 2
        assert topics.reader_at_hand("t") is reader

    def test_readers_of_other_topics_stay(self, topics: FollowedTopics, log_dir: str) -> None:
        AdminClient(log_dir).create_topics([NewTopic("u")])
        first = topics.reader("t")
        append(log_dir, 0, "ab", topic="u")
        topics.reader("u")

        assert topics.reader_at_hand("t") is first

    def test_what_others_committed_is_durable_when_it_is_served(
        self, topics: FollowedTopics, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []
        monkeypatch.setattr(LocalFiles, "sync_directory", lambda _, path: synced.append(path))
        for _ in range(2):
            topics.reader("t")
        append(log_dir, 0, "ab")
        del synced[:]
        for _ in range(2):
            topics.reader("t")
            topics.reader_at_hand("t")

        assert synced == [ENTRIES]

    def test_what_cannot_be_made_durable_is_a_failure_of_the_storage(
        self, topics: FollowedTopics, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise StorageError("cannot sync")

        append(log_dir, 0, "ab")
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "sync_directory", fails)
            with pytest.raises(StorageError, match=r"not served before it is durable: cannot sync"):
                topics.reader("t")

        assert end(topics.reader("t")) == 2

    def test_unknown_topics_are_told(self, topics: FollowedTopics) -> None:
        topics.topics()

        for ask in (topics.reader_at_hand, topics.reader, topics.topic):
            with pytest.raises(UnknownTopicError, match="unknown topic 'u'"):
                ask("u")

    def test_what_was_let_go_is_opened_again(self, topics: FollowedTopics) -> None:
        first = topics.reader("t")
        topics.let_go()

        assert topics.reader_at_hand("t") is not first
        assert topics.reader("t").image is first.image

    def test_an_age_is_that_of_the_last_look(self, log_dir: str) -> None:
        clock = ManualClock()
        topics = followed(LocalFiles(log_dir), clock)
        ages = [topics.age_ms()]
        topics.topics()
        clock.advance(7)
        ages.append(topics.age_ms())
        append(log_dir, 0, "ab")
        topics.reader_at_hand("t")
        ages.append(topics.age_ms())
        topics.reader("t")

        assert [*ages, topics.age_ms()] == [None, 7, 7, 0]


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
        assert later is None
        assert listed is not None
        assert end(listed) == end(topics.reader("t")) == 2

    def test_the_newest_is_not(self, remote: tuple[FollowedTopics, ManualClock]) -> None:
        topics, _ = remote
        topics.reader("t")

        assert topics.reader_at_hand("t", is_newest=True) is None

    def test_unknown_topics_are_asked_for(
        self, remote: tuple[FollowedTopics, ManualClock], log_dir: str
    ) -> None:
        topics, _ = remote
        topics.topics()
        AdminClient(log_dir).create_topics([NewTopic("u")])

        assert topics.reader_at_hand("u") is None
        assert end(topics.reader("u")) == 0


def test_a_directory_without_a_log_dir_has_none(tmp_path: Path) -> None:
    topics = followed(LocalFiles(str(tmp_path / "new")), ManualClock())

    assert topics.topics() == {}
    with pytest.raises(UnknownTopicError):
        topics.reader("t")
