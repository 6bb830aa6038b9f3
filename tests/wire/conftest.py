"""A gateway over a log dir of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
