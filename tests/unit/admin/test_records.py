"""AdminClient over topics with records: they go and come back; offsets and indexes."""

from pathlib import Path

import pytest

from sparklog.admin import LATEST_TIMESTAMP, AdminClient, NewTopic
from sparklog.author import who
from sparklog.clock import ManualClock
from sparklog.errors import (
    InvalidTopicError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    SparklogError,
    TopicClosedError,
    TopicExistsError,
    UnknownTopicError,
    UsageError,
)
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.history.read import history
from sparklog.metadata.log import Committed, MetadataLog, Plan
from sparklog.model import (
    EARLIEST,
    MAX_TIMESTAMP,
    OffsetRange,
    TimestampOffset,
    TopicDescription,
    TopicPartition,
)
from tests.edits import append, segment
from tests.logs import OWN_FILES, write
from tests.opening import note_openings


@pytest.fixture
def filled(topic: TopicDescription, catalog: Catalog) -> TopicDescription:
    """The same; partition 0 ends at 10."""
    append(catalog, topic, segment(records=10))
    return topic


class TestDeleteTopics:
    def test_frees_the_name_and_keeps_the_files(
        self, admin: AdminClient, filled: TopicDescription, log_dir: Path
    ) -> None:
        admin.delete_topics(["flights"])
        gone = admin.list_topics()
        (again,) = admin.create_topics([NewTopic("flights")])

        assert gone == []
        assert again.topic_id != filled.topic_id
        assert admin.list_offsets({("flights", 0): LATEST_TIMESTAMP}) == {
            TopicPartition("flights", 0): TimestampOffset(-1, 0)
        }

    def test_refuses_who_still_writes(
        self, admin: AdminClient, filled: TopicDescription, catalog: Catalog
    ) -> None:
        admin.delete_topics(["flights"])

        with pytest.raises(TopicClosedError, match="'flights' was deleted"):
            append(catalog, filled, segment())

    def test_all_or_none_exist(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UnknownTopicError):
            admin.delete_topics(["flights", "other"])

        assert admin.list_topics() == ["flights"]

    def test_of_one_that_somebody_deletes_meanwhile(
        self,
        admin: AdminClient,
        topic: TopicDescription,
        log_dir: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        commit = MetadataLog.commit

        def commit_second(log: MetadataLog, plan: Plan) -> Committed:
            monkeypatch.setattr(MetadataLog, "commit", commit)
            AdminClient(log_dir, clock=ManualClock()).delete_topics(["flights"])
            return commit(log, plan)

        monkeypatch.setattr(MetadataLog, "commit", commit_second)
        admin.delete_topics(["flights"])

        assert admin.list_topics() == []


class TestUndeleteTopic:
    def test_it_comes_back_with_configs_and_records(
        self, admin: AdminClient, filled: TopicDescription
    ) -> None:
        before = admin.describe_topics()
        ends = admin.list_offsets({("flights", 0): LATEST_TIMESTAMP})
        admin.delete_topics(["flights"])
        back = admin.undelete_topic("flights")

        assert [back] == before == admin.describe_topics()
        assert admin.list_offsets({("flights", 0): LATEST_TIMESTAMP}) == ends

    def test_it_is_written_to_again(
        self, admin: AdminClient, filled: TopicDescription, catalog: Catalog
    ) -> None:
        end = catalog.partition(filled, 0).log_end_offset
        admin.delete_topics(["flights"])
        admin.undelete_topic("flights")
        append(catalog, filled, segment())

        assert catalog.partition(filled, 0).log_end_offset > end

    def test_it_stands_in_the_history(
        self, admin: AdminClient, topic: TopicDescription, catalog: Catalog
    ) -> None:
        admin.delete_topics(["flights"])
        admin.undelete_topic("flights")
        (newest,) = history(catalog.log, limit=1)

        assert (newest.operation, newest.parameters) == (
            "UNDELETE TOPIC",
            {"topics": "flights", "who": who()},
        )

    def test_of_several_the_last_deleted_or_the_one_of_an_id_comes_back(
        self, admin: AdminClient, topic: TopicDescription, clock: ManualClock
    ) -> None:
        admin.delete_topics(["flights"])
        clock.advance(5)
        (second,) = admin.create_topics([NewTopic("flights")])
        admin.delete_topics(["flights"])
        deleted = admin.list_deleted_topics()

        assert [one.topic_id for one in deleted] == [topic.topic_id, second.topic_id]
        assert admin.undelete_topic("flights") == second
        admin.delete_topics(["flights"])
        assert admin.undelete_topic("flights", topic_id=topic.topic_id) == topic

    @pytest.mark.parametrize(
        ("taken", "error", "why"),
        [
            ("a_b", TopicExistsError, "already exists"),
            ("a.b", InvalidTopicError, "collides"),
        ],
    )
    def test_a_name_that_is_taken_meanwhile_is_refused(
        self, admin: AdminClient, taken: str, error: type[SparklogError], why: str
    ) -> None:
        admin.create_topics([NewTopic("a_b")])
        admin.delete_topics(["a_b"])
        admin.create_topics([NewTopic(taken)])

        with pytest.raises(error, match=why):
            admin.undelete_topic("a_b")

    def test_one_that_never_was_is_unknown(
        self, admin: AdminClient, topic: TopicDescription
    ) -> None:
        admin.delete_topics(["flights"])

        with pytest.raises(UnknownTopicError, match="no deleted topic 'other': there was none"):
            admin.undelete_topic("other")
        with pytest.raises(UnknownTopicError, match="'flights' of id x: there was none"):
            admin.undelete_topic("flights", topic_id="x")


class TestDeleteRecords:
    def test_raises_the_log_start(self, admin: AdminClient, filled: TopicDescription) -> None:
        low = admin.delete_records({("flights", 0): 4, ("flights", 1): 0})

        assert low == {TopicPartition("flights", 0): 4, TopicPartition("flights", 1): 0}
        assert admin.list_offsets({("flights", 0): EARLIEST}) == {
            TopicPartition("flights", 0): TimestampOffset(-1, 4)
        }

    def test_up_to_the_end_and_never_back(
        self, admin: AdminClient, filled: TopicDescription, catalog: Catalog
    ) -> None:
        partition = TopicPartition("flights", 0)

        assert admin.delete_records({partition: -1}) == {partition: 10}
        assert admin.delete_records({partition: 3}) == {partition: 10}
        assert catalog.topic_image(filled).version == 3

    @pytest.mark.parametrize("offset", [11, -2])
    def test_not_outside_the_log(
        self, admin: AdminClient, filled: TopicDescription, offset: int
    ) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="allowed are 0 to 10, and -1"):
            admin.delete_records({("flights", 0): offset})

    def test_not_where_the_policy_is_against_it(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("a", config={"cleanup.policy": "compact"})])

        with pytest.raises(PolicyViolationError):
            admin.delete_records({("a", 0): 0})

    @pytest.mark.parametrize("place", [("other", 0), ("flights", 2), ("flights", -1)])
    def test_needs_the_partition_before_anything_is_done(
        self, admin: AdminClient, filled: TopicDescription, place: tuple[str, int]
    ) -> None:
        with pytest.raises(UnknownTopicError):
            admin.delete_records({("flights", 0): 4, place: 0})

        assert admin.delete_records({("flights", 0): 0}) == {TopicPartition("flights", 0): 0}


class TestRebuildIndexes:
    def test_mends_what_was_damaged(
        self, admin: AdminClient, catalog: Catalog, log_dir: Path
    ) -> None:
        (topic,) = admin.create_topics([NewTopic("flights", 2, OWN_FILES)])
        write(catalog, "flights", 1_000, 3_000, 2_000)
        (before,) = catalog.topic_image(topic).segments(0)
        damaged = log_dir / topic_directory(topic) / str(before.time_index_path)
        sound = damaged.read_bytes()
        damaged.write_bytes(bytes(len(sound)))

        assert admin.rebuild_indexes("flights", 1) == []
        (mended,) = admin.rebuild_indexes("flights")
        assert [mended] == list(catalog.topic_image(topic).segments(0)) != [before]
        rebuilt = log_dir / topic_directory(topic) / str(mended.time_index_path)
        assert rebuilt.read_bytes() == sound != b""
        assert admin.rebuild_indexes("flights", 0) == []

    @pytest.mark.parametrize(("name", "partition"), [("other", None), ("flights", 2)])
    def test_needs_the_partition(
        self, admin: AdminClient, topic: TopicDescription, name: str, partition: int | None
    ) -> None:
        with pytest.raises(UnknownTopicError):
            admin.rebuild_indexes(name, partition)


class TestListOffsets:
    def test_by_time(self, admin: AdminClient, topic: TopicDescription, catalog: Catalog) -> None:
        write(catalog, "flights", 1_000, 3_000, 2_000)
        write(catalog, "flights", 4_000)
        place = TopicPartition("flights", 0)
        wanted = (EARLIEST, LATEST_TIMESTAMP, MAX_TIMESTAMP, 0, 2_000, 3_001, 4_001)
        answers = [admin.list_offsets({place: timestamp})[place] for timestamp in wanted]

        found = [(-1, 0), (-1, 4), (4_000, 3), (1_000, 0), (3_000, 1), (4_000, 3), (-1, -1)]
        assert answers == [TimestampOffset(*answer) for answer in found]

    def test_all_topics_are_opened_together(
        self, admin: AdminClient, log_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin.create_topics([NewTopic("flights"), NewTopic("trains")])
        openings = note_openings(monkeypatch, log_dir)
        AdminClient(log_dir).list_offsets({("flights", 0): EARLIEST, ("trains", 0): EARLIEST})

        assert openings == [["flights", "trains"]]

    def test_of_many(self, admin: AdminClient, filled: TopicDescription) -> None:
        admin.create_topics([NewTopic("a")])
        answers = admin.list_offsets({("flights", 0): -1, ("a", 0): -1, ("flights", 1): -3})

        assert [(*place, *answer) for place, answer in answers.items()] == [
            ("flights", 0, -1, 10),
            ("a", 0, -1, 0),
            ("flights", 1, -1, -1),
        ]

    @pytest.mark.parametrize("place", [("other", 0), ("flights", 2)])
    def test_needs_the_partition(
        self, admin: AdminClient, topic: TopicDescription, place: tuple[str, int]
    ) -> None:
        with pytest.raises(UnknownTopicError):
            admin.list_offsets({place: -1})

    def test_of_no_meaning(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UsageError, match="-4 means nothing"):
            admin.list_offsets({("flights", 0): -4})


class TestAnIdlePartition:
    def test_keeps_its_end_when_a_commit_goes_elsewhere(
        self, admin: AdminClient, filled: TopicDescription, catalog: Catalog
    ) -> None:
        done = append(catalog, filled, segment(1))

        assert done.ranges == (OffsetRange(1, 0, 10),)
        assert admin.list_offsets({("flights", 0): -1})[TopicPartition("flights", 0)].offset == 10
