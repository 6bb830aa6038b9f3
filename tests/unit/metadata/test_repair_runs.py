"""Damaged runs are made again from the history or the fold before; else the damage is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.errors import CorruptMetadataError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.history import files as h
from sparklog.metadata.history.read import history, oldest_version
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import entry_path
from sparklog.metadata.upkeep.diagnosis import run_problem
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems, repair
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import World, names, read
from tests.repairing import cut, flip, found, made, mended


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(World(LocalFiles(str(tmp_path))))


Damage = Callable[[World, str], None]


def flip_page(world: World, path: str) -> None:
    flip(world, path, 60)


def gone(world: World, path: str) -> None:
    world.files.delete(path)


@pytest.mark.parametrize("harm", [cut, flip_page, gone])
class TestRuns:
    def test_one_is_made_again_from_the_history(self, world: World, harm: Damage) -> None:
        said = read(world.log)
        run = world.log.image().fold.runs[0].path
        harm(world, f"{CLUSTER_METADATA}/{run}")

        assert found(world) == [f"{CLUSTER_METADATA}/{run}"]
        (line, *_) = mended(world)
        assert line == "folded anew up to version 14"
        assert found(world) == []
        assert read(world.fresh()) == said
        assert [one.version for one in history(world.fresh())][-1] == 0

    def test_or_from_the_fold_before(
        self, world: World, harm: Damage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = read(world.log)
        image = world.log.image()
        harm(world, f"{CLUSTER_METADATA}/{image.fold.runs[-1].path}")
        for version in range(3):
            world.files.delete(entry_path(version))
        monkeypatch.setattr("sparklog.metadata.upkeep.diagnosis.oldest_version", lambda _: 7)

        repair(world.files, world.clock)
        assert found(world) == []
        assert read(world.fresh()) == said

    def test_else_it_is_told_and_nothing_is_moved(self, world: World, harm: Damage) -> None:
        image = world.log.image()
        run, past = image.fold.runs[-1].path, image.fold.history[0].path
        for path in (run, past):
            harm(world, f"{CLUSTER_METADATA}/{path}")
        for name in names(world.files, "_runs"):
            world.files.delete(f"{CLUSTER_METADATA}/_runs/{name}")
        before = names(world.files)

        assert {one.is_mendable for one in problems(world.files, world.clock)} == {False}
        with pytest.raises(CorruptMetadataError, match="_runs/"):
            repair(world.files, world.clock)
        assert names(world.files) == before

    def test_a_damaged_history_is_cut(
        self, world: World, harm: Damage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        world.produce(9)
        fold(world.log)
        said = read(world.log)
        runs = world.log.image().fold.history
        harm(world, f"{CLUSTER_METADATA}/{runs[-2].path}")

        assert found(world) == [f"{CLUSTER_METADATA}/{runs[-2].path}"]
        repair(world.files, world.clock)
        assert found(world) == []
        assert read(world.fresh()) == said
        assert oldest_version(world.fresh().image()) == runs[-1].from_version

    def test_a_damaged_cut_goes(
        self, world: World, harm: Damage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "CUT_EVERY", 4)
        world.produce(9)
        fold(world.log)
        said = read(world.log)
        harm(world, f"{CLUSTER_METADATA}/{world.log.image().fold.history[-1].path}")

        repair(world.files, world.clock)
        assert found(world) == []
        assert read(world.fresh()) == said


class TestHistoryRuns:
    def test_a_damaged_one_does_not_stand_in_for_a_run(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One of three is damaged, and so is a run: the edits between are not known."""
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)
        world.produce(3)
        fold(world.log)
        image = world.log.image()
        cut(world, f"{CLUSTER_METADATA}/{image.fold.history[1].path}")
        for name in names(world.files, "_runs"):
            cut(world, f"{CLUSTER_METADATA}/_runs/{name}")

        assert {one.is_mendable for one in problems(world.files, world.clock)} == {False}

    def test_that_hold_other_versions_are_told(self, world: World) -> None:
        image = world.log.image()
        run = image.fold.history[-1]
        table = h.rows_of_run(world.files, run)
        written = h.write(world.files, table.slice(1), (run.from_version, run.to_version), 5)
        reader = MetadataLog(world.files, world.clock)
        assert "does not hold the versions" in run_problem(reader, written)
        more = image.fold.runs[-1]._replace(rows=999)
        assert "rows; the fold" in run_problem(reader, more)
