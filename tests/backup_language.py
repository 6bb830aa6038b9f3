"""A log dir in memory whose segments have files, and copies of it, for tests of vacuum."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from sparklog.clock import Clock
from sparklog.log.names import (
    CLUSTER_METADATA,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    partition_dir,
    segment_name,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.check import paths_of
from sparklog.metadata.state.edit import Edit, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import SHARED_PREFIX, SegmentEntry, TopicDescription
from sparklog.storage.files import Files, FileStat
from sparklog.storage.memory import MemoryFiles
from tests.metadata_language import PARTITIONS, Author, creating
from tests.naive.metadata import State
from tests.sweeping import DAY_MS

PARTS: Final = (f"{ENTRIES}/", f"{CLUSTER_METADATA}/", "")
"""The parts of a copy, in order: each has the files of its prefix that no earlier part has."""


class PausedFiles(MemoryFiles):
    """Files of a process that sleeps before one of its operations, while others go on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._meanwhile: Callable[[], object] | None = None
        self._left = 0

    def pause(self, after: int, meanwhile: Callable[[], object] | None) -> None:
        """Call `meanwhile` before the operation that comes after `after` others; None: do not."""
        self._left, self._meanwhile = after, meanwhile

    def record(self, kind: str, path: str, size: int = 0) -> None:
        """See `MemoryFiles.record`."""
        self._left -= 1
        if self._left < 0 and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        super().record(kind, path, size)

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        """See `MemoryFiles.list`; a page at a time, so others may delete what it has."""
        return iter([*super().list(directory, recursive)])


class FileAuthor(Author):
    """Makes up edits whose segments may have files; it leaves what vacuum does to vacuum."""

    def __init__(self, random: Random, now_ms: int, made: int) -> None:
        super().__init__(random)
        self.now_ms, self._made, self._topic = now_ms, made, ""

    def pending(self, topic: TopicDescription, shared: str) -> list[SegmentEntry]:
        """Segments of files that nobody names yet, one of them perhaps in a shared segment."""
        self._topic = topic.name
        choices: list[list[str | None]] = [[None], [shared], [None, shared]]
        paths = self._random.choice(choices)
        numbers = range(PARTITIONS)
        return [self._segment(self._random.choice(numbers), path, self._made) for path in paths]

    def shared_path(self) -> str:
        """The path of a new shared segment."""
        return f"{SHARED_PREFIX}{self._uuid()}{LOG_SUFFIX}"

    def _of_log_dir(self, image: Image) -> Edit:
        edit = super()._of_log_dir(image)
        return creating(self._made + 1) if edit.forget_shared else edit

    def _gone(self, topic: TopicImage) -> Edit:
        """Bring a topic back that was deleted less than a day ago: vacuum erases it later."""
        told = topic.description
        is_late = topic.is_erased or self.now_ms - (told.deleted_ms or 0) >= DAY_MS
        back = TopicEdit(description=replace(told, deleted_ms=None))
        undelete = Edit(operation="UNDELETE TOPIC", topics={told.topic_id: back})
        return creating(self._made + 1) if is_late else undelete

    def _of_topic(self, topic: TopicImage) -> TopicEdit:
        self._topic = topic.description.name
        return super()._of_topic(topic)

    def _told(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        return replace(super()._told(topic, number, live), forget=())

    def _indexed(self, topic: TopicImage, number: int, live: list[SegmentEntry]) -> TopicEdit:
        """Give a segment of its own file a new index."""
        own = [entry for entry in live if not entry.is_shared]
        if not own:
            return self._told(topic, number, live)
        path = self._path(number, INDEX_SUFFIX)
        chosen = self._random.choice(own)
        return TopicEdit(replace=[chosen._replace(index_path=path, index_bytes=8)])

    def _segment(self, partition: int, shared: str | None, position: int) -> SegmentEntry:
        made = super()._segment(partition, shared, position)
        return made if shared else made._replace(log_path=self._path(partition, LOG_SUFFIX))

    def _path(self, partition: int, suffix: str) -> str:
        return f"{partition_dir(self._topic, partition)}/{segment_name(0, self._uuid(), suffix)}"


def path_of(topic: TopicDescription, path: str) -> str:
    """The path in the log dir of a path in a row of a topic."""
    return path if path.startswith(SHARED_PREFIX) else f"{topic_directory(topic)}/{path}"


def put_files(files: Files, topic: TopicDescription, entries: Collection[SegmentEntry]) -> None:
    """Put the files of segments, as a writer does before its commit."""
    for entry in entries:
        for path in paths_of(entry):
            files.put_new(path_of(topic, path), b"bytes")


class Landed(NamedTuple):
    """The files that one version names. Of a deleted topic only `all` has them.

    `logs` are records, which every reader needs; `living` has indices, too.
    """

    version: int
    ms: int
    logs: frozenset[str]
    living: frozenset[str]
    all: frozenset[str]

    @classmethod
    def of(cls, version: int, ms: int, said: State) -> "Landed":
        """The files of a version, from what the twin says."""
        found = list(_files(said))
        living = [(path, is_log) for path, is_log, is_deleted in found if not is_deleted]
        return cls(
            version,
            ms,
            frozenset(path for path, is_log in living if is_log),
            frozenset(path for path, _ in living),
            frozenset(path for path, _, _ in found),
        )


def _files(said: State) -> Iterator[tuple[str, bool, bool]]:
    for topic in said["topics"].values():
        told: TopicDescription = topic["description"]
        for partition in topic["partitions"].values():
            for entry in partition["live"].values():
                for path in paths_of(entry):
                    is_log = path == entry.log_path
                    yield path_of(told, path), is_log, told.deleted_ms is not None


@dataclass(eq=False)
class Backup:
    """A backup: the version that it pins, and the copy that it has so far.

    `end` is the newest version of the copy, `log_id` its incarnation; `said` and `landed` are those
    of the twin then.
    """

    name: str
    version: int
    expires_ms: int
    files: PausedFiles
    parts: int = 0
    end: int = -1
    log_id: str = ""
    said: dict[int, State] = field(default_factory=dict)
    landed: list[Landed] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all parts are copied."""
        return self.parts == len(PARTS)

    def copy_a_part(self, files: Files) -> None:
        """Copy the next part, as it is now."""
        prefix, *earlier = PARTS[self.parts :: -1]
        for stat in [*files.list(recursive=True)]:
            if stat.path.startswith(prefix) and not stat.path.startswith(tuple(earlier)):
                self.files.put_new(stat.path, files.read(stat.path))
        self.parts += 1

    def put_into(self, files: Files) -> None:
        """Copy the copy into an empty log dir."""
        for stat in self.files.list(recursive=True):
            files.put_new(stat.path, self.files.read(stat.path))
