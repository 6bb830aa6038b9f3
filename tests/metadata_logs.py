"""Metadata logs to test with: a topic, produces, a twin in memory, and files that crash."""

import os
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from sparklog.clock import Clock, ManualClock
from sparklog.errors import CorruptMetadataError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state.edit import (
    Edit,
    FoldEdit,
    PartitionState,
    Receipt,
    ReceiptKey,
    TopicEdit,
)
from sparklog.metadata.state.image import Image, TopicImage, at_log_end
from sparklog.metadata.upkeep import housekeeping
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold, is_due
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files, NewFile
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles

TOPIC_ID = "A" * 22
NAME = "t"
NOW_MS = 1_700_000_000_000


class CrashError(BaseException):
    """The process is gone: no code may handle this, so it is no Exception."""


class CrashingLocalFiles(LocalFiles):
    """Local files of a process that is killed before its operation number `crash_at`.

    Only operations that change something count.
    """

    def __init__(self, root: str, crash_at: int = -1) -> None:
        super().__init__(root)
        self.crash_at = crash_at
        self.steps = 0

    def step(self) -> None:
        """Count an operation; raises CrashError at the one that does not happen."""
        if self.steps == self.crash_at:
            raise CrashError
        self.steps += 1

    def create(self, path: str, **options: bool) -> NewFile:
        """See `Files.create`."""
        self.step()
        return super().create(path, **options)

    def write_new(self, path: str, data: Any, *, durable: bool = False) -> None:
        """See `Files.write_new`."""
        with self.create(path, durable=durable) as file:
            file.write(data)

    def put_new(self, path: str, data: Any, *, durable: bool = True, **options: Any) -> bool:
        """See `Files.put_new`."""
        self.step()
        return super().put_new(path, data, durable=False, **options)

    def overwrite(self, path: str, data: Any) -> None:
        """See `Files.overwrite`."""
        self.step()
        aside = f"{path}.aside"
        super().put_new(aside, data, durable=False)
        os.rename(f"{self.uri}/{aside}", f"{self.uri}/{path}")

    def delete(self, path: str) -> None:
        """See `Files.delete`."""
        self.step()
        super().delete(path)

    def link_or_copy(self, source: str, target: str) -> None:
        """See `Files.link_or_copy`."""
        self.step()
        super().link_or_copy(source, target)

    def sync(self, paths: Iterable[str]) -> None:
        """See `Files.sync`."""
        self.step()

    def sync_directory(self, directory: str) -> None:
        """See `Files.sync_directory`."""
        self.step()


CHANGES = frozenset({"create", "put_new", "overwrite", "delete", "link_or_copy", "sync"})


class CrashingMemoryFiles(MemoryFiles):
    """An object store's files, for a process that is killed like that."""

    def __init__(self, clock: Clock, crash_at: int = -1) -> None:
        super().__init__(clock=clock)
        self.crash_at = crash_at
        self.steps = 0

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Files.delete_many`: in the worst order for a reader that goes upwards."""
        super().delete_many(reversed(list(paths)))

    def record(self, kind: str, path: str, size: int = 0) -> None:
        """See `MemoryFiles.record`."""
        if kind in CHANGES:
            if self.steps == self.crash_at:
                raise CrashError
            self.steps += 1
        super().record(kind, path, size)


class World:
    """A metadata log, and its twin: the image that its edits make in memory."""

    def __init__(self, files: Files, clock: ManualClock | None = None) -> None:
        self.files = files
        self.clock = clock or ManualClock(NOW_MS)
        self.log = MetadataLog.create(files, self.clock)
        self.made = 0
        description = TopicDescription(NAME, TOPIC_ID, 4, {}, 1)
        self.commit(
            Edit(operation="CREATE TOPICS", topics={TOPIC_ID: TopicEdit(description=description)})
        )

    def commit(self, edit: Edit | Callable[[Image], Edit]) -> int:
        """Commit an edit, a second later; return its version."""
        self.clock.advance(1000)

        def plan(image: Image) -> Edit:
            return edit(image) if callable(edit) else edit

        return self.log.commit(plan, [TOPIC_ID], housekeeping=False).image.version

    def produce(self, count: int = 1) -> int:
        """Commit so many segments of ten records, round robin; return the last version."""
        version = -1
        for _ in range(count):
            self.made += 1
            entry = segment(self.made % 4, self.made)
            version = self.commit(partial(appended, entry=entry))
        return version

    def remove_first(self, partition: int) -> int:
        """Remove a partition's first segment, and move the log start behind it."""

        def plan(image: Image) -> Edit:
            topic = image.topic(TOPIC_ID)
            assert topic is not None
            first = topic.partition(partition).entries()[0]
            edit = TopicEdit(
                remove=(first.key,),
                partitions={partition: PartitionState(log_start_offset=first.next_offset)},
            )
            return Edit(operation="DELETE RECORDS", topics={TOPIC_ID: edit})

        return self.commit(plan)

    def fresh(self) -> MetadataLog:
        """Return the log, opened anew."""
        return MetadataLog(self.files, self.clock)

    def copied(self, files: Files) -> "World":
        """Return this world over other files, which hold the same; its log is opened there."""
        world = copy(self)
        world.files, world.clock = files, ManualClock(self.clock.now_ms())
        world.log = world.fresh()
        world.log.image([TOPIC_ID])
        return world

    def age(self, ms: int = 3 * 3600 * 1000) -> None:
        """Let time pass, for the files as for the clock."""
        self.clock.advance(ms)
        if isinstance(self.files, LocalFiles):
            for path in Path(self.files.uri).rglob("*"):
                if path.is_file():
                    found = path.stat()
                    os.utime(path, (found.st_atime - ms / 1000, found.st_mtime - ms / 1000))


def segment(partition: int, number: int) -> SegmentEntry:
    """Return a segment of ten records that has no offsets yet."""
    uuid = f"018bcfe5-6800-7c3e-9f00-{number:012x}"
    return SegmentEntry(
        partition=partition,
        base_offset=0,
        next_offset=10,
        file_base_offset=0,
        log_path=f"t-{partition}/{0:020}.{uuid}.log",
        log_bytes=1000,
        index_path=f"t-{partition}/{0:020}.{uuid}.index",
        index_bytes=8,
        record_count=10,
        batch_count=1,
        min_timestamp=5,
        max_timestamp=NOW_MS,
        created_ms=NOW_MS,
    )


def appended(image: Image, entry: SegmentEntry) -> Edit:
    """Return the edit that appends a segment, with a receipt."""
    topic = image.topic(TOPIC_ID)
    assert topic is not None
    edit = TopicEdit(segments=at_log_end(topic, [entry]), leader_epochs={entry.partition: 0})
    edit = edit.with_receipt(ReceiptKey(f"key-{entry.log_path[-8:]}"), Receipt(()))
    return Edit(operation="PRODUCE", parameters={"topics": NAME}, topics={TOPIC_ID: edit})


def said(image: Image) -> dict[str, Any]:
    """Return all that an image says of its topics, to compare; they must be opened."""
    return {
        topic_id: (
            topic.description,
            {
                number: (
                    *(log.state, log.entries(), log.epochs, log.transactions),
                    *(dict(log.producers), log.idempotence.mark),
                )
                for number, log in topic.partitions.items()
            },
            {entry.key: entry for entry in topic.removed},
            dict(topic.receipts),
        )
        for topic_id, topic in image.topics.items()
    }


def read(log: MetadataLog) -> dict[str, Any]:
    """Return all that a log says now."""
    return said(log.image([TOPIC_ID]))


def names(files: Files, directory: str = "") -> list[str]:
    """Return the paths below `__cluster_metadata/<directory>`, relative to it."""
    top = f"{CLUSTER_METADATA}/{directory}" if directory else CLUSTER_METADATA
    return [stat.path.removeprefix(f"{top}/") for stat in files.list(top, recursive=True)]


def wait(log: MetadataLog) -> None:
    """Wait for the fold in the background."""
    house = housekeeping._houses.get(log)
    thread = None if house is None else house.thread
    if thread is not None:
        thread.join(30)


def lose_topic(catalog: Catalog, name: str) -> None:
    """Let a catalog find the rows of a topic damaged in every run; the topic is not opened yet."""
    runs, topic_id = catalog.log.runs, catalog.topic(name).topic_id
    opened = runs.opened

    def damaged(fold: FoldEdit, topics: Mapping[str, TopicImage]) -> dict[str, TopicImage]:
        if topic_id in topics:
            raise CorruptMetadataError("_runs/x is damaged")
        return opened(fold, topics)

    runs.opened = damaged  # type: ignore[method-assign] # wrong on purpose


def keep_house_now(log: MetadataLog) -> None:
    """Fold and clean in this thread if a fold is due: housekeeping without a thread of its own."""
    if is_due(log.last_image, log.bytes_behind):
        fold(log)
        clean(log)
