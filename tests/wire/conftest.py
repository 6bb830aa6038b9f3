"""A gateway over a log dir of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.model import TopicDescription
from sparklog.testing import TemporaryLogDir, TemporaryTopic
from tests.wire.gateways import Client, RunningGateway, gateway


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway over a new log dir."""
    with gateway(tmp_path / "log") as found:
        yield found


@pytest.fixture
def client(running: RunningGateway) -> Iterator[Client]:
    """A connection to it."""
    with Client(running.port) as found:
        yield found


@pytest.fixture
def log_dir(tmp_path: Path) -> TemporaryLogDir:
    """The gateway's log dir, written to past the gateway."""
    return TemporaryLogDir(tmp_path / "log")


@pytest.fixture
def flights(log_dir: TemporaryLogDir) -> TemporaryTopic:
    """A topic of two partitions."""
    return log_dir.topic("flights", partitions=2)


@pytest.fixture
def topic(running: RunningGateway, flights: TemporaryTopic) -> TopicDescription:
    """The same, as the gateway knows it."""
    return running.server.gateway.catalog.topic(flights.name)
