"""The mark: the version below which entries may be gone. It only grows.

    __cluster_metadata/_marks/<first kept version>-<fold>       both with 20 digits

The name is the whole content: entry `fold` is a fold that covers every entry before `first kept`.
If there are several marks, the largest counts. So a cleaner that wakes up a day later, and writes
its old mark, changes nothing. A cleaner writes the mark before it deletes the first entry. So a
reader that finds an empty slot reads the marks next: a slot below the largest mark held an entry
that was cleaned.
"""

import re
from contextlib import suppress
from typing import Final, NamedTuple

from sparklog.errors import MissingFileError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.names import MARKS, last_part
from sparklog.storage.files import Files

_DIRECTORY: Final = f"{CLUSTER_METADATA}/{MARKS}"
_NAME = re.compile(r"([0-9]{20})-([0-9]{20})")


class Mark(NamedTuple):
    """Entries below `first_kept` may be gone; the entry `fold` is a fold that covers them."""

    first_kept: int
    fold: int


NO_MARK: Final = Mark(0, -1)


def is_mark(path: str) -> bool:
    """Whether a path ends with the name of a mark."""
    return _NAME.fullmatch(last_part(path)) is not None


def marks(files: Files) -> list[tuple[Mark, str]]:
    """Return the marks of a log dir with their paths, smallest first."""
    found = []
    for stat in files.list(_DIRECTORY):
        match = _NAME.fullmatch(last_part(stat.path))
        if match is not None:
            found.append((Mark(int(match[1]), int(match[2])), stat.path))
    return sorted(found)


def newest_mark(files: Files) -> Mark:
    """Return the largest mark; NO_MARK if no entry was ever cleaned."""
    found = marks(files)
    return found[-1][0] if found else NO_MARK


def write_mark(files: Files, mark: Mark) -> None:
    """Write a mark, durably; smaller marks stay."""
    path = f"{_DIRECTORY}/{mark.first_kept:020}-{mark.fold:020}"
    files.put_new(path, b"\n")
    with suppress(MissingFileError):  # a cleaner with a larger mark has deleted it
        files.sync([path])
