"""Makes an export visible as a whole: all files are first written aside, then moved into place.

    <log dir>/sparklog_export_unfinished/<topic>-<partition>/<file>     the new files
    <log dir>/sparklog_export_unfinished.txt    partitions whose files are being moved, a line each:
        <topic>-<partition> <newest leader epoch> <producer snapshot in hex>

The words behind the partition are the facts about the target (`exports.export_target`): the files
that had them may be gone. Partitions of a new directory have none.

As long as the directory exists, no broker starts: LogManager refuses a directory that is not named
after a partition. If an export fails before it moves the first file, nothing has changed. If it is
cut off later, the next export of the same topics finishes it, by replacing all files in their
directories. A listed partition whose directory somebody has deleted needs no finishing: its topic
may be gone. Without the directory `sparklog_export_unfinished`, the `.txt` file has no meaning.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final

from sparklog.errors import LogDirError, UsageError
from sparklog.interop.broker_files.checkpoints import PARTITION_METADATA
from sparklog.model import TopicPartition
from sparklog.storage.failures import os_errors
from sparklog.storage.local import LocalFiles

NAME: Final = "sparklog_export_unfinished"
LIST: Final = f"{NAME}.txt"
_LINE: Final = re.compile(rb"([A-Za-z0-9._-]+-[0-9]{1,10})(?: +(-?[0-9]{1,10} [0-9a-f]+))?")


class Staging:
    """The directory of an export's new files. Without `flush` no directory is synced."""

    def __init__(self, log_dir: str, *, flush: bool) -> None:
        self._log_dir = log_dir
        self._path = os.path.join(log_dir, NAME)
        self._list = os.path.join(log_dir, LIST)
        self._flush = flush

    @property
    def moving(self) -> Mapping[str, str]:
        """The partitions into which an interrupted export has begun to move files.

        The values are the facts about them, from before that export. Raises LogDirError for a line
        that no export writes, as a second one for a partition; empty lines are none.
        """
        if not os.path.isdir(self._path):
            return {}
        with suppress(FileNotFoundError), open(self._list, "rb") as file:
            return _listed(self._list, file)
        return {}

    def begin(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Create the directory, and remove files of an interrupted export from it.

        Raises UsageError if the interrupted export was moving files of other partitions, too, and
        their directories are still there: old and new files may be mixed in them.
        """
        moving = self.moving
        others = moving.keys() - {str(topic_partition) for topic_partition in topic_partitions}
        mixed = sorted(one for one in others if os.path.lexists(self._target(one)))
        if mixed:
            raise UsageError(
                f"{self._log_dir}: an export was cut off while it moved files of "
                f"{', '.join(mixed)}: export these, too, or delete the directories there of those "
                f"that are gone here"
            )
        with os_errors("make", NAME, self._log_dir):
            if not moving:
                with suppress(FileNotFoundError):
                    os.unlink(self._list)
            os.makedirs(self._path, exist_ok=True)
            self._empty()
            self._sync(self._log_dir)

    def _target(self, topic_partition: object) -> str:
        return os.path.join(self._log_dir, str(topic_partition))

    def folder(self, topic_partition: TopicPartition) -> LocalFiles:
        """Return the directory of a partition's new files."""
        return LocalFiles(os.path.join(self._path, str(topic_partition)))

    def move(self, had: Mapping[TopicPartition, str]) -> None:
        """Replace the files of all partitions by the new files. Raises LogDirError for a link.

        `had` has the facts about each: the next export reads them if this one is cut off.
        """
        targets = [self._target(topic_partition) for topic_partition in had]
        for target in filter(os.path.islink, targets):
            raise LogDirError(f"{target}: a symbolic link: no file is moved there")
        with os_errors("move files out of", NAME, self._log_dir):
            lines = [f"{place} {line}".rstrip() for place, line in had.items()]
            replace_file(self._list, "".join(f"{line}\n" for line in lines).encode())
            self._sync(self._log_dir)
            for topic_partition, target in zip(had, targets, strict=True):
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


def _listed(path: str, lines: Iterable[bytes]) -> dict[str, str]:
    """Return the partitions of LIST with their facts. Raises LogDirError."""
    found: dict[str, str] = {}
    for number, line in enumerate(map(bytes.strip, lines), 1):
        if line:
            partition, facts = _parsed(path, number, line)
            if partition in found:
                raise LogDirError(
                    f"{path}, line {number}: a second line for {partition}; one is allowed"
                )
            found[partition] = facts
    return found


def _parsed(path: str, number: int, line: bytes) -> tuple[str, str]:
    """Return partition and facts of a line of LIST. Raises LogDirError."""
    match = _LINE.fullmatch(line)
    if match is None:
        shown = line[:100].decode(errors="backslashreplace")
        raise LogDirError(
            f"{path}, line {number}: {shown!r} is not allowed: a line is "
            f"<topic>-<partition>, alone or with <newest leader epoch> <producer snapshot in hex>"
        )
    return match[1].decode(), (match[2] or b"").decode()


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
        raise LogDirError(
            f"{log_dir}: an export into it was cut off ({NAME}): export the same topics again; "
            f"if one of them is gone, the export says which directories to delete"
        )
