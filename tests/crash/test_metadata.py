"""A process that folds, cleans or repairs is killed between every two steps.

On S3 a step is a request: the process is cut off from the store behind it. An opener then sees the
same as the twin: a log that was never folded. Run again, it comes to its end.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from sparklog.clock import ManualClock
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.history import files as h
from sparklog.metadata.history.read import history
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.upkeep import clean as c
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems, repair
from sparklog.storage.files import Files
from tests.cutting import CrashingObjectFiles, CuttingProxy, copied, is_killed
from tests.metadata_logs import (
    CrashingLocalFiles,
    CrashingMemoryFiles,
    World,
    names,
    read,
)
from tests.s3 import S3Server, s3_server

__all__ = ["s3_server"]

pytestmark = pytest.mark.slow

S3 = pytest.param("s3", marks=pytest.mark.s3)
Killable = CrashingLocalFiles | CrashingMemoryFiles | CuttingProxy
Work = Callable[[World], object]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h, "CUT_EVERY", 4)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[CuttingProxy]:
    with CuttingProxy(s3_server.endpoint) as found:
        yield found


@pytest.fixture(params=["local", "memory", S3])
def worlds(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], World]:
    """Makes a world with two folds, both aged, and entries behind them."""
    made = iter(range(1000))

    def local() -> World:
        return peopled(World(CrashingLocalFiles(str(tmp_path / str(next(made))))))

    def memory() -> World:
        clock = ManualClock()
        return peopled(World(CrashingMemoryFiles(clock), clock))

    if request.param != "s3":
        return local if request.param == "local" else memory
    server: S3Server = request.getfixturevalue("s3_server")
    proxy: CuttingProxy = request.getfixturevalue("proxy")
    template = memory()
    return lambda: template.copied(copied(template.files, server.new_log_dir(), proxy))


def peopled(world: World) -> World:
    """The world with all that a test wants in it."""
    world.produce(5)
    world.remove_first(2)
    fold(world.log)
    world.produce(4)
    fold(world.log)
    world.age()
    world.produce(3)
    return world


def killed(world: World, work: Work, step: int) -> bool:
    """Do some work in a process that is killed at a step; return whether it was."""
    files = world.files
    victim = files.proxy if isinstance(files, CrashingObjectFiles) else files
    assert isinstance(victim, Killable)
    return is_killed(victim, lambda: work(world), step)


def every_step(worlds: Callable[[], World], work: Work) -> Iterator[World]:
    """Return worlds in which the work was killed before its first step, before its second …"""
    step, world = 0, worlds()
    while killed(world, work, step):
        yield world
        step, world = step + 1, worlds()
    assert 3 < step < 100


def fold_it(world: World) -> None:
    fold(world.fresh())


def fold_and_clean(world: World) -> None:
    fold(world.fresh())
    clean(world.fresh())


@pytest.mark.parametrize("worlds", ["local", S3], indirect=True)
class TestFold:
    def test_an_opener_sees_what_it_saw(self, worlds: Callable[[], World]) -> None:
        for world in every_step(worlds, fold_it):
            said = read(world.log)
            assert read(world.fresh()) == said
            fold(world.fresh())
            assert read(world.fresh()) == said
            assert list(problems(world.files, world.clock)) == []
            assert [one.version for one in history(world.fresh(), newest_first=False)] == list(
                range(world.fresh().image().version + 1)
            )


class TestClean:
    @pytest.mark.parametrize("worlds", ["local", S3], indirect=True)
    def test_an_opener_finds_its_way(self, worlds: Callable[[], World]) -> None:
        for world in every_step(worlds, fold_and_clean):
            said = read(world.log)
            assert read(world.fresh()) == said
            world.produce(1)
            said = read(world.log)
            fold(world.fresh())
            assert clean(world.fresh()) is not None
            assert read(world.fresh()) == said
            assert list(problems(world.files, world.clock)) == []
            assert names(world.files, "_marks") == [f"{13:020}-{13:020}"]
            entries = [n for n in names(world.files, "_delta_log") if n.endswith(".json")]
            assert all(int(name[:20]) >= 13 for name in entries)

    def test_with_any_hint(self, worlds: Callable[[], World]) -> None:
        """The hint may be gone, or be one that a late folder wrote."""
        hint = f"{CLUSTER_METADATA}/_newest_fold"
        for world in every_step(worlds, fold_and_clean):
            said = read(world.log)
            world.files.overwrite(hint, b'{"version": 8}')
            assert read(world.fresh()) == said
            world.files.delete(hint)
            assert read(world.fresh()) == said

    def test_bounded_work_goes_on(
        self, worlds: Callable[[], World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = worlds()
        said = read(world.log)
        fold(world.log)
        gone = [clean(world.log, at_most=3) for _ in range(9)]

        assert [one.files for one in gone if one][-1] == 0
        assert read(world.fresh()) == said
        assert c.CLEAN_MAX > 1000


@pytest.mark.parametrize("worlds", ["local", "memory"], indirect=True)
class TestACleanerOfYesterday:
    def test_takes_nothing_away(self, worlds: Callable[[], World]) -> None:
        """It is stopped before each of its steps, the world goes on, then it goes on, too."""
        step, was_late = 0, True
        while was_late:
            world = worlds()
            late = _Late(world, step)
            fold(world.log)
            clean(MetadataLog(cast(Files, late), world.clock))
            assert read(world.fresh()) == read(world.log)
            assert list(problems(world.files, world.clock)) == []
            step, was_late = step + 1, late.was_late
        assert 8 < step < 40


class _Late:
    """Files whose user sleeps before step `step`; others fold and clean meanwhile."""

    def __init__(self, world: World, step: int) -> None:
        self._world = world
        self._left = step
        self.was_late = False

    def __getattr__(self, name: str) -> object:
        found = getattr(self._world.files, name)
        if name not in {
            "delete",
            "delete_many",
            "put_new",
            "sync",
            "sync_directory",
            "stat",
            "list",
            "read",
        }:
            return found
        if self._left == 0:
            self.was_late = True
            _a_day(self._world)
        self._left -= 1
        return found


def _a_day(world: World) -> None:
    for _ in range(2):
        world.produce(4)
        fold(world.log)
        world.age()
        world.produce(1)
        fold(world.log)
        clean(world.fresh())


class TestRepair:
    @pytest.fixture
    def worlds(self, tmp_path: Path) -> Callable[[], World]:
        """Makes a world with a torn entry, one behind it, a torn hint and a torn checkpoint."""
        made = iter(range(1000))

        def make() -> World:
            world = World(CrashingLocalFiles(str(tmp_path / str(next(made)))))
            world.produce(5)
            fold(world.log)
            world.produce(1)
            world.said = read(world.fresh())  # type: ignore[attr-defined] # kept for the next step
            world.produce(3)
            log = Path(world.files.uri, ENTRIES)
            (log / f"{9:020}.json").write_bytes(b'{"commitInfo":')
            (log / "_last_checkpoint").write_bytes(b"")
            (log / f"{7:020}.checkpoint.parquet").write_bytes(b"PAR1")
            Path(world.files.uri, CLUSTER_METADATA, "_newest_fold").write_bytes(b"")
            return world

        return make

    def test_is_run_again(self, worlds: Callable[[], World]) -> None:
        for world in every_step(worlds, lambda world: repair(world.files, world.clock)):
            repair(world.files, world.clock)
            assert list(problems(world.files, world.clock)) == []
            assert read(world.fresh()) == world.said  # type: ignore[attr-defined] # kept for the next step
