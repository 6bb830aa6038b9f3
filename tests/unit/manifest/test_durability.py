"""What is synced, and when: traced, step by step."""

import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import StorageError
from sparklog.manifest import delta_rs
from sparklog.manifest.cluster import CLUSTER_METADATA, DeltaClusterStore
from sparklog.manifest.delta_rs import DeltaLog
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.model import TopicDescription
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import Operation
from tests.manifests import DIRECTORY, append, delta_store, never, segment, spans
from tests.tracing import TracingFiles

LOG = f"{DIRECTORY}/_delta_log"
HOUR_MS = 3600 * 1000
INTERVAL = 5


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TracingFiles:
    """Traced files, in whose trace commits and the cleaning up of the log appear too."""
    traced = TracingFiles(LocalFiles(str(tmp_path)))
    commit, clean_up = DeltaLog.commit, DeltaTable.cleanup_metadata

    def traced_commit(log: DeltaLog, *arguments: Any, **named: Any) -> None:
        commit(log, *arguments, **named)
        traced.trace.append(Operation("commit", log._directory))

    def traced_clean_up(table: DeltaTable) -> None:
        traced.trace.append(Operation("clean up", ""))
        clean_up(table)

    monkeypatch.setattr(DeltaLog, "commit", traced_commit)
    monkeypatch.setattr(DeltaTable, "cleanup_metadata", traced_clean_up)
    monkeypatch.setattr(delta_rs, "CHECKPOINT_INTERVAL", INTERVAL)
    monkeypatch.setitem(delta_rs.TABLE_PROPERTIES, "delta.checkpointInterval", str(INTERVAL))
    return traced


def steps(files: TracingFiles) -> list[tuple[str, str]]:
    """What was done, with the names of manifest files shortened to what they are."""
    kinds = {"write_new", "sync", "commit", "clean up"}
    return [(op.kind, short(op.path)) for op in files.trace if op.kind in kinds]


def short(path: str) -> str:
    name = path.removeprefix(f"{DIRECTORY}/")
    return name.partition("-")[0] if name.endswith(".parquet") and "/" not in name else name


def entry(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def checkpoint(version: int) -> list[tuple[str, str]]:
    names = (f"{version:020}.checkpoint.parquet", "_last_checkpoint")
    return [("sync", f"_delta_log/{name}") for name in names]


class TestFlush:
    def test_rows_before_the_commit_and_the_log_before_the_answer(
        self, files: TracingFiles
    ) -> None:
        store = delta_store(files, flush=True)
        created = steps(files)
        files.trace.clear()
        append(store, segment())

        assert created == [("sync", entry(0))]
        assert steps(files) == [
            ("write_new", "commit"),
            ("sync", "commit"),
            ("commit", DIRECTORY),
            ("sync", entry(1)),
        ]

    def test_folds_too(self, files: TracingFiles) -> None:
        store = delta_store(files, flush=True)
        for _ in range(9):
            append(store, segment())
        files.trace.clear()
        append(store, segment(), app_id="a")

        assert steps(files)[:5] == [
            ("write_new", "commit"),
            ("write_new", "live"),
            ("sync", "commit"),
            ("sync", "live"),
            ("commit", DIRECTORY),
        ]

    def test_nothing_twice(self, files: TracingFiles) -> None:
        store = delta_store(files, flush=True)
        for _ in range(INTERVAL + 2):
            append(store, segment())
        synced = [path for kind, path, _ in files.trace if kind == "sync"]

        assert sorted(synced) == sorted(set(synced))

    def test_what_others_left_unsynced(self, files: TracingFiles) -> None:
        store, other = delta_store(files, flush=True), delta_store(files, flush=False)
        append(other, segment())
        append(other, segment())
        files.trace.clear()
        append(store, segment())

        assert steps(files)[3:] == [
            ("sync", "commit"),
            ("sync", "commit"),
            ("sync", entry(1)),
            ("sync", entry(2)),
            ("sync", entry(3)),
        ]

    def test_a_checkpoint_stands_for_the_entries_before_it(self, files: TracingFiles) -> None:
        other = delta_store(files, flush=False)
        for _ in range(INTERVAL):
            append(other, segment())
        store = DeltaManifestStore(files, DIRECTORY, ManualClock(), flush=True)
        files.trace.clear()
        append(store, segment())

        done = [step for step in steps(files) if step != ("sync", "commit")]
        entries = [("sync", entry(version)) for version in (INTERVAL - 1, INTERVAL, INTERVAL + 1)]
        assert done[2:] == [*checkpoint(INTERVAL - 1), *entries]

    def test_a_replay_is_durable_before_it_is_answered(self, files: TracingFiles) -> None:
        append(delta_store(files, flush=False), segment(), app_id="a", version=1)
        store = DeltaManifestStore(files, DIRECTORY, ManualClock(), flush=True)
        files.trace.clear()

        assert store.commit(never, app_id="a", version=1).replayed
        assert steps(files) == [("sync", "commit"), ("sync", entry(0)), ("sync", entry(1))]


class TestNoFlush:
    def test_syncs_nothing(self, files: TracingFiles) -> None:
        store = delta_store(files, flush=False)
        for _ in range(INTERVAL - 2):
            append(store, segment())

        assert [step for step in steps(files) if step[0] == "sync"] == []


class TestCleaningUp:
    @pytest.mark.parametrize("flush", [True, False])
    def test_comes_after_the_checkpoint_is_durable(self, files: TracingFiles, flush: bool) -> None:
        store = delta_store(files, flush=flush)
        for _ in range(INTERVAL - 2):
            append(store, segment())
        files.trace.clear()
        append(store, segment())

        done = steps(files)
        assert done[-1] == ("clean up", "")
        assert done[done.index(("commit", DIRECTORY)) + 1 :][:2] == checkpoint(INTERVAL - 1)

    def test_leaves_what_is_needed(self, files: TracingFiles, tmp_path: Path) -> None:
        store = delta_store(files)
        early = delta_store(files)
        for _ in range(INTERVAL - 2):
            append(store, segment())
        for path in (tmp_path / LOG).iterdir():
            os.utime(path, (1, 1))
        append(store, segment())
        append(store, segment())

        left = sorted(path.name for path in (tmp_path / LOG).glob("*.json"))
        assert left == [f"{version:020}.json" for version in (INTERVAL - 1, INTERVAL)]
        expected = [(start, start + 10) for start in range(0, 50, 10)]
        assert spans(delta_store(files, flush=True).snapshot()) == expected
        assert spans(early.snapshot()) == expected

    def test_leaves_the_last_minute(self, files: TracingFiles, tmp_path: Path) -> None:
        store = delta_store(files)
        for _ in range(2 * INTERVAL - 2):
            append(store, segment())
        paths = sorted((tmp_path / LOG).glob("*.json"))
        for path in paths[: INTERVAL + 2]:
            old_s = SystemClock().now_ms() / 1000 - 70
            os.utime(path, (old_s, old_s))
        append(store, segment())

        left = sorted(path.name for path in (tmp_path / LOG).glob("*.json"))
        assert left == [f"{version:020}.json" for version in range(INTERVAL - 1, 2 * INTERVAL)]

    def test_is_not_left_to_the_commit(
        self, files: TracingFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Delta's own hook would clean up before the checkpoint is durable."""
        monkeypatch.setattr(DeltaLog, "clean_up", lambda *_: None)
        store = delta_store(files)
        for _ in range(INTERVAL - 2):
            append(store, segment())
        for path in (tmp_path / LOG).iterdir():
            os.utime(path, (1, 1))
        append(store, segment())

        assert len(list((tmp_path / LOG).glob("*.json"))) == INTERVAL

    def test_that_fails_is_left_to_the_next_time(
        self, files: TracingFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def clean_up(_: DeltaTable) -> None:
            raise StorageError("not now")

        monkeypatch.setattr(DeltaTable, "cleanup_metadata", clean_up)
        store = delta_store(files)
        for _ in range(INTERVAL + 1):
            append(store, segment())

        assert len(spans(store.snapshot())) == INTERVAL + 1

    def test_is_done_once_a_version(self, files: TracingFiles) -> None:
        store = delta_store(files)
        for _ in range(INTERVAL - 1):
            append(store, segment())
        files.trace.clear()
        append(store)

        assert steps(files) == []


class TestAnObjectStore:
    def test_needs_no_sync(self, files: TracingFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LocalFiles, "is_local", False)
        store = delta_store(files, flush=True)
        files.trace.clear()
        append(store, segment())

        assert ("sync", entry(1)) not in steps(files)


class TestClusterMetadata:
    def test_is_always_durable(self, files: TracingFiles) -> None:
        store = DeltaClusterStore.create(files, ManualClock())
        files.trace.clear()
        store.commit(lambda state: state.with_topics(TopicDescription("t", "T" * 22, 1, {}, 1)))

        kinds = [(op.kind, op.path.endswith(".parquet")) for op in files.trace]
        done = [kind for kind in kinds if kind[0] in {"write_new", "sync", "commit"}]
        assert done == [("write_new", True), ("sync", True), ("commit", False), ("sync", False)]
        assert files.trace[-1] == Operation("sync", f"{CLUSTER_METADATA}/{entry(1)}")
