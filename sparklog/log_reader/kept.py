"""Segments that lookups come back to, kept open: what the last ones opened is not opened anew.

    indexes          mapped, and read where a search goes
    parts of logs    as long as a lookup reads at once, copied: a map would keep the room of a whole
                     file on the disk after vacuum has deleted it

Files never change, and a segment whose row changes is another one here, so nothing that is kept is
ever out of date. What was replaced is not asked for again, and leaves when others come.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Final

from sparklog.log.windows import LOOKUP_BYTES, SegmentLog
from sparklog.log_reader.opened import log_path, opened
from sparklog.model import SegmentEntry
from sparklog.record.batches import Buffer
from sparklog.storage.files import Files

SEGMENTS: Final = 128
"""Each has two maps at most."""
PARTS: Final = 128
"""At most 8 MiB."""


class KeptSegments:
    """The segments looked into last, of all topics; for several threads at once.

    Failures are not kept: an index that could not be opened is tried again by the next lookup.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._part = lru_cache(PARTS)(files.read)
        self._segment = lru_cache(SEGMENTS)(self._opened)

    def opened(self, directory: str, entry: SegmentEntry) -> SegmentLog:
        """Return a segment of the topic in `directory`, as `opened.opened`."""
        return self._segment(directory, entry)

    def _opened(self, directory: str, entry: SegmentEntry) -> SegmentLog:
        read = partial(self._read, log_path(directory, entry))
        return replace(opened(self._files, directory, entry), read=read)

    def _read(self, path: str, position: int, length: int) -> Buffer:
        if length > LOOKUP_BYTES:
            return self._files.view(path, length, position)
        return self._part(path, position, length)
