"""Durable commits: each version is synced once, before its commit is answered."""

from threading import Lock, Thread
from unittest.mock import Mock

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import CommitOutcomeUnknownError, StorageError
from sparklog.metadata.log import Committed, MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.edit import Done
from sparklog.storage.memory import MemoryFiles
from tests.edits import segment
from tests.metadata_language import TOPIC, append, ends, new_log, producing, whole
from tests.waiting import until


class WaitingLock:
    """A lock that counts the threads that came to it."""

    def __init__(self) -> None:
        self.threads = 0
        self._lock = Lock()

    def __enter__(self) -> None:
        self.threads += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class TestDurable:
    def test_an_answer_outlives_a_power_cut(self) -> None:
        files = MemoryFiles()
        append(new_log(files))
        files.lose_unsynced()

        assert ends(whole(MetadataLog(files, ManualClock()))) == 10

    def test_a_sync_that_fails_leaves_the_outcome_unknown(self) -> None:
        files = MemoryFiles()
        log = new_log(files)
        files.fail_next("sync_directory")

        with pytest.raises(CommitOutcomeUnknownError, match="could not be made durable"):
            append(log)

    def test_an_entry_that_names_files_waits_for_them(self) -> None:
        files = MemoryFiles()
        log = new_log(files)
        seen: list[bool] = []

        def ready() -> None:
            seen.append(log.entries.has(2))

        [outcome] = log.commit_each([producing(segment())], TOPIC, ready=ready)

        assert isinstance(outcome, Committed)
        assert (seen, outcome.image.version) == ([False], 2)

    def test_what_is_not_durable_is_not_committed(self) -> None:
        log = new_log(MemoryFiles())

        def broken() -> None:
            raise StorageError("an I/O error")

        outcomes = log.commit_each([producing(segment())] * 2, TOPIC, ready=broken)

        assert [type(one) for one in outcomes] == [StorageError] * 2
        assert append(log) == 10

    def test_nothing_is_waited_for_if_nothing_is_committed(self) -> None:
        log, waited = new_log(MemoryFiles()), Mock()
        [outcome] = log.commit_each([lambda _: Done()], TOPIC, ready=waited)

        assert isinstance(outcome, Committed)
        assert outcome.edit is None
        assert not waited.called

    def test_a_version_is_synced_once(self) -> None:
        files = MemoryFiles()
        log = new_log(files)
        append(log)
        before = len(files.trace)
        log.sync()

        assert len(files.trace) == before

    def test_threads_that_wait_for_a_sync_share_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files, waiting = MemoryFiles(), WaitingLock()
        new_log(files)
        log = MetadataLog(files, ManualClock())
        log.image()
        synced: list[str] = []

        def sync(directory: str) -> None:
            until(lambda: waiting.threads == 2)
            synced.append(directory)

        monkeypatch.setattr(log, "_syncing", waiting)
        monkeypatch.setattr(files, "sync_directory", sync)
        threads = [Thread(target=log.sync) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert synced == [ENTRIES]
