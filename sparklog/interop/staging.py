"""An export that is seen as a whole: everything is written aside, then moved into its place.

    <log dir>/sparklog_export_unfinished/<topic>-<partition>/<file>     what is to come
    <log dir>/sparklog_export_unfinished.txt    partitions whose files are being moved, a line each

While the directory is there no broker starts: LogManager refuses one that is not named after a
partition. An export that fails before the first file is moved has changed nothing. One that is cut
off later is finished by the next export of the same topics, which replaces whatever lies in their
directories. Without the directory the file means nothing.
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
    """The place where files of an export wait. Without `flush` no directory is synced."""

    def __init__(self, log_dir: str, *, flush: bool) -> None:
        self._log_dir = log_dir
        self._path = os.path.join(log_dir, NAME)
        self._list = os.path.join(log_dir, LIST)
        self._flush = flush

    @property
    def moving(self) -> frozenset[str]:
        """The partitions into which an export that was cut off has moved files."""
        if not os.path.isdir(self._path):
            return frozenset()
        with suppress(FileNotFoundError), open(self._list, encoding="utf-8") as file:
            return frozenset(file.read().split())
        return frozenset()

    def begin(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Make the directory, without what an export that was cut off has left in it.

        Raises UsageError when that was moving files of other partitions, too.
        """
        moving = self.moving
        others = moving - {str(topic_partition) for topic_partition in topic_partitions}
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
        """The directory where the files of a partition wait."""
        return LocalFiles(os.path.join(self._path, str(topic_partition)))

    def move(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Put the files of all partitions in the place of those that are there."""
        targets = [
            os.path.join(self._log_dir, str(topic_partition))
            for topic_partition in topic_partitions
        ]
        for target in filter(os.path.islink, targets):
            raise LogDirError(f"{target}: a symbolic link: nothing is put behind it")
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
        """Take the directory away: the export is complete."""
        with os_errors("remove", NAME, self._log_dir):
            self._empty()
            os.rmdir(self._path)
            self._sync(self._log_dir)
            with suppress(FileNotFoundError):
                os.unlink(self._list)

    def give_up(self) -> None:
        """Take away what was written, unless files of some partition have been moved."""
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
    """Write a file aside, durably, and put it in its place (CheckpointFile.write)."""
    aside = f"{path}.tmp"
    with open(aside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def check_finished(log_dir: str) -> None:
    """Raise LogDirError if an export was cut off, so that old and new files are mixed."""
    if os.path.isdir(os.path.join(log_dir, NAME)):
        raise LogDirError(f"{log_dir}: an export into it was cut off ({NAME}): export again")
