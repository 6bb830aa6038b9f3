"""Imports one partition of a broker: checks its files, and links or copies them as segments.

    .log of a sealed segment    hard link (or a copy): a broker never changes it
    .log of the newest segment  a copy: a broker that starts again appends to it
    .log that was imported in   a copy of the batches from the imported end on, as a segment
    part before
    indexes                     built from the .log, or copied if the .log is not read
    newest .snapshot            the producers; the batches behind it are added

Nothing refers to the files before the rows are committed. So a refused partition leaves only
orphans, which vacuum deletes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparklog.errors import CorruptionError, UsageError
from sparklog.interop.broker_files.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.broker_files.checkpoints import LEADER_EPOCH, read_epochs
from sparklog.interop.broker_files.index_checks import check_offset_index, check_time_index
from sparklog.interop.broker_files.producer_snapshot import (
    SNAPSHOT_SUFFIX,
    read_snapshot,
    snapshots_of,
)
from sparklog.interop.broker_files.producer_snapshot import ProducerState as SnapshotState
from sparklog.interop.epochs import Epochs
from sparklog.interop.examine import Examined, examine, source_of
from sparklog.interop.imports.sealed import trusted
from sparklog.interop.imports.take_files import FileTaker
from sparklog.interop.same_log import check_epoch, check_last, first_new
from sparklog.interop.sequences import NO_OFFSET, Sequences
from sparklog.interop.transactions import Span, Transactions, spread
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.cluster import PRODUCER_IDS_END
from sparklog.metadata.state.edit import EpochStart, OpenTransaction, PartitionState
from sparklog.metadata.state.producers import ProducerState
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """The rules by which files are taken.

    `check` reads every byte; `link` makes hard links if possible; `durable` files will be synced.
    """

    now_ms: int
    check: bool = True
    link: bool = True
    durable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A partition before the import: its log here, and its entries in the broker's checkpoints.

    `newest` is the newest segment here. `log_start` is None if the checkpoint has no entry.
    """

    state: PartitionState
    newest: SegmentEntry | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    epochs: tuple[EpochStart, ...] = ()
    producers: tuple[ProducerState, ...] = ()
    log_start: int | None = None
    cleaner_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPartition:
    """The additions of an import to one partition, not yet committed.

    `aborted` are the transactions whose ABORT marker was imported; they may have begun before.
    `transactions` are the open transactions at the new end, `producers` are the producers there.
    `notes` are facts that readers should know.
    """

    entries: tuple[SegmentEntry, ...]
    state: PartitionState
    paths: tuple[str, ...] = ()
    torn_bytes: int = 0
    aborted: tuple[Span, ...] = ()
    transactions: tuple[OpenTransaction, ...] = ()
    epochs: tuple[EpochStart, ...] = ()
    producers: tuple[ProducerState, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def next_producer_id(self) -> int:
        """The first producer id above all imported producer ids; PRODUCER_IDS_END at most."""
        ids = [one.producer_id for one in self.producers]
        ids += [one.producer_id for one in self.transactions]
        ids += [one for entry in self.entries for one in entry.producer_ids or ()]
        return min(max(ids, default=-1) + 1, PRODUCER_IDS_END)


class PartitionImport:
    """Takes the files of one partition into the directory of a topic."""

    def __init__(
        self,
        files: Files,
        topic: TopicDescription,
        source: PartitionDir,
        rules: ImportRules,
    ) -> None:
        self._files = files
        self._directory = topic_directory(topic)
        self._source = source
        self._rules = rules
        self._partition = source.topic_partition.partition
        self._taker = FileTaker(
            files, topic, self._partition, rules.now_ms, link=rules.link, durable=rules.durable
        )
        self._torn_bytes = 0
        self._unread: tuple[OpenTransaction, ...] | None = None
        self._has_skipped = False
        self._epochs = Epochs()
        self._sequences = Sequences()
        self._cleaner_offset = 0

    def run(self, known: Known) -> ImportedPartition:
        """Check and take new batches; without new batches there are no entries.

        Raises CorruptionError naming the file and, if known, the position, for damage, and if this
        is another log than the one imported before; UsageError if records were produced here since
        the last import, or if a snapshot is missing.
        """
        end = known.state.imported_end_offset
        if known.state.log_end_offset > end:
            raise UsageError(
                f"{self._source.topic_partition}: records were produced here since the last import "
                f"(the log ends at {known.state.log_end_offset}, what was imported at {end}): "
                f"import it as another topic"
            )
        segments = self._source.segments()
        self._check_same(segments, known)
        where = f"{self._source.path}/{LEADER_EPOCH}"
        checkpoint = read_epochs(self._source.read(LEADER_EPOCH), where)
        self._epochs = Epochs([*known.epochs, *checkpoint])
        self._sequences = Sequences(known.producers)
        self._cleaner_offset = known.cleaner_offset
        transactions = Transactions(known.transactions)
        first = segments[0].base_offset if segments else 0
        ended = self._drop_ended(transactions, known, first)
        # Segments that are not read give no leader epochs, so the checkpoint must have them.
        is_trusting = bool(segments and checkpoint) and not self._rules.check
        self._unread = self._open_at(segments[-1].base_offset) if is_trusting else None
        entries = self._entries(_from(segments, end), end, transactions)
        new_end = max([end, *(entry.next_offset for entry in entries)])
        # If all segments have expired, the broker keeps an empty one at the log's end.
        new_end = max([new_end, *(segment.base_offset for segment in segments[-1:])])
        ended += self._drop_ended(transactions, known, new_end)
        return ImportedPartition(
            entries=spread(entries, transactions.aborted),
            state=self._state(known, segments, new_end),
            paths=tuple(self._taker.paths),
            torn_bytes=self._torn_bytes,
            aborted=tuple(transactions.aborted),
            transactions=transactions.unended,
            epochs=self._epochs.below(new_end),
            producers=self._producers_at(new_end),
            notes=(*_missing(known, first), *map(_lost_end, ended), *_lost_tombstones(known)),
        )

    def _check_same(self, segments: Sequence[SegmentFiles], known: Known) -> None:
        """Refuse another log than the one imported before."""
        end = known.state.imported_end_offset
        if end and not segments:
            raise CorruptionError(
                f"{self._source.path}: it has no .log, and up to {end} was imported: "
                f"a part of the directory is missing"
            )
        sources = [
            source_of(self._source, files, is_newest=files is segments[-1]) for files in segments
        ]
        if known.epochs:
            check_epoch(sources[-len(_from(segments, end)) :], end, known.epochs[-1].epoch)
        if known.newest is not None:
            below = [
                source
                for source, files in zip(sources, segments, strict=True)
                if files.base_offset < end
            ]
            cleaned = known.state.cleaner_offset
            check_last(below, end, self._files, self._directory, known.newest, cleaned)

    def _producers_at(self, end: int) -> tuple[ProducerState, ...]:
        """Return the producers at the log's end."""
        for offset, snapshot in snapshots_of(self._source, end):
            return self._sequences.ended(snapshot, offset)
        return self._sequences.ended((), NO_OFFSET)

    def _drop_ended(
        self, transactions: Transactions, known: Known, end: int
    ) -> list[OpenTransaction]:
        """Take out and return the transactions that have ended by the newest snapshot up to `end`.

        The import before has read the log up to its end, so only a snapshot above that counts.
        """
        for offset, snapshot in snapshots_of(self._source, end):
            if offset <= known.state.imported_end_offset:
                break
            return transactions.drop_ended(known.transactions, _open_in(snapshot))
        return []

    def _open_at(self, base_offset: int) -> tuple[OpenTransaction, ...] | None:
        """Return the transactions that are open where a segment begins; None without a snapshot."""
        name = segment_name(base_offset, None, SNAPSHOT_SUFFIX)
        data = self._source.read(name)
        if not data:
            return None
        try:
            states = read_snapshot(data)
        except CorruptionError as error:
            raise CorruptionError(f"{self._source.path}/{name}: {error}") from None
        return tuple(OpenTransaction(*one) for one in _open_in(states).items())

    def _state(self, known: Known, segments: Sequence[SegmentFiles], end: int) -> PartitionState:
        first = segments[0].base_offset if segments else 0
        start = max(first, known.log_start or 0)
        if start > end:
            raise CorruptionError(
                f"{self._source.path}: its log begins at {start}, behind its end at {end}"
            )
        is_first = known.state == PartitionState()
        return PartitionState(
            log_start_offset=start if is_first else min(start, known.state.log_start_offset),
            log_end_offset=end,
            leader_epoch=max(known.state.leader_epoch, self._epochs.newest + 1),
            cleaner_offset=min(known.cleaner_offset, end) if is_first else 0,
            imported_end_offset=end,
        )

    def _entries(
        self, segments: Sequence[SegmentFiles], end: int, transactions: Transactions
    ) -> list[SegmentEntry]:
        entries: list[SegmentEntry] = []
        for number, files in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            entry = self._entry(files, following, end, transactions)
            if entry is None:
                continue
            if following is not None and entry.next_offset > following:
                raise CorruptionError(
                    f"{self._source.path}/{files.name(LOG_SUFFIX)}: it ends at offset "
                    f"{entry.next_offset}, and the next segment begins at {following}"
                )
            entries.append(entry)
        return entries

    def _entry(
        self, files: SegmentFiles, following: int | None, end: int, transactions: Transactions
    ) -> SegmentEntry | None:
        """Take the files of one segment; return its row, None if it has no new batch."""
        source = source_of(self._source, files, is_newest=following is None)
        if files.base_offset < end:
            source = replace(source, start=first_new(source, files.base_offset, end))
        unread = self._unread if files.base_offset >= end else None
        if unread is not None and following is None:
            transactions.resume(unread)
        if source.start == source.size:
            return None
        base = max(files.base_offset, end)
        if unread is not None and following is not None:
            epoch = self._last_epoch(files, following)
            known = trusted(self._source, files, following, transactions, epoch)
            if known is not None:
                self._has_skipped = True
                return self._taker.take(source, known)
            self._resume(files, transactions)
        found = examine(
            source,
            base,
            self._partition,
            transactions,
            self._epochs,
            self._sequences,
            decoded=self._rules.check,
        )
        self._torn_bytes += found.torn_bytes
        if not found.summary.batch_count:
            return None
        if not found.torn_bytes:
            self._check_indexes(files, found)
        return self._taker.take(source, found)

    def _resume(self, files: SegmentFiles, transactions: Transactions) -> None:
        """Set the open transactions before a segment is read, if earlier ones were not read."""
        if not self._has_skipped:
            return
        open_at = self._open_at(files.base_offset)
        if open_at is None:
            raise UsageError(
                f"{self._source.path}/{files.name(SNAPSHOT_SUFFIX)}: there is no such file to tell "
                f"which transactions are open: import with checks"
            )
        transactions.resume(open_at)

    def _last_epoch(self, files: SegmentFiles, following: int) -> int | None:
        """Return the leader epoch of a segment's last batch by the checkpoint; None if unknown.

        It is unknown in a cleaned segment: all batches of an epoch may be gone.
        """
        known = self._epochs.below(following)
        is_clean = files.base_offset < self._cleaner_offset
        return None if is_clean or not known else known[-1].epoch

    def _check_indexes(self, files: SegmentFiles, found: Examined) -> None:
        """Refuse a broker's index that points out of its segment, although it is built anew."""
        summary = found.summary
        span = summary.file_next_offset - files.base_offset
        end = files.log_bytes
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if files.sizes.get(suffix):
                path = f"{self._source.path}/{files.name(suffix)}"
                data = self._source.files.view(files.name(suffix))
                if suffix == INDEX_SUFFIX:
                    check_offset_index(data, span, end, path)
                else:
                    check_time_index(data, span, path)


def _open_in(snapshot: Sequence[SnapshotState]) -> Mapping[int, int]:
    """Return the first offset of each producer's open transaction."""
    return {
        one.producer_id: one.current_txn_first_offset
        for one in snapshot
        if one.current_txn_first_offset >= 0
    }


def _missing(known: Known, first: int) -> list[str]:
    """Tell if the broker's files begin at `first`, behind the offset that is due."""
    is_first = known.state == PartitionState()
    due = known.log_start if is_first else known.state.imported_end_offset
    if due is None or first <= due:
        return []
    why = "the broker has deleted them, or has them only in remote storage"
    return [f"offsets {due} to {first - 1} are not in the directory: {why}"]


def _lost_end(one: OpenTransaction) -> str:
    return (
        f"the broker has deleted the end of the transaction of producer {one.producer_id} at "
        f"offset {one.first_offset}: its records count as committed"
    )


def _lost_tombstones(known: Known) -> list[str]:
    """Tell if the broker's cleaner has read what this import takes: tombstones may be gone."""
    end = known.state.imported_end_offset
    if known.state == PartitionState() or known.cleaner_offset <= end:
        return []
    cleaned = f"the broker has cleaned the log up to offset {known.cleaner_offset}"
    before = f"up to {end} was imported before"
    return [f"{cleaned}, and {before}: keys that were deleted since may still be here"]


def _from(segments: Sequence[SegmentFiles], end: int) -> Sequence[SegmentFiles]:
    """Return the segments that may have an offset from `end` on."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= end:
        first += 1
    return segments[first:]
