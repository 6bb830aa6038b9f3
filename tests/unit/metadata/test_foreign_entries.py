"""Entries of another writer that change nothing: the history has them, with a right time."""

from pathlib import Path

import pytest

from sparklog.metadata.history.read import history, record_at, version_at
from sparklog.metadata.names import entry_path
from sparklog.metadata.runs.image_rows import rows_of
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.state.edit import FoldEdit
from sparklog.metadata.upkeep.fold import commit_fold, fold
from sparklog.storage.local import LocalFiles
from tests.metadata_logs import TOPIC_ID, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalFiles(str(tmp_path)))


def foreign(world: World, count: int = 1) -> int:
    """Put entries of another writer that change nothing; return the last one's version."""
    for version in range(world.log.image().version + 1, world.log.image().version + 1 + count):
        world.files.put_new(entry_path(version), b'{"commitInfo":{"operation":"VACUUM START"}}')
    return version


class TestForeignEntries:
    @pytest.mark.parametrize("folds", [(), ("before",), ("behind",), ("before", "behind")])
    def test_have_the_time_of_the_entry_before(self, world: World, folds: tuple[str]) -> None:
        """Goal: an entry of another writer leaves every question about a time right.

        Method: two of them among produces, folded or not, right behind a fold or not; ask for all.
        """
        world.produce(5)
        if "before" in folds:
            fold(world.log)
            world.log.image()
        version = foreign(world, 2)
        world.produce(4)
        if "behind" in folds:
            fold(world.log)

        found = list(history(world.log, newest_first=False))
        times = [one.timestamp_ms for one in found]
        assert times == sorted(times)
        assert found[version].stamp == (version, *found[version - 2].stamp[1:])
        assert [one.previous for one in found[1:]] == [one.id for one in found[:-1]]
        for time in times:
            newest = max(one.version for one in found if one.timestamp_ms == time)
            assert version_at(world.log, time) == newest

    def test_right_behind_a_fold_have_the_time_that_the_runs_tell(self, world: World) -> None:
        """Goal: the entry before may be folded. Method: one is put between a plan and its fold."""
        world.produce(5)
        image = world.log.image([TOPIC_ID])
        runs = (world.log.runs.write(in_order(rows_of(image)), (0, 6), 5),)
        version = foreign(world)
        assert commit_fold(world.log, FoldEdit(image.version, image.fold.cover, runs)) is not None

        assert record_at(world.log, version).stamp == (version, *image.stamp[1:])
