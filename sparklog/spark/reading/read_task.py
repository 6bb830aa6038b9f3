"""A Spark task of a read: the records of one or several ranges, as Arrow batches.

A task carries everything that it needs. It may run anywhere, and hours after it was planned, when
files have been merged, compacted or removed.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from sparklog.errors import MissingFileError
from sparklog.log.names import topic_dir
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import Slice
from sparklog.spark.reading.plan import ReadRange, SliceFinder
from sparklog.spark.schema import output_columns
from sparklog.storage.files import Files


class RangePartition(InputPartition):
    """The range of one task. The slices are hints: a merge may replace files before it runs."""

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

    def finder(self) -> SliceFinder:
        """Return a finder of the segments of ranges, as the newest image has them."""
        kept = pickle.dumps(self._files)

        def anew() -> Catalog:
            _catalog.cache_clear()
            return _catalog(kept)

        return SliceFinder(_catalog(kept), self._isolation, fails=self._fails, anew=anew)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in the order of the log."""
        if not isinstance(partition, RangePartition):
            return  # Spark reads a source without partitions as one partition of nothing
        # The decoder is loaded where records are read, not where the read is planned.
        from sparklog.log_reader.slices import read_slices
        from sparklog.record.record_batches import BatchMaker, decoded_columns

        wanted, slices = partition.wanted, partition.slices
        to_batch = BatchMaker(wanted.topic, wanted.partition, self._columns)
        decoded = decoded_columns(self._columns)
        directory = topic_dir(wanted.topic, wanted.topic_id)
        while True:
            try:
                for records in read_slices(
                    self._files, directory, slices, columns=decoded, isolation=self._isolation
                ):
                    yield to_batch(records)
                    wanted = replace(wanted, start=records.offset[-1].as_py() + 1)
                return
            except MissingFileError as error:
                slices = self._found_again(wanted, slices, error)

    def _found_again(
        self, wanted: ReadRange, slices: list[Slice], error: MissingFileError
    ) -> list[Slice]:
        """Return the slices that hold the rest now: a job may have replaced or removed segments.

        Raises MissingFileError if they are the same slices, so that a file is lost.
        """
        found = self.finder().slices(replace(wanted, pin=None))
        if found == slices:
            raise MissingFileError(
                f"{wanted.topic}-{wanted.partition}, from offset {wanted.start} on: {error}"
            ) from None
        return found


@lru_cache(maxsize=4)
def _catalog(files: bytes) -> Catalog:
    """Return the catalog of a log dir, from its pickled Files. A worker keeps it between tasks."""
    return Catalog(pickle.loads(files))  # noqa: S301 - made above


class RangesTask:
    """The function of `mapInArrow` that reads ranges.

    A row of its input is a pickled list: for each of several tasks the ranges that it reads. If
    retention has removed records of a range since it was planned, the task fails or reads the rest
    (failOnDataLoss). Other changes of the segments have no effect while their files exist.
    """

    def __init__(self, task: ReadTask) -> None:
        self._task = task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of each range in the order of the log."""
        for batch in batches:
            for row in batch.column(0).to_pylist():
                yield from self.read(chain.from_iterable(pickle.loads(row)))  # noqa: S301 - ours

    def read(self, ranges: Iterable[ReadRange]) -> Iterator[pa.RecordBatch]:
        """Yield the records of these ranges."""
        finder = self._task.finder()
        for wanted in ranges:
            yield from self._task.read(RangePartition(wanted, finder.slices(wanted)))
