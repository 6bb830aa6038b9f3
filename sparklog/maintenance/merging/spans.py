"""Reads slices of shared segments: those that lie side by side are read at once.

    shared segment    │ slice │ slice │ other │ slice │ other │ other │ other │ slice │
                      └─────────── one read ──────────┘                       └ read ─┘

A read has four system calls, and a thread gives up Python's lock at each of them. Of an object
store the reads are requests, several of which are under way at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from sparklog.model import SegmentEntry
from sparklog.storage.files import Files
from sparklog.storage.objects.read_ahead import Range, RangesAhead

SPAN_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of a shared segment that are read at once."""


class Spans:
    """The bytes of the wanted slices, in few reads, each with the first of its slices.

    A read ends before a slice with which most of its bytes would be those of other slices. So at
    most twice the bytes of the wanted slices are kept.
    """

    def __init__(self, files: Files, groups: Iterable[Sequence[SegmentEntry]]) -> None:
        """`groups` have the wanted slices; other segments in them are passed over."""
        self._found: dict[Range, memoryview] = {}
        self._spans: dict[tuple[str, int], Range] = {}
        wanted: dict[str, dict[int, int]] = {}
        for group in groups:
            for one in group:
                if one.is_shared:
                    wanted.setdefault(one.log_path, {})[one.log_position] = one.log_bytes
        for path, sizes in wanted.items():
            for span, positions in _spans(path, sizes):
                self._spans.update(((path, position), span) for position in positions)
        self._read: Callable[[str, int, int], memoryview] = files.read
        if not files.is_local:
            self._read = RangesAhead(files, self._spans.values()).read

    def bytes_of(self, entry: SegmentEntry) -> memoryview:
        """Return a slice's bytes, fewer if the file is too short. Raises MissingFileError."""
        span = self._spans[entry.log_path, entry.log_position]
        if span not in self._found:
            self._found[span] = self._read(*span)
        first = entry.log_position - span.start
        return self._found[span][first : first + entry.log_bytes]


def _spans(path: str, sizes: Mapping[int, int]) -> Iterator[tuple[Range, list[int]]]:
    """Yield spans with the positions of their slices; `sizes` are the slices' sizes by position."""
    positions = sorted(sizes)
    start = end = positions[0]
    used, chosen = 0, list[int]()
    for position in positions:
        size = sizes[position]
        if chosen and position + size - start > min(SPAN_BYTES_MAX, 2 * (used + size)):
            yield Range(path, start, end - start), chosen
            start, used, chosen = position, 0, []
        chosen.append(position)
        end, used = position + size, used + size
    yield Range(path, start, end - start), chosen
