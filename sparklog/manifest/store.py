"""What a manifest says, what a commit may change, and the one interface everybody uses.

    snapshot ──plan──▶ Change ──check──▶ commit            (conflict: snapshot again, plan again)

`plan` is pure and called on every try, so offsets are given from the newest log end offset.
The checks stand here, in front of both stores: whoever passes them may commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparklog.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    LateWriterError,
    OffsetOutOfRangeError,
    TopicClosedError,
)
from sparklog.log.names import parse_segment_name, uuid7_ms
from sparklog.log.segments import SegmentList
from sparklog.model import OffsetRange, SegmentEntry

RECEIPT_TTL_MS = 24 * 3600 * 1000
"""How long a write without a version (a request's key) is remembered."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a partition keeps even when its segments are gone. Every field only grows."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    leader_epoch: int = 0
    cleaner_offset: int = 0
    imported_end_offset: int = 0

    def grown(self, other: "PartitionState") -> "PartitionState":
        """Return the larger of each field."""
        if self == other:
            return self
        return PartitionState(
            *(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )


NEW_PARTITION = PartitionState()


class Snapshot:
    """One version of a topic's manifest. Nothing in it changes."""

    def __init__(
        self,
        version: int,
        states: Mapping[int, PartitionState],
        live: Callable[[], pa.Table],
        *,
        closed_ms: int | None = None,
        vacuum_horizon_ms: int = 0,
    ) -> None:
        self.version = version
        self.states = states
        self.closed_ms = closed_ms
        self.vacuum_horizon_ms = vacuum_horizon_ms
        self._read_live = live

    def state(self, partition: int) -> PartitionState:
        """Return what is known of a partition; a partition never written to is all zeros."""
        return self.states.get(partition, NEW_PARTITION)

    @cached_property
    def live(self) -> pa.Table:
        """Live segments (SEGMENT_SCHEMA), sorted by partition and base offset."""
        table = self._read_live()
        order = np.lexsort(
            (table.column("base_offset").to_numpy(), table.column("partition").to_numpy())
        )
        return table.take(pa.array(order)).combine_chunks()

    @cached_property
    def _lists(self) -> dict[int, SegmentList]:
        return {}

    def segments(self, partition: int) -> SegmentList:
        """Return the live segments of one partition, in offset order; empty when there are none."""
        found = self._lists.get(partition)
        if found is None:
            column = self.live.column("partition").to_numpy()
            start, stop = np.searchsorted(column, [partition, partition + 1])
            found = SegmentList.from_table(self.live.slice(start, stop - start))
            self._lists[partition] = found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit does.

    `segments` are new and carry the log's offsets: they begin at the partition's log end offset, or
    beyond it where `allow_gaps`, or lie inside what the same change removes. `leader_epochs` are
    those the plan was made with. `replace` swaps a row for one of the same log_path and offsets (an
    index rebuilt). `remove` names log_paths of live segments, which get `removed_ms`.
    """

    segments: Sequence[SegmentEntry] = ()
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    replace: Sequence[SegmentEntry] = ()
    remove: Sequence[str] = ()
    removed_ms: int | None = None
    closed_ms: int | None = None
    vacuum_horizon_ms: int | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    allow_gaps: bool = False
    partition_count: int | None = None

    def ranges(self, snapshot: Snapshot) -> tuple[OffsetRange, ...]:
        """Return the offsets that the new segments add to the log, a range a partition."""
        ends: dict[int, OffsetRange] = {}
        for entry in self.segments:
            if entry.base_offset < snapshot.state(entry.partition).log_end_offset:
                continue
            known = ends.get(entry.partition)
            start = known.start if known else entry.base_offset
            ends[entry.partition] = OffsetRange(entry.partition, start, entry.next_offset)
        return tuple(ends[partition] for partition in sorted(ends))


@dataclass(frozen=True, slots=True)
class Done:
    """A plan's answer when there is nothing to commit."""


Plan = Callable[[Snapshot], Change | Done]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did: the version it made (or found), and the offsets it got.

    `ranges` is None when a replay was skipped and its receipt is gone; `replayed` says that the
    write had landed before.
    """

    version: int
    ranges: tuple[OffsetRange, ...] | None
    replayed: bool = False
    partition_count: int | None = None


class ManifestStore(Protocol):
    """One topic's manifest."""

    def snapshot(self) -> Snapshot:
        """Return the newest version.

        Raises CorruptManifestError when it cannot be understood, MissingFileError when it is gone.
        """
        ...

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and commit, again and again until it lands.

        With `app_id` and `version` (Delta's txnAppId and txnVersion) a write lands once: a replay
        is answered with what the first one got. With `app_id` alone it is so for 24 hours.

        Raises what `plan` and `check_change` raise; CommitConflictError when others kept winning
        for two minutes; CommitOutcomeUnknownError when it may have landed and nothing can be read.
        """
        ...


def check_change(snapshot: Snapshot, change: Change) -> None:
    """Refuse a change that the snapshot no longer allows.

    Raises TopicClosedError, LateWriterError, FencedLeaderEpochError, OffsetOutOfRangeError
    (offsets that do not continue the log) or CommitConflictError (a segment to replace or remove
    is no longer live).
    """
    if snapshot.closed_ms is not None:
        raise TopicClosedError(
            "the topic is being deleted: nothing more can be written to it", file="manifest"
        )
    _check_files_are_young(snapshot, change)
    for partition, epoch in change.leader_epochs.items():
        current = snapshot.state(partition).leader_epoch
        if current > epoch:
            raise FencedLeaderEpochError(
                f"partition {partition}: planned with leader epoch {epoch}, it is {current} now"
            )
    spans = _spans_given_up(snapshot, change)
    ends: dict[int, int] = {}
    for entry in change.segments:
        if entry.partition in spans and _inside(entry, spans[entry.partition]):
            continue
        end = ends.get(entry.partition, snapshot.state(entry.partition).log_end_offset)
        if entry.base_offset < end or (entry.base_offset > end and not change.allow_gaps):
            raise OffsetOutOfRangeError(
                f"partition {entry.partition}: a segment at offset {entry.base_offset} does not "
                f"continue the log, whose end offset is {end}"
            )
        ends[entry.partition] = entry.next_offset


def _check_files_are_young(snapshot: Snapshot, change: Change) -> None:
    for entry in change.segments:
        name = parse_segment_name(entry.log_path.rpartition("/")[2])
        if name and name.uuid and uuid7_ms(name.uuid) < snapshot.vacuum_horizon_ms:
            raise LateWriterError(
                f"{entry.log_path}: written before the vacuum horizon "
                f"{snapshot.vacuum_horizon_ms} (ms), so it may be gone: write it again"
            )


def _spans_given_up(snapshot: Snapshot, change: Change) -> dict[int, tuple[int, int]]:
    """Return per partition the offsets of the live segments that a change touches."""
    touched = {*change.remove, *(entry.log_path for entry in change.replace)}
    if not touched:
        return {}
    live = snapshot.live
    paths = live.column("log_path").to_pylist()
    rows = [row for row, path in enumerate(paths) if path in touched]
    if len(rows) != len(touched):
        gone = sorted(touched - {paths[row] for row in rows})
        raise CommitConflictError(f"segments are no longer live: {', '.join(gone[:3])}")
    spans: dict[int, tuple[int, int]] = {}
    picked = live.select(["partition", "base_offset", "next_offset", "log_path"]).take(rows)
    for row in picked.to_pylist():
        if row["log_path"] in change.remove:
            low, high = spans.get(row["partition"], (row["base_offset"], row["next_offset"]))
            spans[row["partition"]] = (
                min(low, row["base_offset"]),
                max(high, row["next_offset"]),
            )
    return spans


def _inside(entry: SegmentEntry, span: tuple[int, int]) -> bool:
    return span[0] <= entry.base_offset and entry.next_offset <= span[1]


def at_log_end(snapshot: Snapshot, pending: Sequence[SegmentEntry]) -> tuple[SegmentEntry, ...]:
    """Return `pending` with offsets given from the log end offset, in the order they stand.

    A pending segment counts its offsets from its file's base: base_offset == file_base_offset.
    """
    ends: dict[int, int] = {}
    placed = []
    for entry in pending:
        base = ends.get(entry.partition, snapshot.state(entry.partition).log_end_offset)
        placed.append(replace(entry, base_offset=base, next_offset=base + entry.offset_span))
        ends[entry.partition] = base + entry.offset_span
    return tuple(placed)
