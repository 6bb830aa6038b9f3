"""The reader of the data source: ranges of offsets to Arrow batches, one Spark task a range."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sparklog.errors import MissingFileError
from sparklog.log.names import topic_dir
from sparklog.log_reader import Slice
from sparklog.log_reader.slices import read_slices
from sparklog.manifest.catalog import Catalog
from sparklog.record.decode import ALL, DecodedRecords
from sparklog.spark.plan import ReadRange, SliceFinder, plan_read
from sparklog.spark.schema import ARROW_COLUMNS, ARROW_HEADERS, arrow_schema
from sparklog.storage.files import Files

_MAX_TIMESTAMP_MS = (2**63 - 1) // 1000
_MIN_TIMESTAMP_MS = -_MAX_TIMESTAMP_MS


@dataclass
class RangePartition(InputPartition):
    """What one task reads. The slices are hints: files may be merged away before it runs."""

    wanted: ReadRange
    slices: list[Slice]

    def __init__(self, wanted: ReadRange, slices: list[Slice]) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.slices = slices


class RangeReader(DataSourceReader):
    """Plans once, reads anywhere: everything a task needs travels with it and its partition."""

    def __init__(
        self, files: Files, options: Mapping[str, Any], planned: list[ReadRange] | None
    ) -> None:
        self._files = files
        self._options = dict(options)
        self._planned = planned

    def partitions(self) -> list[InputPartition]:
        """Return a partition a range, in the order of topic, partition and offset."""
        catalog = Catalog(self._files)
        ranges = self._planned
        if ranges is None:
            ranges = plan_read(catalog, self._options)
        finder = SliceFinder(catalog, fails=self._options["failOnDataLoss"])
        return [RangePartition(wanted, finder.slices(wanted)) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in the order of the log."""
        if not isinstance(partition, RangePartition):
            return  # Spark reads a source without partitions as one partition of nothing
        to_batch = BatchMaker(partition.wanted, include_headers=self._options["includeHeaders"])
        columns = ALL if self._options["includeHeaders"] else set(ALL) - {"headers"}
        wanted, slices = partition.wanted, partition.slices
        directory = topic_dir(wanted.topic, wanted.topic_id)
        while True:
            try:
                for records in read_slices(self._files, directory, slices, columns=columns):
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
        finder = SliceFinder(Catalog(self._files), fails=self._options["failOnDataLoss"])
        found = finder.slices(wanted)
        if found == slices:
            raise MissingFileError(
                f"{wanted.topic}-{wanted.partition}, from offset {wanted.start} on: {error}"
            ) from None
        return found


class BatchMaker:
    """Turns decoded records of one partition into the batches that Spark takes."""

    def __init__(self, wanted: ReadRange, *, include_headers: bool) -> None:
        self._wanted = wanted
        self._schema = arrow_schema(include_headers=include_headers)

    def __call__(self, records: DecodedRecords) -> pa.RecordBatch:
        """Return the columns of ARROW_COLUMNS."""
        count = records.num_rows
        columns = {
            "key": records.key,
            "value": records.value,
            "topic": _constant_text(self._wanted.topic, count),
            "partition": _constant_int(self._wanted.partition, count),
            "offset": records.offset,
            "timestamp": _microseconds(records.timestamp),
            "timestampType": records.timestamp_type,
        }
        if "headers" in self._schema.names:
            columns["headers"] = records.headers.cast(ARROW_HEADERS)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
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
