"""Folding: an image read from runs equals the image of the entries."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from sparklog.errors import CorruptMetadataError, LateWriterError
from sparklog.log.names import CLUSTER_METADATA, random_uuid
from sparklog.metadata.runs.image_rows import rows_of
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.runs.tables import PRODUCER, RECEIPT
from sparklog.metadata.state.edit import (
    ALL_FILES_MS,
    Edit,
    FoldEdit,
    Lease,
    Receipt,
    ReceiptKey,
    Stamp,
    TopicEdit,
)
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.producers import ProducerState
from sparklog.metadata.upkeep import fold as f
from sparklog.metadata.upkeep.fold import commit_fold, fold, is_due
from sparklog.model import SegmentEntry, SegmentKey, TopicDescription
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.metadata_logs import TOPIC_ID, World, appended, read, segment
from tests.repairing import flip


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalFiles(str(tmp_path)))


def placed(entry: SegmentEntry) -> Callable[[Image], Edit]:
    """A plan that appends a segment."""
    return lambda image: appended(image, entry)


def removed(key: SegmentKey) -> Edit:
    """An edit that removes a segment."""
    return Edit(operation="MERGE", topics={TOPIC_ID: TopicEdit(remove=(key,), removed_ms=5)})


class TestFold:
    def test_an_opener_reads_the_same(self, world: World) -> None:
        for count in (1, 9, 2, 30, 1):
            world.produce(count)
            world.remove_first(1) if world.made > 12 else None
            said = read(world.log)
            fold(world.log)

            assert read(world.fresh()) == said == read(world.log)

    def test_nothing_new_is_no_fold(self, world: World) -> None:
        fold(world.log)

        assert fold(world.log) is None
        assert fold(world.log, is_forced=True) is not None

    def test_nothing_at_all_is_none(self) -> None:
        world = World(MemoryFiles())
        world.log.go_on_from(Image(Stamp(1, "x", 0), fold=FoldEdit(1, 0, ())), "")

        assert fold(world.log) is None

    def test_of_two_one_wins(self, world: World) -> None:
        world.produce(3)
        other = world.fresh()
        runs = other.image().fold.runs
        fold(world.log)
        made = FoldEdit(3, -1, runs)

        assert commit_fold(other, made) is None
        assert commit_fold(other, FoldEdit(3, 4, runs)) is None

    def test_one_that_lost_after_its_plan_gives_up(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise LateWriterError("written before the vacuum horizon")

        world.produce(3)
        monkeypatch.setattr("sparklog.metadata.batch.check", refuse)

        assert fold(world.log) is None

    @pytest.mark.parametrize(
        "damage",
        [lambda path: path.write_bytes(path.read_bytes()[:-9] + b"#" * 9), Path.unlink],
        ids=["damaged", "missing"],
    )
    def test_a_run_that_cannot_be_read_is_not_taken_in(
        self, world: World, damage: Callable[[Path], object]
    ) -> None:
        world.produce(3)
        fold(world.log)
        path = Path(world.files.uri, CLUSTER_METADATA, world.log.image().fold.runs[0].path)
        log = world.fresh()
        log.image([TOPIC_ID])
        world.produce(9)
        log.image([TOPIC_ID])
        damage(path)
        log.runs._reader.cache_clear()
        folded = fold(log)

        assert folded is not None
        assert len(folded.fold.runs) == 2

    def test_a_deleted_topic_need_not_be_readable(self, world: World) -> None:
        world.produce(3)
        fold(world.log)
        [run] = world.log.image().fold.runs
        topics_at = world.log.runs._reader(run).groups[-1].start
        flip(world, f"{CLUSTER_METADATA}/{run.path}", topics_at)
        log = world.fresh()
        description = replace(log.image().topics[TOPIC_ID].description, deleted_ms=2)
        deletion = {TOPIC_ID: TopicEdit(description=description)}
        log.commit(lambda _: Edit(operation="DELETE TOPICS", topics=deletion), housekeeping=False)

        assert fold(log) is not None
        assert world.fresh().image().topics[TOPIC_ID].deleted_ms == 2

    def test_a_topic_that_must_be_readable_names_the_remedy(self, world: World) -> None:
        world.produce(3)
        fold(world.log)
        [run] = world.log.image().fold.runs
        end = world.log.runs._reader(run).groups[-1].end
        flip(world, f"{CLUSTER_METADATA}/{run.path}", end - 1)
        world.produce(3)

        with pytest.raises(CorruptMetadataError, match="checksum: run sparklog verify --repair"):
            fold(world.fresh())

    def test_forgotten_topics_leave_no_rows(self, world: World) -> None:
        other = TopicDescription("gone", random_uuid(b"0" * 16), 1, {}, 1)
        made = {other.topic_id: TopicEdit(description=other)}
        world.commit(Edit(operation="CREATE TOPICS", topics=made))
        world.commit(Edit(operation="LEASE", leases={"a": Lease("a", "me", 5)}))
        fold(world.log)
        gone = TopicEdit(description=replace(other, deleted_ms=2))
        world.commit(Edit(operation="DELETE TOPICS", topics={other.topic_id: gone}))
        erased = TopicEdit(vacuum_horizon_ms=ALL_FILES_MS)
        world.commit(Edit(operation="VACUUM", topics={other.topic_id: erased}))
        world.commit(Edit(operation="FORGET", forget_topics=[other.topic_id]))
        world.commit(Edit(operation="LEASE", leases={"a": None}))
        world.produce(9)
        folded = fold(world.log)

        assert folded is not None
        rows = world.log.runs.whole(folded.fold.runs[-1])
        assert other.topic_id not in rows.column("topic_id").to_pylist()
        assert dict(world.fresh().image().leases) == {}

    def test_a_slice_that_comes_and_goes_between_two_folds_leaves_no_row(
        self, world: World
    ) -> None:
        path = "__shared/018bcfe5-6800-7c3e-9f00-000000000001.log"
        entries = [
            segment(1, number)._replace(log_path=path, log_position=number, index_path=None)
            for number in (1, 2)
        ]
        world.produce(2)
        first, second = (entry.key for entry in entries)
        for entry in entries:
            world.commit(placed(entry))
        world.commit(removed(first))
        folded = fold(world.log)
        assert folded is not None
        rows = world.log.runs.whole(folded.fold.runs[-1])
        found = rows.filter(pc.equal(rows.column("log_path"), path))
        kinds = found.filter(pc.equal(found.column("kind"), "segment"))
        assert kinds.column("log_position").to_pylist() == [2]
        world.commit(removed(second))
        said = read(world.log)
        fold(world.log)

        assert read(world.fresh()) == said

    def test_shared_segments_and_forgotten_receipts(self, world: World) -> None:
        path = "__shared/018bcfe5-6800-7c3e-9f00-000000000001.log"
        entry = segment(1, 1)._replace(log_path=path, index_path=None, index_bytes=None)
        world.commit(lambda image: appended(image, entry))
        fold(world.log)
        assert dict(world.fresh().image().shared).keys() == {path}
        key = entry._replace(base_offset=0).key
        gone = TopicEdit(remove=(key,), removed_ms=5, forget_receipts_before_ms=2**50)
        world.commit(Edit(operation="MERGE", topics={TOPIC_ID: gone}))
        world.commit(Edit(operation="VACUUM", forget_shared=(path,)))
        world.produce(9)
        said = read(world.log)
        fold(world.log)

        assert dict(world.fresh().image().shared) == {}
        assert read(world.fresh()) == said

    def test_a_receipt_that_came_and_went_leaves_a_row(self, world: World) -> None:
        world.produce(1)
        gone = TopicEdit(forget_receipts_before_ms=2**50)
        world.commit(Edit(operation="RETENTION", topics={TOPIC_ID: gone}))
        said = read(world.log)
        fold(world.log)

        assert read(world.fresh()) == said

    def test_a_producer_that_came_and_went_leaves_a_row(self, world: World) -> None:
        used = {TOPIC_ID: TopicEdit(producers={0: (ProducerState(7, 0),)})}
        world.commit(Edit(operation="PRODUCE", topics=used))
        fold(world.log)
        world.commit(Edit(operation="PRODUCE", topics=used))
        gone = {TOPIC_ID: TopicEdit(forget_producers_before_ms=2**50)}
        world.commit(Edit(operation="VACUUM", topics=gone))
        said = read(world.log)
        fold(world.log)

        assert read(world.fresh()) == said

    def test_forgotten_receipts_leave_no_rows_of_older_runs(self, world: World) -> None:
        """Goal: runs do not grow with receipts that nobody reads.

        Method: fold ten receipts, one of a version; forget them; fold new ones; count the rows.
        """
        world.produce(9)
        receipts = {ReceiptKey("job", is_versioned=True): Receipt(())}
        versioned = {TOPIC_ID: TopicEdit(receipts=receipts)}
        world.commit(Edit(operation="PRODUCE", topics=versioned))
        fold(world.log)
        gone = {TOPIC_ID: TopicEdit(forget_receipts_before_ms=2**50)}
        world.commit(Edit(operation="VACUUM", topics=gone))
        world.produce(3)
        said = read(world.log)
        fold(world.log)
        world.produce(15)  # a run as large takes the one before it in
        folded = fold(world.log)

        assert folded is not None
        (run,) = folded.fold.runs
        rows = world.log.runs.whole(run)
        receipts_left = rows.filter(pc.equal(rows.column("kind"), RECEIPT))
        assert receipts_left.num_rows == 3 + 15 + 1
        assert said[TOPIC_ID][3].items() <= read(world.fresh())[TOPIC_ID][3].items()
        assert read(world.fresh()) == read(world.log)

    def test_forgotten_producers_leave_no_rows_of_older_runs(self, world: World) -> None:
        """Goal: runs do not grow with producers that nobody reads.

        Method: fold ten states, forget them, fold two new ones and enough for a run of all rows.
        """
        many = tuple(ProducerState(one, 0) for one in range(10))
        world.commit(Edit(operation="PRODUCE", topics={TOPIC_ID: TopicEdit(producers={1: many})}))
        world.produce(9)
        fold(world.log)
        gone = {TOPIC_ID: TopicEdit(forget_producers_before_ms=2**50)}
        world.commit(Edit(operation="VACUUM", topics=gone))
        few = {TOPIC_ID: TopicEdit(producers={1: many[:1], 3: many[:1]})}
        world.commit(Edit(operation="PRODUCE", topics=few))
        fold(world.log)
        topic = world.fresh().image([TOPIC_ID]).topic(TOPIC_ID)
        assert topic is not None
        assert [list(topic.partition(number).producers) for number in (1, 3)] == [[0], [0]]
        world.produce(25)  # a run as large takes the one before it in
        folded = fold(world.log)

        assert folded is not None
        (run,) = folded.fold.runs
        kinds = world.log.runs.whole(run).column("kind").to_pylist()
        assert kinds.count(PRODUCER) == 2

    def test_rows_of_an_image_are_all_of_it(self, world: World) -> None:
        world.produce(9)
        world.remove_first(1)
        states = {2: (ProducerState(7, 1),)}
        world.commit(Edit(operation="PRODUCE", topics={TOPIC_ID: TopicEdit(producers=states)}))
        image = world.log.image([TOPIC_ID])
        rows = in_order(rows_of(image))
        run = world.log.runs.write(rows, (0, image.version), 5)
        made = FoldEdit(image.version, image.fold.cover, (run,))
        said = read(world.log)

        assert commit_fold(world.log, made) is not None
        assert read(world.fresh()) == said


class TestIsDue:
    @pytest.mark.parametrize(
        ("version", "cover", "size", "due"),
        [
            (256, 0, 0, True),
            (255, 0, 0, False),
            (256, 255, 0, False),
            (1023, -1, 0, True),
            (1025, 0, 0, True),
            (9, 0, 4 << 20, True),
            (9, 8, 4 << 20, False),
        ],
    )
    def test_every_256_or_late_or_large(
        self, version: int, cover: int, size: int, due: bool
    ) -> None:
        image = Image(Stamp(version, "", 0), fold=FoldEdit(cover, 0, ()))

        assert is_due(image, size) is due

    def test_the_log_counts_the_bytes(self, world: World) -> None:
        world.produce(5)
        fresh = world.fresh()
        fresh.image()

        assert fresh.bytes_behind == world.log.bytes_behind > 5 * 500
        fold(world.log)
        fresh.image()
        assert fresh.bytes_behind == world.log.bytes_behind == 0


def test_constants_are_those_of_the_design() -> None:
    assert (f.FOLD_EVERY, f.FOLD_AT_THE_LATEST) == (256, 1024)
    assert f.FOLD_AT_THE_LATEST_BYTES == 4 << 20
