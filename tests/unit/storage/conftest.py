"""Files of a local disk, which may break."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.storage.local import LocalFiles
from tests.local_disks import break_disk, forget_files


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """A log dir on this machine."""
    return LocalFiles(str(tmp_path))


@pytest.fixture
def nothing_before() -> Iterator[None]:
    """No file that another test has left open."""
    forget_files()
    yield
    forget_files()


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails the first fsync of each file."""
    break_disk(monkeypatch)
