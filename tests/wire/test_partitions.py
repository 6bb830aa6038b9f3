"""DeleteRecords, DescribeTopicPartitions, DescribeLogDirs."""

import errno
import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import current_thread
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.storage.memory import MemoryFiles
from sparklog.tokens import Grant, Resource, Scope
from sparklog.wire.handlers.admin.log_dirs import _space
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import ApiKey
from tests.edits import append, segment
from tests.wire.gateways import (
    Client,
    RunningGateway,
    check_others_are_answered,
    gateway,
    grant_only,
)
from tests.wire.requests import SOON, body, newest, part, versions

DELETE, PARTITIONS = ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_TOPIC_PARTITIONS
LOG_DIRS = ApiKey.DESCRIBE_LOG_DIRS
ALL_OPERATIONS = 3576


@pytest.fixture
def admin(running: RunningGateway) -> AdminClient:
    """Topics a with 3 partitions, of which 0 has 10 records, b with 2, and the compacted c."""
    found = running.server.gateway.admin
    compacted = NewTopic("c", 1, {"cleanup.policy": "compact"})
    [topic, *_] = found.create_topics([NewTopic("a", 3), NewTopic("b", 2), compacted])
    append(found._catalog, topic, segment(0, 6), segment(0, 4))
    return found


def delete(client: Client, *wanted: tuple[str, int, int], version: int = newest(DELETE)) -> Any:
    topics = [
        part(
            DELETE,
            version,
            "DeleteRecordsTopic",
            name=name,
            partitions=(
                part(
                    DELETE,
                    version,
                    "DeleteRecordsPartition",
                    partition_index=number,
                    offset=offset,
                ),
            ),
        )
        for name, number, offset in wanted
    ]
    answer = client.ask(body(DELETE, version, topics=tuple(topics), timeout=SOON))
    return [(topic.name, one) for topic in answer.topics for one in topic.partitions]


class TestDeleteRecords:
    @pytest.mark.usefixtures("admin")
    @pytest.mark.parametrize("version", versions(DELETE))
    def test_raises_the_log_start_offset(self, client: Client, version: int) -> None:
        for wanted, expected in ((4, 4), (2, 4), (-1, 10)):
            [(_, found)] = delete(client, ("a", 0, wanted), version=version)
            assert (found.error_code, found.low_watermark) == (ErrorCode.none, expected)

    @pytest.mark.usefixtures("admin")
    def test_each_partition_has_its_answer(self, client: Client) -> None:
        wanted = [
            ("a", 0, 5),
            ("a", 1, 5),
            ("a", 9, 0),
            ("nowhere", 0, 0),
            ("c", 0, 0),
            ("__consumer_offsets", 0, 0),
            ("b", 0, 0),
            ("b", 0, 1),
        ]
        found = {
            (name, one.partition_index): (one.error_code, one.low_watermark)
            for name, one in delete(client, *wanted)
        }
        assert found == {
            ("a", 0): (ErrorCode.none, 5),
            ("a", 1): (ErrorCode.offset_out_of_range, -1),
            ("a", 9): (ErrorCode.unknown_topic_or_partition, -1),
            ("nowhere", 0): (ErrorCode.unknown_topic_or_partition, -1),
            ("c", 0): (ErrorCode.policy_violation, -1),
            ("__consumer_offsets", 0): (ErrorCode.invalid_topic_exception, -1),
            ("b", 0): (ErrorCode.invalid_request, -1),
        }


def describe(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    topics = tuple(part(PARTITIONS, 0, "TopicRequest", name=name) for name in names)
    place = cursor and part(
        PARTITIONS, 0, "Cursor", topic_name=cursor[0], partition_index=cursor[1]
    )
    fields = {"topics": topics, "response_partition_limit": limit, "cursor": place}
    return client.ask(body(PARTITIONS, 0, **fields))


def told(answer: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics
    ]


def following(answer: Any) -> tuple[str, int] | None:
    cursor = answer.next_cursor
    return cursor and (cursor.topic_name, cursor.partition_index)


@pytest.mark.usefixtures("admin")
class TestDescribeTopicPartitions:
    def test_tells_a_topic(self, client: Client, admin: AdminClient) -> None:
        [found] = describe(client, "b").topics
        assert found.topic_id == uuid_of(admin.describe_topics(["b"])[0].topic_id)
        assert (found.is_internal, found.topic_authorized_operations) == (False, ALL_OPERATIONS)
        for one in found.partitions:
            assert (one.leader_id, one.leader_epoch, one.replica_nodes) == (0, 0, (0,))
            assert (one.isr_nodes, one.offline_replicas) == ((0,), ())
            assert (one.eligible_leader_replicas, one.last_known_elr) == ((), ())

    def test_tells_all_in_the_order_of_names(self, client: Client) -> None:
        answer = describe(client)
        assert told(answer) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
        assert following(answer) is None

    def test_names_are_told_once_and_in_order(self, client: Client) -> None:
        assert told(describe(client, "c", "b", "c")) == [("b", [0, 1]), ("c", [0])]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
    def test_pages_hold_everything_once(self, client: Client, limit: int) -> None:
        found: list[tuple[str, int]] = []
        cursor = None
        while True:
            answer = describe(client, limit=limit, cursor=cursor)
            page = [(name, number) for name, numbers in told(answer) for number in numbers]
            assert len(page) <= limit
            found += page
            cursor = following(answer)
            if cursor is None:
                break
        assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]

    def test_a_limit_of_none_is_one(self, client: Client) -> None:
        answer = describe(client, limit=0)
        assert (told(answer), following(answer)) == ([("a", [0])], ("a", 1))

    def test_a_topic_that_went_is_passed_over(self, client: Client) -> None:
        assert told(describe(client, cursor=("bb", 7))) == [("c", [0])]

    def test_a_cursor_behind_the_last_partition_tells_none(self, client: Client) -> None:
        assert told(describe(client, "a", "b", cursor=("a", 9))) == [("a", []), ("b", [0, 1])]

    @pytest.mark.parametrize("cursor", [("a", -1), ("x", 0)])
    def test_a_cursor_is_a_place_in_what_is_asked(
        self, client: Client, cursor: tuple[str, int]
    ) -> None:
        answer = describe(client, "a", "b", cursor=cursor)
        assert [one.error_code for one in answer.topics] == [ErrorCode.invalid_request] * 2

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("nowhere", ErrorCode.unknown_topic_or_partition),
            ("no/good", ErrorCode.invalid_topic_exception),
        ],
    )
    def test_refuses(self, client: Client, name: str, code: ErrorCode) -> None:
        [found] = describe(client, name).topics
        assert (found.error_code, found.partitions) == (code, ())


def log_dirs(
    client: Client, wanted: Sequence[tuple[str, int]] | None = None, version: int = newest(LOG_DIRS)
) -> Any:
    topics = wanted and tuple(
        part(LOG_DIRS, version, "DescribableLogDirTopic", topic=name, partitions=(number,))
        for name, number in wanted
    )
    return client.ask(body(LOG_DIRS, version, topics=topics))


def log_dir(client: Client, *asked: Any, **how: Any) -> Any:
    [found] = log_dirs(client, *asked, **how).results
    return found


def sizes(found: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.partition_size
        for topic in found.topics
        for one in topic.partitions
    }


@pytest.mark.usefixtures("admin")
class TestDescribeLogDirs:
    def test_a_partition_that_there_is_not_is_left_out_with_its_topic(self, client: Client) -> None:
        assert log_dir(client, [("a", 99)]).topics == ()

    def test_one_that_is_gone_is_offline(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads = set[str]()

        def gone(path: str) -> None:
            threads.add(current_thread().name.rpartition("_")[0])
            raise FileNotFoundError(errno.ENOENT, "gone", path)

        monkeypatch.setattr(shutil, "disk_usage", gone)
        [found] = client.ask(body(LOG_DIRS, newest(LOG_DIRS), topics=None)).results
        assert (found.error_code, found.topics) == (ErrorCode.kafka_storage_error, ())
        assert threads == {"lookup"}  # a file server that hangs holds up no long answer

    @pytest.mark.parametrize("version", versions(LOG_DIRS))
    def test_tells_sizes(self, running: RunningGateway, client: Client, version: int) -> None:
        found = log_dir(client, version=version)
        empty = dict.fromkeys([("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)], 0)
        assert (found.error_code, found.log_dir) == (
            ErrorCode.none,
            running.server.gateway.settings.log_dir,
        )
        assert sizes(found) == {("a", 0): 200, **empty}
        if version >= 4:
            assert found.total_bytes > found.usable_bytes > 0

    def test_tells_what_was_asked_for(self, client: Client) -> None:
        found = log_dir(client, [("a", 0), ("a", 9), ("nowhere", 0)])
        assert sizes(found) == {("a", 0): 200}

    def test_does_not_keep_other_clients_waiting(
        self, running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = import_module("sparklog.wire.handlers.admin.log_dirs"), "_topic"
        asked = body(LOG_DIRS, newest(LOG_DIRS), topics=None)
        check_others_are_answered(running, monkeypatch, slow, lambda: client.send(asked))
        [found] = client.receive(LOG_DIRS, newest(LOG_DIRS)).results
        assert found.error_code == ErrorCode.none

    def test_an_object_store_has_no_end(self) -> None:
        assert _space(MemoryFiles()) == (-1, -1)


def test_every_partition_is_told_by_one_instance(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        gateway(log, node_id=1) as first,
        gateway(log, node_id=2) as second,
        Client(first.port) as one,
        Client(second.port) as other,
    ):
        names = [f"topic-{number}" for number in range(20)]
        first.server.gateway.admin.create_topics([NewTopic(name, 1) for name in names])
        told_by = [{name for name, _ in sizes(log_dir(client))} for client in (one, other)]
    assert told_by[0] | told_by[1] == set(names)
    assert not told_by[0] & told_by[1]
    assert all(told_by)


@pytest.mark.usefixtures("admin")
def test_what_may_not_be_seen_is_not_told(
    running: RunningGateway, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = frozenset({Scope.READ})
    cluster = Grant(prefix="", scopes=scopes, resource=Resource.CLUSTER)
    grant_only(monkeypatch, Grant(prefix="b", scopes=scopes), cluster)
    with Client(running.port) as mine:
        assert told(describe(mine)) == [("b", [0, 1])]
        assert {name for name, _ in sizes(log_dir(mine))} == {"b"}
        [found] = describe(mine, "a").topics
    assert found.error_code == ErrorCode.topic_authorization_failed
    assert found.topic_authorized_operations == 0
