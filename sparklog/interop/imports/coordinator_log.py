"""A partition of a coordinator's topic in a broker's directory, batch by batch."""

from collections.abc import Callable, Iterator

from sparklog.errors import CorruptRecordError
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.file_records import Bytes
from sparklog.interop.examine import source_of, walked
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import verify_checksums

Take = Callable[[Bytes, BatchTable], None]
"""Takes the bytes of a window, and a table of one of its batches."""


def each_batch(partition: PartitionDir, take: Take) -> None:
    """Call `take` with every batch, in the order of the log.

    Raises CorruptRecordError naming file and position; one that `take` raises gets them, too.
    """
    for view, batch, path, position in batches_of(partition):
        try:
            take(view, batch)
        except CorruptRecordError as error:
            raise error.in_file(path, position) from None


def batches_of(partition: PartitionDir) -> Iterator[tuple[Bytes, BatchTable, str, int]]:
    """Yield (bytes of a window, a table of one of its batches, the file, the window's position).

    The batches are in the order of the log; their checksums are verified. Raises CorruptRecordError
    naming file and position.
    """
    segments = partition.segments()
    for files in segments:
        source = source_of(partition, files, is_newest=files is segments[-1])
        for view, position, batches in walked(source):
            try:
                verify_checksums(view, batches)
            except CorruptRecordError as error:
                raise error.in_file(source.path, position) from None
            for slot in range(len(batches)):
                yield view, batches.slice(slot, slot + 1), source.path, position
