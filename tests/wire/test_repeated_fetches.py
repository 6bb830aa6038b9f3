"""A client that found nothing asks the same again: its answer is kept, and never an old one."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from sparklog.model import TopicDescription
from sparklog.testing import Record, TemporaryLogDir, TemporaryTopic
from sparklog.tokens import Principal
from sparklog.wire.handlers.records.fetch_read import FetchRequest
from tests.client_batches import client_batch
from tests.wire.fetching import Part, errors, fetched, values
from tests.wire.gateways import Client, RunningGateway
from tests.wire.test_produce import produce_request

Ask = Callable[..., Any]


@pytest.fixture
def ask(client: Client, topic: TopicDescription) -> Ask:
    """Ask for partition 0, for a millisecond; the answer for it."""

    def asked(**options: Any) -> Any:
        [found] = fetched(client, topic, Part(0), wait_ms=1, **options)
        return found

    return asked


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The images that fetches have read."""
    found: list[object] = []
    read = FetchRequest.read

    def counted(request: FetchRequest, image: Any, **options: Any) -> Any:
        found.append(image)
        return read(request, image, **options)

    monkeypatch.setattr(FetchRequest, "read", counted)
    return found


@pytest.mark.parametrize("options", [{}, {"committed": True}, {"min_bytes": 10}])
def test_it_is_not_read_again(ask: Ask, reads: list[object], options: dict[str, Any]) -> None:
    answers = [ask(**options) for _ in range(3)]
    assert answers == answers[:1] * 3
    assert len(reads) == 1


def test_commits_to_other_topics_change_nothing(
    client: Client, ask: Ask, reads: list[object], log_dir: TemporaryLogDir
) -> None:
    log_dir.topic("others")
    before = ask()
    client.ask(produce_request(9, "others", (0, client_batch("a"))))
    assert ask() == before
    assert len(reads) == 1


@pytest.mark.parametrize("options", [{}, {"committed": True}, {"min_bytes": 10_000}])
def test_it_finds_new_records(ask: Ask, flights: TemporaryTopic, options: dict[str, Any]) -> None:
    ask(**options)
    flights.produce(Record("a", partition=0))
    assert [values(ask(**options)) for _ in range(2)] == [["a"]] * 2


def test_it_finds_new_records_of_this_gateway(client: Client, ask: Ask) -> None:
    ask()
    client.ask(produce_request(9, "flights", (0, client_batch("a"))))
    assert values(ask()) == ["a"]


def test_too_few_records_are_read_each_time(
    ask: Ask, reads: list[object], flights: TemporaryTopic
) -> None:
    flights.produce(Record("a", partition=0))
    assert [values(ask(min_bytes=10_000)) for _ in range(2)] == [["a"]] * 2
    assert len(set(map(id, reads))) < len(reads)


def test_a_record_of_another_partition_raises_no_end(ask: Ask, flights: TemporaryTopic) -> None:
    ask()
    flights.produce(Record("a", partition=1))
    found = ask()
    assert (values(found), found.high_watermark) == ([], 0)


def test_the_topic_may_be_deleted_meanwhile(ask: Ask, log_dir: TemporaryLogDir) -> None:
    ask()
    log_dir.admin.delete_topics(["flights"])
    assert errors([ask()]) == [ErrorCode.unknown_topic_id]


def test_a_topic_of_the_same_name_is_another_one(ask: Ask, log_dir: TemporaryLogDir) -> None:
    assert values(ask(version=12)) == []
    log_dir.admin.delete_topics(["flights"])
    log_dir.topic("flights").produce(Record("a", partition=0))
    assert values(ask(version=12)) == ["a"]


def test_the_client_may_lose_its_grants(ask: Ask, running: RunningGateway) -> None:
    ask()
    [connection] = running.server.gateway.connections
    connection.session.principal = Principal(name="nobody", grants=())
    assert errors([ask()]) == [ErrorCode.topic_authorization_failed]


def test_another_request_is_read(client: Client, topic: TopicDescription, ask: Ask) -> None:
    ask()
    found = fetched(client, topic, Part(0), Part(1), wait_ms=1)
    assert [one.partition_index for one in found] == [0, 1]


def test_one_with_a_rack_is_read_each_time(ask: Ask, reads: list[object]) -> None:
    for _ in range(2):
        ask(rack_id="b")
    assert len(reads) == 2
