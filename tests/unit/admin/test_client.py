"""AdminClient over a real log dir: names, configs, partitions, and the log dir itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic, OpType
from sparklog.clock import ManualClock
from sparklog.errors import (
    InvalidConfigError,
    InvalidOptionError,
    InvalidPartitionsError,
    InvalidTopicError,
    LateWriterError,
    LogDirError,
    StorageError,
    TopicExistsError,
    UnknownTopicError,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import Committed, MetadataLog, Plan
from sparklog.metadata.state.edit import Edit
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from sparklog.storage.files import FileStat
from sparklog.storage.local import LocalFiles
from tests.logs import OWN_FILES, write


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

    @pytest.mark.parametrize("count", [0, -1, 100_001, 2**31 - 1])
    def test_refuses_partition_counts(self, admin: AdminClient, count: int) -> None:
        with pytest.raises(InvalidPartitionsError, match="a topic has 1 to 100000$"):
            admin.create_topics([NewTopic("a", count)])

    def test_takes_as_many_partitions_as_a_topic_may_have(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("a", 99_999)])
        admin.create_partitions({"a": 100_000})

        assert [one.num_partitions for one in admin.describe_topics()] == [100_000]
        with pytest.raises(InvalidPartitionsError, match="a topic has 1 to 100000$"):
            admin.create_partitions({"a": 100_001})

    @pytest.mark.parametrize("config", [{"retention.mss": 1}, {"segment.bytes": 1}])
    def test_refuses_configs(self, admin: AdminClient, config: dict[str, object]) -> None:
        with pytest.raises(InvalidConfigError):
            admin.create_topics([NewTopic("a", config=config)])

    def test_refuses_one_begun_before_the_vacuum_horizon(
        self, admin: AdminClient, topic: TopicDescription, catalog: Catalog
    ) -> None:
        catalog.log.commit(lambda _: Edit(operation="VACUUM", horizon_ms=2**50))

        with pytest.raises(LateWriterError, match="create it again; this machine's clock said"):
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
                    AlterConfigOp("cleanup.policy", "compact, x", OpType.SUBTRACT),
                    AlterConfigOp("retention.ms", 5),
                ],
                {"cleanup.policy": "delete", "retention.ms": "5"},
            ),
            (
                [AlterConfigOp("leader.replication.throttled.replicas", "0:1", OpType.APPEND)],
                {"cleanup.policy": "delete", "leader.replication.throttled.replicas": "0:1"},
            ),
        ],
    )
    def test_sets_deletes_appends_and_subtracts(
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

    @pytest.mark.parametrize("op", [OpType.SET, OpType.DELETE])
    def test_a_config_is_named_once(
        self, admin: AdminClient, topic: TopicDescription, op: OpType
    ) -> None:
        ops = [AlterConfigOp("retention.ms", 5), AlterConfigOp("retention.ms", 6, op)]

        with pytest.raises(InvalidOptionError, match="'flights': retention.ms is named twice"):
            admin.incremental_alter_configs({"flights": ops})
        assert admin.describe_topics()[0].configs == {}

    def test_needs_the_topic(self, admin: AdminClient, topic: TopicDescription) -> None:
        with pytest.raises(UnknownTopicError):
            admin.incremental_alter_configs({"other": []})
