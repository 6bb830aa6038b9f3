"""A log dir in memory whose segments have files, and copies of it, for tests of vacuum."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from sparklog.clock import Clock
from sparklog.log.names import (
    CLUSTER_METADATA,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SHARED,
    born_ms,
    partition_dir,
    segment_name,
)
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.codec.entry import Entry, parse, parse_edits
from sparklog.metadata.follow import fold_of
from sparklog.metadata.marks import Mark
from sparklog.metadata.names import (
    CUTS,
    EDITS,
    EDITS_NAME,
    ENTRIES,
    ENTRY_NAME,
    HISTORY,
    RUN_NAME,
    RUNS,
    entry_path,
    last_part,
)
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


class Killed(BaseException):
    """A process was killed."""


def _die() -> None:
    raise Killed


class PausedFiles(MemoryFiles):
    """Files of a process that sleeps before one of its operations, while others go on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._meanwhile: Callable[[], object] | None = None
        self._left = 0

    def pause(self, after: int, meanwhile: Callable[[], object] | None) -> None:
        """Call `meanwhile` before the operation that comes after `after` others; None: do not."""
        self._left, self._meanwhile = after, meanwhile

    def kill(self, after: int, work: Callable[[], object]) -> None:
        """Let a process die before the operation that comes after `after` others of its work."""
        self.pause(after, _die)
        with suppress(Killed):
            work()
        self.pause(0, None)

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


def directories_of(said: State) -> dict[str, TopicDescription]:
    """The topics that the twin knows, by directory."""
    told = (topic["description"] for topic in said["topics"].values())
    return {topic_directory(one): one for one in told}


def put_files(files: Files, topic: TopicDescription, entries: Collection[SegmentEntry]) -> None:
    """Put the files of segments, as a writer does before its commit."""
    for entry in entries:
        for path in paths_of(entry):
            files.put_new(path_of(topic, path), b"bytes")


def entry_of(files: MemoryFiles, version: int) -> Entry:
    """An entry with its edits, read without an operation on the files."""
    path = entry_path(version)
    found = parse(version, files._stored[path].data, path)
    if found.entry.edits_file is not None:
        where = f"{CLUSTER_METADATA}/{found.entry.edits_file.path}"
        found = parse_edits(files._stored[where].data, found.entry, where)
    return found.decoded()


def uncleaned(files: MemoryFiles, mark: Mark) -> list[str]:
    """The files that a cleaner had to delete, and that are still there."""
    fold = fold_of(entry_of(files, mark.fold))
    assert fold is not None
    named = {run.path for run in (*fold.runs, *fold.history)}
    return [
        path
        for path, number in _of_metadata(files)
        if number < mark.first_kept and path.partition("/")[2] not in named
    ]


def leftovers_of(files: MemoryFiles, image: Image, before_ms: int) -> list[str]:
    """Files behind an image that nothing names, made before a time: killed processes left them."""
    named = {run.path for run in (*image.fold.runs, *image.fold.history)}
    ends = {EDITS: image.version, **dict.fromkeys((RUNS, HISTORY, CUTS), image.fold.cover)}
    return [
        path
        for path, number in _of_metadata(files)
        if number > ends.get(path.split("/")[1], number)
        and path.partition("/")[2] not in named
        and _is_old(path.partition("/")[2], before_ms)
    ]


def _of_metadata(files: MemoryFiles) -> Iterator[tuple[str, int]]:
    """The entries, edits, runs and cuts of a log dir, each with its version, the last of a run."""
    for path in files._stored:
        for pattern in (ENTRY_NAME, EDITS_NAME, RUN_NAME):
            match = pattern.fullmatch(last_part(path))
            if match is not None and path.startswith(f"{CLUSTER_METADATA}/"):
                yield path, int(match[2] if pattern is RUN_NAME else match[1])


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
        """True once all parts are copied."""
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


def garbage_of(
    files: MemoryFiles,
    image: Image,
    landed: Sequence[Landed],
    said: Mapping[int, State],
    now_ms: int,
    pinned: Iterable[int],
) -> list[str]:
    """The files and topics that vacuum had to take: nothing needs them.

    Files that no version of the last day names, nor one since a pinned one, if they are a day old;
    all files of erased topics; the directories of topics that were deleted so long ago; leftovers.
    """
    old_ms = now_ms - DAY_MS - 1000
    times = {one.version: one.ms for one in landed}
    needed_ms = min([old_ms, *(times[version] - 1000 for version in pinned)])
    lately = [one.all for one, later in pairwise(landed) if later.ms > needed_ms]
    kept = landed[-1].all.union(*lately)
    known = directories_of(said[landed[-1].version])
    erased = set[str]().union(*map(directories_of, said.values())) - known.keys()
    places = {SHARED, *(where for where, one in known.items() if one.deleted_ms is None)}
    strangers = files._stored.keys() - kept
    return [
        *(where for where, one in known.items() if (one.deleted_ms or needed_ms) < needed_ms),
        *(path for path in files._stored if _directory(path) in erased),
        *(path for path in strangers if _directory(path) in places and _is_old(path, old_ms)),
        *leftovers_of(files, image, old_ms),
    ]


def _directory(path: str) -> str:
    return path.partition("/")[0]


def _is_old(path: str, before_ms: int) -> bool:
    """Return True if the name of a file tells a time before `before_ms`."""
    return (born_ms(path) or 0) < before_ms
