"""Shared segments: the small partitions of a commit in one file."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from immutables import Map

from sparklog.admin import AdminClient
from sparklog.cli.records.production import Production
from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import StorageError
from sparklog.log_writer import (
    SharedSegment,
    SharedSegments,
    TopicWriter,
    WriteOptions,
    commit_write,
    plan_write,
    shared_segment,
)
from sparklog.log_writer.shared_segment import GROWS_MS
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.state.image import Image, SharedSegmentState
from sparklog.model import SHARED_PREFIX, SegmentEntry
from sparklog.record.scan import scan_batches
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.logs import append, catalog, columns, image, log_files, new_topic, rows, values
from tests.maintenance import run

SMALL = "sparklog.shared.segment.max.bytes"


def written(log_dir: str, count: int, *, topic: str = "t", size: int = 1) -> list[SegmentEntry]:
    """Write `count` records of `size` bytes to every partition, as one task."""
    found = catalog(log_dir)
    plan = plan_write(found, topic, WriteOptions(flush=False, batch_size=1000))
    writer = TopicWriter(found.files, plan, ManualClock(), seed=0)
    for partition in range(plan.topic.num_partitions):
        writer.write(columns(["x" * size] * count), pa.array([partition] * count, pa.int32()))
    entries = writer.close()
    commit_write(found, plan, entries)
    return entries


def shared_files(log_dir: str) -> list[Path]:
    return sorted((Path(log_dir) / SHARED_PREFIX).glob("*.log"))


def raised(error: Exception) -> None:
    raise error


class TestAWriter:
    def test_puts_small_partitions_into_one_file(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=50)
        entries = written(log_dir, 3)

        assert len(shared_files(log_dir)) == 1
        assert log_files(log_dir) == []
        assert {
            partition: len(found) for partition, found in rows(log_dir).items()
        } == dict.fromkeys(range(50), 3)
        ends = [entry.log_position + entry.log_bytes for entry in entries]
        assert [entry.log_position for entry in entries] == [0, *ends[:-1]]

    def test_puts_slices_of_several_topics_into_one_file(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, "a")
        new_topic(log_dir, "b")
        production = Production(catalog(log_dir), WriteOptions(flush=False))
        for topic in ("a", "b"):
            production.open(topic)
            _, writer = production._open[topic]
            writer.write(columns([topic]), pa.array([0], pa.int32()))
        production.commit()

        assert len(shared_files(log_dir)) == 1
        assert (values(log_dir, "a"), values(log_dir, "b")) == ({0: ["a"]}, {0: ["b"]})

    def test_gives_a_large_partition_its_own_file(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=2, config={SMALL: 5000})
        found = catalog(log_dir)
        plan = plan_write(found, "t", WriteOptions(flush=False, batch_size=1000))
        writer = TopicWriter(found.files, plan, ManualClock(), seed=0)
        for count in (1, 100, 100):
            writer.write(columns(["x" * 50] * count), pa.array([1] * count, pa.int32()))
        writer.write(columns(["small"]), pa.array([0], pa.int32()))
        entries = writer.close()
        commit_write(found, plan, entries)

        assert [entry.is_shared for entry in entries] == [True, False]
        assert entries[1].index_path is not None
        assert [len(found) for _, found in sorted(rows(log_dir).items())] == [1, 201]

    @pytest.mark.parametrize(
        ("size", "held"), [(100, 3000), (50, 2000)], ids=["two batches", "one batch"]
    )
    def test_gives_files_to_the_largest_when_it_holds_too_much(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, held: int
    ) -> None:
        monkeypatch.setattr("sparklog.log_writer.topic_writer.SMALL_BYTES_MAX", held)
        log_dir = new_topic(tmp_path, partitions=4)
        entries = written(log_dir, 10, size=size)

        assert 0 < sum(entry.is_shared for entry in entries) < 4
        assert all(len(found) == 10 for found in rows(log_dir).values())

    @pytest.mark.parametrize(("bytes_max", "file_count"), [(2**30, 1), (1500, 3)])
    def test_ends_slices_in_an_object_store_when_it_holds_too_much(
        self, monkeypatch: pytest.MonkeyPatch, bytes_max: int, file_count: int
    ) -> None:
        monkeypatch.setattr("sparklog.log_writer.topic_writer.SMALL_BYTES_MAX", 1000)
        monkeypatch.setattr(shared_segment, "FULL_BYTES", bytes_max)
        files = MemoryFiles()
        new_topic(files)
        found = catalog(files)
        plan = plan_write(found, "t", WriteOptions())
        writer = TopicWriter(files, plan, found.clock, seed=0)
        for count in (3, 4, 5):
            for partition in range(4):
                values = [f"{partition}" * 50] * count
                writer.write(columns(values), pa.array([partition] * count, pa.int32()))
        entries = writer.close()
        commit_write(found, plan, entries)

        assert len({entry.log_path for entry in entries}) == file_count
        assert len(entries) > 4
        assert [len(found) for found in rows(files).values()] == [12] * 4

    def test_never_does_where_the_topic_says_so(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, config={SMALL: 0})
        written(log_dir, 1)

        assert (len(shared_files(log_dir)), len(log_files(log_dir))) == (0, 4)

    def test_drops_the_file_when_it_fails(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path)
        found = catalog(log_dir)
        writer = TopicWriter(found.files, plan_write(found, "t", WriteOptions()), ManualClock(), 0)
        writer.write(columns([1]))
        writer._shared.put([b"x"], flush=False)
        writer.abort()

        assert shared_files(log_dir) == []

    @pytest.mark.parametrize("limit", ["HELD_BYTES_MAX", "ALONE_BYTES"])
    @pytest.mark.parametrize("size", [1, 150])
    def test_writes_what_it_holds_piece_by_piece(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, size: int
    ) -> None:
        monkeypatch.setattr(f"sparklog.log_writer.shared_segment.{limit}", size)
        log_dir = new_topic(tmp_path, partitions=7)
        written(log_dir, 2)

        assert len(shared_files(log_dir)) == 1
        assert all(len(found) == 2 for found in rows(log_dir).values())


class TestASlice:
    def test_is_sealed_when_nobody_committed_in_between(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=1)
        append(log_dir, 0, [1, 2])
        append(log_dir, 0, [3])

        first, second = image(log_dir).segments(0)
        assert (first.shift, second.shift) == (0, 0)
        data = (Path(log_dir) / second.log_path).read_bytes()
        assert scan_batches(data).batches.base_offset.tolist() == [2]

    def test_is_moved_when_somebody_did(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=1)
        found = catalog(log_dir)
        plan = plan_write(found, "t", WriteOptions(flush=False))
        writer = TopicWriter(found.files, plan, ManualClock(), seed=0)
        writer.write(columns(["mine"]), pa.array([0], pa.int32()))
        append(log_dir, 0, ["theirs", "theirs"])
        commit_write(found, plan, writer.close())

        assert [entry.shift for entry in image(log_dir).segments(0)] == [0, 2]
        assert values(log_dir) == {0: ["theirs", "theirs", "mine"]}

    def test_is_counted_in_the_image(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=3)
        written(log_dir, 1)

        (shared,) = catalog(log_dir).image().shared.values()
        assert (shared.slice_count, shared.unused_ms) == (3, None)

    def test_goes_with_its_topic(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path)
        written(log_dir, 1)
        AdminClient(log_dir).delete_topics(["t"])

        assert shared_files(log_dir) != []  # until vacuum


class TestSegmentsOfManyCommits:
    """The writer of a service appends the slices of its commits to one file."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def shared(self, tmp_path: Path, clock: ManualClock) -> Iterator[SharedSegments]:
        found = SharedSegments(LocalFiles(str(tmp_path)), clock)
        yield found
        found.close()

    def commit(self, shared: SharedSegments, *before: str, live: int = 1, **options: bool) -> str:
        """Write a slice, on an image with files that have live slices; return the file's path."""
        known = Map({path: SharedSegmentState(live) for path in before})
        segment = shared.next(Image(shared=known), **options)
        path, _ = segment.put([b"slice"], flush=True)
        segment.complete()
        segment.sync()
        return path

    def test_is_one_file(self, shared: SharedSegments, tmp_path: Path) -> None:
        path = self.commit(shared)
        assert self.commit(shared, path) == self.commit(shared, path) == path
        assert (tmp_path / path).read_bytes() == b"slice" * 3

    def test_until_it_is_old(self, shared: SharedSegments, clock: ManualClock) -> None:
        path = self.commit(shared)
        clock.sleep_ms(GROWS_MS - 1)
        assert self.commit(shared, path) == path
        clock.sleep_ms(1)
        assert self.commit(shared, path) != path

    def test_until_it_is_large(
        self, shared: SharedSegments, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared_segment, "GROWS_BYTES", 10)
        first = self.commit(shared)
        assert self.commit(shared, first) == first != self.commit(shared, first)

    def test_until_its_slices_are_gone(self, shared: SharedSegments) -> None:
        path = self.commit(shared)
        assert self.commit(shared, path, live=0) != path

    def test_unless_nothing_of_it_was_committed(self, shared: SharedSegments) -> None:
        path = self.commit(shared)
        assert self.commit(shared) != path

    def test_until_slices_are_written_again(self, shared: SharedSegments) -> None:
        path = self.commit(shared)
        assert self.commit(shared, path, anew=True) != path

    @pytest.mark.parametrize("fails", ["fsync", "fdatasync"])
    def test_until_a_sync_fails_which_is_told_at_every_call(
        self, shared: SharedSegments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
    ) -> None:
        """The first commit syncs with fsync, also the directory; the second with fdatasync."""

        def broken(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        before = [self.commit(shared)] if fails == "fdatasync" else []
        segment = shared.next(Image(shared=Map({path: SharedSegmentState(1) for path in before})))
        path, _ = segment.put([b"slice"], flush=True)
        with monkeypatch.context() as patched:
            patched.setattr(os, fails, broken)
            segment.complete()
            with pytest.raises(StorageError, match="Input/output error"):
                segment.sync()
        with pytest.raises(StorageError, match="Input/output error"):
            segment.sync()

        assert self.commit(shared, path) != path
        assert (tmp_path / path).read_bytes() == b"slice" * (len(before) + 1)

    def test_until_its_name_cannot_be_made_durable(
        self, shared: SharedSegments, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        segment = shared.next(Image())
        path, _ = segment.put([b"slice"], flush=True)
        segment.complete()
        with monkeypatch.context() as patched:
            patched.setattr(LocalFiles, "sync", lambda *_: raised(StorageError("no name")))
            with pytest.raises(StorageError, match="no name"):
                segment.sync()
        with pytest.raises(StorageError, match="no name"):
            segment.sync()

        assert self.commit(shared, path) != path

    def test_whose_write_fails_keeps_no_bytes(self, shared: SharedSegments) -> None:
        segment = shared.next(Image())
        segment.put([b"slice"], flush=True)
        segment.abort()

        assert segment._held == []

    def test_is_durable_if_one_of_many_commits_asks_for_it(
        self, shared: SharedSegments, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []
        monkeypatch.setattr(os, "fdatasync", lambda _: synced.append("bytes"))
        path = ""
        for flush in (False, False, True, False):
            segment = shared.next(Image(shared=Map({path: SharedSegmentState(1)})))
            path, _ = segment.put([b"slice"], flush=flush)
            segment.close()
            synced.append(str(flush))

        assert synced == ["False", "False", "bytes", "True", "False"]

    def test_that_does_not_grow_goes_on_in_a_further_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []
        monkeypatch.setattr(shared_segment, "FULL_BYTES", 2)
        monkeypatch.setattr(LocalFiles, "sync", lambda _, paths: synced.extend(paths))
        segment = SharedSegment(LocalFiles(str(tmp_path)), ManualClock())
        places = [segment.put([data], flush=True) for data in (b"a", b"b", b"c")]
        segment.close()

        (first, *_), (last, _) = places[0], places[-1]
        assert places == [(first, 0), (first, 1), (last, 0)]
        assert synced == [first, last]
        assert [(tmp_path / path).read_bytes() for path in synced] == [b"ab", b"c"]

    def test_that_fails_keeps_the_files_that_are_full(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shared_segment, "FULL_BYTES", 2)
        segment = SharedSegment(LocalFiles(str(tmp_path)), ManualClock())
        (full, _), (open_yet, _) = (segment.put([b"ab"], flush=True) for _ in range(2))
        segment.abort()

        assert (tmp_path / full).read_bytes() == b"ab"
        assert not (tmp_path / open_yet).exists()

    def test_may_be_completed_and_then_closed_if_it_does_not_grow(self, tmp_path: Path) -> None:
        segment = SharedSegment(LocalFiles(str(tmp_path)), ManualClock())
        path, _ = segment.put([b"slice"], flush=True)
        segment.complete()
        segment.close()

        assert (tmp_path / path).read_bytes() == b"slice"

    def test_is_a_file_of_each_commit_in_an_object_store(self) -> None:
        files = MemoryFiles()
        shared = SharedSegments(files, ManualClock())
        assert len({self.commit(shared) for _ in range(3)}) == 3
        assert {bytes(files.read(one.path)) for one in files.list(recursive=True)} == {b"slice"}


class TestMerge:
    def test_joins_slices_into_a_segment_of_the_partition(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=2)
        for number in range(3):
            append(log_dir, 0, [number])
        run(merge_segments, log_dir, seal=False)

        (segment,) = image(log_dir).segments(0)
        assert (segment.is_shared, segment.shift, segment.index_bytes) == (False, 0, 0)
        assert values(log_dir) == {0: ["0", "1", "2"]}
        assert [one.slice_count for one in catalog(log_dir).image().shared.values()] == [0, 0, 0]

    @pytest.mark.parametrize("policy", ["delete", "compact"])
    def test_takes_a_lone_slice_when_it_is_old(self, tmp_path: Path, policy: str) -> None:
        age = "sparklog.shared.segment.max.age.ms"
        log_dir = new_topic(tmp_path, partitions=1, config={age: 0, "cleanup.policy": policy})
        append(log_dir, 0, ["a"], keys=["k"])
        appended_ms = SystemClock().now_ms()
        while SystemClock().now_ms() == appended_ms:
            pass  # until the slice is older than now
        run(merge_segments, log_dir, seal=False)

        assert [one.is_shared for one in image(log_dir).segments(0)] == [False]

    def test_leaves_a_lone_slice_that_is_young(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path, partitions=1)
        append(log_dir, 0, ["a"])
        run(merge_segments, log_dir, seal=False)

        assert [one.is_shared for one in image(log_dir).segments(0)] == [True]
