"""Services as users start them, with the soft limit of open files that a shell gives."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rest.servers import Instance
from tests.wire.processes import gateway_process

FILES = resource.RLIMIT_NOFILE


@pytest.fixture(autouse=True)
def most() -> Iterator[int]:
    """The hard limit; the soft one of this process, and of those that it starts, is lower."""
    before, most = resource.getrlimit(FILES)
    resource.setrlimit(FILES, (before - 1, most))
    yield most
    resource.setrlimit(FILES, (before, most))


def test_a_gateway_may_open_all_files_that_it_is_allowed(tmp_path: Path, most: int) -> None:
    with gateway_process(tmp_path / "log") as running:
        assert resource.prlimit(running.pid, FILES) == (most, most)


def test_a_rest_service_may_open_them_too(tmp_path: Path, most: int) -> None:
    with Instance(tmp_path / "log", tmp_path) as running:
        assert resource.prlimit(running.process.pid, FILES) == (most, most)
