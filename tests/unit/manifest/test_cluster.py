"""What only the Delta store of the controller's state has: files, faults, races."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    StorageError,
    StorageFullError,
)
from sparklog.manifest.cluster import CLUSTER_METADATA, ClusterState, DeltaClusterStore
from sparklog.manifest.delta_rs import DeltaLog
from sparklog.manifest.tables import METADATA_SCHEMA
from sparklog.model import TopicDescription
from sparklog.storage.local import LocalFiles

FULL = StorageFullError("No space left on device")


@pytest.fixture
def store(tmp_path: Path) -> DeltaClusterStore:
    return opened(tmp_path)


def opened(folder: Path) -> DeltaClusterStore:
    return DeltaClusterStore.create(LocalFiles(str(folder)), ManualClock())


def adding(name: str) -> "Adding":
    return Adding(TopicDescription(name, name * 22, 1, {}, 1_000))


class Adding:
    """A plan that counts how often it was asked."""

    def __init__(self, topic: TopicDescription) -> None:
        self.topic = topic
        self.calls = 0

    def __call__(self, state: ClusterState) -> ClusterState:
        self.calls += 1
        return state.with_topics(self.topic)


class TestOpening:
    def test_another_description_is_refused(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path))
        DeltaLog.create(files, CLUSTER_METADATA, METADATA_SCHEMA, "somebody's")

        with pytest.raises(CorruptMetadataError, match='says it is "somebody\'s"'):
            DeltaClusterStore(files, ManualClock()).state()

    def test_rows_of_an_unknown_kind_are_refused(
        self, store: DeltaClusterStore, tmp_path: Path
    ) -> None:
        schema = pa.schema([pa.field("kind", pa.string(), nullable=False)])
        rows = pa.table({"kind": ["alias"]}, schema)
        write_deltalake(str(tmp_path / CLUSTER_METADATA), rows, mode="append", schema_mode="merge")

        with pytest.raises(CorruptMetadataError, match="unknown kind alias"):
            store.state()

    def test_is_one_file_however_many_commits(self, store: DeltaClusterStore) -> None:
        for name in "abcdef":
            store.commit(adding(name))
        store.state()

        assert len(store._log.file_names()) == 1
        assert list(store.state().live()) == list("abcdef")


class TestRaces:
    def test_who_is_slower_plans_again(self, store: DeltaClusterStore, tmp_path: Path) -> None:
        other, plan = opened(tmp_path), adding("a")

        def interrupted(state: ClusterState) -> ClusterState:
            planned = plan(state)
            if plan.calls == 1:
                other.commit(adding("b"))
            return planned

        assert list(store.commit(interrupted).live()) == ["a", "b"]
        assert plan.calls == 2


class TestFaults:
    def test_an_answer_that_is_lost_is_found(
        self, store: DeltaClusterStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        land, plan = DeltaLog.commit, adding("a")

        def lose(*arguments: object, **named: object) -> None:
            land(*arguments, **named)  # type: ignore[arg-type] # handed on as it came
            raise FULL

        monkeypatch.setattr(DeltaLog, "commit", lose)

        assert list(store.commit(plan).live()) == ["a"]
        assert plan.calls == 1

    def test_a_full_disk_is_told_after_three_tries(
        self, store: DeltaClusterStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise FULL

        plan = adding("a")
        with monkeypatch.context() as patch:
            patch.setattr(DeltaLog, "commit", fail)
            with pytest.raises(StorageFullError, match="No space left"):
                store.commit(plan)

        assert store.state().live() == {}
        assert plan.calls == 4

    def test_a_table_that_cannot_be_read_after_a_try(
        self, store: DeltaClusterStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise StorageError("gone")

        def fail_and_stay_away(*_: object, **__: object) -> None:
            monkeypatch.setattr(DeltaLog, "refresh", fail)
            raise FULL

        monkeypatch.setattr(DeltaLog, "commit", fail_and_stay_away)

        with pytest.raises(CommitOutcomeUnknownError, match=f"{CLUSTER_METADATA}: a commit may"):
            store.commit(adding("a"))
