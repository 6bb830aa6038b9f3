"""A log dir for the tests of programs that use sparklog: records in and out, without Spark.

    from sparklog.testing import log_dir          # in conftest.py; a pytest fixture

    def test_orders_are_counted(log_dir):
        orders = log_dir.topic("orders", partitions=2)
        orders.produce("first", Record("second", key="k", partition=1))
        count_orders(str(log_dir))                # the program that is tested

        assert log_dir["counts"].values() == [b"2"]

Import the fixture to use it: an installed sparklog adds nothing to pytest by itself.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.errors import InvalidRecordError, InvalidTimestampError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import TopicWriter, WriteOptions, commit_write, plan_write
from sparklog.metadata.catalog import Catalog
from sparklog.model import OffsetRange, whole_number
from sparklog.record.rows import HEADERS_TYPE, RecordColumns
from sparklog.storage import open_files

__all__ = ["Record", "TemporaryLogDir", "TemporaryTopic", "log_dir"]

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. A text as key or value is produced as UTF-8; a consumed record has bytes.

    To produce: without `partition` the topic's partitioner chooses one; without `timestamp` (ms)
    the record gets the time of the produce; `offset` is ignored.
    """

    value: str | bytes | None = None
    key: str | bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int | None = None


class TemporaryTopic:
    """One topic of a log dir for tests."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        self.name = name
        self._catalog = catalog

    def produce(self, *records: Record | str | bytes | None) -> tuple[OffsetRange, ...]:
        """Append records in one commit; return their offsets. Text, bytes or None is a value.

        Raises InvalidRecordError, also for headers that are a mapping; InvalidTimestampError, also
        for a timestamp that is no integer; RecordTooLargeError, UnknownTopicError (no such
        partition).
        """
        rows = [one if isinstance(one, Record) else Record(one) for one in records]
        plan = plan_write(self._catalog, self.name, WriteOptions(flush=False))
        writer = TopicWriter(self._catalog.files, plan, self._catalog.clock, seed=0)
        partitions = pa.array([row.partition for row in rows], pa.int32())
        writer.write(_columns(rows, plan.now_ms), partitions)
        return commit_write(self._catalog, plan, writer.close()).ranges or ()

    def records(self, partition: int | None = None) -> list[Record]:
        """Return all records, or those of one partition, by partition and offset.

        Raises UnknownTopicError.
        """
        reader = TopicReader.open(self._catalog, self.name)
        every = range(reader.topic.num_partitions)
        chosen = every if partition is None else [partition]
        return [record for number in chosen for record in _read(reader, number)]

    def values(self, partition: int | None = None) -> list[str | bytes | None]:
        """Return the values of `records`."""
        return [record.value for record in self.records(partition)]


class TemporaryLogDir:
    """A log dir for tests. Its path, `str(log_dir)`, goes wherever sparklog takes a log dir."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.admin = AdminClient(path)
        self._catalog = Catalog(open_files(os.fspath(path)), SystemClock(), flush=False)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def topic(
        self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> TemporaryTopic:
        """Create a topic; the first one makes the log dir. Raises as AdminClient.create_topics."""
        self.admin.create_topics([NewTopic(name, partitions, config or {})])
        return self[name]

    def __getitem__(self, name: str) -> TemporaryTopic:
        """Return a topic. Raises UnknownTopicError."""
        return TemporaryTopic(self._catalog, self._catalog.topic(name).name)


@pytest.fixture
def log_dir(tmp_path: Path) -> TemporaryLogDir:
    """A log dir in the test's own temporary directory; the first topic makes it."""
    return TemporaryLogDir(tmp_path / "log")


def _columns(rows: list[Record], now_ms: int) -> RecordColumns:
    times = [now_ms if row.timestamp is None else _milliseconds(row.timestamp) for row in rows]
    for row in rows:
        given: object = row.headers
        if isinstance(given, Mapping):
            raise InvalidRecordError(f"headers are {given!r}: give pairs, {(*given.items(),)!r}")
    headers = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
    return RecordColumns(
        key=pa.array([_bytes(row.key) for row in rows], pa.binary()),
        value=pa.array([_bytes(row.value) for row in rows], pa.binary()),
        timestamp=np.array(times, np.int64),
        headers=pa.array(headers, HEADERS_TYPE),
    )


def _milliseconds(given: object) -> int:
    if (number := whole_number(given)) is None:
        raise InvalidTimestampError(f"timestamp {given!r} is no integer: give ms since 1970")
    return number


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _read(reader: TopicReader, partition: int) -> Iterator[Record]:
    log = reader.partition(partition)
    slices = reader.slices(partition, log.log_start_offset, log.log_end_offset)
    for answer in read_slices(reader.files, reader.directory, slices):
        for value, key, headers, timestamp, offset in zip(
            answer.value.to_pylist(),
            answer.key.to_pylist(),
            answer.headers.to_pylist(),
            answer.timestamp.to_pylist(),
            answer.offset.to_pylist(),
            strict=True,
        ):
            pairs = tuple((pair["key"], pair["value"]) for pair in headers or ())
            yield Record(value, key, pairs, partition, timestamp, offset)
