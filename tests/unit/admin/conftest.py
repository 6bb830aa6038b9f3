"""A client over a log dir, and a topic; in most files, tests make another log dir."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from sparklog.storage import open_files


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "log dir"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def admin(log_dir: Path, clock: ManualClock) -> AdminClient:
    return AdminClient(log_dir, clock=clock)


@pytest.fixture
def catalog(log_dir: Path) -> Catalog:
    return Catalog(open_files(str(log_dir)), ManualClock(), flush=False)


@pytest.fixture
def topic(admin: AdminClient) -> TopicDescription:
    """`flights`, of two partitions."""
    return admin.create_topics([NewTopic("flights", 2)])[0]
