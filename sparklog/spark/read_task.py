"""What one Spark task does of a read: the offsets of a range to Arrow batches, one task a range.

Everything a task needs travels with it and its partition: it runs anywhere, and perhaps hours after
it was planned, when files have been merged away, compacted or expired.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from sparklog.errors import MissingFileError
from sparklog.log.names import topic_dir
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Slice
from sparklog.record.decode import ALL, DecodedRecords
from sparklog.spark.plan import ReadRange, SliceFinder
from sparklog.spark.schema import ARROW_COLUMNS, ARROW_HEADERS, arrow_schema, output_columns
from sparklog.storage.files import Files

_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000
_MIN_TIMESTAMP_MS: Final = -_MAX_TIMESTAMP_MS

_DECODED: Final = {name: name for name in ALL} | {"timestampType": "timestamp_type"}
"""Columns that cost decoding, and what the decoder calls them."""


@dataclass
class RangePartition(InputPartition):
    """What one task reads. The slices are hints: files may be merged away before it runs."""

    wanted: ReadRange
    slices: list[Slice]

    def __init__(self, wanted: ReadRange, slices: list[Slice]) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.slices = slices


class ReadTask:
    """Reads partitions. Picklable."""

    def __init__(self, files: Files, options: Mapping[str, Any]) -> None:
        self._files = files
        self._columns = output_columns(options)
        self._fails = bool(options["failOnDataLoss"])
        self._isolation = str(options["isolation.level"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in the order of the log."""
        if not isinstance(partition, RangePartition):
            return  # Spark reads a source without partitions as one partition of nothing
        to_batch = BatchMaker(partition.wanted, self._columns)
        # Offsets say where to go on when a file is gone.
        decoded = {"offset", *(_DECODED[name] for name in self._columns if name in _DECODED)}
        wanted, slices = partition.wanted, partition.slices
        directory = topic_dir(wanted.topic, wanted.topic_id)
        while True:
            try:
                for records in read_slices(
                    self._files, directory, slices, columns=decoded, isolation=self._isolation
                ):
                    if records.num_rows:
                        yield to_batch(records)
                        last = records.offset[len(records.offset) - 1].as_py()
                        wanted = replace(wanted, start=last + 1)
                return
            except MissingFileError as error:
                slices = self._found_again(wanted, slices, error)

    def _found_again(
        self, wanted: ReadRange, slices: list[Slice], error: MissingFileError
    ) -> list[Slice]:
        """Return where the rest is now: files are merged, compacted and expired meanwhile."""
        finder = SliceFinder(Catalog(self._files), self._isolation, fails=self._fails)
        found = finder.slices(wanted)
        if found == slices:
            raise MissingFileError(
                f"{wanted.topic}-{wanted.partition}, from offset {wanted.start} on: {error}"
            ) from None
        return found


class BatchMaker:
    """Turns decoded records of one partition into the batches that Spark takes."""

    def __init__(self, wanted: ReadRange, columns: Sequence[str]) -> None:
        self._schema = arrow_schema(columns)
        made: dict[str, Callable[[DecodedRecords], pa.Array]] = {
            "key": lambda records: records.key,
            "value": lambda records: records.value,
            "topic": lambda records: _constant_text(wanted.topic, records.num_rows),
            "partition": lambda records: _constant_int(wanted.partition, records.num_rows),
            "offset": lambda records: records.offset,
            "timestamp": lambda records: _microseconds(records.timestamp),
            "timestampType": lambda records: records.timestamp_type,
            "headers": lambda records: records.headers.cast(ARROW_HEADERS),
        }
        self._columns = [made[name] for name in columns]

    def __call__(self, records: DecodedRecords) -> pa.RecordBatch:
        """Return the columns asked for."""
        return pa.RecordBatch.from_arrays(
            [column(records) for column in self._columns], schema=self._schema
        )


@lru_cache(maxsize=4)
def _constant_text(text: str, count: int) -> pa.Array:
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


@lru_cache(maxsize=4)
def _constant_int(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int32))


def _microseconds(milliseconds: pa.Array) -> pa.Array:
    """Spark's timestamps; what they cannot hold becomes the nearest they can."""
    values = np.clip(milliseconds.to_numpy(), _MIN_TIMESTAMP_MS, _MAX_TIMESTAMP_MS) * 1000
    return pa.array(values).view(ARROW_COLUMNS["timestamp"])
