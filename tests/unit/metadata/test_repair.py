"""Damaged files, but for runs: found by name, mended where it can be, nothing is deleted."""

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    SparklogError,
    UnsupportedFeatureError,
)
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES, HINT, POINTER, TORN, checkpoint_path, entry_path
from sparklog.metadata.turn import Turn
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems, repair
from sparklog.storage.files import FileStat
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.metadata_logs import NOW_MS, World, names, read
from tests.repairing import cut, damage, flip, found, made, mended

MARKS_DIRECTORY = f"{CLUSTER_METADATA}/_marks"
FOLDED = 7
"""The version of the first fold: it covers 0 to 6. A second one is 12, and 14 is the last entry."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(World(LocalFiles(str(tmp_path))))


def put_aside(world: World) -> list[str]:
    """Repair; return the names of the files put aside, after checking that no problem is left."""
    done = mended(world)
    assert found(world) == []
    assert mended(world) == []
    fresh = copy(world)
    fresh.log = world.fresh()
    before = fresh.log.image().version
    assert fresh.produce(1) == before + 1
    return [line.partition(f"; put aside as {TORN}/")[2] for line in done if TORN in line]


def records(world: World) -> int:
    """Return how many records the log has."""
    image = world.fresh().image(list(world.fresh().image().topics))
    return sum(
        log.log_end_offset for topic in image.topics.values() for log in topic.partitions.values()
    )


class TestASoundLog:
    def test_has_no_problems(self, world: World) -> None:
        assert found(world) == []
        assert mended(world) == []
        assert not (Path(world.files.uri) / TORN).exists()

    def test_an_entry_that_a_list_missed_is_no_hole(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listing = LocalFiles.list
        missed = (entry_path(13), entry_path(3))

        def without_one(files: LocalFiles, *where: Any, **how: Any) -> Iterator[FileStat]:
            return (one for one in listing(files, *where, **how) if one.path not in missed)

        monkeypatch.setattr(LocalFiles, "list", without_one)
        assert found(world) == []

    def test_no_log_has_none(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path / "none"))

        assert list(problems(files, ManualClock())) == []

    def test_foreign_commits_without_effect_are_none(self, world: World) -> None:
        for version in (15, 16):
            text = '{"commitInfo":{"operation":"VACUUM START"}}\n'
            world.files.put_new(entry_path(version), text.encode())
        world.produce(1)

        assert found(world) == []

    def test_a_newer_release_is_not_judged(self, world: World) -> None:
        data = bytes(world.files.read(entry_path(14)))
        newer = data.replace(
            b'"operation":"PRODUCE","topics"', b'"newer":1,"operation":"X","topics"'
        )
        at = newer.find(b"\n") - len(b'"}}}') - 8
        blank = newer[:at] + b"00000000" + newer[at + 8 :]
        signed = blank[:at] + b"%08x" % google_crc32c.value(blank) + blank[at + 8 :]
        world.files.overwrite(entry_path(14), signed)

        with pytest.raises(UnsupportedFeatureError, match="newer"):
            repair(world.files, world.clock)


class TestEntries:
    @pytest.mark.parametrize("keep", [0, 30, 300])
    def test_a_torn_one_goes_with_all_behind_it(self, world: World, keep: int) -> None:
        damage(world, entry_path(13), keep=keep)

        assert found(world) == [entry_path(13), ENTRIES]
        assert put_aside(world) == [f"{14:020}.json", f"{13:020}.json"]
        assert records(world) == 100

    def test_those_behind_are_told_with_the_reason(self, world: World) -> None:
        damage(world, entry_path(13))
        lost, torn, *_ = mended(world)

        assert lost.startswith(f"{entry_path(14)}: behind a missing or damaged entry; put aside as")
        assert torn.startswith(f"{entry_path(13)}: cannot be understood")

    def test_a_missing_one_too(self, world: World) -> None:
        world.files.delete(entry_path(13))

        assert found(world) == [entry_path(13), ENTRIES]
        assert put_aside(world) == [f"{14:020}.json"]
        assert records(world) == 100

    def test_one_that_follows_another(self, world: World) -> None:
        other = bytes(world.files.read(entry_path(13)))
        world.files.overwrite(entry_path(14), other)

        assert found(world) == [entry_path(14)]
        assert put_aside(world) == [f"{14:020}.json"]

    @pytest.mark.parametrize(
        "harm", [partial(damage, keep=9), lambda world, path: world.files.delete(path)]
    )
    def test_one_whose_edits_file_is_torn_or_gone(
        self, world: World, monkeypatch: pytest.MonkeyPatch, harm: Callable[[World, str], None]
    ) -> None:
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 10)
        world.produce(1)
        (edits,) = names(world.files, "_edits")
        harm(world, f"{CLUSTER_METADATA}/_edits/{edits}")

        assert put_aside(world) == [f"{15:020}.json"]

    def test_a_foreign_one(self, world: World) -> None:
        text = '{"commitInfo":{"operation":"OPTIMIZE"}}\n{"remove":{"path":"x"}}\n'
        world.files.put_new(entry_path(15), text.encode())
        with pytest.raises(SparklogError, match=f"{15:020}.json: OPTIMIZE"):
            world.fresh().image()

        assert put_aside(world) == [f"{15:020}.json"]
        assert records(world) == 120

    @pytest.mark.parametrize("version", [0, 3, 9])
    def test_one_that_a_fold_covers_costs_nothing(self, world: World, version: int) -> None:
        said = read(world.log)
        flip(world, entry_path(version), 40)

        assert put_aside(world) == [f"{version:020}.json"]
        assert records(world) == 120
        assert said.keys() == read(world.fresh()).keys()

    def test_a_fold_s_own_goes_with_all_that_is_behind(self, world: World) -> None:
        flip(world, entry_path(12), 40)
        aside = put_aside(world)

        assert aside[:3] == ["_newest_fold", "_last_checkpoint", f"{12:020}.checkpoint.parquet"]
        assert aside[3:] == [f"{v:020}.json" for v in (14, 13, 12)]
        assert records(world) == 90 + 10

    def test_the_same_version_twice(self, world: World) -> None:
        aside = []
        for _ in range(3):
            damage(world, entry_path(14))
            aside += put_aside(world)

        assert aside == [f"{14:020}.json", f"{14:020}.json.1", f"{14:020}.json.2"]

    def test_too_much_is_an_error_and_nothing_is_moved(self, world: World) -> None:
        for version in (0, FOLDED, 12):
            damage(world, entry_path(version))
        before = names(world.files)

        with pytest.raises(CorruptMetadataError, match="neither entry 0 nor a fold that is whole"):
            repair(world.files, world.clock)
        assert names(world.files) == before

    def test_a_log_that_was_not_born_may_be_made_again(self, tmp_path: Path) -> None:
        files = LocalFiles(str(tmp_path / "unborn"))
        files.put_new(entry_path(0), b"")
        done: list[str] = []
        repair(files, ManualClock(), done.append)

        name = f"{0:020}.json"
        assert [line.partition(": ")[0] for line in done] == [entry_path(0)]
        assert done[0].endswith(f"; put aside as {TORN}/{name}")
        assert MetadataLog.create(files, ManualClock()).image().version == 0


class TestHints:
    @pytest.mark.parametrize("data", [b"", b"[]", b'{"version":"x"}', b'{"version":99}', b"{"])
    @pytest.mark.parametrize("path", [HINT, POINTER])
    def test_a_torn_one_is_written_anew(self, world: World, path: str, data: bytes) -> None:
        good = bytes(world.files.read(path))
        damage(world, path, data)

        assert found(world) == [path]
        repair(world.files, world.clock)
        assert bytes(world.files.read(path)) == good
        assert found(world) == []

    def test_a_late_one_whose_fold_is_cleaned(self, world: World) -> None:
        damage(world, HINT, b'{"version":3}')

        assert found(world) == [HINT]
        assert put_aside(world) == []

    def test_those_of_a_fold_meanwhile_are_sound(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: verify may run beside folds. Method: a fold lands right behind the list."""
        files = LocalFiles(str(tmp_path))
        listing = files.list

        def then_fold(path: str, *, recursive: bool = False) -> list[FileStat]:
            listed = list(listing(path, recursive=recursive))
            if path == ENTRIES:
                world.produce(3)
                assert fold(world.log) is not None
            return listed

        monkeypatch.setattr(files, "list", then_fold)
        assert list(problems(files, world.clock)) == []

    @pytest.mark.parametrize(("directory", "number"), [(ENTRIES, 1), (MARKS_DIRECTORY, 2)])
    def test_those_of_a_cleaning_meanwhile_are_sound(
        self, world: World, monkeypatch: pytest.MonkeyPatch, directory: str, number: int
    ) -> None:
        """Goal: verify may run beside cleaners. Method: one comes right behind a list."""
        world.age()
        world.produce(3)
        fold(world.log)
        listing, lists = world.files.list, []

        def then_clean(path: str, *, recursive: bool = False) -> Iterator[FileStat]:
            listed = list(listing(path, recursive=recursive))
            lists.append(path)
            if path == directory and lists.count(path) == number:
                assert clean(world.fresh()) is not None
            return iter(listed)

        monkeypatch.setattr(world.files, "list", then_clean)
        assert list(problems(world.files, world.clock)) == []
        assert world.files.stat(checkpoint_path(FOLDED)) is None

    def test_without_a_fold_it_goes(self, tmp_path: Path) -> None:
        world = World(LocalFiles(str(tmp_path / "small")))
        world.files.overwrite(HINT, b"")

        assert put_aside(world) == ["_newest_fold"]

    @pytest.mark.parametrize("version", [FOLDED, 12])
    def test_a_torn_checkpoint(self, world: World, version: int) -> None:
        damage(world, checkpoint_path(version), keep=100)

        name = f"{version:020}.checkpoint.parquet"
        aside = put_aside(world)
        assert aside == ([name] if version == FOLDED else [POINTER.rpartition("/")[2], name])
        assert world.files.stat(checkpoint_path(12)) is not None

    def test_a_mark_on_its_way_is_no_problem(self, world: World) -> None:
        world.files.write_new(f"{CLUSTER_METADATA}/_marks/.tmp-00", b"")

        assert found(world) == []

    def test_a_file_that_is_no_mark(self, world: World) -> None:
        world.files.write_new(f"{CLUSTER_METADATA}/_marks/x", b"")

        assert put_aside(world) == ["x"]


class TestWhileOthersCommit:
    def test_nothing_is_moved(self, world: World) -> None:
        damage(world, entry_path(14))
        before = names(world.files)

        with (
            Turn(world.files, ENTRIES, ManualClock()).taken(),
            pytest.raises(CommitConflictError, match="others are committing"),
        ):
            repair(world.files, world.clock)
        assert names(world.files) == before

    def test_a_fold_in_between_is_told_after_what_was_done(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cut(world, f"{CLUSTER_METADATA}/{world.log.image().fold.runs[0].path}")
        damage(world, HINT)
        monkeypatch.setattr("sparklog.metadata.upkeep.repair.commit_fold", lambda *_: None)

        told: list[str] = []
        with pytest.raises(CommitConflictError, match="others are folding"):
            repair(world.files, world.clock, told.append)
        assert [line for line in told if line.startswith(f"{HINT}: ")] == told[:1]
        assert told[1:] == ["checkpoint and hint of version 12 are written anew"]


class TestAnObjectStore:
    def test_is_mended_alike(self) -> None:
        clock = ManualClock(NOW_MS)
        world = made(World(MemoryFiles(clock=clock), clock))
        world.files.overwrite(entry_path(13), b"")

        assert put_aside(world) == [f"{14:020}.json", f"{13:020}.json"]
