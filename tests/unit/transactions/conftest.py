"""A log dir with transactions, and events between the steps of their ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.group_commit.append_writer import AppendWriter
from tests.transactions import OLD, Client, Instance, new_log_dir, ready


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """An instance over two topics of two partitions."""
    return new_log_dir(str(tmp_path / "log"), "t", "u")


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer that may begin a transaction."""
    return ready(instance)


@pytest.fixture
def old(instance: Instance) -> Client:
    """The same, from before KIP-890."""
    return ready(instance, OLD)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens, each once, after markers are written; it is empty when all has happened."""
    events: list[Callable[[], object]] = []
    write = AppendWriter._written

    def written(*arguments: Any) -> Any:
        found = write(*arguments)
        if events:
            events.pop(0)()
        return found

    monkeypatch.setattr(AppendWriter, "_written", written)
    return events
