"""Reads slices of shared segments: those that lie side by side are read at once.

    shared segment    │ slice │ slice │ slice │ other │
                      └────── one read ───────┘

A read has four system calls, and a thread gives up Python's lock at each of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from sparklog.model import SegmentEntry
from sparklog.storage.files import Files

SPAN_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of a shared segment that are read at once."""


class Spans:
    """Of each shared segment, the bytes from the first of the wanted slices to the last.

    They are read with the first slice, and kept. If most of them belong to other slices, each
    slice is read by itself. So at most twice the bytes of the slices are kept.
    """

    def __init__(self, files: Files, groups: Iterable[Sequence[SegmentEntry]]) -> None:
        """`groups` have the wanted slices; other segments in them are passed over."""
        self._files = files
        self._read: dict[str, memoryview] = {}
        self._bounds: dict[str, tuple[int, int]] = {}
        self._wanted: dict[str, int] = defaultdict(int)
        for group in groups:
            for one in group:
                if one.is_shared:
                    start, end = one.log_position, one.log_position + one.log_bytes
                    low, high = self._bounds.get(one.log_path, (start, end))
                    self._bounds[one.log_path] = min(low, start), max(high, end)
                    self._wanted[one.log_path] += one.log_bytes

    def bytes_of(self, entry: SegmentEntry) -> memoryview:
        """Return a slice's bytes, fewer if the file is too short. Raises MissingFileError."""
        path, position = entry.log_path, entry.log_position
        low, high = self._bounds[path]
        if high - low > min(SPAN_BYTES_MAX, 2 * self._wanted[path]):
            return self._files.read(path, position, entry.log_bytes)
        if path not in self._read:
            self._read[path] = self._files.read(path, low, high - low)
        return self._read[path][position - low : position - low + entry.log_bytes]
