"""Segments kept open from one lookup to the next.

    indexes     memory maps: a search touches few pages of them
    logs        open files. If they were mapped, every page that a lookup has ever touched would
                count as memory of the process
    parts       of logs in an object store, as they were fetched

Nothing that is kept is ever out of date: the bytes of a segment never change, and a segment whose
row changes is another one here. But a file that vacuum has deleted keeps its space on disk while it
is open. So a process that keeps segments for long calls `let_go` from time to time.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Final

from sparklog.log.windows import LOOKUP_BYTES, SegmentLog
from sparklog.log_reader.opened import log_path, opened, sliced
from sparklog.model import SegmentEntry
from sparklog.record.batches import Buffer
from sparklog.storage.files import Files, Reader

SEGMENTS: Final = 128
"""How many segments are kept. Each has at most two maps and three descriptors, because each of
Python's maps keeps a descriptor."""
PARTS: Final = 128
"""How many parts of remote logs are kept, each of LOOKUP_BYTES at most: 8 MiB in all."""


class KeptSegments:
    """The segments of the last lookups, of all topics; for several threads at once.

    Failures are not kept: a file that could not be opened is tried again by the next lookup.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._segment = lru_cache(SEGMENTS)(self._opened)
        self._part = lru_cache(PARTS)(_fetched)

    def opened(self, directory: str, entry: SegmentEntry) -> SegmentLog:
        """Return a segment of the topic in `directory`, as `opened.opened`.

        Raises MissingFileError if its log is gone.
        """
        return self._segment(directory, entry)

    def let_go(self) -> None:
        """Close all files and maps; lookups that are under way go on with theirs."""
        self._segment.cache_clear()
        self._part.cache_clear()

    def _opened(self, directory: str, entry: SegmentEntry) -> SegmentLog:
        path = log_path(directory, entry)
        log = self._files.keep(path)
        near = log if self._files.is_local else partial(self._part, log)

        def read(position: int, length: int) -> Buffer:
            if length > LOOKUP_BYTES:
                return self._files.view(path, length, position)
            return near(position, length)

        return replace(opened(self._files, directory, entry), read=sliced(read, entry))


def _fetched(log: Reader, position: int, length: int) -> Buffer:
    return log(position, length)
