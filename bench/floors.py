"""The floors: what moving the bytes alone costs, through the same Python data source interface.

Writing: every buffer of the `key` and `value` columns goes to one file per task, which is synced
(or not, when the writer compared with does not). Reading: constant batches of the 7 columns of a
Kafka source are yielded, as many as there are records. No data source of Python can be faster.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

ROWS_PER_BATCH = 100_000
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int"
)


class FloorSource(DataSource):
    """`format("floor")`: path to write to; options sync, records, valuebytes, partitions."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "FloorReader":
        numbers = (int(self.options[name]) for name in ("records", "valuebytes", "partitions"))
        return FloorReader(*numbers)

    def writer(self, schema: StructType, overwrite: bool) -> "FloorWriter":
        return FloorWriter(self.options["path"], self.options["sync"] == "true")


class FloorWriter(DataSourceArrowWriter):
    """Writes the columns' bytes as they are."""

    def __init__(self, path: str, sync: bool) -> None:
        self.path = path
        self.sync = sync

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        os.makedirs(self.path, exist_ok=True)
        with open(f"{self.path}/{uuid.uuid4().hex}", "wb", buffering=0) as file:
            for batch in iterator:
                for column in batch.columns:
                    file.writelines(column.buffers()[1:])
            if self.sync:
                os.fsync(file.fileno())
        return WriterCommitMessage()


class FloorReader(DataSourceReader):
    """Yields `records` rows of the same content."""

    def __init__(self, records: int, value_bytes: int, partitions: int) -> None:
        self.records = records
        self.value_bytes = value_bytes
        self.num_partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.num_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = self.records // self.num_partitions
        batch = constant_batch(min(left, ROWS_PER_BATCH), self.value_bytes)
        while left > 0:
            yield batch.slice(0, left)
            left -= len(batch)


def constant_batch(rows: int, value_bytes: int) -> Any:
    """A batch of the 7 columns with the same row throughout."""
    now = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC"))
    row = [
        pa.scalar(b"12345", pa.binary()),
        pa.scalar(b"x" * value_bytes, pa.binary()),
        pa.scalar("bench", pa.string()),
        pa.scalar(0, pa.int32()),
        pa.scalar(0, pa.int64()),
        now,
        pa.scalar(0, pa.int32()),
    ]
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    return pa.RecordBatch.from_arrays([pa.repeat(value, rows) for value in row], names=names)
