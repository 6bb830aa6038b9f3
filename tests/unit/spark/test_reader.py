"""What a task of a read yields: batches as Spark takes them, whatever happened to the files."""

import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from sparklog.admin import AdminClient
from sparklog.config.options import CONSUME_OPTIONS, RECORD_COLUMNS, parse_options
from sparklog.errors import (
    CorruptRecordError,
    MissingFileError,
    OffsetOutOfRangeError,
    SparklogWarning,
)
from sparklog.log_writer import WriteOptions
from sparklog.metadata.state.edit import PartitionState
from sparklog.record.record_batches import arrow_schema
from sparklog.spark.reading.plan import ReadRange, SliceFinder, plan_read
from sparklog.spark.reading.ranges_source import RangesSource, ranges_frame
from sparklog.spark.reading.read_task import RangePartition, RangesTask, ReadTask
from tests.edits import edited
from tests.logs import append, catalog, image, log_files, new_topic

RECORDS = 200
SMALL = WriteOptions(batch_size=200, flush=False)


CONFIG = {"index.interval.bytes": 100, "sparklog.shared.segment.max.bytes": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """200 records in partition 0, in two segments of many batches."""
    log_dir = new_topic(tmp_path / "log", partitions=1, config=CONFIG)
    for start in (0, RECORDS // 2):
        append(log_dir, 0, range(start, start + RECORDS // 2), options=SMALL)
    return log_dir


@dataclass(frozen=True)
class Planned:
    """Ranges that are planned; their slices are found, and read, when they are asked for."""

    log_dir: str
    options: dict[str, Any]
    ranges: list[ReadRange]

    def partitions(self) -> list[RangePartition]:
        fails = self.options["failOnDataLoss"]
        finder = SliceFinder(catalog(self.log_dir), self.options["isolation.level"], fails=fails)
        return [RangePartition(wanted, finder.slices(wanted)) for wanted in self.ranges]

    @property
    def task(self) -> ReadTask:
        return ReadTask(catalog(self.log_dir).files, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.task.read(partition)


def reader(log_dir: str, start: int = 0, end: int = RECORDS, **options: object) -> Planned:
    topic = catalog(log_dir).topic("t")
    wanted = [ReadRange("t", topic.topic_id, 0, start, end)]
    return Planned(log_dir, parse_options(CONSUME_OPTIONS, options)[0], wanted)


def read(found: Planned) -> list[pa.RecordBatch]:
    return [batch for partition in found.partitions() for batch in found.read(partition)]


def values(batches: list[pa.RecordBatch]) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


def offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


class TestRows:
    def test_are_those_asked_for_in_their_order(self, log_dir: str) -> None:
        for start in (*range(0, 100, 7), 99, 100, 101, 199):
            batches = read(reader(log_dir, start, min(start + 60, RECORDS)))

            assert offsets(batches) == list(range(start, min(start + 60, RECORDS)))
            assert values(batches) == offsets(batches)

    @pytest.mark.parametrize("include_headers", [True, False])
    def test_have_the_schema_that_spark_compares(self, log_dir: str, include_headers: bool) -> None:
        expected = RECORD_COLUMNS if include_headers else RECORD_COLUMNS[:-1]
        for batch in read(reader(log_dir, includeHeaders=include_headers)):
            assert batch.schema.equals(arrow_schema(expected))
            assert set(batch.column("topic").to_pylist()) == {"t"}
            assert set(batch.column("partition").to_pylist()) == {0}

    @pytest.mark.parametrize("size", range(1, len(RECORD_COLUMNS) + 1))
    def test_may_have_some_columns_only(self, log_dir: str, size: int) -> None:
        whole = pa.Table.from_batches(read(reader(log_dir, 3, 150, includeHeaders=True)))
        for names in (RECORD_COLUMNS[:size], RECORD_COLUMNS[-size:], RECORD_COLUMNS[::-size]):
            found = read(reader(log_dir, 3, 150, columns=",".join(names)))

            assert pa.Table.from_batches(found).equals(whole.select(list(names)))

    def test_of_a_source_without_partitions_are_none(self, log_dir: str) -> None:
        assert list(reader(log_dir).read(InputPartition(None))) == []

    def test_have_the_nearest_time_that_spark_can_hold(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", config={"message.timestamp.after.max.ms": 2**63 - 1})
        append(log_dir, 0, range(2), timestamps=[0, 2**63 - 1])
        (batch,) = read(reader(log_dir, 0, 2))
        micros = batch.column("timestamp").cast(pa.int64()).to_pylist()

        assert micros == [0, (2**63 - 1) // 1000 * 1000]


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def zeroed(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + bytes(size - size // 2))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = (flipped, zeroed, truncated, emptied)


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_of_a_log_is_an_error_that_says_where(
        self, log_dir: str, damage: Callable[[Path], None]
    ) -> None:
        path = log_files(log_dir)[1]
        damage(path)
        found = reader(log_dir)
        (partition,) = found.partitions()
        batches: list[pa.RecordBatch] = []

        with pytest.raises(CorruptRecordError, match=rf"{path.name}, position \d+.*: "):
            batches.extend(found.read(partition))
        assert offsets(batches)[:100] == list(range(100))

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_of_an_index_is_a_warning(self, log_dir: str, damage: Callable[[Path], None]) -> None:
        for path in log_files(log_dir, ".index"):
            damage(path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = read(reader(log_dir, 90))

        assert offsets(batches) == list(range(90, RECORDS))
        assert {warning.category for warning in caught} <= {SparklogWarning}

    def test_of_a_missing_index_is_a_warning(self, log_dir: str) -> None:
        for path in log_files(log_dir, ".index"):
            path.unlink()
        with pytest.warns(SparklogWarning, match="the file is missing"):
            batches = read(reader(log_dir, 90))

        assert offsets(batches) == list(range(90, RECORDS))


class TestMissingFile:
    def test_names_file_and_offset(self, log_dir: str) -> None:
        path = log_files(log_dir)[1]
        path.unlink()

        with pytest.raises(MissingFileError, match=f"t-0, from offset .* on: .*{path.name}"):
            read(reader(log_dir))

    def test_is_found_again_where_a_merge_put_it(self, log_dir: str) -> None:
        found = reader(log_dir, 10)
        (partition,) = found.partitions()
        self.merge(log_dir)

        assert offsets(list(found.read(partition))) == list(range(10, RECORDS))

    def test_is_found_again_in_the_middle_of_a_read(self, log_dir: str) -> None:
        found = reader(log_dir, 10)
        (partition,) = found.partitions()
        batches = found.read(partition)
        first = next(batches)
        self.merge(log_dir)

        assert offsets([first, *batches]) == list(range(10, RECORDS))

    @pytest.mark.parametrize("fails", [True, False])
    def test_below_the_log_start_is_data_loss(self, log_dir: str, fails: bool) -> None:
        found = reader(log_dir, failOnDataLoss=fails)
        (partition,) = found.partitions()
        AdminClient(log_dir).delete_records({("t", 0): 150})
        log_files(log_dir)[0].unlink()

        if fails:
            with pytest.raises(OffsetOutOfRangeError, match="are not all in the log"):
                list(found.read(partition))
        else:
            with pytest.warns(SparklogWarning, match="reading what there is"):
                assert offsets(list(found.read(partition))) == list(range(150, RECORDS))

    def merge(self, log_dir: str) -> None:
        """Give every segment a new file, as a merge does, and unlink the old ones."""
        found = catalog(log_dir)
        old = list(image(log_dir).segments(0))
        base = Path(log_dir) / Path(log_files(log_dir)[0]).parts[-3]
        new = []
        for number, entry in enumerate(old):
            path = entry.log_path.replace(entry.log_path[-8:], f"{number:04d}.log")
            (base / entry.log_path).rename(base / path)
            new.append(entry._replace(log_path=path, index_path=None, index_bytes=None))
        keys = [entry.key for entry in old]
        edited(found, found.topic("t"), segments=new, remove=keys, removed_ms=1)


class TestPastVersion:
    """A range of a past version, and compaction after its plan."""

    def compacted(self, log_dir: str) -> None:
        """Say that the log was compacted, and put its files elsewhere."""
        found = catalog(log_dir)
        edited(found, found.topic("t"), partitions={0: PartitionState(cleaner_offset=100)})
        TestMissingFile().merge(log_dir)

    def past(self, log_dir: str, **more: object) -> Planned:
        """Return a reader of the version that the log has now."""
        asked = {"subscribe": "t", "versionAsOf": catalog(log_dir).image().version, **more}
        options = parse_options(CONSUME_OPTIONS, asked)[0]
        return Planned(log_dir, options, plan_read(catalog(log_dir), options))

    @pytest.mark.parametrize("fails", [True, False])
    def test_is_refused_before_its_slices_are_found(self, log_dir: str, fails: bool) -> None:
        """Goal: no record is missed in silence. Method: compact between plan and slices."""
        found = self.past(log_dir, failOnDataLoss=fails)
        assert len(found.partitions()) == 1
        self.compacted(log_dir)

        with pytest.raises(OffsetOutOfRangeError, match="its cleaner offset was 0, and is 100 now"):
            found.partitions()

    def test_is_refused_when_its_files_are_looked_for_again(self, log_dir: str) -> None:
        """Goal: the same hours later. Method: compact in the middle of a read."""
        found = self.past(log_dir)
        (partition,) = found.partitions()
        batches = found.read(partition)
        assert offsets([next(batches)])[0] == 0
        self.compacted(log_dir)

        with pytest.raises(OffsetOutOfRangeError, match="its cleaner offset was 0, and is 100 now"):
            list(batches)

    def test_the_newest_version_goes_on(self, log_dir: str) -> None:
        """Goal: only the past is refused. Method: the same without versionAsOf."""
        options = parse_options(CONSUME_OPTIONS, {"subscribe": "t"})[0]
        found = Planned(log_dir, options, plan_read(catalog(log_dir), options))
        (partition,) = found.partitions()
        self.compacted(log_dir)

        assert offsets(list(found.read(partition))) == list(range(RECORDS))


class TestPartition:
    def test_is_small(self, log_dir: str) -> None:
        (partition,) = reader(log_dir).partitions()

        assert isinstance(partition, RangePartition)
        assert len(partition.slices) == 2
        assert len(pickle.dumps(partition)) < 3000

    def test_travels(self, log_dir: str) -> None:
        (partition,) = reader(log_dir).partitions()
        arrived = pickle.loads(pickle.dumps(partition))

        assert isinstance(partition, RangePartition)
        assert (arrived.wanted, arrived.slices) == (partition.wanted, partition.slices)


class TestRanges:
    def test_are_the_tasks_input(self, log_dir: str) -> None:
        found = Planned(log_dir, *split(log_dir))
        first, second, third = found.ranges
        task = pickle.loads(pickle.dumps(RangesTask(found.task)))
        rows = [[[third]], [[first], [second]]]
        batches = [pa.record_batch({"value": [pickle.dumps(row)]}) for row in rows]

        assert offsets(list(task(iter(batches)))) == [*range(133, 200), *range(133)]

    def test_of_a_log_dir_that_was_made_anew_are_read(self, log_dir: str) -> None:
        """A worker keeps its catalog of a log dir from one task to the next."""

        def read_in_a_task(end: int) -> list[int]:
            found = reader(log_dir, 0, end)
            batch = pa.record_batch({"value": [pickle.dumps([found.ranges])]})
            return offsets(list(RangesTask(found.task)(iter([batch]))))

        assert read_in_a_task(RECORDS) == [*range(RECORDS)]
        shutil.rmtree(log_dir)
        new_topic(log_dir, partitions=1)
        append(log_dir, 0, range(5))

        assert read_in_a_task(5) == [*range(5)]

    def test_are_a_source_in_spark_connect_whose_tasks_get_their_own(self, log_dir: str) -> None:
        found = Planned(log_dir, *split(log_dir))
        first, second, third = found.ranges
        spark, task = MagicMock(), RangesTask(found.task)
        for tasks in ([[first]], [[first], [third, second]]):
            ranges_frame(spark, task, tasks, StructType())
        spark.dataSource.register.assert_called_once_with(RangesSource)
        read = spark.read.schema.return_value.format
        read.assert_called_with("sparklog_ranges")
        source = RangesSource(dict([read.return_value.option.call_args.args]))
        made = source.reader(StructType())
        # Spark sends source and reader to every task, but not the ranges of the other tasks.
        sent = pickle.loads(pickle.dumps((source, made)))[1]

        assert sent.partitions() == []
        assert offsets(list(sent.read(made.partitions()[1]))) == [*range(133, 200), *range(66, 133)]
        assert list(sent.read(InputPartition(None))) == []


def split(log_dir: str) -> tuple[dict[str, Any], list[ReadRange]]:
    """The whole log in three ranges."""
    options = parse_options(CONSUME_OPTIONS, {"subscribe": "t", "minPartitions": 3})[0]
    return options, plan_read(catalog(log_dir), options)
