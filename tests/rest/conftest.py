"""The service in this process: a client, and a log dir of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.model import TopicPartition
from sparklog.rest.app import create_app
from sparklog.rest.settings import Settings
from tests.group_language import Groups
from tests.group_logs import append_records
from tests.logs import append, catalog

ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1\0\0\0\1" + b"\xff" * 4
"""Partition 1 of the topic t, as the consumer's protocol assigns it."""


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


@pytest.fixture
def readers(log_dir: str) -> str:
    """The log dir with the group `readers`: a member, and offsets of two partitions."""
    append(log_dir, 0, "abc", timestamps=[1_000, 2_000, 3_000])
    append(log_dir, 1, "abcd", timestamps=[1_000, 2_000, 3_000, 4_000])
    groups = Groups()
    ada = groups.member("ada", instance_id="first")
    ada.joins()
    groups.passes(3_000)
    assert ada.leads
    ada.syncs({ada.member_id: ASSIGNED})
    ada.commits(2, TopicPartition("t", 0))
    ada.commits(1, TopicPartition("t", 1))
    append_records(catalog(log_dir), groups.log)
    AdminClient(log_dir).alter_consumer_group_offsets("another", {("t", 0): 3})
    return log_dir
