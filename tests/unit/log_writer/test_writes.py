"""Writing records: plans, rows that are refused, faults, and the commit that gives offsets."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklog.log_writer
from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.config.options import PRODUCE_OPTIONS, parse_options
from sparklog.errors import (
    FencedLeaderEpochError,
    InvalidOptionError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    StorageError,
    StorageFullError,
    TopicClosedError,
    UnknownTopicError,
)
from sparklog.log_writer import (
    PRODUCE,
    TopicWriter,
    WriteOptions,
    check_rows,
    commit_write,
    in_order,
    plan_write,
    write_of,
)
from sparklog.metadata.catalog import Write
from sparklog.metadata.state.edit import PartitionState, TopicEdit
from sparklog.model import Codec, OffsetRange, SegmentEntry, TimestampType
from sparklog.storage.memory import MemoryFiles
from tests.edits import edited
from tests.logs import append, catalog, columns, new_topic, values
from tests.partitions import catalog_of
from tests.writing import HOUR_MS, NOW_MS, TOPIC, at, plan, writer


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


class TestPlan:
    @pytest.mark.parametrize(
        ("config", "options", "codec", "level"),
        [
            ({}, {}, Codec.NONE, None),
            ({}, {"compression_type": "zstd"}, Codec.ZSTD, 3),
            ({"compression.type": "gzip"}, {"compression_type": "zstd"}, Codec.GZIP, -1),
            ({"compression.type": "uncompressed"}, {"compression_type": "lz4"}, Codec.NONE, None),
            ({"compression.zstd.level": 7}, {"compression_type": "zstd"}, Codec.ZSTD, 7),
            ({}, {"compression_type": "snappy"}, Codec.SNAPPY, None),
        ],
    )
    def test_says_the_codec(
        self, config: dict[str, object], options: dict[str, Any], codec: Codec, level: int | None
    ) -> None:
        settings = plan(config, **options).batch_settings

        assert (settings.codec, settings.level) == (codec, level)

    def test_says_whose_time_it_is(self) -> None:
        own = plan().batch_settings
        append_time = plan({"message.timestamp.type": "LogAppendTime"}).batch_settings

        assert (own.timestamp_type, own.log_append_time_ms) == (TimestampType.CREATE_TIME, -1)
        assert append_time.timestamp_type == TimestampType.LOG_APPEND_TIME
        assert append_time.log_append_time_ms == NOW_MS

    def test_bounds_batches_by_segments(self) -> None:
        assert plan().batch_settings.batch_bytes == 16384
        assert plan(segment_bytes=1000).batch_settings.batch_bytes == 1000
        assert plan(segment_bytes=1000).roll_policy.segment_bytes == 1000
        assert plan({"segment.bytes": 2 << 20}).roll_policy.segment_bytes == 2 << 20

    def test_prefers_the_calls_partitioner(self) -> None:
        config: dict[str, object] = {"sparklog.partitioner": "round-robin"}

        assert plan(config).partitioner == "round-robin"
        assert plan(config, partitioner="uniform-sticky").partitioner == "uniform-sticky"

    def test_takes_the_options_of_a_call(self) -> None:
        given = {"batch_size": 5, "flush": "none", "partitioner": "round-robin"}
        parsed, _ = parse_options(PRODUCE_OPTIONS, given)

        assert WriteOptions.of(parsed) == WriteOptions(
            compression_type="none", batch_size=5, partitioner="round-robin", flush=False
        )

    def test_comes_from_the_newest_snapshot(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=3)
        found = catalog(log_dir)
        state = PartitionState(leader_epoch=5)
        found.commit(found.topic("t"), lambda _: TopicEdit(partitions={1: state}), operation="TEST")
        wanted = plan_write(found, "t", WriteOptions())

        assert (wanted.leader_epochs, wanted.topic.num_partitions) == ({1: 5}, 3)
        with pytest.raises(UnknownTopicError, match="unknown topic 'u'"):
            plan_write(found, "u", WriteOptions())


class TestFaults:
    @pytest.mark.parametrize("kind", ["create", "write", "close", "sync"])
    def test_of_the_storage_are_its_errors(self, files: MemoryFiles, kind: str) -> None:
        written = writer(files)
        files.fail_next(kind, StorageFullError("no space left"))

        with pytest.raises(StorageFullError):
            self.write_all(written)
        written.abort()

    def write_all(self, written: TopicWriter) -> None:
        written.write(columns(range(10)), at(0, 10))
        written.close()

    def test_leave_no_open_file(self, files: MemoryFiles) -> None:
        written = writer(files)
        written.write(columns(range(10)), at(0, 10))
        written.abort()

        assert [step.kind for step in files.trace][-1] == "abort"
        assert list(files.list(recursive=True)) == []

    def test_of_an_index_leave_the_log_to_vacuum(self, files: MemoryFiles) -> None:
        written = writer(files, plan({"index.interval.bytes": 0}, batch_size=100))
        written.write(columns(range(100)), at(0, 100))
        files.fail_next("create", StorageError("away"))

        with pytest.raises(StorageError, match="away"):
            written.close()
        assert [stat.path[-4:] for stat in files.list(recursive=True)] == [".log"]

    def test_of_rows_come_before_anything_is_written(self, files: MemoryFiles) -> None:
        written = writer(files, plan({"max.message.bytes": 200}))

        with pytest.raises(RecordTooLargeError, match="row 1 needs a batch of .* allows 200"):
            written.write(columns(["a", "x" * 500]), at(0, 2))
        with pytest.raises(UnknownTopicError, match="row 1 names partition 2"):
            written.write(columns(["a", "b"]), pa.array([0, 2], pa.int32()))
        assert files.trace == []

    def test_of_a_partitioner_are_said_with_its_name(self, files: MemoryFiles) -> None:
        written = writer(files, plan(partitioner=f"{__name__}:broken"))
        with pytest.raises(InvalidOptionError, match=r"test_writes:broken raised KeyError: 7"):
            written.write(columns([7]))

        written = writer(files, plan(partitioner=f"{__name__}:away"))
        with pytest.raises(StorageError, match="away"):
            written.write(columns([7]))


def broken(_key: pa.Array, value: pa.Array, _num_partitions: int) -> Any:
    raise KeyError(int(value[0].as_py()))


def away(_key: pa.Array, _value: pa.Array, _num_partitions: int) -> Any:
    raise StorageError("away")


class TestRows:
    def test_of_a_compacted_topic_need_keys(self, files: MemoryFiles) -> None:
        compacted = plan({"cleanup.policy": "compact"})
        written = writer(files, compacted)
        written.write(columns([1, 2], keys=[b"", b"k"]), at(0, 2))

        assert [one.record_count for one in written.close()] == [2]

        with pytest.raises(InvalidRecordError, match="compacted.* the one in row 1 has none"):
            check_rows(columns([1, 2], keys=[b"k", None]), compacted)

    @pytest.mark.parametrize("timestamp", [0, NOW_MS, NOW_MS + HOUR_MS])
    def test_may_be_as_old_as_they_like_and_an_hour_ahead(
        self, files: MemoryFiles, timestamp: int
    ) -> None:
        written = writer(files)
        written.write(columns([1], timestamps=[timestamp]))

        assert [(one.record_count, one.max_timestamp) for one in written.close()] == [
            (1, timestamp)
        ]

    @pytest.mark.parametrize(
        ("timestamp", "config", "message"),
        [
            (-1, {}, "timestamp -1 in row 1 is negative"),
            (NOW_MS + HOUR_MS + 1, {}, "row 1 is 3600001 ms away .*after.max.ms=3600000"),
            (
                NOW_MS - 11,
                {"message.timestamp.before.max.ms": 10},
                "row 1 is 11 ms away from .*before.max.ms=10",
            ),
        ],
    )
    def test_may_not_be_of_another_time(
        self, timestamp: int, config: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidTimestampError, match=message):
            check_rows(columns([1, 2], timestamps=[NOW_MS, timestamp]), plan(config))

    def test_need_no_time_where_the_log_gives_it(self, files: MemoryFiles) -> None:
        written = writer(files, plan({"message.timestamp.type": "LogAppendTime"}))
        written.write(columns([1], timestamps=[2**62]))

        assert [(one.record_count, one.max_timestamp) for one in written.close()] == [(1, NOW_MS)]


class TestCommit:
    def written(self, files: MemoryFiles, *counts: int) -> list[SegmentEntry]:
        """Segments of partition 0, one a writer."""
        entries = []
        for count in counts:
            one = writer(files)
            one.write(columns(range(count)), at(0, count))
            entries += one.close()
        return entries

    def first_of_app(self, files: MemoryFiles) -> Write:
        """A write of three records, with the first version of an app_id."""
        return write_of(plan(), self.written(files, 3), app_id="app", version=1)

    def test_places_segments_one_after_the_other(self, files: MemoryFiles) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        first = commit_write(found, plan(), self.written(files, 3, 4))
        second = commit_write(found, plan(), self.written(files, 5))

        assert first.ranges == (OffsetRange(0, 0, 7),)
        assert second.ranges == (OffsetRange(0, 7, 12),)
        assert [entry.base_offset for entry in found.topic_image(TOPIC).segments(0)] == [0, 3, 7]

    def test_happens_once_for_a_transaction(self, files: MemoryFiles) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        first, again = (
            found.commit_all([self.first_of_app(files)], operation=PRODUCE)[0] for _ in range(2)
        )

        assert again.ranges == first.ranges
        assert (first.replayed, again.replayed) == (False, True)

    def test_can_be_asked_whether_it_happened(self, files: MemoryFiles) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        before = found.is_committed(TOPIC, "app", 1)
        found.commit_all([self.first_of_app(files)], operation=PRODUCE)

        assert (before, found.is_committed(TOPIC, "app", 1)) == (False, True)
        assert not found.is_committed(TOPIC, "app", 2)

    def test_is_refused_when_the_topic_is_being_deleted(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log")
        found = catalog(log_dir)
        wanted = plan_write(found, "t", WriteOptions(flush=False))
        one = TopicWriter(found.files, wanted, ManualClock(), seed=0)
        one.write(columns([1]))
        AdminClient(log_dir).delete_topics(["t"])

        with pytest.raises(TopicClosedError, match="was deleted"):
            commit_write(found, wanted, one.close())

    def test_keeps_the_partitions_of_its_plan(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2)
        found = catalog(log_dir)
        wanted = plan_write(found, "t", WriteOptions(flush=False, partitioner="round-robin"))
        AdminClient(log_dir).create_partitions({"t": 5})
        one = TopicWriter(found.files, wanted, ManualClock(), seed=0)
        one.write(columns(range(10)))
        commit_write(found, wanted, one.close())
        append(log_dir, 4, ["new"])

        assert {partition: len(got) for partition, got in values(log_dir).items()} == {
            0: 5,
            1: 5,
            4: 1,
        }

    def test_is_refused_when_an_import_came_between(self, files: MemoryFiles) -> None:
        found = catalog_of(MemoryFiles(), TOPIC)
        edited(found, TOPIC, partitions={0: PartitionState(leader_epoch=1)})
        pending = self.written(files, 3)

        with pytest.raises(
            FencedLeaderEpochError, match="planned with leader epoch 0, it is 1 now"
        ):
            commit_write(found, plan(), pending)
        assert commit_write(found, plan(epoch=1), pending).ranges == (OffsetRange(0, 0, 3),)

    def test_has_the_leader_epoch_of_each_partition(self, tmp_path: Path) -> None:
        """A client that has seen a newer epoch than its metadata waits for newer metadata."""
        log_dir = new_topic(tmp_path / "log", partitions=3)
        found = catalog(log_dir)
        states = {0: PartitionState(leader_epoch=2), 1: PartitionState(leader_epoch=7)}
        found.commit(found.topic("t"), lambda _: TopicEdit(partitions=states), operation="TEST")
        for partition in range(3):
            append(log_dir, partition, ["a"])

        topic = catalog(log_dir).topic_image(found.topic("t"))
        logs = [topic.partition(number) for number in range(3)]
        assert [log.leader_epoch for log in logs] == [2, 7, 0]
        assert [log.epochs[-1].epoch for log in logs] == [2, 7, 0]
        assert [log.segments.entry(0).max_leader_epoch for log in logs] == [2, 7, 0]

    def test_of_tasks_is_in_their_order(self, files: MemoryFiles) -> None:
        first, second, third = self.written(files, 1, 2, 3)

        assert in_order([(2, [third]), (0, [first]), (1, [second])]) == [first, second, third]


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Writer'"):
        getattr(sparklog.log_writer, "Writer")  # noqa: B009 - written out, mypy would object
