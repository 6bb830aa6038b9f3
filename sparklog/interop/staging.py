"""Makes an export visible as a whole: all files are first written aside, then moved into place.

    <log dir>/sparklog_export_unfinished/<topic>-<partition>/<file>     the new files
    <log dir>/sparklog_export_unfinished.txt    partitions whose files are being moved, a line each

As long as the directory exists, no broker starts: LogManager refuses a directory that is not named
after a partition. If an export fails before it moves the first file, nothing has changed. If it is
cut off later, the next export of the same topics finishes it, by replacing all files in their
directories. Without the directory, the `.txt` file has no meaning.
"""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from sparklog.errors import LogDirError, UsageError
from sparklog.interop.checkpoints import PARTITION_METADATA
from sparklog.model import TopicPartition
from sparklog.storage.failures import os_errors
from sparklog.storage.local import LocalFiles

NAME: Final = "sparklog_export_unfinished"
LIST: Final = f"{NAME}.txt"


class Staging:
    """The directory of an export's new files. Without `flush` no directory is synced."""

    def __init__(self, log_dir: str, *, flush: bool) -> None:
        self._log_dir = log_dir
        self._path = os.path.join(log_dir, NAME)
        self._list = os.path.join(log_dir, LIST)
        self._flush = flush

    @property
    def moving(self) -> frozenset[str]:
        """The partitions into which an interrupted export has begun to move files."""
        if not os.path.isdir(self._path):
            return frozenset()
        with suppress(FileNotFoundError), open(self._list, encoding="utf-8") as file:
            return frozenset(file.read().split())
        return frozenset()

    def begin(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Create the directory, and remove files of an interrupted export from it.

        Raises UsageError if the interrupted export was moving files of other topics, too. The
        caller has checked that there are no other partitions of the same topics.
        """
        moving = self.moving
        topics = {topic_partition.topic for topic_partition in topic_partitions}
        others = [name for name in moving if name.rpartition("-")[0] not in topics]
        if others:
            raise UsageError(
                f"{self._log_dir}: an export was cut off while it moved files of {min(others)}: "
                f"export that topic, too"
            )
        with os_errors("make", NAME, self._log_dir):
            if not moving:
                with suppress(FileNotFoundError):
                    os.unlink(self._list)
            os.makedirs(self._path, exist_ok=True)
            self._empty()
            self._sync(self._log_dir)

    def folder(self, topic_partition: TopicPartition) -> LocalFiles:
        """Return the directory of a partition's new files."""
        return LocalFiles(os.path.join(self._path, str(topic_partition)))

    def move(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Replace the files of all partitions by the new files. Raises LogDirError for a link."""
        targets = [
            os.path.join(self._log_dir, str(topic_partition))
            for topic_partition in topic_partitions
        ]
        for target in filter(os.path.islink, targets):
            raise LogDirError(f"{target}: a symbolic link: no file is moved there")
        with os_errors("move files out of", NAME, self._log_dir):
            replace_file(
                self._list,
                "".join(f"{topic_partition}\n" for topic_partition in topic_partitions).encode(),
            )
            self._sync(self._log_dir)
            for topic_partition, target in zip(topic_partitions, targets, strict=True):
                self._move(self.folder(topic_partition).uri, target)
            self._sync(self._log_dir)

    def _move(self, source: str, target: str) -> None:
        if not os.path.exists(target):
            os.rename(source, target)
        else:
            for name in os.listdir(target):
                if name != PARTITION_METADATA:
                    os.unlink(os.path.join(target, name))
            for name in os.listdir(source):
                os.rename(os.path.join(source, name), os.path.join(target, name))
        self._sync(target)

    def end(self) -> None:
        """Remove the directory: the export is complete."""
        with os_errors("remove", NAME, self._log_dir):
            self._empty()
            os.rmdir(self._path)
            self._sync(self._log_dir)
            with suppress(FileNotFoundError):
                os.unlink(self._list)

    def give_up(self) -> None:
        """Remove the new files, unless some of them have been moved."""
        if not self.moving:
            self.end()

    def _empty(self) -> None:
        for name in os.listdir(self._path):
            shutil.rmtree(os.path.join(self._path, name))

    def _sync(self, directory: str) -> None:
        if self._flush:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def replace_file(path: str, data: bytes) -> None:
    """Replace a file atomically: write a new file, sync and rename it (CheckpointFile.write)."""
    aside = f"{path}.tmp"
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def check_finished(log_dir: str) -> None:
    """Raise LogDirError if an export was cut off: old and new files may be mixed."""
    if os.path.isdir(os.path.join(log_dir, NAME)):
        raise LogDirError(f"{log_dir}: an export into it was cut off ({NAME}): export again")
