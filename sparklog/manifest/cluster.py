"""The controller's state: which topics exist, under which ids, with which partitions and configs.

`__cluster_metadata` is one Delta table of one file: a row a topic, so every commit writes it whole
and there is nothing to fold. A name is unique among live topics whatever the race, because a plan
is made again on whatever was committed in between.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import CorruptMetadataError
from sparklog.log.names import uuid7
from sparklog.manifest.delta_rs import AddedFile, DeltaLog, RemovedFile
from sparklog.manifest.rows import LIVE, file_name, read_parquet, to_parquet
from sparklog.manifest.tables import (
    HORIZON,
    LEASE,
    METADATA_DESCRIPTION,
    METADATA_KINDS,
    METADATA_SCHEMA,
    TOPIC,
    check_table,
)
from sparklog.manifest.tries import Tries
from sparklog.manifest.turn import my_turn
from sparklog.model import TopicDescription
from sparklog.storage.files import Files

CLUSTER_METADATA = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that saves work: whoever holds it goes first until it expires."""

    name: str
    owner: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One version of `__cluster_metadata`: topics by id (deleted ones too), leases by name."""

    topics: Mapping[str, TopicDescription]
    leases: Mapping[str, Lease]
    vacuum_horizon_ms: int = 0

    def live(self) -> dict[str, TopicDescription]:
        """Return the topics that exist, by name, in name order."""
        alive = [topic for topic in self.topics.values() if topic.deleted_ms is None]
        return {topic.name: topic for topic in sorted(alive, key=lambda topic: topic.name)}

    def with_topics(self, *topics: TopicDescription) -> "ClusterState":
        """Return the state with these topics added, or put in place of those with their ids."""
        return replace(self, topics={**self.topics, **{topic.topic_id: topic for topic in topics}})


EMPTY_STATE = ClusterState({}, {})

ClusterPlan = Callable[[ClusterState], ClusterState | None]
"""What the state should become, None when it already is as wanted. Pure; called on every try."""


class ClusterStore(Protocol):
    """The controller's state, wherever it lives."""

    def state(self) -> ClusterState:
        """Return the newest state."""
        ...

    def current(self) -> ClusterState | None:
        """Return the state read last if it is still the newest, without reading anything."""
        ...

    def commit(self, plan: ClusterPlan) -> ClusterState:
        """Plan on the newest state and commit until it lands; return what was committed.

        Raises what `plan` raises; CommitConflictError when others kept winning for two minutes;
        CommitOutcomeUnknownError when it may have landed and nothing can be read.
        """
        ...

    def leftovers(self) -> list[str]:
        """Return the paths, in the log dir, of the table's own files that nobody needs any more.

        As `ManifestStore.leftovers`.
        """
        ...


class MemoryClusterStore:
    """A ClusterStore for one thread: the specification of the other."""

    def __init__(self) -> None:
        self._state = EMPTY_STATE

    def state(self) -> ClusterState:
        """Return the newest state."""
        return self._state

    def current(self) -> ClusterState | None:
        """Return the newest state: it is always at hand."""
        return self._state

    def commit(self, plan: ClusterPlan) -> ClusterState:
        """Plan and keep what the plan says."""
        self._state = plan(self._state) or self._state
        return self._state

    def leftovers(self) -> list[str]:
        """There are no files."""
        return []


class DeltaClusterStore:
    """A ClusterStore over `__cluster_metadata`. Every commit is synced before it is answered."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._log = DeltaLog(files, CLUSTER_METADATA, METADATA_SCHEMA)
        self._read: tuple[tuple[str, ...], ClusterState] = ((), EMPTY_STATE)

    @classmethod
    def create(cls, files: Files, clock: Clock) -> "DeltaClusterStore":
        """Make the table of a new log dir; making it twice is once."""
        DeltaLog.create(files, CLUSTER_METADATA, METADATA_SCHEMA, METADATA_DESCRIPTION)
        store = cls(files, clock)
        store.state()
        store._log.sync_log(store._log.version)
        return store

    def state(self) -> ClusterState:
        """Return the newest state; cheap when nothing was committed since the last call."""
        is_new = self._log.version < 0
        self._log.refresh()
        if is_new and self._log.description != METADATA_DESCRIPTION:
            raise CorruptMetadataError(
                f"{CLUSTER_METADATA}: the table says it is {self._log.description!r}; "
                f"this release reads {METADATA_DESCRIPTION!r}"
            )
        names = tuple(self._log.file_names())
        if names != self._read[0]:
            rows = [row for name in names for row in self._rows(name)]
            self._read = (names, _state_of(rows))
        return self._read[1]

    def current(self) -> ClusterState | None:
        """Return the state read last if nothing was committed since; reads nothing."""
        return self._read[1] if self._log.is_newest else None

    def _rows(self, name: str) -> list[dict[str, Any]]:
        where = f"{CLUSTER_METADATA}/{name}"
        table = read_parquet(self._log.read(name), where)
        rows: list[dict[str, Any]] = check_table(
            table, METADATA_SCHEMA, METADATA_KINDS, where
        ).to_pylist()
        return rows

    def commit(self, plan: ClusterPlan) -> ClusterState:
        """Plan on the newest state and commit until it lands."""
        with my_turn(self._files, CLUSTER_METADATA, self._clock):
            version, state = self._land(plan)
        self._log.sync_log(version)
        self._log.clean_up(version)
        return state

    def leftovers(self) -> list[str]:
        """Return the paths of the table's own files that nobody needs any more."""
        return [f"{CLUSTER_METADATA}/{name}" for name in self._log.leftovers()]

    def _land(self, plan: ClusterPlan) -> tuple[int, ClusterState]:
        tries = Tries(self._clock, CLUSTER_METADATA)
        tried: set[str] = set()
        while True:
            with tries.reading():
                state = self.state()
            if not tried.isdisjoint(self._read[0]):
                return self._log.version, state  # a try landed and its answer was lost
            planned = plan(state)
            if planned is None:
                return self._log.version, state
            tries.check()
            with tries:
                return self._try(planned, tried), planned

    def _try(self, state: ClusterState, tried: set[str]) -> int:
        """Commit on the version read last; return the new version."""
        table = pa.Table.from_pylist(_rows_of(state), METADATA_SCHEMA)
        now_ms = self._clock.now_ms()
        name = file_name(LIVE, table.num_rows, uuid7(now_ms, os.urandom(10)))
        data = to_parquet(table)
        self._log.write(name, data)
        self._log.sync_files([name])
        version = self._log.version
        tried.add(name)
        statistics = f'{{"numRecords": {table.num_rows}}}'
        removed = [RemovedFile(old) for old in self._read[0]]
        self._log.commit([AddedFile(name, len(data), statistics)], removed, now_ms=now_ms)
        return version + 1


def _state_of(rows: list[dict[str, Any]]) -> ClusterState:
    topics = [_topic(row) for row in rows if row["kind"] == TOPIC]
    leases = [
        Lease(row["name"], row["owner"], row["expires_ms"]) for row in rows if row["kind"] == LEASE
    ]
    horizons = [row["vacuum_horizon_ms"] for row in rows if row["kind"] == HORIZON]
    return ClusterState(
        {topic.topic_id: topic for topic in topics},
        {lease.name: lease for lease in leases},
        max(horizons, default=0),
    )


def _topic(row: Mapping[str, Any]) -> TopicDescription:
    return TopicDescription(
        row["name"],
        row["topic_id"],
        row["partition_count"],
        dict(row["configs"] or ()),
        row["created_ms"],
        row["deleted_ms"],
    )


def _rows_of(state: ClusterState) -> list[dict[str, Any]]:
    topics = [
        {
            "kind": TOPIC,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partition_count": topic.num_partitions,
            "configs": list(topic.configs.items()),
            "created_ms": topic.created_ms,
            "deleted_ms": topic.deleted_ms,
        }
        for topic in state.topics.values()
    ]
    leases = [
        {"kind": LEASE, "name": lease.name, "owner": lease.owner, "expires_ms": lease.expires_ms}
        for lease in state.leases.values()
    ]
    horizon = {"kind": HORIZON, "vacuum_horizon_ms": state.vacuum_horizon_ms}
    return [*topics, *leases, horizon]
