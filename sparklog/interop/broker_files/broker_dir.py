"""A broker's log directory: its partitions, and the files of each.

    <log dir>/meta.properties  …-checkpoint          <topic>-<partition>/<20 digits>.log  .index  …

The directory is not trusted: only names that Kafka gives are accepted, and only plain files and
directories. Directories with `-delete`, `-future` or `-stray`, and files that a broker is deleting
or cleaning, are left out.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sparklog.errors import CorruptionError, LogDirError
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.broker_files.file_records import FILE_BYTES_MAX
from sparklog.log.names import OFFSET_MAX, PARTITIONS_MAX, segment_name, topic_name_problem
from sparklog.model import TopicPartition
from sparklog.storage.failures import os_errors
from sparklog.storage.local import LocalFiles

LOCK_FILE: Final = ".lock"

_PARTITION: Final = re.compile(r"(.+)-([0-9]{1,10})", re.ASCII)
_LEFT_OUT: Final = re.compile(r".+(\.[0-9a-f]{32}-(delete|future|stray)|-(delete|future|stray))")
_SEGMENT_FILE: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex)", re.ASCII)
_SNAPSHOT: Final = re.compile(r"[0-9]{20}\.snapshot", re.ASCII)
_OF_A_SEGMENT: Final = re.compile(r"[0-9]{20}\..*", re.ASCII)
_UNFINISHED: Final = re.compile(r"[0-9]{20}\..*\.swap", re.ASCII)


@dataclass(slots=True)
class SegmentFiles:
    """The files of one segment: their sizes by suffix. `.log` is always among them."""

    base_offset: int
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def log_bytes(self) -> int:
        """The size of its `.log`."""
        return self.sizes[".log"]

    def name(self, suffix: str) -> str:
        """Return the name of its file with a suffix."""
        return segment_name(self.base_offset, None, suffix)


class PartitionDir:
    """The directory of one partition.

    A `problem` tells why it cannot be a partition's directory; then reading any file raises it.
    """

    def __init__(
        self, path: str, topic_partition: TopicPartition, problem: str | None = None
    ) -> None:
        self.path = path
        self.topic_partition = topic_partition
        self.problem = None if problem is None else CorruptionError(f"{path}: {problem}")
        self.files = LocalFiles(path)

    def segments(self) -> list[SegmentFiles]:
        """Return the segments in the order of their offsets.

        Raises CorruptionError naming the file if it is not a plain file, is larger than 2 GiB, has
        an offset above 2^63-1, or shows that a cleaning was cut off (`.swap`).
        """
        self._check()
        found: dict[int, SegmentFiles] = {}
        for name, size in sorted(_plain_files(self.path, _OF_A_SEGMENT)):
            match = _SEGMENT_FILE.fullmatch(name)
            if match is None:
                if _UNFINISHED.fullmatch(name):
                    raise CorruptionError(
                        f"{self.path}/{name}: cleaning was cut off: start the broker and stop it "
                        f"again"
                    )
                continue
            base = int(match[1])
            if size > FILE_BYTES_MAX or base > OFFSET_MAX:
                raise CorruptionError(
                    f"{self.path}/{name}: {size} bytes; allowed are up to {FILE_BYTES_MAX}, and "
                    f"offsets up to 2^63-1"
                )
            if base not in found:
                found[base] = SegmentFiles(base)
            found[base].sizes[match[2]] = size
        # An index without its log is an orphan, which a broker deletes.
        return [files for files in found.values() if ".log" in files.sizes]

    def snapshots(self) -> list[int]:
        """Return the offsets of the producer snapshots, in order."""
        return sorted(int(name[:20]) for name, _ in _plain_files(self.path, _SNAPSHOT))

    def read(self, name: str) -> bytes:
        """Return a file's bytes, b"" if there is none. Raises CorruptionError for a large file."""
        self._check()
        return _small_file(self.path, name)

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem

    @property
    def topic_id(self) -> str | None:
        """The topic's id in the broker's cluster; None without a partition.metadata."""
        data = self.read(checkpoints.PARTITION_METADATA)
        where = f"{self.path}/{checkpoints.PARTITION_METADATA}"
        return checkpoints.read_topic_id(data, where) if data else None


class BrokerDir:
    """A broker's log directory. Raises LogDirError if there is no such directory."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        if not os.path.isdir(self.path):
            raise LogDirError(f"{path} is no directory")

    @contextmanager
    def stopped(self, *, is_written: bool = False) -> Iterator[None]:
        """Hold the lock of a running broker (`.lock`), so that no broker can start meanwhile.

        A directory without this file (a copy) is not locked, unless `is_written`. Raises
        LogDirError if a broker is running, and StorageError if the file cannot be opened: then a
        broker may be running.
        """
        flags = os.O_RDWR | os.O_CREAT if is_written else os.O_RDONLY | os.O_NONBLOCK
        with os_errors("open", LOCK_FILE, self.path):
            try:
                descriptor = os.open(os.path.join(self.path, LOCK_FILE), flags, 0o644)
            except FileNotFoundError:
                descriptor = None
        if descriptor is None:
            yield
            return
        try:
            try:
                # A shared lock keeps a broker from starting just as an exclusive one does.
                kind = fcntl.LOCK_EX if is_written else fcntl.LOCK_SH
                fcntl.lockf(descriptor, kind | fcntl.LOCK_NB)
            except OSError:
                raise LogDirError(f"{self.path} is in use: stop its broker first") from None
            yield
        finally:
            os.close(descriptor)

    def partitions(self) -> list[PartitionDir]:
        """Return the directories of partitions, by topic and number, also unusable ones.

        A symbolic link, or a name that no broker gives, is the `problem` of a partition.
        """
        found = []
        with os_errors("list", "", self.path), os.scandir(self.path) as entries:
            for entry in entries:
                match = _PARTITION.fullmatch(entry.name)
                if match is None or _LEFT_OUT.fullmatch(entry.name):
                    continue
                if not entry.is_file(follow_symlinks=False):
                    topic_partition = TopicPartition(match[1], int(match[2]))
                    found.append(
                        PartitionDir(entry.path, topic_partition, _problem(entry, topic_partition))
                    )
        return sorted(found, key=lambda one: (one.topic_partition, one.path))

    def offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return a checkpoint's offsets; {} if there is no such file. Raises CorruptionError."""
        return checkpoints.read_offsets(_small_file(self.path, name), f"{self.path}/{name}")


def _problem(entry: "os.DirEntry[str]", topic_partition: TopicPartition) -> str | None:
    """Return why a directory cannot be a partition's; None if it can."""
    if topic_name_problem(topic_partition.topic) is not None or str(topic_partition) != entry.name:
        return "no broker gives a directory this name"
    if topic_partition.partition >= PARTITIONS_MAX:
        return f"partition {topic_partition.partition}: allowed are 0 to {PARTITIONS_MAX - 1}"
    if not entry.is_dir(follow_symlinks=False):
        return "a symbolic link, or no directory"
    return None


def _plain_files(directory: str, wanted: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """Yield name and size of the plain files whose names match `wanted`; ignore other files.

    Raises CorruptionError for a segment's file that is not a plain file.
    """
    with os_errors("list", "", directory), os.scandir(directory) as entries:
        for entry in entries:
            if wanted.fullmatch(entry.name) is None:
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield entry.name, found.st_size
            elif _SEGMENT_FILE.fullmatch(entry.name):
                raise CorruptionError(f"{entry.path}: a symbolic link, or no plain file")


def _small_file(directory: str, name: str) -> bytes:
    path = os.path.join(directory, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CorruptionError(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CorruptionError(f"{path}: no plain file")
        data = file.read(checkpoints.CHECKPOINT_BYTES_MAX + 1)
    if len(data) > checkpoints.CHECKPOINT_BYTES_MAX:
        raise CorruptionError(f"{path}: more than {checkpoints.CHECKPOINT_BYTES_MAX} bytes")
    return data
