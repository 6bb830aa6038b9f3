"""PartitionLog: the log of one partition as of one version (Kafka's UnifiedLog without bytes)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from immutables import Map

from sparklog.errors import OffsetOutOfRangeError
from sparklog.log.segments import SegmentList
from sparklog.metadata.state.edit import (
    NEW_PARTITION,
    EpochStart,
    OpenTransaction,
    PartitionState,
    Stamp,
    TopicEdit,
)
from sparklog.metadata.state.producers import (
    NO_PRODUCERS,
    ProducerMark,
    Producers,
    ProducerState,
    Use,
)
from sparklog.metadata.state.segment_tables import segment_entries
from sparklog.metadata.state.segments import NO_PIECES, Later, LiveSegments, TakenOut
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED, SegmentEntry, SegmentKey

_NO_SEGMENTS: Final = LiveSegments(NO_PIECES)
_NOTHING: Final[TakenOut] = Later({})


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets [start, end) of the log that are in one segment. Picklable, without bytes."""

    segment: SegmentEntry
    start: int
    end: int

    @property
    def log_bytes(self) -> int:
        """About how many bytes of the segment the slice has."""
        entry = self.segment
        return entry.log_bytes * (self.end - self.start) // max(1, entry.offset_span)


class SegmentChanges:
    """An edit's changes of the live segments of one partition."""

    __slots__ = ("added", "removed", "replaced")

    def __init__(self) -> None:
        self.added: list[SegmentEntry] = []
        self.replaced: list[SegmentEntry] = []
        self.removed: list[SegmentKey] = []

    def applied(
        self, live: LiveSegments, end_offset: int
    ) -> tuple[LiveSegments, list[SegmentEntry], TakenOut]:
        """Return the live segments after the changes, those appended, and those taken out.

        `end_offset` is the log end offset before the changes.
        """
        taken_out = _NOTHING
        if self.replaced or self.removed:
            inside = [entry for entry in self.added if entry.base_offset < end_offset]
            gone = [*self.removed, *(entry.key for entry in self.replaced)]
            live, taken_out = live.changed(gone, [*inside, *self.replaced])
        appended = [entry for entry in self.added if entry.base_offset >= end_offset]
        return (live.appended(appended) if appended else live), appended, taken_out


def changes_by_partition(edit: TopicEdit) -> dict[int, SegmentChanges]:
    """Return an edit's changes of live segments by partition."""
    found: dict[int, SegmentChanges] = {}

    def of(partition: int) -> SegmentChanges:
        changes = found.get(partition)
        if changes is None:
            changes = found[partition] = SegmentChanges()
        return changes

    for entry in edit.segments:
        of(entry.partition).added.append(entry)
    for entry in edit.replace:
        of(entry.partition).replaced.append(entry)
    for key in edit.remove:
        of(key.partition).removed.append(key)
    return found


class PartitionLog:
    """One partition's log as of one version.

    `name` is "<topic>-<partition>", for messages. Offsets are those of the log.
    """

    __slots__ = ("epochs", "idempotence", "live", "name", "partition", "state", "transactions")

    def __init__(
        self,
        name: str,
        partition: int,
        state: PartitionState = NEW_PARTITION,
        live: LiveSegments | None = None,
        transactions: tuple[OpenTransaction, ...] = (),
        epochs: tuple[EpochStart, ...] = (),
        idempotence: Producers = NO_PRODUCERS,
    ) -> None:
        self.name = name
        self.partition = partition
        self.state = state
        self.live = _NO_SEGMENTS if live is None else live
        self.transactions = transactions
        self.epochs = epochs
        self.idempotence = idempotence

    @property
    def producers(self) -> Map[int, ProducerState]:
        """The known states of producers, by producer id."""
        return self.idempotence.states

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.state.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The smallest first offset of an open transaction, else the log end offset.

        A read_committed reader ends here (UnifiedLog.lastStableOffset).
        """
        end = self.log_end_offset
        if self.transactions:
            end = min(end, *(one.first_offset for one in self.transactions))
        return max(end, self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch; an edit planned with an older one is refused."""
        return self.state.leader_epoch

    @property
    def cleaner_offset(self) -> int:
        """The offset below which compaction has cleaned the log."""
        return self.state.cleaner_offset

    @property
    def imported_end_offset(self) -> int:
        """The log end offset of the broker's log in the last import."""
        return self.state.imported_end_offset

    def end_offset(self, isolation: str = READ_UNCOMMITTED) -> int:
        """Return where a reader of this isolation level ends: last stable or log end offset."""
        return self.last_stable_offset if isolation == READ_COMMITTED else self.log_end_offset

    @property
    def epochs_with_current(self) -> tuple[EpochStart, ...]:
        """The epochs of the batches, and the current leader epoch.

        If no batch has the current epoch, it begins at the log end offset, as if a broker had just
        become the leader (UnifiedLog.assignEpochStartOffset).
        """
        if self.epochs and self.epochs[-1].epoch >= self.leader_epoch:
            return self.epochs
        return (*self.epochs, EpochStart(self.leader_epoch, self.log_end_offset))

    def end_of_epoch(self, epoch: int) -> EpochStart | None:
        """Return the largest epoch at or below `epoch`, and the offset where it ends.

        An epoch older than all others ends where the first one begins. None for a negative epoch,
        and for one newer than the leader's (LeaderEpochFileCache.endOffsetFor).
        """
        epochs = self.epochs_with_current
        if not 0 <= epoch <= epochs[-1].epoch:
            return None
        slot = bisect_right(epochs, epoch, key=lambda one: one.epoch)
        found = epochs[slot - 1].epoch if slot else epoch
        end = self.log_end_offset if slot == len(epochs) else epochs[slot].start_offset
        return EpochStart(found, end)

    @property
    def segments(self) -> SegmentList:
        """The live segments, in offset order, to search by offset and by time."""
        return self.live.by_offset

    def entries(self, start_offset: int = 0) -> list[SegmentEntry]:
        """Return the live segments that end above an offset, in offset order."""
        first = self.segments.first_ending_after(start_offset)
        return [] if first is None else segment_entries(self.live.table.slice(first))

    def check_range(self, start: int, end: int) -> None:
        """Raise OffsetOutOfRangeError unless [start, end) is within the log."""
        low, high = self.log_start_offset, self.log_end_offset
        if not low <= start <= end <= high:
            is_one = 0 <= end - start < 2
            span = f"offset {start} is" if is_one else f"offsets [{start}, {end}) are"
            raise OffsetOutOfRangeError(
                f"{self.name}: {span} not within the log, [{low}, {high})",
                partition=self.partition,
            )

    def slices(self, start: int, end: int) -> Iterator[Slice]:
        """Return the slices that hold [start, end), in order, each made when it is iterated.

        Gaps that compaction left have no slice. Raises OffsetOutOfRangeError, at the call, if the
        range is not within the log.
        """
        self.check_range(start, end)
        segments = self.segments
        entries = map(segments.entry, segments.range(start, end))
        return (
            Slice(entry, max(start, entry.base_offset), min(end, entry.next_offset))
            for entry in entries
        )

    def grown(
        self,
        added: Sequence[tuple[SegmentEntry, int | None]],
        uses: Sequence[Use] = (),
        transactions: tuple[OpenTransaction, ...] | None = None,
    ) -> "PartitionLog":
        """Return the log after `added`: segments at its end, and the epochs of their edits' plans.

        `uses` are the producers' states of these edits, `transactions` the open ones after them;
        None leaves these as they are. The edits may have no other changes.
        """
        state, live, epochs = self.state, self.live, self.epochs
        for entry, epoch in added:
            epochs = _assigned(epochs, epoch, entry.base_offset)
        if added:
            state = state.ending_at(added[-1][0].next_offset)
            live = live.appended([entry for entry, _ in added])
        idempotence = self.idempotence.after(uses) if uses else self.idempotence
        opened = self.transactions if transactions is None else transactions
        return PartitionLog(self.name, self.partition, state, live, opened, epochs, idempotence)

    def apply(
        self, edit: TopicEdit, changes: SegmentChanges | None, stamp: Stamp
    ) -> tuple["PartitionLog", TakenOut]:
        """Return the log after an edit of its topic, and the segments taken out.

        `changes` are the edit's changes of this partition. If the edit was planned with a newer
        leader epoch, that epoch begins at the first record that the edit appends
        (LeaderEpochFileCache.assign).
        """
        number, state, live, taken_out = self.partition, self.state, self.live, _NOTHING
        epochs = edit.epochs.get(number, self.epochs)
        if changes is not None:
            live, appended, taken_out = changes.applied(live, state.log_end_offset)
            if appended:
                epochs = _assigned(epochs, edit.leader_epochs.get(number), appended[0].base_offset)
                state = state.ending_at(appended[-1].next_offset)
        given = edit.partitions.get(number)
        if given is not None:
            state = state.grown(given)
        transactions = edit.transactions.get(number, self.transactions)
        idempotence = self._producers_after(edit, stamp.timestamp_ms)
        log = PartitionLog(self.name, number, state, live, transactions, epochs, idempotence)
        return log, taken_out

    def _producers_after(self, edit: TopicEdit, now_ms: int) -> Producers:
        """Return the producers after an edit; one used in the same millisecond is not forgotten."""
        found = self.idempotence
        if edit.forget_producers_before_ms is not None:
            found = found.since(ProducerMark(min(edit.forget_producers_before_ms, now_ms)))
        states = edit.producers.get(self.partition)
        return found.after([(states, now_ms)]) if states else found


def _assigned(
    epochs: tuple[EpochStart, ...], epoch: int | None, start_offset: int
) -> tuple[EpochStart, ...]:
    if epoch is None or (epochs and epochs[-1].epoch >= epoch):
        return epochs
    return (*epochs, EpochStart(epoch, start_offset))
