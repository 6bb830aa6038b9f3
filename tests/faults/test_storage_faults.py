"""A writer whose storage fails at any operation, or loses what was not synced: all or nothing."""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from sparklog.clock import ManualClock
from sparklog.config import TopicConfig
from sparklog.errors import StorageError, StorageFullError, StoragePermissionError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import PRODUCE, TopicWriter, WriteOptions, WritePlan, write_of
from sparklog.metadata.catalog import Catalog, Landed
from sparklog.model import OffsetRange, TopicDescription
from sparklog.record.rows import RecordColumns
from sparklog.storage.memory import MemoryFiles
from tests.partitions import catalog_of

CLOCK = ManualClock()
TOPIC = TopicDescription("t", "t" * 22, 2, {}, CLOCK.now_ms())
OPTIONS = WriteOptions(batch_size=100, segment_bytes=400)
VALUES = [b"%02d" % number for number in range(40)]
"""Written in turns to both partitions, into several segments each."""
KINDS = ("create", "write", "close", "sync")


class PowerCutError(BaseException):
    """The power is gone."""


class FailingFiles(MemoryFiles):
    """Files in memory whose power is cut before the operation `cut_at`."""

    def __init__(self, cut_at: int = -1) -> None:
        super().__init__(clock=CLOCK)
        self.cut_at = cut_at

    def record(self, kind: str, path: str, size: int = 0) -> None:
        if len(self.trace) == self.cut_at:
            raise PowerCutError
        super().record(kind, path, size)


def write(files: MemoryFiles, catalog: Catalog, version: int = 0) -> Landed:
    """Write all values in one commit."""
    config = TopicConfig.parse(TOPIC.configs)
    plan = WritePlan(topic=TOPIC, config=config, now_ms=CLOCK.now_ms(), options=OPTIONS)
    values = pa.array(VALUES, pa.binary())
    times = np.full(len(VALUES), CLOCK.now_ms(), np.int64)
    partitions = pa.array([row % 2 for row in range(len(VALUES))], pa.int32())
    writer = TopicWriter(files, plan, CLOCK, seed=1)
    try:
        writer.write(RecordColumns(values, values, times), partitions)
        segments = writer.close()
    except StorageError:
        writer.abort()
        raise
    once = write_of(plan, segments, app_id="a", version=version)
    return catalog.commit_all([once], operation=PRODUCE)[0]


def read(files: MemoryFiles, catalog: Catalog) -> list[list[bytes]]:
    """The values of both partitions."""
    reader = TopicReader(files, TOPIC, catalog.topic_image(TOPIC))
    return [
        [
            value
            for records in read_slices(files, reader.directory, slices, columns=("value",))
            for value in records.value.to_pylist()
        ]
        for slices in (reader.slices(p, 0, reader.partition(p).log_end_offset) for p in (0, 1))
    ]


def operations() -> Sequence[str]:
    """What one write does, by kind."""
    files = MemoryFiles(clock=CLOCK)
    write(files, catalog_of(files, TOPIC))
    return [operation.kind for operation in files.trace]


def faults() -> Iterator[tuple[str, int]]:
    """Every operation of one write that can fail: its kind, and how many of it go before."""
    for kind in KINDS:
        yield from zip([kind] * operations().count(kind), count())


ALL = [VALUES[0::2], VALUES[1::2]]
"""What is there when all is well."""
FIRST = (OffsetRange(0, 0, 20), OffsetRange(1, 0, 20))
SECOND = (OffsetRange(0, 20, 40), OffsetRange(1, 20, 40))


class TestAStorageThatFails:
    @pytest.mark.parametrize("error", [StorageFullError("full"), StoragePermissionError("no")])
    def test_at_any_operation_leaves_nothing_visible_and_can_be_tried_again(
        self, error: StorageError
    ) -> None:
        for kind, before in faults():
            files = MemoryFiles(clock=CLOCK)
            catalog = catalog_of(files, TOPIC)
            files.fail_next(kind, error, after=before)
            with pytest.raises(type(error)):
                write(files, catalog)

            assert read(files, catalog) == [[], []], (kind, before)
            assert write(files, catalog).ranges == FIRST, (kind, before)
            assert read(files, catalog) == ALL, (kind, before)

    def test_takes_nothing_of_what_was_written_before(self) -> None:
        for kind, before in faults():
            files = MemoryFiles(clock=CLOCK)
            catalog = catalog_of(files, TOPIC)
            write(files, catalog, version=0)
            files.fail_next(kind, after=before)
            with pytest.raises(StorageError):
                write(files, catalog, version=1)

            assert read(files, catalog) == ALL, (kind, before)
            assert write(files, catalog, version=1).ranges == SECOND, (kind, before)


class TestAPowerCut:
    def test_before_any_operation_takes_nothing_that_was_acknowledged(self) -> None:
        done = len(operations())
        for cut_at in range(done, 2 * done):
            files = FailingFiles(cut_at)
            catalog = catalog_of(files, TOPIC)
            write(files, catalog, version=0)
            with pytest.raises(PowerCutError):
                write(files, catalog, version=1)
            files.cut_at = -1
            files.lose_unsynced()

            assert read(files, catalog) == ALL, cut_at
            assert write(files, catalog, version=1).ranges == SECOND, cut_at

    def test_after_the_answer_takes_nothing(self) -> None:
        files = MemoryFiles(clock=CLOCK)
        catalog = catalog_of(files, TOPIC)
        write(files, catalog)
        files.lose_unsynced()

        assert read(files, catalog) == ALL
