"""One partition of a broker becomes rows of a manifest: its files are checked, linked or copied.

    sealed segments    .log     hard link (or a copy): a broker never changes them
    the newest         .log     a copy: a broker that starts again appends to it
    what came since    a copy of the batches from the imported end on, a segment of its own
    indexes                     made anew from the .log, or copied when the .log is not read

Every file gets a name of ours; its batches keep the log's offsets. Nothing refers to the files
before the rows are committed, so a partition that is refused leaves orphans for vacuum.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sparklog.errors import CorruptionError, CorruptRecordError, UsageError
from sparklog.interop.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.checkpoints import LEADER_EPOCH, read_epochs
from sparklog.interop.examine import Examined, Source, examine, walked
from sparklog.interop.index_checks import check_offset_index, check_time_index
from sparklog.interop.producer_snapshot import read_snapshot
from sparklog.interop.sealed import trusted
from sparklog.interop.transactions import Span, Transactions, with_spans
from sparklog.log.indexer import Indexes
from sparklog.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_dir,
    segment_name,
    uuid7,
)
from sparklog.log.roll import RollPolicy
from sparklog.manifest.catalog import topic_directory
from sparklog.manifest.store import PartitionState
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles

SNAPSHOT_SUFFIX: Final = ".snapshot"
COPY_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """How files are taken. `check` reads every byte; `link` makes hard links where it can."""

    now_ms: int
    check: bool = True
    link: bool = True
    policy: RollPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the manifest knows of a partition before the import.

    `open_at`: transactions that counted as aborted because they had not ended, producer id to first
    offset. `log_start` and `cleaner_offset` are the broker's own, from its checkpoints.
    """

    state: PartitionState
    open_at: dict[int, int]
    log_start: int = 0
    cleaner_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPartition:
    """What an import adds to one partition, not yet committed.

    `ended` are the open transactions of the last import that have committed since, as
    (producer id, first offset); `aborted` all that readers must not see, with new ends.
    """

    entries: tuple[SegmentEntry, ...]
    state: PartitionState
    paths: tuple[str, ...]
    torn_bytes: int
    aborted: tuple[Span, ...]
    ended: frozenset[tuple[int, int]]


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
        self._topic = topic
        self._source = source
        self._rules = rules
        self._partition = source.place.partition
        self._paths: list[str] = []
        self._torn_bytes = 0
        self._unread: dict[int, int] | None = None

    def run(self, known: Known) -> ImportedPartition:
        """Check and take what is new; with nothing new there are no entries.

        Raises CorruptionError naming the file, and the position where there is one, and UsageError
        where sparklog has produced since the last import: nothing refers to any file then.
        """
        end = known.state.imported_end_offset
        if known.state.log_end_offset > end:
            raise UsageError(
                f"{self._source.place}: records were produced here since the last import (the log "
                f"ends at {known.state.log_end_offset}, what was imported at {end}): import it as "
                f"another topic"
            )
        segments = self._source.segments()
        transactions = Transactions(known.open_at)
        self._unread = None if self._rules.check else self._open_at_newest(segments)
        entries = self._entries(_from(segments, end), end, transactions)
        new_end = max([end, *(entry.next_offset for entry in entries)])
        # A broker whose segments are all expired keeps an empty one, which says where it ends.
        new_end = max([new_end, *(segment.base_offset for segment in segments[-1:])])
        spans = transactions.spans(new_end)
        return ImportedPartition(
            entries=tuple(with_spans(entry, spans) for entry in entries),
            state=self._state(known, segments, entries, new_end),
            paths=tuple(self._paths),
            torn_bytes=self._torn_bytes,
            aborted=tuple(spans),
            ended=frozenset(transactions.committed),
        )

    def _open_at_newest(self, segments: Sequence[SegmentFiles]) -> dict[int, int] | None:
        """Open transactions where the newest segment begins; None where no snapshot says so."""
        if not segments:
            return None
        name = f"{segments[-1].base_offset:020d}{SNAPSHOT_SUFFIX}"
        data = self._source.read(name)
        if not data:
            return None
        try:
            states = read_snapshot(data)
        except CorruptionError as error:
            raise CorruptionError(f"{self._source.path}/{name}: {error}") from None
        return {
            state.producer_id: state.current_txn_first_offset
            for state in states
            if state.current_txn_first_offset >= 0
        }

    def _state(
        self,
        known: Known,
        segments: Sequence[SegmentFiles],
        entries: Sequence[SegmentEntry],
        end: int,
    ) -> PartitionState:
        first = segments[0].base_offset if segments else 0
        start = max(first, known.log_start)
        if start > end:
            raise CorruptionError(
                f"{self._source.path}: its log begins at {start}, behind its end at {end}"
            )
        where = f"{self._source.path}/{LEADER_EPOCH}"
        epochs = [epoch for epoch, _ in read_epochs(self._source.read(LEADER_EPOCH), where)]
        epochs += [entry.max_leader_epoch or 0 for entry in entries]
        is_first = known.state == PartitionState()
        return PartitionState(
            log_start_offset=start if is_first else min(start, known.state.log_start_offset),
            log_end_offset=end,
            leader_epoch=max([known.state.leader_epoch, *(epoch + 1 for epoch in epochs)]),
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
        """The row of one segment, its files taken; None when there is nothing in it."""
        is_newest = following is None
        source = self._source_of(files, is_newest)
        if files.base_offset < end:
            source = replace(source, start=_position_of(source, end))
        if source.start == source.size:
            return None
        base = max(files.base_offset, end)
        if self._unread is not None and following is None and base == files.base_offset:
            transactions.resume(self._unread)
        if self._unread is not None and following is not None and base == files.base_offset:
            trust = trusted(self._source, files, following, transactions)
            if trust is not None:
                return self._taken(source, trust.entry, trust.indexes)
        found = examine(
            source,
            base,
            self._partition,
            transactions,
            self._rules.policy,
            decoded=self._rules.check,
        )
        self._torn_bytes += found.torn_bytes
        if not found.summary.batch_count:
            return None
        if not found.torn_bytes:
            self._check_indexes(files, found)
        entry = found.summary.entry(base, self._rules.now_ms, "", indexes=found.indexes)
        entry = replace(entry, delete_horizon_ms=found.delete_horizon_ms)
        return self._taken(source, entry, found.indexes)

    def _source_of(self, files: SegmentFiles, is_newest: bool) -> Source:
        name = files.name(LOG_SUFFIX)
        return Source(
            self._source.files,
            name,
            files.log_bytes,
            f"{self._source.path}/{name}",
            is_newest=is_newest,
        )

    def _check_indexes(self, files: SegmentFiles, found: Examined) -> None:
        """Refuse a broker's index that leads out of its segment, though ours takes its place."""
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

    def _taken(self, source: Source, entry: SegmentEntry, indexes: Indexes) -> SegmentEntry:
        """Bring the files of a row in, and return the row with their paths."""
        uuid = uuid7(self._rules.now_ms, os.urandom(10))
        log = self._path(entry.file_base_offset, uuid, LOG_SUFFIX)
        self._bring(source, source.start + entry.log_bytes, log)
        written = {}
        for suffix, data in zip((INDEX_SUFFIX, TIME_INDEX_SUFFIX), indexes, strict=True):
            if data:
                written[suffix] = self._path(entry.file_base_offset, uuid, suffix)
                self._files.write_new(written[suffix], data)
                self._paths.append(written[suffix])
        prefix = len(topic_directory(self._topic)) + 1
        index, time_index = (written.get(suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        return replace(
            entry,
            created_ms=self._rules.now_ms,
            log_path=log[prefix:],
            index_path=index and index[prefix:],
            index_bytes=len(indexes.offset_index),
            time_index_path=time_index and time_index[prefix:],
            time_index_bytes=len(indexes.time_index),
        )

    def _path(self, base: int, uuid: str, suffix: str) -> str:
        inside = partition_dir(self._topic.name, self._partition)
        return f"{topic_directory(self._topic)}/{inside}/{segment_name(base, uuid, suffix)}"

    def _bring(self, source: Source, end: int, target: str) -> None:
        """Link a sealed `.log`, copy any other: bytes [source.start, end)."""
        is_whole = not source.is_newest and source.start == 0 and end == source.size
        self._paths.append(target)
        if is_whole and self._is_linked(source, target):
            return
        with self._files.create(target) as file:
            for start in range(source.start, end, COPY_BYTES):
                file.write(source.files.view(source.name, min(COPY_BYTES, end - start), start))

    def _is_linked(self, source: Source, target: str) -> bool:
        if not self._rules.link or not isinstance(self._files, LocalFiles):
            return False
        return self._files.link_from(source.path, target)


def _from(segments: Sequence[SegmentFiles], end: int) -> Sequence[SegmentFiles]:
    """The segments that may hold an offset from `end` on."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= end:
        first += 1
    return segments[first:]


def _position_of(source: Source, end: int) -> int:
    """Where the first batch from offset `end` on begins; the file's size when there is none."""
    for _, position, batches in walked(source):
        behind = batches.last_offset >= end
        if behind.any():
            slot = int(behind.argmax())
            first = int(batches.base_offset[slot])
            if first < end and not batches.is_wrapper[slot]:
                raise CorruptRecordError(
                    f"the batch of offsets {first} to {batches.last_offset[slot]} was imported in "
                    f"part, up to {end}",
                    file=source.path,
                    position=position + int(batches.position[slot]),
                )
            return position + int(batches.position[slot])
        last = position + int(batches.end_position[-1])
        source = replace(source, start=last)
    return source.size
