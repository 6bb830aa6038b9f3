"""A fetch waits for records, and is answered when they come, or when its time is over."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from sparklog.model import TopicDescription
from sparklog.testing import Record, TemporaryLogDir, TemporaryTopic
from sparklog.wire.protocol.versions import ApiKey
from tests.client_batches import client_batch
from tests.wire.fetching import (
    MANY,
    NEWEST,
    Part,
    errors,
    fetch_request,
    fetched,
    partitions_of,
    values,
)
from tests.wire.gateways import Client, RunningGateway
from tests.wire.test_produce import produce_request


class TestWaiting:
    def test_a_fetch_waits_for_records_of_another_process(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY))
        flights.produce(Record("a", partition=1))
        flights.produce(Record("b", partition=0))
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert values(found) == ["b"]

    def test_it_waits_for_records_of_this_gateway(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY))
        with Client(running.port) as producer:
            producer.ask(produce_request(9, "flights", (0, client_batch("a"))))
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert values(found) == ["a"]

    def test_it_waits_for_enough_of_them(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        flights.produce(Record("a", partition=0))
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY, min_bytes=100))
        flights.produce(Record("b", partition=0))
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert values(found) == ["a", "b"]

    def test_it_waits_for_a_topic_that_it_names_twice(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        asked = fetch_request(NEWEST, topic, Part(), wait_ms=MANY)
        client.send(replace(asked, topics=asked.topics * 2))
        flights.produce(Record("a", partition=0))
        found = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert [values(one) for one in found] == [["a"], ["a"]]

    def test_it_is_answered_when_its_time_is_over(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        flights.produce(Record("a", partition=0))
        [found] = fetched(client, topic, wait_ms=1, min_bytes=10_000)
        assert values(found) == ["a"]

    def test_at_the_end_of_its_time_it_gets_what_came_meanwhile(
        self, client: Client, flights: TemporaryTopic, topic: TopicDescription
    ) -> None:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=3_000, min_bytes=10_000))
        flights.produce(Record("a", partition=0))
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert values(found) == ["a"]

    def test_it_is_answered_when_reading_takes_long(
        self,
        client: Client,
        flights: TemporaryTopic,
        topic: TopicDescription,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Goal: on an object store a client with many slices to read gets some of them in time."""
        for partition, value in ((0, "a"), (0, "b"), (1, "c")):
            flights.produce(Record(value, partition=partition))
        monkeypatch.setattr("sparklog.wire.handlers.records.fetch_read.READ_MS", 0)
        found = fetched(client, topic, Part(0), Part(1), wait_ms=MANY, min_bytes=MANY)
        assert [values(one) for one in found] == [["a"], []]

    @pytest.mark.parametrize("min_bytes", [1, MANY])
    def test_it_is_told_that_its_topic_is_gone(
        self,
        running: RunningGateway,
        client: Client,
        log_dir: TemporaryLogDir,
        topic: TopicDescription,
        min_bytes: int,
    ) -> None:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY, min_bytes=min_bytes))
        until_it_waits(running)
        log_dir.admin.delete_topics(["flights"])
        assert errors(partitions_of(client.receive(ApiKey.FETCH, NEWEST))) == [
            ErrorCode.unknown_topic_id
        ]

    def test_it_is_answered_when_the_gateway_ends(
        self, running: RunningGateway, client: Client, topic: TopicDescription
    ) -> None:
        client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY))
        until_it_waits(running)
        running.run(running.server.close())
        [found] = partitions_of(client.receive(ApiKey.FETCH, NEWEST))
        assert (values(found), client.receive_frame()) == ([], b"")

    def test_nobody_waits_for_a_client_that_has_gone(
        self, running: RunningGateway, topic: TopicDescription
    ) -> None:
        with Client(running.port) as client:
            client.send(fetch_request(NEWEST, topic, Part(), wait_ms=MANY))
            until_it_waits(running)
        assert set(iter(lambda: running.run(_waiting(running)), 0)) <= {1}


async def _waiting(running: RunningGateway) -> int:
    return running.server.gateway.watch.waiting


def until_it_waits(running: RunningGateway, count: int = 1) -> None:
    """Return when so many fetches wait."""
    assert set(iter(lambda: running.run(_waiting(running)), count)) <= {*range(count)}
