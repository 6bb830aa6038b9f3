"""Lists the files of a local directory in the order of their paths, a directory at a time."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sparklog.storage.files import FileStat

LOST_AND_FOUND: Final = "lost+found"
"""A directory that mkfs makes at the top of a file system; only root may read it."""


def file_stat(path: str, found: os.stat_result) -> FileStat:
    """Return the answer about a file; `path` is the one in the log dir."""
    return FileStat(path, found.st_size, found.st_mtime_ns // 1_000_000)


def walk(directory: str, prefix: str, *, recursive: bool) -> Iterator[FileStat]:
    """Yield the files of a directory, each with `prefix` before its name.

    A directory below it is read when its turn comes. Files that are deleted meanwhile are left out.
    Raises OSError for a directory that cannot be read.
    """
    try:
        entries = os.scandir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        found = [(_in_path(entry), entry) for entry in entries if entry.name != LOST_AND_FOUND]
    found.sort(reverse=True)
    while found:
        name, entry = found.pop()
        if not name.endswith("/"):
            with suppress(FileNotFoundError):
                if entry.is_file():
                    yield file_stat(prefix + name, entry.stat())
        elif recursive:
            yield from walk(entry.path, prefix + name, recursive=True)


def _in_path(entry: "os.DirEntry[str]") -> str:
    """Return the part of a path that an entry is; links to directories are not followed."""
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
