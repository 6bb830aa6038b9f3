"""The service in this process: a client, and a log dir of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sparklog.clock import ManualClock
from sparklog.rest.app import create_app
from sparklog.rest.settings import Settings


class TickingClock(ManualClock):
    """A look at it takes a millisecond."""

    def boot_ms(self) -> int:
        self.advance(1)
        return super().boot_ms()


def settings_for(log_dir: str | Path, **values: object) -> Settings:
    return Settings.model_validate({"log_dir": str(log_dir), "linger_ms": 0, **values})


def client_for(settings: Settings) -> TestClient:
    """As a client on this machine; errors of the service are answers, not exceptions."""
    return TestClient(
        create_app(settings), base_url="http://127.0.0.1", raise_server_exceptions=False
    )


@pytest.fixture
def client(log_dir: str) -> Iterator[TestClient]:
    """A client of a service over it."""
    with client_for(settings_for(log_dir)) as found:
        yield found
