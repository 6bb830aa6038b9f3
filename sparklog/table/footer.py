"""A file of the table: the offsets of each partition in it, from its Parquet footer, and its times.

    sparklog.ranges   {"0": [first, last], "7": …}

A file that another engine has rewritten lacks this entry. Then the columns `partition` and `offset`
are read instead.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklog.errors import CorruptMetadataError
from sparklog.storage.file_object import FileObject
from sparklog.storage.files import Files

RANGES: Final = "sparklog.ranges"
_BUFFER_BYTES: Final = 1024 * 1024

_MICROSECONDS: Final = pa.timestamp("us", "UTC")

Ranges = Mapping[int, tuple[int, int]]
"""First and last offset by partition."""


def encoded(ranges: Ranges) -> dict[str, str]:
    """Return the footer's entry."""
    found = {str(partition): list(span) for partition, span in sorted(ranges.items())}
    return {RANGES: json.dumps(found, separators=(",", ":"))}


class OpenFile(pq.ParquetFile):  # type: ignore[misc] # pyarrow has no types
    """An open file of a table; `path` is relative to the log dir."""

    path = ""


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Raise CorruptMetadataError, which names the file, where Parquet's reader finds damage."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        problem = " ".join(str(error).split())
        raise CorruptMetadataError(f"{path}: no sound Parquet file: {problem}") from None


def ranges_of(file: OpenFile) -> Ranges:
    """Return the ranges of an open file. Raises CorruptMetadataError for damage in it."""
    told = (file.metadata.metadata or {}).get(RANGES.encode())
    if told is not None:
        return {int(name): (one[0], one[1]) for name, one in json.loads(told).items()}
    found: dict[int, tuple[int, int]] = {}
    with damage_named(file.path):
        for batch in file.iter_batches(columns=["partition", "offset"]):
            for partition, span in spans(batch).items():
                found[partition] = joined(found.get(partition), span)
    return found


def read_newest_ms(file: OpenFile) -> int:
    """Return the time of the newest row, in ms, from the column `timestamp`; -1 if none has one.

    Raises CorruptMetadataError for damage in the file.
    """
    with damage_named(file.path):
        times = [
            pc.max(batch.column("timestamp").cast(_MICROSECONDS).cast(pa.int64())).as_py()
            for batch in file.iter_batches(columns=["timestamp"])
            if batch.num_rows
        ]
    return max(times, default=-1000) // 1000


def spans(batch: pa.RecordBatch) -> dict[int, tuple[int, int]]:
    """Return first and last offset of each partition in a batch; rows may have any order."""
    partitions = pc.min_max(batch.column("partition")).as_py()
    if batch.num_rows and partitions["min"] == partitions["max"]:  # usual: files are sorted
        offsets = pc.min_max(batch.column("offset")).as_py()
        return {partitions["min"]: (offsets["min"], offsets["max"])}
    table = pa.Table.from_batches([batch.select(["partition", "offset"])])
    grouped = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
    columns = (grouped[name].to_pylist() for name in ("partition", "offset_min", "offset_max"))
    return {partition: (first, last) for partition, first, last in zip(*columns, strict=True)}


def joined(known: tuple[int, int] | None, span: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest range that holds both."""
    return span if known is None else (min(known[0], span[0]), max(known[1], span[1]))


def opened(files: Files, path: str) -> OpenFile:
    """Open a file of the table to read it batch by batch; pages are read when they are needed.

    Raises MissingFileError, and CorruptMetadataError for a file that is not Parquet. In an object
    store a missing file raises CorruptMetadataError, too.
    """
    found = files.stat(path)
    size = 0 if found is None else found.bytes
    source = pa.PythonFile(FileObject(files.keep(path), size), mode="r")
    with damage_named(path):
        file = OpenFile(
            source,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",  # Spark's times in us: not all fit into ns
        )
    file.path = path
    return file
