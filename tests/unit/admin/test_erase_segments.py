"""Erase in segments with a key index, and in shared segments."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.admin.erase import erase
from sparklog.admin.erase_segment import DeadBytes, search_dead, stretches_between
from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.log_writer.shared_segment import GROWS_MS
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.verification.verify import verify
from sparklog.model import Codec
from sparklog.storage.memory import MemoryFiles
from tests.appends import Appender
from tests.client_batches import NOW_MS, client_batch
from tests.compaction import keyed_batch
from tests.erasing import (
    ALICE,
    COMPACTED,
    SECRET,
    Meanwhile,
    erased,
    flip,
    left,
    share,
    swept,
    unshare,
)
from tests.logs import append, catalog, image, new_topic, rows
from tests.maintenance import outcome_of, run


class TestKeyIndexes:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        """A topic that was compacted: her newest record is in a segment with a key index."""
        found = new_topic(tmp_path / "log", partitions=2, config=COMPACTED)
        for partition in (0, 1):
            names = [ALICE, "key-1"] if partition == 0 else ["key-2", "key-3"]
            append(found, partition, [SECRET if ALICE in names else "u", "v"], keys=names)
            append(found, partition, ["new"], keys=["key-9"])
        outcome_of(compact, found, force=True, reindex=False)
        return found

    def test_spare_the_segments_without_her(self, log_dir: str) -> None:
        report = erased(log_dir, ALICE, dry_run=True)

        assert (report.records, report.spared) == (1, 1)

    def test_know_her_no_longer(self, log_dir: str) -> None:
        erased(log_dir, ALICE)

        assert swept(log_dir) == []
        assert image(log_dir).partition(0).entries()[0].key_index_path is not None
        assert erased(log_dir, ALICE).spared == 2

    def test_serve_the_next_compaction(self, log_dir: str) -> None:
        erased(log_dir, ALICE)
        append(log_dir, 0, ["newer"], keys=["key-1"])
        append(log_dir, 0, ["newest"], keys=["key-8"])
        outcome_of(compact, log_dir, force=True, reindex=False)

        assert [row.value for row in rows(log_dir)[0]] == [b"new", b"newer", b"newest"]

    def test_delete_horizons_stay_as_they_are(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "horizon", partitions=1, config=COMPACTED)
        append(log_dir, 0, [SECRET, None, "v"], keys=[ALICE, "gone", "here"])
        append(log_dir, 0, ["w"], keys=["other"])
        outcome_of(compact, log_dir, force=True, reindex=False)
        before = image(log_dir).partition(0).entries()[0].delete_horizon_ms
        erased(log_dir, ALICE)

        assert before is not None
        assert image(log_dir).partition(0).entries()[0].delete_horizon_ms == before
        assert [row.value for row in rows(log_dir)[0]] == [None, b"v", b"w"]
        assert run(verify, log_dir, repair=False, records=True, table=False)[0] == 0

    @pytest.mark.parametrize("damage", [lambda path: flip(path, 9), Path.unlink])
    def test_that_cannot_be_read_spare_nothing(
        self, log_dir: str, damage: Callable[[Path], object]
    ) -> None:
        for path in Path(log_dir).rglob("t-1/*.keyindex"):
            damage(path)

        assert erased(log_dir, ALICE, dry_run=True).spared == 0


class TestSharedSegments:
    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        found = new_topic(tmp_path / "log", partitions=2)
        return new_topic(found, "u", partitions=1)

    def test_are_left_by_all_their_slices(self, log_dir: str) -> None:
        share(log_dir)
        report = erased(log_dir, ALICE)

        assert (report.records, report.moved) == (3, 2)
        assert [one.slice_count for _, one in catalog(log_dir).image().shared.items()] == [0]
        assert swept(log_dir) == []
        assert len(rows(log_dir)[1]) == len(rows(log_dir, "u")[0]) == 2

    def test_hold_her_after_a_merge_took_her_slice_away(self, log_dir: str) -> None:
        share(log_dir)
        unshare(log_dir)
        report = erased(log_dir, ALICE)

        assert (report.records, report.moved) == (3, 1)
        assert swept(log_dir) == []

    def test_are_left_by_slices_that_join_meanwhile(self, log_dir: str) -> None:
        world = Appender(log_dir, flush=True)
        world.append(("t", 0, client_batch("v", keys=[ALICE.encode()])))
        fleet = Meanwhile("search t", lambda: world.append(("t", 1, client_batch("w"))))
        report = erase(world.catalog, "t", [ALICE], fleet)

        assert (report.records, report.moved) == (1, 1)
        assert swept(log_dir) == []
        assert left(log_dir)[1] == [0]

    def test_are_waited_for_while_they_grow(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.admin.erase.GROWS_MS", GROWS_MS)
        world = Appender(log_dir, flush=True)
        world.append(("t", 0, client_batch("v", keys=[ALICE.encode()])))
        world.catalog.clock.sleep_ms(100)
        report = erase(world.catalog, "t", [ALICE], LocalFleet())

        assert (report.records, report.moved) == (1, 0)
        assert world.catalog.clock.now_ms() == NOW_MS + GROWS_MS

    def test_whose_dead_bytes_have_nothing_of_her_stay(self, log_dir: str) -> None:
        share(log_dir)
        unshare(log_dir)

        assert erased(log_dir, "nobody").moved == 0

    @pytest.mark.parametrize("position", [16, 80])
    def test_of_which_dead_bytes_cannot_be_read_are_left(self, log_dir: str, position: int) -> None:
        """Nobody can tell whether she is in there: the magic, or what is compressed, is damaged."""
        share(log_dir)
        unshare(log_dir)
        (path,) = Path(log_dir, "__shared").iterdir()
        flip(path, position)

        assert erased(log_dir, "nobody").moved == 1

    @pytest.mark.parametrize(("key", "holds"), [("x" * 1000, True), ("y", False)])
    def test_of_which_dead_bytes_compress_well_are_searched_in_groups(
        self, monkeypatch: pytest.MonkeyPatch, key: str, holds: bool
    ) -> None:
        monkeypatch.setattr("sparklog.log_reader.slices.DECOMPRESSED_BYTES_MAX", 4000)
        monkeypatch.setattr("sparklog.record.columns.COLUMN_BYTES_MAX", 5000)
        data = keyed_batch(*["x" * 1000] * 9, codec=Codec.ZSTD, batch_bytes=1)(0)
        files = MemoryFiles()
        files.write_new("dead", data)
        stretches = ((0, len(data)),)

        work = DeadBytes(files=files, path="dead", stretches=stretches, keys=(key.encode(),))
        assert search_dead(work) == holds

    def test_without_her_stay(self, log_dir: str) -> None:
        share(log_dir)

        assert erased(log_dir, "nobody").moved == 0
        assert {one.slice_count for _, one in catalog(log_dir).image().shared.items()} == {3}

    def test_whose_file_is_gone_are_told_by_the_reader(self, log_dir: str) -> None:
        share(log_dir)
        for path in Path(log_dir, "__shared").iterdir():
            path.unlink()

        with pytest.raises(SparklogError):
            erased(log_dir, ALICE)

    @pytest.mark.parametrize(
        ("spans", "between"),
        [
            ([], ((0, 9),)),
            ([(0, 9)], ()),
            ([(5, 2), (0, 3), (5, 2)], ((3, 2), (7, 2))),
            ([(0, 8), (2, 2)], ((8, 1),)),
        ],
    )
    def test_have_bytes_between_slices(
        self, spans: list[tuple[int, int]], between: tuple[tuple[int, int], ...]
    ) -> None:
        assert stretches_between(spans, 9) == between
