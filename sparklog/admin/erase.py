"""Erase: removes the records of some keys from the log of a topic, and from its table.

    begin    a mark of the table says that an erasure is under way: until it ends, no read combines
             table and log
    search   every live segment below the present ends of the partitions
    log      one commit: each segment with a hit is replaced by a copy without the records; if a
             shared segment has a hit, its other slices move to files of their own
    again    until a search finds nothing: a merge or a compaction may have copied a record first
    table    the same, after the log, so that no build can copy erased records (`erase_table`)
    end      a mark of the table says that the erasure is over

A reader that has begun reads the old files, which stay until vacuum; a later reader finds gaps.
Records that are produced meanwhile, at or above those ends, are not searched. If `erase` is killed,
run it again. No entry of the history, and no file, holds a key.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.admin.erase_segment import (
    NOTHING,
    DeadBytes,
    Found,
    Keys,
    Removal,
    search,
    search_dead,
    sound,
    stretches_between,
    without,
)
from sparklog.admin.erase_table import TableErased, begin, end, erase_table, strangers
from sparklog.config.keys import LONG_MAX
from sparklog.config.topic import TopicConfig, every_config
from sparklog.errors import CommitConflictError, InvalidOptionError, TopicClosedError, UsageError
from sparklog.fleet import Fleet
from sparklog.log.names import QUARANTINE
from sparklog.log.roll import RollPolicy
from sparklog.log_writer.shared_segment import GROWS_MS, grows_until_ms
from sparklog.metadata.catalog import Catalog, Write, topic_directory
from sparklog.metadata.state.edit import Done, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.state.topic_image import shared_slices
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.table.of_topic import table_directory

ERASE: Final = "ERASE"
ROUNDS_MAX: Final = 100
OUTSIDE: Final = (
    "exports, backups and other copies of the log dir",
    "checkpoints of streams, and the tables and topics that programs have made of the topic",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """The result of an erase, or of its dry run.

    `partitions` has the number of erased records by partition, `segments` counts the segments that
    had them. `searched` counts the segments that were read, `spared` those that were not, because
    their key index has none of the keys. `moved` counts the slices, of any topic, that were moved
    out of a shared segment with such records. From `files_gone_ms` on (at most 2^63-1) vacuum can
    delete the last file with a record. `outside` names the places that an erase does not reach.
    """

    topic: str
    keys: int
    dry_run: bool
    partitions: Mapping[int, int]
    segments: int
    searched: int
    spared: int
    moved: int
    table: TableErased
    files_gone_ms: int
    outside: Sequence[str]

    @property
    def records(self) -> int:
        """How many records were removed from the log."""
        return sum(self.partitions.values())

    @property
    def is_empty(self) -> bool:
        """True if the erasure found no record, no row of the table, and no slice to move."""
        return not (self.records or self.moved or self.table.files)

    def as_row(self) -> dict[str, Any]:
        """Return it as the JSON object of a line."""
        return {
            "topic": self.topic,
            "keys": self.keys,
            "dry_run": self.dry_run,
            "records": self.records,
            "partitions": {str(number): count for number, count in self.partitions.items()},
            "segments": self.segments,
            "searched": self.searched,
            "spared": self.spared,
            "moved": self.moved,
            "table_rows": self.table.rows,
            "table_files": self.table.files,
            "files_gone_ms": self.files_gone_ms,
            "outside": list(self.outside),
        }


def erase(
    catalog: Catalog,
    name: str,
    keys: Iterable[bytes | str],
    fleet: Fleet,
    *,
    dry_run: bool = False,
) -> EraseReport:
    """Remove the records of a topic that have one of the keys, from log and table; see above.

    A text stands for its UTF-8 bytes. Raises UnknownTopicError, InvalidOptionError without a key,
    TopicClosedError, CommitConflictError, CorruptRecordError for a damaged segment (nothing of it
    is replaced then), UsageError for a key of another type, and for a table that another writer has
    changed.
    """
    wanted = tuple(sorted({_bytes_of(key) for key in keys}))
    if not wanted:
        raise InvalidOptionError("no key: give the keys whose records go", option="key")
    topic = catalog.topic(name)
    erasure = _Erasure(catalog, topic, wanted, fleet)
    number = None if dry_run else begin(catalog, topic)
    erasure.erase_log(dry_run=dry_run)
    table = erase_table(catalog, topic, wanted, fleet, dry_run=dry_run)
    end(catalog, topic, number)
    return erasure.report(table, dry_run=dry_run)


def _bytes_of(key: object) -> bytes:
    if not isinstance(key, str | bytes):
        raise UsageError(f"{key!r} is no key: give a text or bytes")
    return key.encode() if isinstance(key, str) else key


class _Hit(NamedTuple):
    """A segment to be written anew, without the records at `found`."""

    topic: TopicDescription
    entry: SegmentEntry
    found: Found


@dataclass(slots=True)
class _Erasure:
    """One run over the log of a topic."""

    catalog: Catalog
    topic: TopicDescription
    keys: Keys
    fleet: Fleet
    records: dict[int, int] = field(default_factory=dict)
    segments: int = 0
    moved: int = 0
    searched: int = 0
    spared: int = 0
    has_shared: bool = False
    clean: set[SegmentKey] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)

    def erase_log(self, *, dry_run: bool) -> None:
        """Search and replace until nothing is found; in a dry run search, and count."""
        image = self._image()
        logs = image.topics[self.topic.topic_id].partitions
        self.ends = {number: log.log_end_offset for number, log in logs.items()}
        self._let_grow(image)
        for _ in range(ROUNDS_MAX):
            image = self._image()
            hits = self._hits(image.topics[self.topic.topic_id])
            hits += self._neighbours(image, hits)
            if dry_run:
                self._count(hits)
            if dry_run or not hits:
                return
            self._count(self._replaced(hits))
        raise CommitConflictError(
            f"topic {self.topic.name!r}: other jobs copied the records again, {ROUNDS_MAX} times"
        )

    def _let_grow(self, image: Image) -> None:
        """Wait until none of the shared segments in use grows.

        Otherwise each new slice would have to be moved, and a batch that is just being written
        would look damaged: such bytes may hide a record.
        """
        paths = [path for path, one in image.shared.items() if one.slice_count]
        if paths and self.catalog.files.is_local:
            left_ms = grows_until_ms(max(paths)) - self.catalog.clock.now_ms()
            if 0 < left_ms <= GROWS_MS:
                self.catalog.clock.sleep_ms(left_ms)

    def _image(self) -> Image:
        """Return the newest image; with all topics open where segments are shared."""
        image = self.catalog.image(self.topic)
        if _has_slices(image):
            image = self.catalog.image(*image.names.values(), self.topic)
        if image.existing(self.topic.topic_id) is None:
            raise TopicClosedError(f"topic {self.topic.name!r} was deleted: vacuum erases it")
        return image

    def _hits(self, topic: TopicImage) -> list[_Hit]:
        """Return the segments with a record to erase; the others are `clean` from then on."""
        entries = [
            entry
            for number, log in sorted(topic.partitions.items())
            for entry in log.entries()
            if entry.base_offset < self.ends.get(number, 0) and entry.key not in self.clean
        ]
        task = partial(search, self.catalog.files, topic_directory(self.topic), self.keys)
        answers = sound(self.fleet.map(task, entries, f"search {self.topic.name}"))
        self.searched += sum(found.is_read for found in answers)
        self.spared += sum(not found.is_read for found in answers)
        pairs = list(zip(entries, answers, strict=True))
        self.clean.update(entry.key for entry, found in pairs if not len(found.deltas))
        return [_Hit(self.topic, entry, found) for entry, found in pairs if len(found.deltas)]

    def _neighbours(self, image: Image, hits: Sequence[_Hit]) -> list[_Hit]:
        """Return the other slices of shared segments that have a record to erase.

        The record may lie in a slice, or in bytes that were a slice before a merge.
        """
        slices = _slices(image)
        hit = {one.entry.log_path for one in hits}
        works = [
            DeadBytes(
                files=self.catalog.files,
                path=path,
                stretches=stretches_between(
                    [(one.entry.log_position, one.entry.log_bytes) for one in some], size
                ),
                keys=self.keys,
            )
            for path, some in slices.items()
            if path not in hit and (size := self._size(path))
        ]
        answers = sound(self.fleet.map(search_dead, works, "search shared segments"))
        hit = hit | {work.path for work, is_hit in zip(works, answers, strict=True) if is_hit}
        chosen = {(one.topic.topic_id, one.entry.key) for one in hits}
        return [
            one
            for path in sorted(hit & slices.keys())
            for one in slices[path]
            if (one.topic.topic_id, one.entry.key) not in chosen
        ]

    def _size(self, path: str) -> int:
        found = self.catalog.files.stat(path)
        return 0 if found is None else found.bytes

    def _replaced(self, hits: Sequence[_Hit]) -> list[_Hit]:
        """Write segments anew, and commit those that are still live; return these."""
        works = [self._removal(hit) for hit in hits]
        rows = sound(self.fleet.map(without, works, f"erase {self.topic.name}"))
        pairs: dict[str, list[tuple[_Hit, SegmentEntry]]] = {}
        for hit, row in zip(hits, rows, strict=True):
            pairs.setdefault(hit.topic.topic_id, []).append((hit, row))
        landed: dict[str, list[_Hit]] = {}
        writes = [
            Write(topic=some[0][0].topic, plan=partial(_planned, pairs=some, landed=landed))
            for some in pairs.values()
        ]
        erased = sum(len(hit.found.deltas) for hit in hits)
        self.catalog.commit_all(
            writes,
            operation=ERASE,
            parameters={"keys": str(len(self.keys)), "erased": str(erased)},
            patient=True,
        )
        self.clean.update(row.key for row in rows)
        return [hit for some in landed.values() for hit in some]

    def _removal(self, hit: _Hit) -> Removal:
        config = TopicConfig.parse(hit.topic.configs)
        return Removal(
            files=self.catalog.files,
            clock=self.catalog.clock,
            topic=hit.topic,
            entry=hit.entry,
            deltas=hit.found.deltas,
            policy=RollPolicy(
                index_interval_bytes=config.index_interval_bytes,
                segment_index_bytes=config.segment_index_bytes,
            ),
        )

    def _count(self, hits: Iterable[_Hit]) -> None:
        for hit in hits:
            count = len(hit.found.deltas)
            self.has_shared |= hit.entry.is_shared
            if count:
                number = hit.entry.partition
                self.records[number] = self.records.get(number, 0) + count
                self.segments += 1
            else:
                self.moved += 1

    def report(self, table: TableErased, *, dry_run: bool) -> EraseReport:
        """Return the report, with the table's part of it."""
        longest_ms = max(
            max(one.delete_delay_ms, one.orphan_retention_ms) for one in self._delays()
        )
        kept = self._kept_by_deleted()
        begin_ms = max([self.catalog.clock.now_ms(), *(_erased_ms(topic) for topic in kept)])
        return EraseReport(
            topic=self.topic.name,
            keys=len(self.keys),
            dry_run=dry_run,
            partitions=dict(sorted(self.records.items())),
            segments=self.segments,
            searched=self.searched,
            spared=self.spared,
            moved=self.moved,
            table=table,
            files_gone_ms=min(begin_ms + longest_ms, LONG_MAX),
            outside=(*self._strange(kept), *OUTSIDE),
        )

    def _kept_by_deleted(self) -> list[TopicDescription]:
        """Return the deleted topics with slices of shared segments, which stay until vacuum."""
        deleted = self.catalog.image().deleted
        image = self.catalog.image(*deleted)
        return [one for one in deleted if shared_slices(image.topics[one.topic_id])]

    def _strange(self, kept: Sequence[TopicDescription]) -> Iterator[str]:
        """Yield, as text, the files of the log dir that this erase has not reached."""
        if kept:
            names = ", ".join(sorted({one.name for one in kept}))
            yield f"shared segments of deleted topics ({names}): erase again if one is undeleted"
        quarantine = f"{topic_directory(self.topic)}/{QUARANTINE}"
        if aside := sum(1 for _ in self.catalog.files.list(quarantine, recursive=True)):
            yield f"{aside} files in {quarantine}"
        if others := strangers(self.catalog, self.topic):
            yield f"{others} files in {table_directory(self.topic)} that no commit of it names"

    def _delays(self) -> list[TopicConfig]:
        """Return the configs whose longest delay is that of the last file.

        They are the configs of all topics if a shared segment had a record, or if there are unused
        ones: these are not searched, and may have one.
        """
        image = self.catalog.image()
        if self.has_shared or any(not one.slice_count for one in image.shared.values()):
            return every_config(one.description.configs for one in image.topics.values())
        return [TopicConfig.parse(self.topic.configs)]


def _erased_ms(topic: TopicDescription) -> int:
    """Return the time from which on vacuum may erase a deleted topic."""
    return (topic.deleted_ms or 0) + TopicConfig.parse(topic.configs).delete_delay_ms


def _has_slices(image: Image) -> bool:
    return any(one.slice_count for one in image.shared.values())


def _slices(image: Image) -> dict[str, list[_Hit]]:
    """Return the live slices of all topics by shared segment, as hits without records."""
    slices: dict[str, list[_Hit]] = {}
    if not _has_slices(image):
        return slices
    for topic in image.names.values():
        for log in image.topics[topic.topic_id].partitions.values():
            for entry in log.entries():
                if entry.is_shared:
                    one = _Hit(topic, entry, Found(NOTHING))
                    slices.setdefault(entry.log_path, []).append(one)
    return slices


def _planned(
    image: TopicImage,
    pairs: Sequence[tuple[_Hit, SegmentEntry]],
    landed: dict[str, list[_Hit]],
) -> TopicEdit | Done:
    """Return the edit that replaces those segments of a topic that are still live.

    The new row of a segment has all aborted transactions of the old row, also those noted
    meanwhile.
    """
    landed[image.description.topic_id] = []
    if image.deleted_ms is not None:
        return Done()
    live = image.find(hit.entry.key for hit, _ in pairs)
    chosen = [(hit, row) for hit, row in pairs if hit.entry.key in live]
    landed[image.description.topic_id] = [hit for hit, _ in chosen]
    return TopicEdit(
        segments=[row._replace(aborted=live[hit.entry.key].aborted) for hit, row in chosen],
        remove=[hit.entry.key for hit, _ in chosen],
    )
