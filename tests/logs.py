"""Logs without Spark: topics, records put into them, and what stands in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparklog.admin import AdminClient, NewTopic
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog, Landed
from sparklog.metadata.state.edit import PartitionState, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.metadata.state.segments import NO_ROWS
from sparklog.record.rows import RecordColumns
from sparklog.storage import Files, open_files

Place = str | Path | Files
"""A log dir: its address, or its files, for those that have none that another process could use."""


class Row(NamedTuple):
    """One record as it lies in the log; `headers` are pairs, None when it has none."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None


def new_topic(
    log_dir: Place,
    name: str = "t",
    partitions: int = 4,
    config: Mapping[str, object] | None = None,
) -> str:
    """Make a topic, and the log dir if there is none yet; return the log dir's address."""
    client(log_dir).create_topics([NewTopic(name, partitions, config or {})])
    return str(log_dir)


def client(log_dir: Place) -> AdminClient:
    """An administrator of a log dir."""
    if isinstance(log_dir, str | Path):
        return AdminClient(log_dir)
    found = AdminClient("elsewhere")
    found._files = log_dir
    found._catalog = Catalog(log_dir)
    return found


FOREVER = {"retention.ms": "-1"}
"""A config under which records of the year 1970 stay."""

OWN_FILES = {"sparklog.shared.segment.max.bytes": 0}
"""A config under which every segment, however small, has a file of its own."""


def columns(
    values: Sequence[object],
    keys: Sequence[object] | None = None,
    timestamps: Sequence[int] | None = None,
) -> RecordColumns:
    """Records with these values as text, None for null; where nothing is said null and time 0."""
    count = len(values)
    return RecordColumns(
        key=pa.array(keys or [None] * count, pa.binary()),
        value=pa.array([None if value is None else str(value) for value in values], pa.string()),
        timestamp=np.array(timestamps or [0] * count, np.int64),
    )


def append(
    log_dir: Place,
    partition: int,
    values: Sequence[object],
    *,
    topic: str = "t",
    keys: Sequence[object] | None = None,
    timestamps: Sequence[int] | None = None,
    options: WriteOptions | None = None,
) -> Landed:
    """Write records to one partition, as one task of a produce does, and commit."""
    records = columns(values, keys and [str(key).encode() for key in keys], timestamps)
    return append_to(catalog(log_dir), partition, records, topic=topic, options=options)


def append_to(
    found: Catalog,
    partition: int | Sequence[int],
    records: RecordColumns,
    *,
    topic: str = "t",
    options: WriteOptions | None = None,
) -> Landed:
    """The same of records, each with its partition or all with one, by the catalog's clock."""
    plan = plan_write(found, topic, options or WriteOptions(flush=False))
    writer = TopicWriter(found.files, plan, found.clock, seed=0)
    partitions = [partition] * len(records) if isinstance(partition, int) else partition
    writer.write(records, pa.array(partitions, pa.int32()))
    return commit_write(found, plan, writer.close())


def fill(log_dir: Place, end_offset: int) -> None:
    """Let partition 0 of t go on at this offset, as after so many records."""
    edit = TopicEdit(partitions={0: PartitionState(log_end_offset=end_offset)})
    found = catalog(log_dir)
    found.commit(found.topic("t"), lambda _: edit, operation="TEST")


def write(found: Catalog, topic: str, *timestamps: int) -> None:
    """Write records with these timestamps to partition 0."""
    count = len(timestamps)
    records = columns(["v"] * count, [b"v"] * count, timestamps)
    append_to(found, 0, records, topic=topic)


def catalog(log_dir: Place, options: Mapping[str, str] | None = None) -> Catalog:
    """The topics of a log dir, as they are now."""
    if isinstance(log_dir, str | Path):
        return Catalog(open_files(str(log_dir), options))
    return Catalog(log_dir)


def image(log_dir: Place, topic: str = "t") -> TopicImage:
    """A topic as it is now."""
    found = catalog(log_dir)
    return found.topic_image(found.topic(topic))


def live_rows(log_dir: Place, topic: str = "t") -> pa.Table:
    """A topic's live segments (SEGMENT_SCHEMA), sorted by partition and base offset."""
    logs = sorted(image(log_dir, topic).partitions.items())
    return pa.concat_tables([NO_ROWS, *(log.live.table for _, log in logs)]).combine_chunks()


def rows(
    log_dir: Place, topic: str = "t", options: Mapping[str, str] | None = None
) -> dict[int, list[Row]]:
    """Every record by partition, in the order of the log; partitions without any are absent."""
    reader = TopicReader.open(catalog(log_dir, options), topic)
    found = {}
    for partition in range(reader.topic.num_partitions):
        start, end = (
            reader.partition(partition).log_start_offset,
            reader.partition(partition).log_end_offset,
        )
        if start < end:
            found[partition] = _rows_of(reader, partition, start, end)
    return found


def _rows_of(reader: TopicReader, partition: int, start: int, end: int) -> list[Row]:
    answers = read_slices(reader.files, reader.directory, reader.slices(partition, start, end))
    return [
        Row(offset, key, value, timestamp, timestamp_type, _pairs(headers))
        for answer in answers
        for offset, key, value, timestamp, timestamp_type, headers in zip(
            answer.offset.to_pylist(),
            answer.key.to_pylist(),
            answer.value.to_pylist(),
            answer.timestamp.to_pylist(),
            answer.timestamp_type.to_pylist(),
            answer.headers.to_pylist(),
            strict=True,
        )
    ]


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return None if headers is None else [(pair["key"], pair["value"]) for pair in headers]


def values(log_dir: Place, topic: str = "t") -> dict[int, list[str]]:
    """The values by partition, as text."""
    found = rows(log_dir, topic)
    return {
        partition: [str(row.value, "utf-8") for row in records if row.value is not None]
        for partition, records in found.items()
    }


def all_values(log_dir: str | Path, topic: str = "t") -> list[str]:
    """The values of all partitions, sorted."""
    return sorted(value for found in values(log_dir, topic).values() for value in found)


def log_files(log_dir: str | Path, suffix: str = ".log") -> list[Path]:
    """The segment files that are there, referred to or not."""
    return sorted(Path(log_dir).glob(f"*/*-*/*{suffix}"))
