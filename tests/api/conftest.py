"""The service in this process: a client, and a log dir of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from sparklog.clock import ManualClock
from tests.logs import new_topic

FOREVER = {"retention.ms": "-1"}


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
def log_dir(tmp_path: Path) -> str:
    """A log dir with the topic t of 4 partitions."""
    return new_topic(tmp_path / "log", config=FOREVER)


@pytest.fixture
def client(log_dir: str) -> Iterator[TestClient]:
    """A client of a service over it."""
    with client_for(settings_for(log_dir)) as found:
        yield found
