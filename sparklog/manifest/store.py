"""What a manifest says, what a commit may change, and the one interface everybody uses.

    snapshot ──plan──▶ Change ──check──▶ commit            (conflict: snapshot again, plan again)

`plan` is pure and called on every try, so offsets are given from the newest log end offset. What a
change may not do stands in `manifest.check`, in front of both stores.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.errors import UsageError
from sparklog.log.segments import SegmentList
from sparklog.manifest.tables import SEGMENT_SCHEMA, manifest_table, segment_entries
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
            max(self.log_start_offset, other.log_start_offset),
            max(self.log_end_offset, other.log_end_offset),
            max(self.leader_epoch, other.leader_epoch),
            max(self.cleaner_offset, other.cleaner_offset),
            max(self.imported_end_offset, other.imported_end_offset),
        )


NEW_PARTITION = PartitionState()


class Receipt(NamedTuple):
    """What a committed write got: offsets a partition, and the partition count it saw."""

    ranges: tuple[OffsetRange, ...]
    partition_count: int | None


Receipts = Callable[[Collection[str]], Mapping[str, Receipt]]
"""The receipts there are of some keys."""


class Snapshot:
    """One version of a topic's manifest. Nothing in it changes."""

    def __init__(
        self,
        version: int,
        states: Mapping[int, PartitionState],
        live: Callable[[], pa.Table],
        shelved: Callable[[], pa.Table] = manifest_table,
        *,
        closed_ms: int | None = None,
        vacuum_horizon_ms: int = 0,
        receipts: Receipts = lambda _: {},
    ) -> None:
        self.version = version
        self.states = states
        self.closed_ms = closed_ms
        self.vacuum_horizon_ms = vacuum_horizon_ms
        self._read_live = live
        self._read_shelved = shelved
        self._read_receipts = receipts

    def state(self, partition: int) -> PartitionState:
        """Return what is known of a partition; a partition never written to is all zeros."""
        return self.states.get(partition, NEW_PARTITION)

    def receipts(self, keys: Collection[str]) -> Mapping[str, Receipt]:
        """Return what remembered writes without a version got, of these keys those there are.

        To be asked by a plan, or before the store's next snapshot: it reads what is not kept.
        """
        return self._read_receipts(keys) if keys else {}

    @cached_property
    def live(self) -> pa.Table:
        """Live segments (SEGMENT_SCHEMA), sorted by partition and base offset."""
        table = self._read_live()
        order = np.lexsort(
            (table.column("base_offset").to_numpy(), table.column("partition").to_numpy())
        )
        return table.take(pa.array(order)).combine_chunks()

    def has_segments(self, partition: int) -> bool:
        """Whether `segments` answers at once, because it was asked before."""
        return partition in self._lists

    @cached_property
    def shelved(self) -> pa.Table:
        """What no reader asks for (MANIFEST_SCHEMA): removed segments, and receipts.

        Read when it is first asked for: opening a topic does without.
        """
        return self._read_shelved()

    @cached_property
    def removed(self) -> pa.Table:
        """Removed segments whose rows are still there (SEGMENT_SCHEMA), in no order."""
        is_removed = pc.is_valid(self.shelved.column("removed_ms"))
        return self.shelved.filter(is_removed).select(SEGMENT_SCHEMA.names)

    def receipts_expired(self, now_ms: int) -> int:
        """Return how many rows remember writes that nobody may replay any more."""
        expired = pc.less(self.shelved.column("expires_ms"), now_ms)
        return pc.sum(expired).as_py() or 0

    @cached_property
    def _lists(self) -> dict[int, SegmentList]:
        return {}

    def segments(self, partition: int) -> SegmentList:
        """Return the live segments of one partition, in offset order; empty when there are none."""
        found = self._lists.get(partition)
        if found is None:
            found = SegmentList.from_table(self._rows_of(partition))
            self._lists[partition] = found
        return found

    def entries(self, partition: int, start_offset: int) -> list[SegmentEntry]:
        """Return the live segments of one partition that end above an offset, in offset order.

        For who wants them all: a tenth of what asking `segments` for one after the other takes.
        """
        first = self.segments(partition).first_ending_after(start_offset)
        return [] if first is None else segment_entries(self._rows_of(partition).slice(first))

    def _rows_of(self, partition: int) -> pa.Table:
        column = self.live.column("partition").to_numpy()
        start, stop = np.searchsorted(column, [partition, partition + 1])
        return self.live.slice(start, stop - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit does.

    `segments` are new and carry the log's offsets: they begin at the partition's log end offset, or
    beyond it where `allow_gaps`, or lie inside what the same change removes. `leader_epochs` are
    those the plan was made with. `replace` swaps a row for one of the same log_path and offsets (an
    index rebuilt). `remove` names log_paths of live segments, which get `removed_ms`; `forget`
    names removed segments whose rows are dropped. Receipts that expired before `receipts_before_ms`
    are dropped, too. `receipts` says what each of several writes got that share this commit: it is
    remembered by its key, as a write with `app_id` alone is. Their plan asks the snapshot which of
    them have landed before.
    """

    segments: Sequence[SegmentEntry] = ()
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    replace: Sequence[SegmentEntry] = ()
    remove: Sequence[str] = ()
    removed_ms: int | None = None
    closed_ms: int | None = None
    vacuum_horizon_ms: int | None = None
    forget: Sequence[str] = ()
    receipts_before_ms: int | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    allow_gaps: bool = False
    partition_count: int | None = None
    receipts: Mapping[str, Sequence[OffsetRange]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError for what no snapshot would allow."""
        if self.remove and self.removed_ms is None:
            raise UsageError("a change that removes segments says when: removed_ms is missing")
        if not self.touched.isdisjoint(entry.log_path for entry in self.segments):
            raise UsageError("a change adds a segment that it also removes or replaces")
        if len(self.touched) != len(self.remove) + len(self.replace):
            raise UsageError("a change removes or replaces a segment twice")

    @property
    def touched(self) -> frozenset[str]:
        """The log_paths of the live segments that it removes or replaces."""
        return frozenset((*self.remove, *(entry.log_path for entry in self.replace)))

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        is_noted = self.closed_ms is not None or self.vacuum_horizon_ms is not None
        is_forgotten = bool(self.forget) or self.receipts_before_ms is not None
        is_grown = bool(self.segments or self.partitions or self.receipts)
        return not (is_grown or self.replace or self.remove or is_noted or is_forgotten)

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

    `ranges` is None when a replay was skipped because its version is not the application's highest
    or its receipt is gone; `replayed` says that the write had landed before.
    """

    version: int
    ranges: tuple[OffsetRange, ...] | None
    replayed: bool = False
    partition_count: int | None = None


class ManifestStore(Protocol):
    """One topic's manifest."""

    def snapshot(self) -> Snapshot:
        """Return the newest version.

        Raises CorruptMetadataError when it cannot be understood, MissingFileError when it is gone.
        """
        ...

    def current(self) -> Snapshot | None:
        """Return the snapshot read last if it is still the newest, without reading anything.

        None when there may be a newer one, or none was read yet: `snapshot` tells.
        """
        ...

    def commit(
        self, plan: Plan, *, app_id: str | None = None, version: int | None = None
    ) -> Committed:
        """Plan on the newest snapshot and commit, again and again until it lands.

        With `app_id` and `version` (Delta's txnAppId and txnVersion) a write lands once: a replay
        is answered with what the first one got. With `app_id` alone this holds for 24 hours.

        A change that changes nothing is not committed, unless there is a receipt to keep.

        Raises what `plan` and `check_change` raise; CommitConflictError when others kept winning
        for two minutes; CommitOutcomeUnknownError when it may have landed and nothing can be read.
        """
        ...

    def leftovers(self) -> list[str]:
        """Return the paths, in the log dir, of the table's own files that nobody needs any more.

        These are files that left the table more than an hour ago, and files that were never part
        of it. Commit first: who has written such a file for a commit that is still to come
        then loses the race, and plans anew with new files.
        """
        ...


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
