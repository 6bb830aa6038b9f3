"""Runs: written rows are read, by topic and all at once; damage is an error with the name."""

import tracemalloc
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

from sparklog.clock import ManualClock
from sparklog.errors import CorruptMetadataError, UnsupportedFeatureError
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.runs import file
from sparklog.metadata.runs.file import footer, parquet_of
from sparklog.metadata.runs.image_rows import rows_of
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.runs.store import MANY, Runs
from sparklog.metadata.runs.tables import RUN_SCHEMA, check_columns, table_of
from sparklog.metadata.state.edit import FoldEdit, RunFile, Stamp
from sparklog.metadata.state.image import Image, SharedSegmentState
from sparklog.metadata.upkeep.fold import fold
from sparklog.record.checksum import crc32c
from sparklog.storage.memory import MemoryFiles
from tests.edits import NOW_MS, segment
from tests.metadata_language import Author, creating, new_log, producing, topic_id, whole
from tests.naive.metadata import said_by

FOLDER = "__cluster_metadata"


def written(image: Image) -> tuple[Runs, FoldEdit]:
    """One run of a whole image."""
    runs = Runs(MemoryFiles())
    rows = in_order(rows_of(image))
    run = runs.write(rows, (0, image.version), NOW_MS)
    return runs, FoldEdit(image.version, -1, (run,))


def opened(runs: Runs, fold: FoldEdit) -> Image:
    image = runs.image(fold)
    return image.with_topics(runs.opened(fold, image.topics))


def stored(data: bytes, run: RunFile) -> tuple[Runs, FoldEdit]:
    """Runs over a file with this content."""
    files = MemoryFiles()
    files.write_new(f"{FOLDER}/{run.path}", data)
    return Runs(files), FoldEdit(run.to_version, -1, (run,))


def some_image() -> Image:
    image = Image()
    for version, edit in enumerate([creating(0), creating(1)]):
        image = image.apply((edit,), Stamp(version, str(version), NOW_MS))
    for version in range(2, 9):
        edit = producing(segment(version % 2), number=version % 2)(image)
        image = image.apply((edit,), Stamp(version, str(version), NOW_MS))
    return image


class TestRoundTrip:
    @settings(max_examples=25, deadline=None)
    @given(st.randoms(use_true_random=False), st.sampled_from([2, 7, 16_384]))
    def test_an_image_is_read_as_it_was_written(self, random: Random, group_rows: int) -> None:
        """Goal: covered and opened give the image. Method: images at random, groups of any size."""
        author, image = Author(random), Image()
        for version in range(20):
            stamp = Stamp(version, str(version), author.now_ms)
            image = image.apply((author.edit(image),), stamp)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file, "GROUP_ROWS", group_rows)
            runs, fold = written(image)

        assert said_by(opened(runs, fold)) == said_by(image)
        for one in image.topics:
            closed = runs.image(fold).topics[one]
            found = runs.opened(fold, {one: closed})[one]
            assert said_by(image.with_topics({one: found})) == said_by(image)

    def test_each_row_group_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file, "GROUP_ROWS", 3)
        image = some_image()
        runs, fold = written(image)
        covered = runs.image(fold)
        read: list[int] = []
        original = file.RunReader.read

        def counted(reader: Any, groups: Any) -> Any:
            read.extend(groups)
            return original(reader, groups)

        monkeypatch.setattr(file.RunReader, "read", counted)
        runs.opened(fold, covered.topics)

        assert len(read) == len(set(read)) > 2

    def test_many_topics_are_opened_at_once(self) -> None:
        image = Image()
        for number in range(MANY + 2):
            image = image.apply((creating(number),), Stamp(number, str(number), NOW_MS))

        assert said_by(opened(*written(image))) == said_by(image)

    def test_a_shared_segment_takes_little_memory(self) -> None:
        """Each service makes one a second, and vacuum forgets it a day later."""
        shared = Map({f"__shared/{one}.log": SharedSegmentState(0, NOW_MS) for one in range(5_000)})
        runs, fold = written(Image(Stamp(0, "0", NOW_MS), shared=shared))
        tracemalloc.start()
        found = runs.image(fold).shared
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert found == shared
        assert peak_bytes < 800 * len(shared)

    def test_nothing_is_opened_of_no_runs(self) -> None:
        assert Runs(MemoryFiles()).opened(FoldEdit(-1, -1, ()), {}) == {}


class TestDamage:
    @pytest.mark.parametrize("part", range(0, 32, 4))
    def test_any_bit_is_noticed(self, part: int) -> None:
        image = some_image()
        runs, fold = written(image)
        run = fold.runs[0]
        data = bytes(runs._files.read(f"{FOLDER}/{run.path}"))
        for at in range(4 + part, len(data), 32):
            flipped = bytearray(data)
            flipped[at] ^= 1 << (at % 8)

            with pytest.raises(CorruptMetadataError, match=run.path):
                opened(*stored(bytes(flipped), run))

    @pytest.mark.parametrize("length", [0, 3, 8, 500, -9, -1])
    def test_any_truncation_is_noticed(self, length: int) -> None:
        runs, fold = written(some_image())
        run = fold.runs[0]
        data = bytes(runs._files.read(f"{FOLDER}/{run.path}"))

        with pytest.raises(CorruptMetadataError, match=run.path):
            opened(*stored(data[:length], run))

    def test_a_longer_file_is_another_one(self) -> None:
        runs, fold = written(some_image())
        run = fold.runs[0]
        data = bytes(runs._files.read(f"{FOLDER}/{run.path}"))

        with pytest.raises(CorruptMetadataError, match="the file differs: run sparklog verify"):
            opened(*stored(data + data, run))

    def test_a_long_footer_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file, "FOOTER_GUESS", 100)
        image = some_image()

        assert said_by(opened(*written(image))) == said_by(image)


class TestOtherFiles:
    """Files with the right checksum in the footer that are no runs."""

    @staticmethod
    def described(data: bytes) -> tuple[Runs, FoldEdit]:
        name = "_runs/x.parquet"
        return stored(data, RunFile(name, len(data), crc32c(footer(data)), 1, 0, 1))

    @staticmethod
    def parquet(**metadata: str) -> bytes:
        sink = pa.BufferOutputStream()
        table = pa.table({"a": [1]})
        with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(metadata)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @pytest.mark.parametrize(
        "data",
        [
            b"PAR1" + bytes(20),
            parquet(),
            parquet(**{"sparklog.groups": "5"}),
            parquet(**{"sparklog.groups": "[[1]]"}),
            parquet(**{"sparklog.groups": "[]"}),
            parquet(**{"sparklog.groups": "[[0, 4, 1, null, null], [4, 8, 1, null, null]]"}),
        ],
    )
    def test_are_told_by_name(self, data: bytes) -> None:
        with pytest.raises(CorruptMetadataError, match="_runs/x.parquet"):
            Runs.image(*self.described(data))

    def test_a_run_without_its_horizon_is_damaged(self) -> None:
        rows = table_of([{"kind": "topic", "as_of": 1, "gone": False, "topic_id": "t"}], RUN_SCHEMA)

        with pytest.raises(CorruptMetadataError, match="lack their horizon"):
            Runs.image(*self.described(parquet_of(rows)))


class TestColumns:
    ROW = pa.table({"kind": ["topic"], "as_of": [1], "gone": [False], "topic_id": ["t"]})

    @pytest.mark.parametrize(
        ("table", "what"),
        [
            (ROW.append_column("new", pa.array([1])), "columns .* new"),
            (ROW.set_column(0, "kind", pa.array(["new"])), "kinds .* new"),
        ],
    )
    def test_of_a_newer_release_are_told_by_name(self, table: pa.Table, what: str) -> None:
        with pytest.raises(UnsupportedFeatureError, match=f"x: {what}"):
            check_columns(table, "x")

    @pytest.mark.parametrize(
        "table", [ROW.drop(["gone"]), ROW.set_column(1, "as_of", pa.array(["a"]))]
    )
    def test_of_no_run_are_told_by_name(self, table: pa.Table) -> None:
        with pytest.raises(CorruptMetadataError, match="x: no rows of a run"):
            check_columns(table, "x")


class TestFolds:
    def test_a_topic_made_after_the_fold_is_opened_from_its_edits(self) -> None:
        log = new_log()
        fold(log)
        log.commit(lambda _: creating(1))
        log.commit(producing(segment(), number=1), [topic_id(1)])

        assert said_by(whole(MetadataLog(log.files, ManualClock()))) == said_by(whole(log))

    def test_waiting_edits_that_a_fold_covers_wait_no_longer(self) -> None:
        log = new_log()
        fold(log)
        other = MetadataLog(log.files, log.clock)
        other.image()
        log.commit(producing(segment()), [topic_id(0)])
        fold(log)
        log.commit(producing(segment()), [topic_id(0)])
        closed = other.image().topics[topic_id(0)]

        assert [stamp.version for _, stamp in closed.waiting] == [5]
        assert said_by(whole(other)) == said_by(whole(log))
