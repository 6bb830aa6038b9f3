"""Segments written by sparklog's own encoder, for Kafka to read, and what sparklog reads."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.metadata.catalog import Catalog
from sparklog.model import READ_COMMITTED
from sparklog.record.encode import BatchSettings, encode
from sparklog.record.rows import HEADERS_TYPE, RecordColumns
from tests.kafka.client import Found, Record
from tests.kafka.dump import SegmentFiles

APPENDS = 3


def record_columns(records: Sequence[Record]) -> RecordColumns:
    """The records as the columns that the encoder takes; no headers are null."""
    headers = [[{"key": k, "value": v} for k, v in r.headers] or None for r in records]
    return RecordColumns(
        key=pa.array([record.key for record in records], pa.binary()),
        value=pa.array([record.value for record in records], pa.binary()),
        timestamp=np.array([record.timestamp for record in records], np.int64),
        headers=pa.array(headers, HEADERS_TYPE),
    )


def write_segment(
    folder: Path, records: Sequence[Record], settings: BatchSettings, base_offset: int = 0
) -> SegmentFiles:
    """A sealed segment of `records` and its indexes, under canonical names.

    It is encoded in several calls, as a task does that gets its rows batch by batch. An index
    without entries is no file.
    """
    builder = SegmentBuilder(base_offset, partition=0)
    log = folder / f"{base_offset:020d}.log"
    step = -(-len(records) // APPENDS)
    with log.open("xb") as file:
        for start in range(0, len(records), step):
            columns = record_columns(records[start : start + step])
            next_offset = np.array([builder.next_offset], np.int64)
            (stream,) = encode(columns, None, 1, next_offset, settings)
            stream.data.tofile(file)
            builder.append(stream.batches)
    _, indexes = builder.finish()
    return SegmentFiles(
        base_offset,
        log,
        _write_index(log.with_suffix(".index"), indexes.offset_index),
        _write_index(log.with_suffix(".timeindex"), indexes.time_index),
    )


def read_log(
    catalog: Catalog, topic: str, partition: int = 0, isolation: str = READ_COMMITTED
) -> Found:
    """(offset, record) of every record that sparklog shows of a partition."""
    reader = TopicReader.open(catalog, topic)
    log = reader.partition(partition)
    slices = reader.slices(partition, log.log_start_offset, log.end_offset(isolation))
    found: Found = []
    for block in read_slices(reader.files, reader.directory, slices, isolation=isolation):
        columns = (block.offset, block.key, block.value, block.timestamp, block.headers)
        for offset, key, value, timestamp, headers in zip(*columns, strict=True):
            pairs = tuple((one["key"], one["value"]) for one in headers.as_py() or ())
            record = Record(key.as_py(), value.as_py(), timestamp.as_py(), pairs)
            found.append((offset.as_py(), record))
    return found


def _write_index(path: Path, data: bytes) -> Path | None:
    if not data:
        return None
    path.write_bytes(data)
    return path
