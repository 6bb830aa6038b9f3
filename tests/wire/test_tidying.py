"""An instance keeps the ends of the logs tidy that it leads."""

from pathlib import Path

import pytest

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.maintenance.tail import SLICES_MAX
from sparklog.testing import TemporaryLogDir
from sparklog.wire import tidying
from tests.client_batches import client_batch
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.test_produce import produce_request


def produced(client: Client, count: int) -> None:
    for number in range(count):
        client.ask(produce_request(9, "t", (0, client_batch(str(number)))))


def test_slices_become_a_segment(running: RunningGateway, client: Client, tmp_path: Path) -> None:
    running.server.gateway.admin.create_topics([NewTopic("t", 1)])
    produced(client, SLICES_MAX + 1)
    running.server.gateway.tidying.tidy()
    catalog = running.server.gateway.catalog
    assert not any(one.is_shared for one in catalog.partition(catalog.topic("t"), 0).entries())
    values = TemporaryLogDir(tmp_path / "log")["t"].values()
    assert values == [str(number).encode() for number in range(SLICES_MAX + 1)]


def test_it_happens_while_the_gateway_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidying, "INTERVAL_S", 0.001)
    with gateway(tmp_path / "log") as running, Client(running.port) as client:
        found = running.server.gateway
        found.admin.create_topics([NewTopic("t", 1)])
        count = 0
        while not found.tidying.merged:
            produced(client, SLICES_MAX)
            count += SLICES_MAX
    assert len(TemporaryLogDir(tmp_path / "log")["t"].values()) == count


def test_an_error_is_told_to_the_log(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(tidying, "merge_tails", fails)
    running.server.gateway.tidying.tidy()
    assert "the disk is gone" in caplog.text
