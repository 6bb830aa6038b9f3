"""Whoever keeps or serves the entries of others syncs their names first, once for each version."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.clock import SystemClock
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.metadata.names import ENTRIES
from sparklog.storage.local import LocalFiles
from tests.logs import append, catalog
from tests.streams import Stream
from tests.tables import build, topic_with_table

Reader = Callable[[str], object]


def a_build(log_dir: str) -> object:
    return build(log_dir)


def a_stream(log_dir: str) -> object:
    return Stream(log_dir).step()


def a_reader_of_the_past(log_dir: str) -> object:
    topics = FollowedTopics(catalog(log_dir), SystemClock(), 20)
    return topics.past_reader("t", version=2, timestamp_ms=None)


@pytest.mark.parametrize("read", [a_build, a_stream, a_reader_of_the_past])
def test_others_entries_are_durable_first(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = topic_with_table(tmp_path / "log")
    append(log_dir, 0, "ab")
    synced: list[str] = []
    monkeypatch.setattr(LocalFiles, "sync_directory", lambda _, path: synced.append(path))

    assert read(log_dir)

    assert synced[:1] == [ENTRIES]
    assert synced.count(ENTRIES) == 1
