"""The rows of a file of the table, read in parts of bounded size.

A row group that sparklog has written has about ROW_GROUP_BYTES of records, however small its file
is: repeated values are stored once. So the size of a part follows from the number of rows in its
row group, and not from the bytes in the file. A part never spans two row groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from sparklog.table.footer import OpenFile, damage_named
from sparklog.table.parquet import ROW_GROUP_BYTES

BATCH_BYTES: Final = 4 * 1024 * 1024
"""About how much of a file is in memory while it is read."""


def read_rows(
    file: OpenFile, columns: Sequence[str], row_groups: Iterable[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open file, or of some of its row groups, in the order of the file.

    A part has about BATCH_BYTES at most. Of another engine's file it has the same share of a row
    group, whose size that engine has chosen. Raises CorruptMetadataError for damage in the file.
    """
    with damage_named(file.path):
        for group in range(file.num_row_groups) if row_groups is None else row_groups:
            rows = file.metadata.row_group(group).num_rows
            size = max(1, rows * BATCH_BYTES // ROW_GROUP_BYTES)
            yield from file.iter_batches(batch_size=size, row_groups=[group], columns=columns)
