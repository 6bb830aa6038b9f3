"""Which topics the metadata log opens, which of them together, and by how many requests."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sparklog.admin import NewTopic
from sparklog.errors import CorruptMetadataError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.follow import FollowedLog
from sparklog.metadata.runs.store import Runs
from sparklog.metadata.state.edit import FoldEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage import open_files
from sparklog.storage.memory import MemoryFiles
from tests.logs import client


def fold_now(log_dir: str | Path) -> None:
    """Fold the metadata log: a process that reads it later opens topics when it needs them."""
    fold(Catalog(open_files(str(log_dir))).log)


def note_openings(monkeypatch: pytest.MonkeyPatch, log_dir: str | Path) -> list[list[str]]:
    """Fold a log dir; return a list to which each read of the runs adds its topics' names."""
    fold_now(log_dir)
    found: list[list[str]] = []
    read = Runs.opened

    def noted(
        runs: Runs, fold: FoldEdit, topics: Mapping[str, TopicImage]
    ) -> dict[str, TopicImage]:
        found.append(sorted(one.description.name for one in topics.values()))
        return read(runs, fold, topics)

    monkeypatch.setattr(Runs, "opened", noted)
    return found


def note_looks(monkeypatch: pytest.MonkeyPatch) -> list[FollowedLog]:
    """Return a list to which each look for new entries of a metadata log adds the log."""
    found: list[FollowedLog] = []
    follow = FollowedLog._follow

    def noted(log: FollowedLog) -> None:
        found.append(log)
        follow(log)

    monkeypatch.setattr(FollowedLog, "_follow", noted)
    return found


def make_damaged(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let no read of the runs succeed that opens this topic."""
    read = Runs.opened

    def read_others(
        runs: Runs, fold: FoldEdit, topics: Mapping[str, TopicImage]
    ) -> dict[str, TopicImage]:
        if any(one.description.name == name for one in topics.values()):
            raise CorruptMetadataError(f"{name}: a run cannot be read")
        return read(runs, fold, topics)

    monkeypatch.setattr(Runs, "opened", read_others)


def folded(count: int, configs: Mapping[str, str] | None = None) -> MemoryFiles:
    """A log dir on a store, with topics t0, t1, …, whose metadata log is folded."""
    files = MemoryFiles()
    client(files).create_topics(
        [NewTopic(f"t{number}", 1, configs or {}) for number in range(count)]
    )
    fold(Catalog(files).log)
    return files


def requests_for(files: MemoryFiles, use: Callable[[], object]) -> int:
    """How many requests a use case makes to a store."""
    before = len(files.trace)
    use()
    return len(files.trace) - before
