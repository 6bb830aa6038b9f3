"""A gateway as users start it, for clients that nobody here wrote."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.testing import TemporaryLogDir
from tests.wire.processes import gateway_process

OPTIONS = ("--group-initial-rebalance-delay-ms", "0", "--node-id", "1")
_numbers = count()


@dataclass(frozen=True)
class Served:
    """A gateway's address, and its log dir to look into."""

    address: str
    log_dir: Path

    def new_topic(self, partitions: int = 2) -> str:
        """The name of a topic that was just made."""
        name = self.new_name()
        AdminClient(self.log_dir).create_topics([NewTopic(name, partitions)])
        return name

    def new_name(self) -> str:
        """A name that no topic or group has."""
        return f"name-{next(_numbers)}"

    def values(self, topic: str) -> list[str]:
        """The values of a topic's records, in order, read without the gateway."""
        found: list[Any] = TemporaryLogDir(self.log_dir)[topic].values()
        return sorted(bytes(value or b"").decode() for value in found)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    log_dir = tmp_path_factory.mktemp("gateway") / "log"
    with gateway_process(log_dir, *OPTIONS) as process:
        yield Served(process.address, log_dir)


def numbers(first: int, last: int) -> list[str]:
    """The values that clients send: numbers of four digits, in order as texts, too."""
    return [f"{number:04}" for number in range(first, last)]
