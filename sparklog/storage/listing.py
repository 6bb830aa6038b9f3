"""Lists the files of a local directory in the order of their paths, a directory at a time."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sparklog.storage.failures import os_errors
from sparklog.storage.files import FileStat

LOST_AND_FOUND: Final = "lost+found"
"""A directory that mkfs makes at the top of a file system; only root may read it."""


def file_stat(path: str, found: os.stat_result) -> FileStat:
    """Return the answer about a file; `path` is the one in the log dir."""
    return FileStat(path, found.st_size, found.st_mtime_ns // 1_000_000)


def walk(log_dir: str, directory: str, *, recursive: bool) -> Iterator[FileStat]:
    """Yield the files of a directory of the log dir.

    A directory below it is read when its turn comes. Files that are deleted meanwhile are left out.
    Raises a StorageError that names a directory that cannot be read.
    """
    for found in sorted(_entries(log_dir, directory)):
        if not found.path.endswith("/"):
            yield found
        elif recursive:
            yield from walk(log_dir, found.path.rstrip("/"), recursive=True)


def _entries(log_dir: str, directory: str) -> Iterator[FileStat]:
    """Yield the entries of a directory; the path of a directory ends with "/"."""
    prefix = f"{directory}/" if directory else ""
    with os_errors("list", directory, log_dir):
        try:
            entries = os.scandir(os.path.join(log_dir, directory))
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                if entry.name == LOST_AND_FOUND:
                    continue
                with suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        yield FileStat(f"{prefix}{entry.name}/", 0, 0)
                    elif entry.is_file():
                        yield file_stat(prefix + entry.name, entry.stat())
