"""AdminClient over a real log dir: names, configs, partitions, deletion, offsets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparklog.admin import (
    LATEST_TIMESTAMP,
    AdminClient,
    AlterConfigOp,
    NewTopic,
    OpType,
)
from sparklog.clock import ManualClock
from sparklog.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicError,
    LateWriterError,
    LogDirError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    SparklogError,
    StorageError,
    TopicClosedError,
    TopicExistsError,
    UnknownTopicError,
    UsageError,
)
from sparklog.log_reader import EARLIEST, MAX_TIMESTAMP
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.edit import Edit
from sparklog.metadata.history import history
from sparklog.metadata.log import Committed, MetadataLog, Plan
from sparklog.model import OffsetRange, TimestampOffset, TopicDescription, TopicPartition
from sparklog.record.encode import RecordColumns
from sparklog.storage import open_files
from sparklog.storage.files import FileStat
from sparklog.storage.local import LocalFiles
from tests.edits import append, segment

OWN_FILES = {"sparklog.shared.segment.max.bytes": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "log dir"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def admin(log_dir: Path, clock: ManualClock) -> AdminClient:
    return AdminClient(log_dir, clock=clock)


@pytest.fixture
def catalog(log_dir: Path) -> Catalog:
    return Catalog(open_files(str(log_dir)), ManualClock(), flush=False)


@pytest.fixture
def topic(admin: AdminClient) -> TopicDescription:
    """`flights`, of two partitions; partition 0 ends at 10."""
    return admin.create_topics([NewTopic("flights", 2)])[0]


@pytest.fixture
def filled(topic: TopicDescription, catalog: Catalog) -> TopicDescription:
    append(catalog, topic, segment(records=10))
    return topic


def write(catalog: Catalog, topic: str, *timestamps: int) -> None:
    """Records of partition 0 with these timestamps, in real files."""
    plan = plan_write(catalog, topic, WriteOptions(flush=False))
    writer = TopicWriter(catalog.files, plan, catalog.clock, 0)
    values = pa.array([b"v"] * len(timestamps), pa.binary())
    columns = RecordColumns(values, values, np.array(timestamps, np.int64), None)
    writer.write(columns, pa.array([0] * len(timestamps), pa.int32()))
    commit_write(catalog, plan, writer.close())


def lose_an_answer(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[AdminClient], object], admin: AdminClient
) -> None:
    """Let the next commit land without its answer; `meanwhile` happens before anybody looks."""
    put = LocalFiles.put_new

    def lose(files: LocalFiles, path: str, data: bytes, **_: object) -> bool:
        monkeypatch.setattr(LocalFiles, "put_new", put)
        put(files, path, data)
        meanwhile(AdminClient(admin._files.uri, clock=ManualClock()))
        raise StorageError("lost")

    monkeypatch.setattr(LocalFiles, "put_new", lose)


class TestCreateTopics:
    def test_makes_the_log_dir_and_the_topic(self, admin: AdminClient, log_dir: Path) -> None:
        made = admin.create_topics([NewTopic("b", 3, {"retention.ms": -1}), NewTopic("a")])

        assert [topic.name for topic in made] == ["b", "a"]
        assert made[0].configs == {"retention.ms": "-1"}
        assert admin.list_topics() == ["a", "b"]
        assert AdminClient(log_dir).describe_topics(["b"]) == [made[0]]
        assert (log_dir / "__cluster_metadata" / "_delta_log").is_dir()
        assert (log_dir / "meta.properties").is_file()

    def test_a_long_name_has_a_short_directory(
        self, admin: AdminClient, log_dir: Path, catalog: Catalog
    ) -> None:
        (made,) = admin.create_topics([NewTopic("t" * 249, config=OWN_FILES)])
        write(catalog, "t" * 249, 1)

        assert (log_dir / f"{'t' * 200}-{made.topic_id}").is_dir()

    @pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "t" * 250])
    def test_refuses_illegal_names(self, admin: AdminClient, log_dir: Path, name: str) -> None:
        with pytest.raises(InvalidTopicError):
            admin.create_topics([NewTopic("good"), NewTopic(name)])

        assert not log_dir.exists()

    @pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a__", "a._")])
    def test_refuses_names_that_collide(self, admin: AdminClient, first: str, second: str) -> None:
        admin.create_topics([NewTopic(first)])

        with pytest.raises(InvalidTopicError, match="collides with"):
            admin.create_topics([NewTopic(second)])

    def test_refuses_a_name_that_is_taken(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("a")])

        with pytest.raises(TopicExistsError, match="'a' already exists"):
            admin.create_topics([NewTopic("b"), NewTopic("a")])
        with pytest.raises(TopicExistsError):
            admin.create_topics([NewTopic("c"), NewTopic("c")])
        assert admin.list_topics() == ["a"]

    @pytest.mark.parametrize("count", [0, -1, 2**31])
    def test_refuses_partition_counts(self, admin: AdminClient, count: int) -> None:
        with pytest.raises(InvalidPartitionsError, match="a topic has 1 to 2147483647"):
            admin.create_topics([NewTopic("a", count)])

    @pytest.mark.parametrize("config", [{"retention.mss": 1}, {"segment.bytes": 1}])
    def test_refuses_configs(self, admin: AdminClient, config: dict[str, object]) -> None:
        with pytest.raises(InvalidConfigError):
            admin.create_topics([NewTopic("a", config=config)])

    def test_refuses_one_begun_before_the_vacuum_horizon(
        self, admin: AdminClient, topic: TopicDescription, catalog: Catalog
    ) -> None:
        catalog.log.commit(lambda _: Edit(operation="VACUUM", horizon_ms=2**50))

        with pytest.raises(LateWriterError, match="create it again"):
            admin.create_topics([NewTopic("b", 1)])

    def test_validate_only_leaves_no_trace(self, admin: AdminClient, log_dir: Path) -> None:
        checked = admin.create_topics([NewTopic("a", 2)], validate_only=True)
        nothing = not log_dir.exists()
        admin.create_topics([NewTopic("a")])

        assert (checked[0].name, checked[0].num_partitions, nothing) == ("a", 2, True)
        with pytest.raises(TopicExistsError):
            admin.create_topics([NewTopic("a")], validate_only=True)

    def test_of_two_that_race_for_a_name_one_wins(
        self, admin: AdminClient, log_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit = MetadataLog.commit

        def commit_second(log: MetadataLog, plan: Plan) -> Committed:
            monkeypatch.setattr(MetadataLog, "commit", commit)
            AdminClient(log_dir, clock=ManualClock()).create_topics([NewTopic("a", 7)])
            return commit(log, plan)

        monkeypatch.setattr(MetadataLog, "commit", commit_second)

        with pytest.raises(TopicExistsError):
            admin.create_topics([NewTopic("a", 3)])
        assert [topic.num_partitions for topic in admin.describe_topics()] == [7]

    def test_answers_when_its_commit_landed_and_the_answer_was_lost(
        self, admin: AdminClient, topic: TopicDescription, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lose_an_answer(monkeypatch, lambda again: again.create_topics([NewTopic("later")]), admin)
        admin.create_topics([NewTopic("a")])

        assert admin.list_topics() == ["a", "flights", "later"]


class TestLogDirs:
    def test_reading_needs_one(self, admin: AdminClient) -> None:
        with pytest.raises(LogDirError, match="is not a log dir"):
            admin.list_topics()

    @pytest.mark.parametrize("name", ["thesis.doc", "photos/2013/a.jpg"])
    def test_none_is_made_among_other_files(
        self, admin: AdminClient, log_dir: Path, name: str
    ) -> None:
        precious = log_dir / name
        precious.parent.mkdir(parents=True)
        precious.write_text("precious")

        with pytest.raises(LogDirError, match=rf"not empty \(it has {name}\)"):
            admin.create_topics([NewTopic("a")])
        assert [path for path in log_dir.rglob("*") if path.is_file()] == [precious]

    def test_one_that_somebody_makes_meanwhile_is_taken(
        self, admin: AdminClient, log_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        look = LocalFiles.list

        def make_first(files: LocalFiles, recursive: bool) -> Iterator[FileStat]:
            monkeypatch.setattr(LocalFiles, "list", look)
            AdminClient(log_dir, clock=ManualClock()).create_topics([NewTopic("theirs")])
            return look(files, recursive=recursive)

        monkeypatch.setattr(LocalFiles, "list", make_first)
        admin.create_topics([NewTopic("mine")])

        assert admin.list_topics() == ["mine", "theirs"]

    @pytest.mark.parametrize(
        ("meta", "message"),
        [("version=2\ncluster.id=x\n", "version 2"), ("version=1\nbroker.id=1\n", "broker")],
    )
    def test_a_newer_one_or_a_brokers_is_refused(
        self, admin: AdminClient, log_dir: Path, meta: str, message: str
    ) -> None:
        log_dir.mkdir()
        (log_dir / "meta.properties").write_text(meta)

        with pytest.raises(LogDirError, match=message):
            admin.create_topics([NewTopic("a")])
        with pytest.raises(LogDirError, match=message):
            admin.list_topics()

    def test_one_whose_making_was_cut_off_is_made(self, admin: AdminClient, log_dir: Path) -> None:
        MetadataLog.create(open_files(str(log_dir)), ManualClock())
        for name in (".tmp-0123", ".probe-0123"):
            (log_dir / name).write_text("vers")
        admin.create_topics([NewTopic("a")])

        assert admin.list_topics() == ["a"]


class TestDescribe:
    def test_all_topics_or_some(self, admin: AdminClient) -> None:
        made = admin.create_topics([NewTopic("b"), NewTopic("a")])

        assert admin.describe_topics() == [made[1], made[0]]
        assert admin.describe_topics(["b", "b"]) == [made[0], made[0]]

    def test_names_the_nearest(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UnknownTopicError, match="did you mean flights"):
            admin.describe_topics(["flighs"])
        with pytest.raises(UnknownTopicError, match="not made on first use\\)$"):
            admin.describe_topics(["xyz"])

    def test_configs_with_defaults(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("a", config={"retention.ms": 7})])
        entries = {entry.name: entry for entry in admin.describe_configs("a")}

        assert (entries["retention.ms"].value, entries["retention.ms"].is_default) == ("7", False)
        assert entries["segment.bytes"].is_default


class TestCreatePartitions:
    def test_grows(self, admin: AdminClient, topic: TopicDescription) -> None:
        (grown,) = admin.create_partitions({"flights": 5})

        assert grown.num_partitions == 5
        assert admin.describe_topics() == [grown]

    @pytest.mark.parametrize("count", [2, 1, 0])
    def test_only_grows(self, admin: AdminClient, topic: TopicDescription, count: int) -> None:
        admin.create_topics([NewTopic("other")])

        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({"other": 2, "flights": count})
        assert [found.num_partitions for found in admin.describe_topics()] == [2, 1]

    def test_needs_the_topic(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UnknownTopicError):
            admin.create_partitions({"other": 2})

    @pytest.mark.parametrize("other", [None, "later"])
    def test_answers_when_the_answer_of_its_commit_was_lost(
        self,
        admin: AdminClient,
        topic: TopicDescription,
        other: str | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Whether or not somebody else committed on top of it."""
        meanwhile = [] if other is None else [NewTopic(other)]
        lose_an_answer(monkeypatch, lambda again: again.create_topics(meanwhile), admin)

        assert admin.create_partitions({"flights": 5})[0].num_partitions == 5


class TestAlterConfigs:
    @pytest.mark.parametrize(
        ("ops", "expected"),
        [
            ([AlterConfigOp("retention.ms", 5)], {"cleanup.policy": "delete", "retention.ms": "5"}),
            ([AlterConfigOp("cleanup.policy", op=OpType.DELETE)], {}),
            ([AlterConfigOp("retention.ms", op=OpType.DELETE)], {"cleanup.policy": "delete"}),
            (
                [AlterConfigOp("cleanup.policy", "compact, delete", OpType.APPEND)],
                {"cleanup.policy": "delete,compact"},
            ),
            (
                [
                    AlterConfigOp("cleanup.policy", "compact", OpType.SET),
                    AlterConfigOp("cleanup.policy", "delete,compact", OpType.APPEND),
                    AlterConfigOp("cleanup.policy", "compact", OpType.SUBTRACT),
                ],
                {"cleanup.policy": "delete"},
            ),
            (
                [AlterConfigOp("leader.replication.throttled.replicas", "0:1", OpType.APPEND)],
                {"cleanup.policy": "delete", "leader.replication.throttled.replicas": "0:1"},
            ),
        ],
    )
    def test_one_after_another(
        self, admin: AdminClient, ops: list[AlterConfigOp], expected: dict[str, str]
    ) -> None:
        admin.create_topics([NewTopic("a", config={"cleanup.policy": "delete"})])
        tried = admin.incremental_alter_configs({"a": ops}, validate_only=True)
        (altered,) = admin.incremental_alter_configs({"a": ops})

        assert altered.configs == expected
        assert admin.describe_topics() == [altered] == tried

    @pytest.mark.parametrize(
        ("op", "message"),
        [
            (AlterConfigOp("retention.mss", 1), "the nearest is 'retention.ms'"),
            (AlterConfigOp("retention.ms", -2), "retention.ms='-2' is not allowed"),
            (AlterConfigOp("retention.ms", 1, OpType.APPEND), "is for lists: retention.ms is a"),
            (AlterConfigOp("cleanup.policy", "x", OpType.APPEND), "it takes a comma-separated"),
            (AlterConfigOp("retention.ms", 1, "PUT"), "allowed: SET, DELETE, APPEND, SUBTRACT"),  # type: ignore[arg-type] # what a caller without types may do
        ],
    )
    def test_all_or_none(
        self, admin: AdminClient, topic: TopicDescription, op: AlterConfigOp, message: str
    ) -> None:
        admin.create_topics([NewTopic("a")])

        with pytest.raises(InvalidConfigError, match=message):
            admin.incremental_alter_configs(
                {"a": [AlterConfigOp("retention.ms", 5)], "flights": [op]}
            )
        assert [found.configs for found in admin.describe_topics()] == [{}, {}]

    def test_needs_the_topic(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UnknownTopicError):
            admin.incremental_alter_configs({"other": []})


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

        assert (newest.operation, newest.parameters) == ("UNDELETE TOPIC", {"topics": "flights"})

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
