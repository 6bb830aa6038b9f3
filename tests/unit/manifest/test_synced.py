"""A log that somebody else cleans up while it is being synced."""

import json
from collections.abc import Callable, Iterable

import pytest

from sparklog.errors import MissingFileError
from sparklog.manifest.synced import TRIES, SyncedLog
from sparklog.storage.memory import MemoryFiles

LOG = "t/_delta_log"


class CleanedUp(MemoryFiles):
    """Local files; before each sync, `others` do the next of what they do."""

    is_local = True

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Callable[[], None]] = []

    def sync(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        if paths and self.others:
            self.others.pop(0)()
        super().sync(paths)

    def check_point(self, version: int, *gone: str) -> None:
        """Make a checkpoint the last one, and drop what it stands for."""
        self.write_new(checkpoint(version), b"rows")
        self.delete(f"{LOG}/_last_checkpoint")
        self.write_new(f"{LOG}/_last_checkpoint", json.dumps({"version": version}).encode())
        for path in gone:
            self.delete(path)


def entry(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def checkpoint(version: int) -> str:
    return f"{LOG}/{version:020}.checkpoint.parquet"


@pytest.fixture
def files() -> CleanedUp:
    """Entries 0 to 3."""
    made = CleanedUp()
    for version in range(4):
        made.write_new(entry(version), b"{}")
    return made


def durable(files: CleanedUp) -> set[str]:
    files.lose_unsynced()
    return {file.path for file in files.list(LOG)}


class TestSync:
    def test_of_entries_that_are_cleaned_up_meanwhile(self, files: CleanedUp) -> None:
        files.others = [lambda: files.check_point(2, entry(0), entry(1))]
        SyncedLog(files, "t").sync(3, [])

        assert durable(files) == {entry(2), entry(3), checkpoint(2), f"{LOG}/_last_checkpoint"}

    def test_of_a_checkpoint_that_is_cleaned_up_meanwhile(self, files: CleanedUp) -> None:
        files.check_point(1)
        files.others = [lambda: files.check_point(3, checkpoint(1), entry(1))]
        SyncedLog(files, "t").sync(3, [])

        assert durable(files) == {entry(3), checkpoint(3), f"{LOG}/_last_checkpoint"}

    def test_does_not_try_for_ever(self, files: CleanedUp) -> None:
        files.check_point(2, checkpoint(2))
        pointer = f"{LOG}/_last_checkpoint"

        with pytest.raises(MissingFileError):
            SyncedLog(files, "t").sync(3, [])
        assert [op.path for op in files.trace if op.kind == "read"] == [pointer] * TRIES


class TestSyncCheckpoint:
    def test_takes_the_newer_one_when_the_older_is_cleaned_up(self, files: CleanedUp) -> None:
        files.check_point(1)
        files.others = [lambda: files.check_point(3, checkpoint(1))]

        assert SyncedLog(files, "t").sync_checkpoint() == 3
        assert durable(files) == {checkpoint(3), f"{LOG}/_last_checkpoint"}
