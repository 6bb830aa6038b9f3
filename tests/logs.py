"""What stands in a log, read without Spark: the other side of every produce."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sparklog.admin import AdminClient, NewTopic
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.manifest.catalog import Catalog
from sparklog.manifest.store import Snapshot
from sparklog.storage import open_files


class Row(NamedTuple):
    """One record as it lies in the log; `headers` are pairs, None when it has none."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None


def new_topic(
    log_dir: str | Path,
    name: str = "t",
    partitions: int = 4,
    config: Mapping[str, object] | None = None,
) -> str:
    """Make a topic, and the log dir if there is none yet; return the log dir's address."""
    AdminClient(log_dir).create_topics([NewTopic(name, partitions, config or {})])
    return str(log_dir)


def catalog(log_dir: str | Path, options: Mapping[str, str] | None = None) -> Catalog:
    """The topics of a log dir, as they are now."""
    return Catalog(open_files(str(log_dir), options))


def snapshot(log_dir: str | Path, topic: str = "t") -> Snapshot:
    """The newest version of a topic's manifest."""
    found = catalog(log_dir)
    return found.store(found.topic(topic)).snapshot()


def rows(
    log_dir: str | Path, topic: str = "t", options: Mapping[str, str] | None = None
) -> dict[int, list[Row]]:
    """Every record by partition, in the order of the log; partitions without any are absent."""
    reader = TopicReader.open(catalog(log_dir, options), topic)
    found = {}
    for partition in range(reader.topic.num_partitions):
        start, end = reader.log_start_offset(partition), reader.log_end_offset(partition)
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


def values(log_dir: str | Path, topic: str = "t") -> dict[int, list[str]]:
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
