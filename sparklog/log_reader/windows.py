"""A segment's `.log`, window by window: whole batches, checked before they are decoded."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from sparklog.errors import CorruptRecordError
from sparklog.log_reader.indexes import is_cut
from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable
from sparklog.record.decode import DecodedRecords, decode
from sparklog.record.scan import scan_batches, verify_checksums
from sparklog.storage.files import Files

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""How much of a file is mapped (or fetched) at once: it bounds a reader's memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The whole batches of one stretch of a file; their positions are positions in `data`."""

    path: str
    position: int
    data: memoryview
    batches: BatchTable
    shift: int

    def decoded(
        self,
        batches: BatchTable,
        columns: Collection[str],
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> DecodedRecords:
        """Return the records of some of the batches within [start_offset, end_offset) of the log.

        Checksums are verified first. Raises CorruptRecordError naming file, position and offset.
        """
        try:
            verify_checksums(self.data, batches)
            return decode(
                self.data,
                batches,
                columns=columns,
                shift=self.shift,
                start_offset=start_offset,
                end_offset=end_offset,
            )
        except CorruptRecordError as error:
            raise error.in_file(self.path, self.position, self.shift) from None


def windows(
    files: Files, directory: str, entry: SegmentEntry, position: int, size: int = WINDOW_BYTES
) -> Iterator[Window]:
    """Yield the batches of a segment from `position` (where a batch begins) to its end.

    A segment that was committed has no torn tail: a file that is shorter than the manifest says, or
    bytes that are no batch, raise CorruptRecordError, after everything before them was yielded.
    Raises MissingFileError when the file is gone.
    """
    path = f"{directory}/{entry.log_path}"
    while position < entry.log_bytes:
        length = min(size, entry.log_bytes - position)
        data = files.view(path, length, position)
        if len(data) < length:
            raise CorruptRecordError(
                f"the file ends here, the manifest says at {entry.log_bytes}: it was cut",
                file=path,
                position=position + len(data),
            )
        found = scan_batches(data)
        if len(found.batches):
            yield Window(path, position, data, found.batches, entry.shift)
            position += found.end
        elif is_cut(found.problem) and position + length < entry.log_bytes:
            size *= 2  # a batch larger than the window
        else:
            raise CorruptRecordError(str(found.problem), file=path, position=position)
