"""The batch reader of the data source: planned once, by topic, partition and offset."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sparklog.metadata.catalog import Catalog
from sparklog.spark.reading.plan import SliceFinder, plan_read
from sparklog.spark.reading.read_task import RangePartition, ReadTask
from sparklog.storage.files import Files


class BatchReader(DataSourceReader):
    """Reads the ranges that options (parsed CONSUME_OPTIONS) select."""

    def __init__(self, files: Files, options: Mapping[str, Any]) -> None:
        self._files = files
        self._options = dict(options)
        self._task = ReadTask(files, options)

    def partitions(self) -> list[InputPartition]:
        """Return an input partition for each range."""
        catalog = Catalog(self._files)
        ranges = plan_read(catalog, self._options)
        isolation, fails = self._options["isolation.level"], self._options["failOnDataLoss"]
        finder = SliceFinder(catalog, isolation, fails=fails)
        return [RangePartition(wanted, finder.slices(wanted)) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in the order of the log."""
        return self._task.read(partition)
