"""What every store of the controller's state promises: memory, a local Delta table, and S3."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import TopicExistsError
from sparklog.manifest.cluster import (
    EMPTY_STATE,
    ClusterState,
    ClusterStore,
    DeltaClusterStore,
    Lease,
    MemoryClusterStore,
)
from sparklog.model import TopicDescription
from sparklog.storage import open_files
from tests.s3 import S3LogDir

Open = Callable[[], ClusterStore]

FLIGHTS = TopicDescription("flights", "F" * 22, 4, {"retention.ms": "-1"}, 1_000)
TRAINS = TopicDescription("trains", "T" * 22, 1, {}, 2_000)


@pytest.fixture(params=["memory", "delta", pytest.param("s3", marks=pytest.mark.s3)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens one and the same state, as another process would."""
    match request.param:
        case "memory":
            only = MemoryClusterStore()
            return lambda: only
        case "delta":
            return lambda: DeltaClusterStore.create(open_files(str(tmp_path)), ManualClock())
        case _:
            log_dir: S3LogDir = request.getfixturevalue("s3_log_dir")
            files = open_files(log_dir.uri, log_dir.options)
            return lambda: DeltaClusterStore.create(files, ManualClock())


@pytest.fixture
def store(open_store: Open) -> ClusterStore:
    return open_store()


class TestState:
    def test_is_empty_at_first(self, store: ClusterStore) -> None:
        assert store.state() == EMPTY_STATE
        assert store.state().live() == {}

    def test_is_current_until_somebody_commits(self, store: ClusterStore, open_store: Open) -> None:
        state = store.state()
        known = store.current()
        open_store().commit(lambda state: state.with_topics(FLIGHTS))
        after = store.current()

        assert known is None or known == state
        assert after is None or after == store.state()

    def test_keeps_every_field(self, store: ClusterStore, open_store: Open) -> None:
        state = ClusterState(
            {FLIGHTS.topic_id: FLIGHTS, TRAINS.topic_id: replace(TRAINS, deleted_ms=3_000)},
            {"vacuum": Lease("vacuum", "somebody", 4_000)},
            vacuum_horizon_ms=5_000,
        )
        answer = store.commit(lambda _: state)

        assert answer == state
        assert store.state() == state
        assert open_store().state() == state

    def test_live_topics_come_by_name(self, store: ClusterStore) -> None:
        gone = replace(FLIGHTS, name="boats", topic_id="B" * 22, deleted_ms=9)
        store.commit(lambda state: state.with_topics(TRAINS, gone, FLIGHTS))

        assert list(store.state().live().items()) == [("flights", FLIGHTS), ("trains", TRAINS)]

    def test_does_not_change_once_read(self, store: ClusterStore) -> None:
        before = store.state()
        store.commit(lambda state: state.with_topics(FLIGHTS))

        assert before == EMPTY_STATE


class TestCommit:
    def test_puts_a_topic_in_place_of_its_former_self(self, store: ClusterStore) -> None:
        store.commit(lambda state: state.with_topics(FLIGHTS, TRAINS))
        grown = replace(FLIGHTS, num_partitions=8)
        store.commit(lambda state: state.with_topics(grown))

        assert store.state().live() == {"flights": grown, "trains": TRAINS}

    def test_commits_nothing_when_all_is_as_wanted(self, store: ClusterStore) -> None:
        wanted = store.commit(lambda state: state.with_topics(FLIGHTS))

        assert store.commit(lambda _: None) == wanted

    def test_what_a_plan_raises_changes_nothing(self, store: ClusterStore) -> None:
        def plan(_: ClusterState) -> ClusterState:
            raise TopicExistsError("there is one")

        with pytest.raises(TopicExistsError):
            store.commit(plan)

        assert store.state() == EMPTY_STATE

    def test_sees_what_others_committed(self, store: ClusterStore, open_store: Open) -> None:
        open_store().commit(lambda state: state.with_topics(FLIGHTS))

        assert store.commit(lambda state: state.with_topics(TRAINS)).live().keys() == {
            "flights",
            "trains",
        }

    def test_a_table_is_made_once(self, store: ClusterStore, open_store: Open) -> None:
        store.commit(lambda state: state.with_topics(FLIGHTS))

        assert open_store().state().live() == {"flights": FLIGHTS}

    def test_an_empty_table_has_no_leftovers(self, store: ClusterStore) -> None:
        assert store.leftovers() == []
