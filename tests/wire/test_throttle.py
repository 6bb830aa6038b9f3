"""Throttle times: producers to long tails wait while the housekeeper is late."""

from datetime import timedelta
from importlib import import_module
from itertools import pairwise
from typing import Any
from weakref import ref

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparklog.admin import NewTopic
from sparklog.maintenance.merging.tail import SLICES_MAX
from sparklog.metadata.state.partition_log import PartitionLog
from sparklog.metadata.state.segments import NO_PIECES, LiveSegments
from sparklog.model import SHARED_PREFIX
from sparklog.service.housekeeper import Housekeeper
from sparklog.wire import throttle
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.throttle import (
    LAG_MS,
    LATE_MS,
    LOGS_SEEN,
    SLICES_MANY,
    THROTTLE_MAX_MS,
    Throttle,
    some_of,
)
from tests.client_batches import client_batch
from tests.edits import segment
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, request
from tests.wire.test_produce import produce_request


def log_of(slices: int) -> PartitionLog:
    """A log that ends with so many slices."""
    entries = [
        segment()._replace(log_path=f"{SHARED_PREFIX}a", log_position=number)
        for number in range(slices)
    ]
    return PartitionLog("t-0", 0, live=LiveSegments(NO_PIECES).appended(entries))


def time_ms(late_ms: int, *slices: int) -> int:
    """The throttle time of a request to logs with so many slices, by so late a housekeeper."""
    found = Throttle()
    found.note(LATE_MS + late_ms)
    return found.time_ms(map(log_of, slices))


produce = import_module("sparklog.wire.handlers.records.produce")
LONG = SLICES_MANY + 1


def test_logs_are_long_where_the_housekeeper_merges_them() -> None:
    assert SLICES_MANY == SLICES_MAX


class TestTimes:
    @pytest.mark.parametrize("lag_ms", [0, LATE_MS])
    def test_none_while_the_housekeeper_is_in_time(self, lag_ms: int) -> None:
        assert time_ms(lag_ms - LATE_MS, LONG) == 0

    def test_longer_the_later_it_is(self) -> None:
        assert [time_ms(LAG_MS * late, LONG) for late in (1, 2, 30)] == [1, 2, 30]

    def test_with_an_end(self) -> None:
        most = LAG_MS * THROTTLE_MAX_MS
        assert [time_ms(late, LONG) for late in (most, 60 * most)] == [THROTTLE_MAX_MS] * 2

    def test_none_for_logs_with_few_slices(self) -> None:
        assert time_ms(LAG_MS, SLICES_MANY) == 0

    def test_none_for_a_request_to_no_log(self) -> None:
        assert time_ms(LAG_MS) == 0

    def test_the_logs_count_on_average(self) -> None:
        assert time_ms(LAG_MS, SLICES_MANY - 1, LONG) == 0
        assert time_ms(LAG_MS, SLICES_MANY, LONG) == 1

    def test_they_are_told_once_as_long_as_it_is_late(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        found, told = Throttle(), []
        for lag_ms in (2 * LATE_MS, 3 * LATE_MS, LATE_MS, 2 * LATE_MS):
            found.note(lag_ms)
            found.time_ms([log_of(LONG)])
            told.append(len(caplog.messages))
        assert told == [1, 1, 1, 2]


@given(st.integers(0, 5000))
def test_only_some_logs_of_a_request_are_looked_at(count: int) -> None:
    found = some_of(range(count))
    assert len(found) <= LOGS_SEEN
    assert len(found) * 2 >= min(count, LOGS_SEEN)
    assert len({after - before for before, after in pairwise(found)}) <= 1


class TestConnections:
    @pytest.fixture(autouse=True)
    def late(self, running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        """A housekeeper that is late by a day; one slice makes a tail long."""
        lag_ms = 86_400_000
        monkeypatch.setattr(throttle, "SLICES_MANY", 0)
        monkeypatch.setattr(throttle, "THROTTLE_MAX_MS", lag_ms)
        monkeypatch.setattr(Housekeeper, "lag_ms", property(lambda _: lag_ms))
        running.server.gateway.throttle.note(lag_ms)
        running.server.gateway.admin.create_topics([NewTopic("t", 1)])

    @pytest.mark.parametrize("quick_items", [produce.QUICK_ITEMS, 0])
    def test_the_answer_has_the_time(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, quick_items: int
    ) -> None:
        """Also that to a request of many parts."""
        monkeypatch.setattr(produce, "QUICK_ITEMS", quick_items)
        found = client.ask(a_produce())
        assert found.throttle_time == timedelta(milliseconds=(86_400_000 - LATE_MS) // LAG_MS)

    def test_no_request_begins_before_it_is_over(
        self, running: RunningGateway, client: Client
    ) -> None:
        client.ask(a_produce())
        client.send(request(ApiKey.API_VERSIONS, 0))
        connection = only_connection(running)
        until(lambda: len(connection._waiting) == 1)

        async def hours_pass() -> None:
            connection._muted.cancel()
            connection._speak_again()

        running.run(hours_pass())
        assert client.receive(ApiKey.API_VERSIONS, 0).error_code == 0

    def test_other_clients_do_not_wait(self, running: RunningGateway, client: Client) -> None:
        client.ask(a_produce())
        with Client(running.port) as other:
            assert other.ask(request(ApiKey.API_VERSIONS, 0)).error_code == 0

    def test_a_client_that_wants_no_answer_waits_too(
        self, running: RunningGateway, client: Client
    ) -> None:
        client.ask(request(ApiKey.API_VERSIONS, 0))
        client.send(a_produce(acks=0))
        until(lambda: only_connection(running)._muted is not None)

    def test_a_request_that_nothing_is_appended_by_gets_none(
        self, running: RunningGateway, client: Client
    ) -> None:
        for topic in ("nowhere", "t"):
            found = client.ask(produce_request(9, topic, (7, client_batch("a"))))
            assert found.throttle_time == timedelta(0)
        assert only_connection(running)._muted is None

    @pytest.mark.usefixtures("no_collector")
    def test_a_client_that_leaves_is_forgotten(self, running: RunningGateway) -> None:
        with Client(running.port) as client:
            client.ask(a_produce())
            gone = ref(only_connection(running))
        until(lambda: gone() is None, most_s=30)

    def test_the_gateway_ends_without_its_requests(
        self, running: RunningGateway, client: Client
    ) -> None:
        client.ask(a_produce())
        client.send(a_produce())
        connection = only_connection(running)
        until(lambda: len(connection._waiting) == 1)
        running.run(running.server.close())
        assert client.receive_frame() == b""

    def test_metrics_have_the_sum_and_the_lag(
        self, running: RunningGateway, client: Client
    ) -> None:
        client.ask(a_produce())
        text = running.server.gateway.metrics.text().decode()
        assert f"sparklog_gateway_throttle_seconds_total {(86_400 - 10) / LAG_MS}" in text
        assert "sparklog_gateway_housekeeper_lag_seconds 86400.0" in text


def a_produce(acks: int = -1) -> Any:
    return produce_request(9, "t", (0, client_batch("a")), acks=acks)


def only_connection(running: RunningGateway) -> Any:
    [found] = running.server.gateway.connections
    return found
