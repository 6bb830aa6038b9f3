"""Commits that fail, or that land and say that they failed: nothing twice, nothing half visible."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import SystemClock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    StorageError,
    StorageFullError,
)
from sparklog.manifest.delta_rs import DeltaLog
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.store import Committed
from sparklog.manifest.tries import COMMIT_TIMEOUT_MS, STORAGE_TRIES
from sparklog.model import OffsetRange
from tests.manifests import (
    NOW_MS,
    BusyClock,
    append,
    appending,
    at,
    changing,
    delta_store,
    indexed,
    interrupted,
    never,
    removing,
    segment,
    spans,
)

Break = Callable[..., None]
FULL = StorageFullError("No space left on device")


@pytest.fixture
def clock() -> BusyClock:
    return BusyClock(SystemClock().now_ms())


@pytest.fixture
def store(tmp_path: Path, clock: BusyClock) -> DeltaManifestStore:
    return delta_store(tmp_path, clock)


@pytest.fixture
def break_commits(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Lets the next commits land or not, and raise."""
    honest = DeltaLog.commit

    def break_commits(error: Exception, *, times: int, lands: bool) -> None:
        left = [times]

        def commit(log: DeltaLog, *arguments: Any, **named: Any) -> None:
            if not left[0]:
                return honest(log, *arguments, **named)
            left[0] -= 1
            if lands:
                honest(log, *arguments, **named)
            raise error

        monkeypatch.setattr(DeltaLog, "commit", commit)

    return break_commits


class TestAnAnswerThatIsLost:
    @pytest.mark.parametrize("error", [FULL, CommitConflictError("lost"), StorageError("lost")])
    def test_is_found_in_the_rows(
        self, store: DeltaManifestStore, break_commits: Break, error: Exception
    ) -> None:
        append(store, segment())
        break_commits(error, times=1, lands=True)
        done = store.commit(appending(segment(), segment(1), partition_count=3))

        assert done == Committed(2, (OffsetRange(0, 10, 20), OffsetRange(1, 0, 10)), False, 3)
        assert spans(store.snapshot()) == [(0, 10), (10, 20)]

    def test_is_found_after_the_segment_was_removed(
        self,
        store: DeltaManifestStore,
        break_commits: Break,
        clock: BusyClock,
        tmp_path: Path,
    ) -> None:
        entry = segment()
        break_commits(FULL, times=1, lands=True)
        retention = delta_store(tmp_path)
        clock.meanwhile = lambda: retention.commit(removing(entry.log_path))

        assert append(store, entry).ranges == (OffsetRange(0, 0, 10),)
        assert spans(store.snapshot()) == []

    def test_of_a_compaction_adds_no_range(
        self, store: DeltaManifestStore, break_commits: Break
    ) -> None:
        old = segment()
        append(store, old)
        break_commits(FULL, times=1, lands=True)
        new = at(0, segment(records=5))
        done = store.commit(changing(segments=[new], remove=[old.log_path], removed_ms=NOW_MS))

        assert done == Committed(2, ())
        assert spans(store.snapshot()) == [(0, 5)]

    def test_of_a_write_without_records_is_found_in_its_receipt(
        self, store: DeltaManifestStore, break_commits: Break
    ) -> None:
        break_commits(FULL, times=1, lands=True)

        assert append(store, app_id="a", version=1) == Committed(1, (), replayed=True)

    def test_of_the_second_try_is_not_that_of_the_first(
        self,
        store: DeltaManifestStore,
        clock: BusyClock,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        other, honest, tries = delta_store(tmp_path), DeltaLog.commit, []

        def commit(log: DeltaLog, *arguments: Any, **named: Any) -> None:
            if log._files is store._files:
                tries.append(log)
                if len(tries) == 1:
                    raise FULL
                honest(log, *arguments, **named)
                raise FULL
            honest(log, *arguments, **named)

        monkeypatch.setattr(DeltaLog, "commit", commit)
        clock.meanwhile = lambda: append(other, segment(records=3))

        assert append(store, segment()).ranges == (OffsetRange(0, 3, 13),)
        assert spans(store.snapshot()) == [(0, 3), (3, 13), (13, 16)]

    def test_that_tells_of_another_try_is_not_taken(
        self,
        store: DeltaManifestStore,
        break_commits: Break,
        clock: BusyClock,
        tmp_path: Path,
    ) -> None:
        """The first try fails for good, the second gets other offsets: those are answered."""
        other = delta_store(tmp_path)
        break_commits(FULL, times=1, lands=False)
        clock.meanwhile = lambda: append(other, segment(records=3))

        assert append(store, segment()).ranges == (OffsetRange(0, 3, 13),)
        assert spans(store.snapshot()) == [(0, 3), (3, 13)]


class TestAStorageThatFails:
    def test_is_tried_three_times_and_told(
        self, store: DeltaManifestStore, break_commits: Break
    ) -> None:
        break_commits(FULL, times=STORAGE_TRIES, lands=False)

        with pytest.raises(StorageFullError, match="No space left"):
            append(store, segment())

        assert store.snapshot().version == 0
        assert append(store, segment()).ranges == (OffsetRange(0, 0, 10),)

    def test_may_get_better(self, store: DeltaManifestStore, break_commits: Break) -> None:
        break_commits(FULL, times=STORAGE_TRIES - 1, lands=False)

        assert append(store, segment()).ranges == (OffsetRange(0, 0, 10),)

    def test_before_the_commit_leaves_nothing_visible(
        self, store: DeltaManifestStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(_: DeltaLog, name: str, data: bytes) -> None:
            raise FULL

        monkeypatch.setattr(DeltaLog, "write", write)
        with pytest.raises(StorageFullError):
            append(store, segment())

        assert store.snapshot().version == 0

    def test_between_two_tries_of_an_index_swap_doubles_no_row(
        self, store: DeltaManifestStore, break_commits: Break, tmp_path: Path
    ) -> None:
        entry = segment()
        append(store, entry, segment())
        break_commits(FULL, times=1, lands=False)
        store.commit(changing(replace=[indexed(entry)]))

        assert spans(store.snapshot()) == [(0, 10), (10, 20)]
        assert spans(delta_store(tmp_path).snapshot()) == [(0, 10), (10, 20)]


class TestAManifestThatCannotBeRead:
    def test_after_a_try_leaves_the_outcome_unknown(
        self, store: DeltaManifestStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest = DeltaLog.commit

        def commit(log: DeltaLog, *arguments: Any, **named: Any) -> None:
            honest(log, *arguments, **named)
            monkeypatch.setattr(DeltaLog, "refresh", unreadable)
            raise FULL

        def unreadable(_: DeltaLog) -> int:
            raise CorruptMetadataError("gone")

        with monkeypatch.context() as patch:
            patch.setattr(DeltaLog, "commit", commit)
            with pytest.raises(CommitOutcomeUnknownError, match="replay with the same"):
                append(store, segment(), app_id="a", version=1)
        monkeypatch.undo()

        assert store.commit(never, app_id="a", version=1).ranges == (OffsetRange(0, 0, 10),)

    def test_before_any_try_is_told_as_it_is(
        self, store: DeltaManifestStore, tmp_path: Path
    ) -> None:
        (tmp_path / "topic/manifest/_delta_log/00000000000000000001.json").write_text("{garbage")

        with pytest.raises(CorruptMetadataError, match="the Delta log cannot be read"):
            append(store, segment())


class TestConflicts:
    def test_without_end_are_told_after_two_minutes(
        self, store: DeltaManifestStore, break_commits: Break, clock: BusyClock
    ) -> None:
        start_ms = clock.now_ms()
        clock.meanwhile = lambda: clock.advance(10_000)
        break_commits(CommitConflictError("somebody was faster"), times=10**9, lands=False)

        with pytest.raises(CommitConflictError, match="somebody was faster"):
            append(store, segment())

        assert 0 <= clock.now_ms() - start_ms - COMMIT_TIMEOUT_MS < 20_000
        assert store.snapshot().version == 0

    def test_in_a_storm_all_are_answered(self, store: DeltaManifestStore, tmp_path: Path) -> None:
        other = delta_store(tmp_path)
        plan = interrupted(appending(segment()), lambda: append(other, segment(records=1)), times=9)

        assert store.commit(plan).ranges == (OffsetRange(0, 9, 19),)


class TestDurability:
    def test_a_commit_that_cannot_be_made_durable_is_an_unknown_outcome(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = delta_store(tmp_path, flush=True)
        synced: list[str] = []

        def sync(_: object, paths: Any) -> None:
            synced.extend(paths)
            if any(path.endswith(".json") for path in synced):
                raise StorageError("cannot sync")

        with monkeypatch.context() as patch:
            patch.setattr(type(store._files), "sync", sync)
            with pytest.raises(CommitOutcomeUnknownError, match="could not be made durable"):
                append(store, segment(), app_id="a", version=1)

        assert spans(delta_store(tmp_path).snapshot()) == [(0, 10)]
        assert store.commit(never, app_id="a", version=1).ranges == (OffsetRange(0, 0, 10),)
