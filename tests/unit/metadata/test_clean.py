"""Cleaning: the files that go, the files that stay, and openers meanwhile."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptMetadataError,
    MissingFileError,
    StorageError,
)
from sparklog.log.names import CLUSTER_METADATA, uuid7
from sparklog.metadata import entries
from sparklog.metadata import log as metadata_log
from sparklog.metadata.history import files as h
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.marks import NO_MARK, Mark, newest_mark, write_mark
from sparklog.metadata.names import HINT, entry_path
from sparklog.metadata.runs.image_rows import rows_of
from sparklog.metadata.runs.rows import in_order
from sparklog.metadata.state.edit import Edit, FoldEdit
from sparklog.metadata.upkeep import clean as module
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import commit_fold, fold
from sparklog.metadata.upkeep.leftovers import leftovers
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.metadata_logs import NOW_MS, TOPIC_ID, World, appended, names, read, segment

HOUR_MS = 3_600_000


@pytest.fixture(params=["local", "object store"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    clock = ManualClock(NOW_MS)
    local = request.param == "local"
    return World(LocalFiles(str(tmp_path)) if local else MemoryFiles(clock=clock), clock)


def folded(world: World) -> None:
    world.produce(5)
    assert fold(world.log) is not None


def cleaned(world: World) -> int:
    """Fold, age, fold, clean; return how many files went."""
    folded(world)
    world.age()
    folded(world)
    done = clean(world.log)
    assert done is not None
    return done.files


class TestClean:
    def test_takes_entries_that_a_fold_covered_an_hour_ago(self, world: World) -> None:
        said_files = cleaned(world)

        versions = [name[:20] for name in names(world.files, "_delta_log") if name[20:] == ".json"]
        assert min(versions) == f"{7:020}"
        assert said_files == 7
        assert newest_mark(world.files) == Mark(7, 7)
        assert read(world.fresh()) == read(world.log)

    def test_takes_a_few_files_of_a_disk_at_a_time(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[int] = []
        delete_many = world.files.delete_many

        def counted(paths: Sequence[str]) -> None:
            calls.append(len(paths))
            delete_many(paths)

        monkeypatch.setattr(world.files, "delete_many", counted)
        monkeypatch.setattr(module, "STEP", 3)

        assert cleaned(world) == 7
        assert calls[:-1] == ([3, 3, 1] if world.files.is_local else [7])
        assert read(world.fresh()) == read(world.log)

    def test_takes_nothing_younger(self, world: World) -> None:
        assert clean(world.log) is None
        folded(world)
        world.age(world.log.keep_ms - 60_000)
        folded(world)

        assert clean(world.log) is None
        assert newest_mark(world.files) == NO_MARK

    def test_takes_runs_that_were_replaced_and_those_of_losers(self, world: World) -> None:
        lost = f"_runs/{0:020}-{2:020}-{uuid7(NOW_MS, b'0' * 10)}.parquet"
        world.files.write_new(f"{CLUSTER_METADATA}/{lost}", b"PAR1")
        for _ in range(3):
            cleaned(world)
        fold_edit = world.log.image().fold
        world.age()
        folded(world)
        clean(world.log)

        now = world.log.image().fold
        named = {one.path for fold in (fold_edit, now) for one in (*fold.runs, *fold.history)}
        left = {name for name in names(world.files) if name.startswith(("_runs", "_history"))}
        assert left == named

    def test_takes_edits_files_and_checkpoints(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 10)
        cleaned(world)

        left = [int(name[:20]) for name in names(world.files, "_edits")]
        assert left == list(range(7, 14))
        checkpoints = [n for n in names(world.files, "_delta_log") if "checkpoint." in n]
        assert [name[:20] for name in checkpoints] == [f"{7:020}", f"{13:020}"]
        assert read(world.fresh()) == read(world.log)

    def test_leaves_one_mark(self, world: World) -> None:
        cleaned(world)
        cleaned(world)

        assert names(world.files, "_marks") == [f"{25 - 6:020}-{25 - 6:020}"]

    def test_of_two_at_once_one_finds_nothing(self, world: World) -> None:
        cleaned(world)
        other = world.fresh()
        other.image()
        again = clean(other)

        assert again is not None
        assert again.files == 0

    def test_whose_fold_is_gone_does_nothing(self, world: World) -> None:
        folded(world)
        world.age()
        folded(world)
        world.files.delete(entry_path(7))

        assert clean(world.log) is None

    def test_a_mark_that_another_took_away_is_no_failure(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(world.files, "put_new", lambda *_: True)

        write_mark(world.files, Mark(3, 4))


class TestAnOpener:
    @pytest.mark.parametrize("hint", [b"", b'{"version": 7}', b'{"version": 999}', None])
    def test_finds_its_way_with_any_hint(self, world: World, hint: bytes | None) -> None:
        cleaned(world)
        cleaned(world)
        if hint is None:
            world.files.delete(HINT)
        else:
            world.files.overwrite(HINT, hint)

        assert read(world.fresh()) == read(world.log)

    def test_that_a_cleaner_overtook_begins_again(self, world: World) -> None:
        """The hint is an older fold, its entry is there, the one behind it is gone."""
        folded(world)
        folded(world)
        world.files.overwrite(HINT, b'{"version": 7}')
        write_mark(world.files, Mark(13, 13))
        world.files.delete(entry_path(8))

        assert read(world.fresh()) == read(world.log)

    def test_whose_fold_lost_its_runs_begins_again(self, world: World) -> None:
        folded(world)
        old = world.log.image().fold.runs[0]
        folded(world)
        world.files.overwrite(HINT, b'{"version": 7}')
        write_mark(world.files, Mark(13, 13))
        world.files.delete(f"{CLUSTER_METADATA}/{old.path}")

        assert read(world.fresh()) == read(world.log)

    def test_is_told_of_runs_that_are_missing(self, world: World) -> None:
        folded(world)
        world.files.delete(f"{CLUSTER_METADATA}/{world.log.image().fold.runs[0].path}")

        with pytest.raises(MissingFileError, match="_runs/"):
            world.fresh().image()

    def test_whose_hint_names_a_fold_that_is_gone_reads_the_entries_before_it(
        self, world: World
    ) -> None:
        folded(world)
        folded(world)
        version = world.log.image().version
        world.files.delete(entry_path(version))

        assert world.fresh().image().version == version - 1

    def test_is_told_of_a_hole_between_cover_and_fold(self, world: World) -> None:
        world.produce(3)
        world.log.commit(lambda _: Edit(operation="X", horizon_ms=1), housekeeping=False)
        log = world.fresh()
        log.image()
        world.produce(1)
        made = fold_of(log)
        log2 = world.fresh()
        log2.image()
        assert commit_fold(log2, made) is not None
        world.files.delete(entry_path(6))

        with pytest.raises(CorruptMetadataError, match=f"{6:020}.json is missing, and .* names 7"):
            world.fresh().image()

    def test_is_told_when_nothing_is_left(self, world: World) -> None:
        cleaned(world)
        world.files.delete(HINT)
        world.files.delete(entry_path(7))

        with pytest.raises(CorruptMetadataError, match="entries are missing below 7, and entry 7"):
            world.fresh().image()


def fold_of(log: MetadataLog) -> FoldEdit:
    """Make a fold of the entries that a log has read, without committing it."""
    image = log.opened_at(log.last_image, [TOPIC_ID])
    rows = in_order(rows_of(image))
    run = log.runs.write(rows, (0, image.version), NOW_MS)
    return FoldEdit(image.version, -1, (run,))


class _Stalling:
    """Files whose put of an entry is held up while others go on, as in a machine that sleeps."""

    def __init__(self, world: World, meanwhile: object, *, lands_first: bool) -> None:
        self._world, self._meanwhile, self._lands_first = world, meanwhile, lands_first

    def __getattr__(self, name: str) -> object:
        return getattr(self._world.files, name)

    def ends_stalling(self) -> None:
        self._meanwhile, self._lands_first = lambda: None, False

    def put_new(self, path: str, data: bytes, **options: Any) -> bool:
        files: Files = self._world.files
        if self._lands_first:
            files.put_new(path, data)
        self._meanwhile()  # type: ignore[operator] # a part of Files is enough
        return files.put_new(path, data, **options)


def fill_and_clean(world: World) -> None:
    """Fill the next slots, and clean them."""
    world.produce(2)
    for _ in range(2):
        folded(world)
        world.age()
    folded(world)
    clean(world.log)


class TestALatePut:
    @pytest.mark.parametrize("lands_first", [True, False])
    def test_below_the_mark_is_taken_back(self, world: World, lands_first: bool) -> None:
        late = _Stalling(world, lambda: fill_and_clean(world), lands_first=lands_first)
        log = MetadataLog(late, world.clock)  # type: ignore[arg-type] # a part of Files is enough
        entry = segment(0, 4711)
        outcome: object = CommitConflictError  # nothing has landed, and the time is up
        try:
            log.commit(lambda image: appended(image, entry), [TOPIC_ID], housekeeping=False)
        except CommitConflictError as error:
            outcome = error

        said = world.log.image([TOPIC_ID]).topic(TOPIC_ID)
        assert said is not None
        paths = [one.log_path for one in said.partition(0).entries()]
        assert (paths.count(entry.log_path) == 1) == lands_first == (outcome is CommitConflictError)
        assert world.files.stat(entry_path(2)) is None
        assert read(world.fresh()) == read(world.log) == read(log)
        late.ends_stalling()
        log.commit(lambda image: appended(image, segment(0, 4712)), [TOPIC_ID])
        assert read(world.fresh()) == read(log)

    @pytest.mark.parametrize("lands_first", [True, False])
    def test_is_unknown_if_the_mark_cannot_be_read(
        self, world: World, monkeypatch: pytest.MonkeyPatch, lands_first: bool
    ) -> None:
        def fail(*_: object) -> None:
            raise StorageError("no route to host")

        def meanwhile() -> None:
            fill_and_clean(world)
            monkeypatch.setattr(entries, "newest_mark", fail)

        late = _Stalling(world, meanwhile, lands_first=lands_first)
        log = MetadataLog(late, world.clock)  # type: ignore[arg-type] # a part of Files is enough

        with pytest.raises(CommitOutcomeUnknownError, match="put late.*no route to host"):
            log.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])

    def test_whose_answer_is_lost_is_taken_back(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late = _Stalling(world, lambda: fill_and_clean(world), lands_first=False)
        put_new, is_lost = late.put_new, iter([True])

        def without_answer(path: str, data: bytes, **given: Any) -> bool:
            has_put = put_new(path, data, **given)
            if path == entry_path(2) and next(is_lost, False):
                raise StorageError("the answer was lost")
            return has_put

        monkeypatch.setattr(late, "put_new", without_answer)
        log = MetadataLog(late, world.clock)  # type: ignore[arg-type] # a part of Files is enough

        with pytest.raises(CommitConflictError):
            log.commit(
                lambda image: appended(image, segment(0, 4711)), [TOPIC_ID], housekeeping=False
            )
        assert world.files.stat(entry_path(2)) is None

    def test_that_the_history_has_forgotten_is_unknown(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(h, "MERGED_ROWS_MAX", 0)

        def meanwhile() -> None:
            world.produce(2)
            folded(world)
            world.age(9 * 24 * HOUR_MS)
            folded(world)
            clean(world.log)

        log = MetadataLog(_Stalling(world, meanwhile, lands_first=False), world.clock)  # type: ignore[arg-type] # a part of Files is enough

        with pytest.raises(CommitOutcomeUnknownError, match="put after .* was cleaned"):
            log.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])

    def test_is_unknown_if_the_log_cannot_be_read(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise StorageError("no route to host")

        monkeypatch.setattr(metadata_log, "record_at", fail)
        late = _Stalling(world, lambda: fill_and_clean(world), lands_first=True)
        log = MetadataLog(late, world.clock)  # type: ignore[arg-type] # a part of Files is enough

        with pytest.raises(CommitOutcomeUnknownError, match="was cleaned, and no route to host"):
            log.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])

    def test_drops_the_image_under_its_lock(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Goal: no reader loses its image half way. Method: note who holds the lock then."""
        late = _Stalling(world, lambda: fill_and_clean(world), lands_first=True)
        log = MetadataLog(late, world.clock)  # type: ignore[arg-type] # a part of Files is enough
        dropped: list[bool] = []

        def noted(one: MetadataLog, name: str, value: object) -> None:
            if (one, name, value) == (log, "_image", None):
                dropped.append("owner=0 " not in repr(log._reading))
            object.__setattr__(one, name, value)

        monkeypatch.setattr(MetadataLog, "__setattr__", noted)
        log.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])

        assert dropped == [True]

    def test_above_the_mark_has_landed(self, world: World) -> None:
        log = MetadataLog(
            _Stalling(world, lambda: world.clock.advance(HOUR_MS), lands_first=False),  # type: ignore[arg-type] # a part of Files is enough
            world.clock,
        )
        log.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])

        assert read(world.fresh()) == read(log)


class TestAFollower:
    def test_goes_on_after_a_clock_was_set(self, tmp_path: Path) -> None:
        """Goal: nobody is stuck. Method: no time passes for the follower, but entries go by age."""
        world = World(LocalFiles(str(tmp_path)), ManualClock(NOW_MS))
        follower, reader = (MetadataLog(world.files, ManualClock(NOW_MS)) for _ in range(2))
        follower.image()
        reader.image()
        cleaned(world)

        assert reader.current() is None
        assert read(reader) == read(world.log)
        assert reader.current() is not None
        follower.commit(lambda image: appended(image, segment(0, 4711)), [TOPIC_ID])
        assert read(follower) == read(world.fresh())


class TestLeftovers:
    def test_are_what_killed_processes_left(self, world: World) -> None:
        folded(world)
        old, young = (uuid7(NOW_MS - day * 24 * HOUR_MS, b"0" * 10) for day in (9, 0))
        paths = [
            f"{directory}/{0:020}-{90:020}-{uuid}.parquet"
            for directory in ("_runs", "_history", "_cuts")
            for uuid in (old, young)
        ]
        paths += [f"_edits/{90:020}-{old}.json", f"_edits/{3:020}-{old}.json", "_runs/notes.txt"]
        for path in paths:
            world.files.write_new(f"{CLUSTER_METADATA}/{path}", b"x")
        world.commit(Edit(operation="VACUUM", horizon_ms=NOW_MS - 24 * HOUR_MS))

        found = [path.removeprefix(f"{CLUSTER_METADATA}/") for path in leftovers(world.log)]
        assert found == sorted(path for path in paths if old in path and "90-" in path)

    def test_temporary_files_go_by_their_age(self, world: World) -> None:
        path = f"{CLUSTER_METADATA}/_delta_log/.tmp-0123"
        world.files.write_new(path, b"x")
        assert not leftovers(world.log)
        world.commit(Edit(operation="VACUUM", horizon_ms=2**50))

        assert [*leftovers(world.log)] == [path]
