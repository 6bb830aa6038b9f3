"""Metadata and ApiVersions, in every version that is served."""

import struct
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import current_thread
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient as KafkaAdmin
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.admin.each import EachTopic
from sparklog.errors import StorageError, UnknownTopicError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage import open_files
from sparklog.testing import TemporaryLogDir
from sparklog.tokens import Grant, Scope
from sparklog.wire.handlers.admin.topics import PARTITIONS_MAX
from sparklog.wire.handlers.call import LONG_BYTES
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import APIS, ApiKey
from tests.failing import failing_later
from tests.wire.gateways import Client, RunningGateway, gateway, grant_only, request
from tests.wire.requests import body, part, versions

handler = import_module("sparklog.wire.handlers.admin.metadata")  # its package names a function so


def topics_asked(version: int, *names: str) -> object:
    return metadata_request(version, tuple(asked_topic(name, version=version) for name in names))


def asked_topic(name: str | None, uuid: UUID | None = None, version: int = 12) -> Any:
    return part(ApiKey.METADATA, version, "MetadataRequestTopic", name=name, topic_id=uuid)


def metadata_request(version: int, topics: Any, *, operations: bool = False) -> Any:
    """A request for topics, or with None for all; and for what the client may do."""
    return body(
        ApiKey.METADATA,
        version,
        topics=topics,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )


class TestApiVersions:
    @pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
    def test_tells_the_table(self, client: Client, version: int) -> None:
        told = {"client_software_name": "test", "client_software_version": "1"}
        fields = told if version >= 3 else {}
        answer = client.ask(request(ApiKey.API_VERSIONS, version, **fields))
        found = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        assert found == {key: (api.min_version, api.max_version) for key, api in APIS.items()}

    def test_answers_a_newer_version_in_version_0(self, client: Client) -> None:
        client.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1))
        answer = client.receive(ApiKey.API_VERSIONS, 0)
        assert answer.error_code == ErrorCode.unsupported_version
        assert {one.api_key for one in answer.api_keys} == set(APIS)


class TestMetadata:
    @pytest.mark.parametrize("version", versions(ApiKey.METADATA))
    def test_tells_a_topic(self, running: RunningGateway, client: Client, version: int) -> None:
        admin = running.server.gateway.admin
        [topic] = admin.create_topics([NewTopic("flights", 3)])
        answer = client.ask(topics_asked(version, "flights"))
        [found] = answer.topics
        assert (found.error_code, found.name) == (ErrorCode.none, "flights")
        assert [one.partition_index for one in found.partitions] == [0, 1, 2]
        assert {one.leader_id for one in found.partitions} == {answer.brokers[0].node_id}
        assert answer.brokers[0].port == running.port
        if version >= 10:
            assert found.topic_id == uuid_of(topic.topic_id)

    def test_a_topic_whose_rows_are_in_a_fold_is_opened(self, tmp_path: Path) -> None:
        TemporaryLogDir(tmp_path / "log").topic("flights").produce("a")
        fold(Catalog(open_files(str(tmp_path / "log"))).log)
        with gateway(tmp_path / "log") as running, Client(running.port) as client:
            [found] = client.ask(topics_asked(12, "flights")).topics
        assert [one.leader_epoch for one in found.partitions] == [0]

    @pytest.mark.parametrize("version", versions(ApiKey.METADATA))
    def test_tells_all_topics(self, running: RunningGateway, client: Client, version: int) -> None:
        running.server.gateway.admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        asked = topics_asked(version)
        if version:
            asked = metadata_request(version, None)
        assert [one.name for one in client.ask(asked).topics] == ["a", "b"]

    @pytest.mark.parametrize("version", versions(ApiKey.METADATA))
    def test_no_topic_is_unknown(self, client: Client, version: int) -> None:
        [found] = client.ask(topics_asked(version, "nowhere")).topics
        assert found.error_code == ErrorCode.unknown_topic_or_partition

    def test_a_topic_that_is_asked_for_twice_is_told_once(
        self, running: RunningGateway, client: Client
    ) -> None:
        running.server.gateway.admin.create_topics([NewTopic("a", 1)])
        found = client.ask(topics_asked(12, "a", "nowhere", "a", "nowhere")).topics
        assert [one.name for one in found] == ["a", "nowhere"]

    def test_no_topic_has_an_unknown_id(self, client: Client) -> None:
        asked = metadata_request(12, (asked_topic(None, UUID(int=7)),))
        [found] = client.ask(asked).topics
        assert found.error_code == ErrorCode.unknown_topic_id

    def test_a_topic_is_made_on_first_use_where_that_is_set(self, tmp_path: Path) -> None:
        options = {"auto_create_topics_enable": True, "num_partitions": 4}
        with gateway(tmp_path / "log", **options) as running, Client(running.port) as client:
            [found] = client.ask(topics_asked(12, "new")).topics
        assert len(found.partitions) == 4
        assert AdminClient(tmp_path / "log").list_topics() == ["new"]

    def test_the_topic_of_committed_offsets_is_made_as_by_the_first_group(
        self, tmp_path: Path
    ) -> None:
        options = {"auto_create_topics_enable": True, "offsets_topic_num_partitions": 3}
        with gateway(tmp_path / "log", **options) as running, Client(running.port) as client:
            [found] = client.ask(topics_asked(12, "__consumer_offsets")).topics
            topic = running.server.gateway.catalog.topic("__consumer_offsets")
        assert (found.is_internal, len(found.partitions)) == (True, 3)
        assert topic.configs["cleanup.policy"] == "compact"

    def test_clients_that_make_a_topic_at_the_same_time_all_get_it(self, tmp_path: Path) -> None:
        with (
            gateway(tmp_path / "log", auto_create_topics_enable=True) as running,
            ExitStack() as stack,
        ):
            clients = [stack.enter_context(Client(running.port)) for _ in range(5)]
            for client in clients:
                client.send(topics_asked(12, "new"))
            found = [client.receive(ApiKey.METADATA, 12).topics[0] for client in clients]
        assert [(one.error_code, len(one.partitions)) for one in found] == [(0, 1)] * 5

    def test_a_topic_that_another_client_has_just_made_is_taken(
        self, running: RunningGateway
    ) -> None:
        make = running.server.gateway.auto_created
        assert running.run(make(["new"])) == running.run(make(["new"]))

    def test_one_that_is_deleted_meanwhile_fails_alone(
        self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two clients make several topics; a third one deletes one of them."""
        found, create = running.server.gateway, EachTopic.create_topics
        topics = Mock(side_effect=found.catalog.topics)

        def then_deleted(*given: Any) -> Any:
            made = create(*given)
            found.admin.delete_topics(["b"])
            return made

        first = running.run(found.auto_created(["a", "b", "c"]))
        monkeypatch.setattr(EachTopic, "create_topics", then_deleted)
        monkeypatch.setattr(found.catalog, "topics", topics)
        second = running.run(found.auto_created(["a", "b", "c", "d"]))
        assert isinstance(second.pop("b"), UnknownTopicError)
        topics.assert_called_once_with()
        assert second == {"a": first["a"], "c": first["c"], "d": found.catalog.topic("d")}

    def test_the_topic_of_committed_offsets_fails_alone(
        self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gateway = running.server.gateway
        monkeypatch.setattr(
            gateway, "offsets_topic", failing_later(StorageError, "the disk is full")
        )
        found = running.run(gateway.auto_created(["a", "__consumer_offsets"]))
        assert found["a"] == gateway.catalog.topic("a")
        assert isinstance(found["__consumer_offsets"], StorageError)

    def test_the_topics_of_a_request_are_made_in_one_commit(self, tmp_path: Path) -> None:
        """Goal: a client with a hundred new topics waits for one commit, and others too."""
        names = "a.b", "c", "a_b", "no/good", "__consumer_offsets", "old"
        with (
            gateway(tmp_path / "log", auto_create_topics_enable=True) as running,
            Client(running.port) as client,
        ):
            running.server.gateway.admin.create_topics([NewTopic("old", 1)])
            before = running.server.gateway.catalog.image().version
            found = client.ask(topics_asked(12, *names)).topics
            commits = running.server.gateway.catalog.image().version - before
        bad = ErrorCode.invalid_topic_exception
        assert [(one.name, one.error_code) for one in found] == [
            (one, bad if one in ("a_b", "no/good") else ErrorCode.none) for one in names
        ]
        assert commits == 2  # __consumer_offsets has one of its own

    def test_a_request_for_many_topics_holds_nobody_up(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: any client may name a million topics, and others must not wait for seconds."""
        threads = set[str]()

        def noted(function: Callable[..., Any], *args: Any) -> Any:
            threads.add(current_thread().name.rpartition("_")[0])
            return function(*args)

        for name in ("read_metadata_request", "_known", "_all_asked", "_written"):
            monkeypatch.setattr(handler, name, partial(noted, getattr(handler, name)))
        running.server.gateway.admin.create_topics([NewTopic("n5", 1)])
        found = client.ask(topics_asked(12, *[f"n{one}" for one in range(LONG_BYTES // 8)])).topics
        assert [one.name for one in found if one.error_code == ErrorCode.none] == ["n5"]
        assert threads == {"beside"}

    def test_too_many_topics_are_not_made(self, tmp_path: Path) -> None:
        options = {"auto_create_topics_enable": True, "num_partitions": PARTITIONS_MAX // 2}
        with gateway(tmp_path / "log", **options) as running, Client(running.port) as client:
            found = client.ask(topics_asked(12, "a", "b", "c")).topics
            assert running.server.gateway.catalog.topics() == {}
        assert {one.error_code for one in found} == {ErrorCode.policy_violation}

    @pytest.mark.parametrize("name", ["no/good", "__cluster_metadata"])
    def test_no_topic_is_made_of_an_illegal_name(self, tmp_path: Path, name: str) -> None:
        with (
            gateway(tmp_path / "log", auto_create_topics_enable=True) as running,
            Client(running.port) as client,
        ):
            [found] = client.ask(topics_asked(12, name)).topics
        assert found.error_code == ErrorCode.invalid_topic_exception

    @pytest.mark.parametrize("name", ["no/good", "", "x" * 250])
    def test_no_topic_has_an_illegal_name(self, client: Client, name: str) -> None:
        [found] = client.ask(topics_asked(12, name)).topics
        assert found.error_code == ErrorCode.invalid_topic_exception

    def test_tells_what_the_client_may_do(self, running: RunningGateway, client: Client) -> None:
        running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
        answer = client.ask(metadata_request(8, None, operations=True))
        assert answer.topics[0].topic_authorized_operations == 3576
        assert answer.cluster_authorized_operations == 8096
        asked = topics_asked(13, "flights")
        assert client.ask(asked).topics[0].topic_authorized_operations == -(2**31)

    def test_tells_what_the_client_may_do_with_a_name_that_no_topic_has(
        self, running: RunningGateway, client: Client
    ) -> None:
        """As Kafka does; of an id that no topic has it tells nothing."""
        running.server.gateway.admin.create_topics([NewTopic("flights", 1)])
        named = map(asked_topic, ("flights", "nowhere", "/"))
        asked = (*named, asked_topic(None, UUID(int=7)))
        found = client.ask(metadata_request(12, asked, operations=True)).topics
        assert [one.topic_authorized_operations for one in found] == [3576] * 3 + [-(2**31)]

    @pytest.mark.parametrize("name", [None, "", "others"])
    def test_a_topic_is_found_by_its_id(
        self, running: RunningGateway, client: Client, name: str | None
    ) -> None:
        """Java's AdminClient names it "" (kafka-topics --describe --topic-id)."""
        admin = running.server.gateway.admin
        [topic, _] = admin.create_topics([NewTopic("flights", 1), NewTopic("others", 1)])
        asked = metadata_request(12, (asked_topic(name, uuid_of(topic.topic_id)),))
        [found] = client.ask(asked).topics
        assert found.name == "flights"


class TestAuthorization:
    @pytest.fixture
    def denied(self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> RunningGateway:
        """The gateway, to whose clients only topics that begin with `a` are granted."""
        grant_only(monkeypatch, Grant(prefix="a", scopes=frozenset({Scope.READ})))
        running.server.gateway.admin.create_topics([NewTopic("ab", 1), NewTopic("b", 1)])
        return running

    def test_a_list_has_what_is_granted(self, denied: RunningGateway, client: Client) -> None:
        answer = client.ask(metadata_request(12, None))
        assert [topic.name for topic in answer.topics] == ["ab"]

    def test_a_name_is_refused_whether_it_exists_or_not(
        self, denied: RunningGateway, client: Client
    ) -> None:
        asked = tuple(map(asked_topic, ("ab", "b", "c")))
        found = client.ask(metadata_request(12, asked, operations=True)).topics
        none, failed = ErrorCode.none, ErrorCode.topic_authorization_failed
        assert [topic.error_code for topic in found] == [none, failed, failed]
        told = [topic.topic_authorized_operations for topic in found]
        assert told == [1 << 3 | 1 << 8 | 1 << 10, -(2**31), -(2**31)]

    def test_an_id_is_refused(self, denied: RunningGateway, client: Client) -> None:
        topics = denied.server.gateway.admin.describe_topics(["ab", "b"])
        asked = tuple(asked_topic(None, uuid_of(one.topic_id)) for one in topics)
        found = client.ask(metadata_request(12, asked)).topics
        failed = ErrorCode.topic_authorization_failed
        assert [(one.error_code, one.name) for one in found] == [(0, "ab"), (failed, None)]

    def test_a_topic_is_made_for_those_who_may(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grant_only(monkeypatch, Grant(prefix="", scopes=frozenset({Scope.WRITE})))
        with (
            gateway(tmp_path / "log", auto_create_topics_enable=True) as running,
            Client(running.port) as client,
        ):
            [found] = client.ask(topics_asked(12, "new")).topics
        assert found.error_code == ErrorCode.topic_authorization_failed


def test_librdkafka_lists_the_cluster(running: RunningGateway) -> None:
    running.server.gateway.admin.create_topics([NewTopic("flights", 2)])
    found = KafkaAdmin({"bootstrap.servers": running.address}).list_topics(timeout=10)
    assert {name: len(topic.partitions) for name, topic in found.topics.items()} == {"flights": 2}
    assert found.cluster_id == running.server.gateway.cluster_id
