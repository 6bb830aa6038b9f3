"""Backups under way: vacuum and cleaning spare the files of the version that each one pins."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock, SystemClock
from sparklog.errors import UsageError
from sparklog.log.names import CLUSTER_METADATA
from sparklog.log_writer import WriteOptions
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.leases import acquire
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.plans.backups import BACKUPS, backups, begun, ended
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.restore import restore
from sparklog.storage import open_files
from sparklog.storage.local import LocalFiles
from tests import logs
from tests.logs import append, catalog, log_files, values
from tests.maintenance import new_topic, run
from tests.metadata_logs import NOW_MS, World, names
from tests.sweeping import DAY_MS, later, remove, sweep

AT_ONCE = {"file.delete.delay.ms": 0, "sparklog.reader.grace.ms": 0, "retention.ms": -1}
CHECK: dict[str, Any] = {"repair": False, "records": False, "table": False}
LONG_AGO = ManualClock(SystemClock().now_ms() - DAY_MS)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Three segments, which vacuum deletes as soon as they are removed."""
    log_dir = new_topic(tmp_path / "log", partitions=1, config=AT_ONCE)
    for number in range(3):
        append(log_dir, 0, [number])
    return log_dir


def begin(log: MetadataLog, name: str = "nightly", days: int = 2) -> int:
    """Begin a backup; return the version that it pins."""
    now_ms = log.clock.now_ms()
    image = log.commit(lambda image: begun(image, name, now_ms, now_ms + days * DAY_MS)).image
    return next(one for one in backups(image, now_ms) if one.name == name).version


def end(log: MetadataLog) -> None:
    log.commit(lambda image: ended(image, "nightly"))


class TestVacuum:
    def test_spares_what_is_removed_after_the_begin(self, log_dir: str) -> None:
        begin(catalog(log_dir).log)
        remove(log_dir, 0, 1)
        sweep(log_dir)
        while_it_lasts = len(log_files(log_dir))
        end(catalog(log_dir).log)
        sweep(log_dir)

        assert (while_it_lasts, len(log_files(log_dir))) == (3, 1)

    def test_deletes_what_was_removed_before(self, log_dir: str) -> None:
        remove(log_dir, 0, clock=LONG_AGO)
        begin(catalog(log_dir).log)
        sweep(log_dir)

        assert len(log_files(log_dir)) == 2

    def test_does_not_wait_for_a_forgotten_one(self, log_dir: str) -> None:
        begin(catalog(log_dir).log, days=1)
        remove(log_dir, 0)
        sweep(log_dir, clock=later(DAY_MS + 60_000))

        assert len(log_files(log_dir)) == 2

    def test_spares_a_deleted_topic(self, log_dir: str) -> None:
        begin(catalog(log_dir).log)
        AdminClient(log_dir).delete_topics(["t"])
        sweep(log_dir)
        while_it_lasts = len(log_files(log_dir))
        end(catalog(log_dir).log)
        sweep(log_dir)

        assert (while_it_lasts, len(log_files(log_dir))) == (3, 0)

    def test_spares_a_shared_segment(self, tmp_path: Path) -> None:
        config = AT_ONCE | {"sparklog.shared.segment.max.age.ms": 0}
        log_dir = logs.new_topic(tmp_path / "log", partitions=1, config=config)
        append(log_dir, 0, ["a"])
        begin(catalog(log_dir).log)
        run(merge_segments, log_dir, seal=False)
        sweep(log_dir)
        shared = Path(log_dir, "__shared")
        while_it_lasts = len(list(shared.iterdir()))
        end(catalog(log_dir).log)
        sweep(log_dir)

        assert (while_it_lasts, list(shared.iterdir())) == (1, [])


class TestCleaning:
    def test_leaves_the_entries_and_runs_of_the_version(self, tmp_path: Path) -> None:
        world = World(LocalFiles(str(tmp_path)), ManualClock(NOW_MS))
        world.produce(5)
        folded = fold(world.log)
        assert folded is not None
        world.produce(5)
        version, kept = begin(world.log), set(names(world.files))
        for _ in range(2):
            world.produce(5)
            assert fold(world.log) is not None
            world.age()
        clean(world.log)
        lost = {one for one in kept - set(names(world.files)) if not one.startswith("_newest")}
        needed = {
            f"_delta_log/{number:020}.json" for number in range(folded.fold.cover + 1, version + 1)
        }
        assert not {one for one in lost if one in needed or one.startswith("_runs")}

        end(world.log)
        done = clean(world.log)
        assert done is not None
        assert done.mark.first_kept > version


class TestCopy:
    def test_is_restored_although_it_took_its_time(self, log_dir: str, tmp_path: Path) -> None:
        """Goal: A copy is whole, however slow it is and whatever happens to the log meanwhile.

        Method: Commits, a fold, merging and vacuum between its parts.
        """
        log, copy = catalog(log_dir).log, tmp_path / "copy"
        begin(log)

        def meanwhile() -> None:
            append(log_dir, 0, ["later"], options=WriteOptions(flush=False))
            fold(log)
            run(merge_segments, log_dir, seal=False)
            sweep(log_dir)

        meanwhile()
        shutil.copytree(Path(log_dir, ENTRIES), copy / ENTRIES)
        for part in Path(log_dir, CLUSTER_METADATA).iterdir():
            meanwhile()
            if part.is_file():
                shutil.copy(part, copy / CLUSTER_METADATA)
            elif part.name != "_delta_log":
                shutil.copytree(part, copy / CLUSTER_METADATA / part.name)
        for part in Path(log_dir).iterdir():
            meanwhile()
            if part.is_file():
                shutil.copy(part, copy)
            elif part.name != CLUSTER_METADATA:
                shutil.copytree(part, copy / part.name)
        restore(open_files(str(copy)), SystemClock())

        assert values(copy)[0][:4] == ["0", "1", "2", "later"]
        assert not backups(catalog(copy).log.image(), SystemClock().now_ms())
        found = [one.outcome.problems for one in run(verify, copy, **CHECK)[1] if one.outcome]
        assert not any(found)


class TestNames:
    def test_are_of_one_backup_at_a_time(self, log_dir: str) -> None:
        log = catalog(log_dir).log
        first, second = begin(log), begin(log, "weekly")
        with pytest.raises(UsageError, match="'nightly' of version 4 is under way"):
            begin(log)

        assert (first, second) == (4, 5)

    def test_are_free_when_it_has_expired(self, log_dir: str) -> None:
        log = catalog(log_dir).log
        log.commit(lambda image: begun(image, "nightly", NOW_MS, NOW_MS + DAY_MS))

        assert begin(log) == 5

    def test_stay_when_a_clock_that_is_ahead_takes_a_lease(self, log_dir: str) -> None:
        """It drops what has expired by its time, but for backups."""
        log, now_ms = catalog(log_dir).log, SystemClock().now_ms()
        begin(log)
        log.commit(lambda image: begun(image, "short", NOW_MS, NOW_MS + DAY_MS))
        acquire(log, "vacuum/t", "me", now_ms + 9 * DAY_MS)
        begin(log, "weekly")

        held = {name.removeprefix(BACKUPS) for name in log.image().leases}
        assert held == {"nightly", "weekly", "vacuum/t"}

    def test_of_none_cannot_end(self, log_dir: str) -> None:
        with pytest.raises(UsageError, match="there is no backup 'nightly'"):
            end(catalog(log_dir).log)
