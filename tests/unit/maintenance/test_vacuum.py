"""Vacuum over real logs; which files go is tested in tests/unit/log/test_vacuum.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import LateWriterError, StorageError, StoragePermissionError
from sparklog.fleet import LocalFleet
from sparklog.log.names import born_ms, uuid7
from sparklog.log_writer import PRODUCE, commit_write, write_of
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO, executed
from sparklog.maintenance.vacuuming import deleting, vacuum_shared, vacuum_topic
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import COMMIT_TIMEOUT_MS
from sparklog.metadata.state.producers import ProducerState
from sparklog.storage.local import LocalFiles
from tests.edits import edited
from tests.logs import append, catalog, image, log_files, rows, values
from tests.maintenance import alter, make_unreadable, new_topic
from tests.sweeping import (
    DAY_MS,
    HOUR_MS,
    Full,
    directory_of,
    later,
    make_old,
    planned,
    put,
    remove,
    sweep,
    written,
)
from tests.tables import build, problems, table_of, topic_with_table

AT_ONCE = {"file.delete.delay.ms": "0", "sparklog.reader.grace.ms": "0"}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic of three segments."""
    log_dir = new_topic(tmp_path / "log", partitions=2, config={"index.interval.bytes": "20"})
    for number in range(3):
        append(log_dir, 0, [f"{number}-{n}" for n in range(20)])
    return log_dir


def removed_rows(log_dir: str) -> int:
    return len(image(log_dir).removed)


class TestOrphans:
    def test_go_when_they_are_older_than_the_horizon(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))
        before = rows(log_dir)
        swept = sweep(log_dir)

        assert swept.code == DONE
        assert (swept.count("files"), swept.count("bytes")) == (1, len("orphan"))
        assert not orphan.exists()
        assert rows(log_dir) == before

    def test_stay_for_a_day(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))

        assert sweep(log_dir, clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        assert orphan.exists()

    def test_stay_as_long_as_the_topic_says(self, tmp_path: Path) -> None:
        config = {"sparklog.orphan.retention.ms": str(HOUR_MS)}
        orphan = put(directory_of(new_topic(tmp_path / "log", config=config)))

        assert sweep(str(tmp_path / "log"), clock=later(HOUR_MS // 2)).code == NOTHING_TO_DO
        assert sweep(str(tmp_path / "log"), clock=later(HOUR_MS * 2)).count("files") == 1
        assert not orphan.exists()

    def test_are_told_by_their_uuid_not_by_their_file(self, log_dir: str) -> None:
        young = put(directory_of(log_dir), born_ms=later().now_ms())
        make_old(young)

        assert sweep(log_dir).code == NOTHING_TO_DO
        assert young.exists()

    def test_of_other_names_are_left_alone_and_told(self, log_dir: str) -> None:
        topic = directory_of(log_dir)
        strange = [
            put(topic, "t-0/notes.txt"),
            put(topic, f"t-0/{0:020}.log"),
            put(topic, "readme"),
        ]
        swept = sweep(log_dir)

        assert (swept.code, swept.count("unknown_files"), swept.count("files")) == (DONE, 3, 0)
        assert all(path.exists() for path in strange)

    def test_in_quarantine_are_not_touched(self, log_dir: str) -> None:
        quarantined = put(directory_of(log_dir) / "quarantine")

        assert sweep(log_dir, "t").code == NOTHING_TO_DO
        assert quarantined.exists()

    def test_go_in_rounds_when_they_are_many(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vacuum_topic, "UNLINKED_MAX", 2)
        remove(log_dir, 0)
        put(directory_of(log_dir), "t-0/strange")
        orphans = [put(directory_of(log_dir)) for _ in range(3)]
        swept = sweep(log_dir)

        assert [orphan for orphan in orphans if orphan.exists()] == []
        assert (swept.count("files"), swept.count("unknown_files")) == (3 + 2, 1)

    def test_are_shown_by_a_dry_run(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))
        version = image(log_dir).version
        swept = sweep(log_dir, dry_run=True)

        assert swept.code == DONE
        row = {"partition": 0, "what": "orphan files", "count": 1, "bytes": 6}
        assert swept.reports[0].rows == [{**row, "example": str(orphan.relative_to(log_dir))}]
        assert orphan.exists()
        assert image(log_dir).version == version


class TestRemovedSegments:
    def test_lose_their_rows_in_several_commits_when_they_are_many(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Other commits wait for each of these."""
        monkeypatch.setattr(vacuum_shared, "FORGOTTEN_MAX", 2)
        remove(log_dir, 0, 1, 2)
        version = image(log_dir).version
        sweep(log_dir)

        assert not image(log_dir).removed
        assert image(log_dir).version == version + 1 + 2  # the horizon, and rows

    def test_go_with_their_indexes_and_their_rows(self, log_dir: str) -> None:
        remove(log_dir, 0, 1)
        swept = sweep(log_dir)

        assert (swept.count("files"), swept.count("segments")) == (4, 2)
        assert len(log_files(log_dir)) == len(log_files(log_dir, "index")) == 1
        assert removed_rows(log_dir) == 0

    def test_leave_the_end_of_the_log_where_it_was(self, log_dir: str) -> None:
        remove(log_dir, 0, 1, 2)
        sweep(log_dir)

        assert image(log_dir).partition(0).log_end_offset == 60
        assert rows(log_dir) == {0: []}

    @pytest.mark.parametrize("key", ["file.delete.delay.ms", "sparklog.reader.grace.ms"])
    def test_stay_until_both_delays_are_over(self, tmp_path: Path, key: str) -> None:
        log_dir = new_topic(tmp_path / "log", config={**AT_ONCE, key: str(HOUR_MS)})
        append(log_dir, 0, range(5))
        remove(log_dir, 0)

        assert sweep(log_dir, clock=later(HOUR_MS - 60_000)).code == NOTHING_TO_DO
        assert sweep(log_dir, clock=later(HOUR_MS)).count("files") == 2
        assert log_files(log_dir) == []

    def test_stay_if_a_delay_was_raised_since_the_run_began(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", config=AT_ONCE)
        append(log_dir, 0, range(5))
        remove(log_dir, 0)
        step = planned(log_dir, "t")
        alter(log_dir, sparklog_reader_grace_ms=30 * DAY_MS)

        assert executed(step).counts["files"] == 0
        assert len(log_files(log_dir)) == 1

    def test_are_remembered_as_long_as_a_commit_may_be_tried_again(self, tmp_path: Path) -> None:
        """A writer whose commit landed, and who did not hear of it, must find its row."""
        log_dir = new_topic(tmp_path / "log", config=AT_ONCE)
        append(log_dir, 0, range(5))
        remove(log_dir, 0)
        soon = sweep(log_dir, clock=later(COMMIT_TIMEOUT_MS // 2))

        assert (soon.count("files"), soon.count("segments"), removed_rows(log_dir)) == (2, 0, 1)
        assert sweep(log_dir, clock=later(COMMIT_TIMEOUT_MS)).count("segments") == 1
        assert removed_rows(log_dir) == 0

    def test_whose_files_are_gone_already_are_forgotten(self, log_dir: str) -> None:
        (entry,) = remove(log_dir, 0)
        (directory_of(log_dir) / entry.log_path).unlink()

        assert sweep(log_dir).count("segments") == 1
        assert removed_rows(log_dir) == 0

    def test_a_second_run_finds_nothing(self, log_dir: str) -> None:
        remove(log_dir, 0)
        sweep(log_dir)

        assert sweep(log_dir).code == NOTHING_TO_DO


class TestReceipts:
    def test_of_keys_go_when_they_have_expired(self, log_dir: str) -> None:
        plan, entries = written(log_dir, ["x"])
        found = catalog(log_dir)
        found.commit_all([write_of(plan, entries, app_id="key")], operation=PRODUCE)
        swept = sweep(log_dir)

        assert swept.count("receipts") == 1
        assert len(image(log_dir).receipts) == 0


class TestProducers:
    def test_go_when_they_have_expired(self, log_dir: str) -> None:
        states = {0: (ProducerState(7, 0),)}
        edited(catalog(log_dir), catalog(log_dir).topic("t"), producers=states)
        swept = sweep(log_dir)

        assert swept.count("producers") == 1
        assert not image(log_dir).partition(0).producers
        assert sweep(log_dir).code == NOTHING_TO_DO


class TestHorizon:
    def test_a_writer_slower_than_the_horizon_gets_an_error(self, log_dir: str) -> None:
        """Never a hole: its files are gone, so it must not land."""
        plan, entries = written(log_dir, ["late"])
        before = rows(log_dir)
        swept = sweep(log_dir)

        assert swept.count("files") == 2
        with pytest.raises(LateWriterError, match="before the vacuum horizon"):
            commit_write(catalog(log_dir), plan, entries)
        assert rows(log_dir) == before

    def test_a_writer_that_commits_in_between_keeps_its_files(self, log_dir: str) -> None:
        """The references are read after the horizon is committed, never before."""
        plan, entries = written(log_dir, ["in time"])
        own = catalog(log_dir)

        class Committing(LocalFiles):
            """The writer commits once vacuum has listed the files."""

            def list(self, *arguments: Any, **options: Any) -> Any:
                found = super().list(*arguments, **options)
                commit_write(own, plan, entries)
                return found

        sweep(log_dir, files=Committing(log_dir))

        assert values(log_dir)[0][-1] == "in time"

    def test_holds_for_files_that_a_later_config_would_doom(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A commit may name them: they are not from before the committed horizon."""
        monkeypatch.setattr(vacuum_topic, "UNLINKED_MAX", 1)  # so files are listed after it
        plan, entries = written(log_dir, ["slow"])
        for _ in range(2):
            put(directory_of(log_dir), born_ms=later(-2 * DAY_MS).now_ms())

        class Lowering(Catalog):
            """The retention of orphans is lowered once vacuum has committed its horizon."""

            def commit(self, *arguments: Any, **options: Any) -> Any:
                found = super().commit(*arguments, **options)
                alter(log_dir, sparklog_orphan_retention_ms=HOUR_MS)
                return found

        own = Lowering(catalog(log_dir).files, later(3 * HOUR_MS))
        (step,) = vacuum(JobContext(own, LocalFleet()), ["t"], {})
        assert executed(step).counts["files"] == 2
        commit_write(catalog(log_dir), plan, entries)
        assert values(log_dir)[0][-1] == "slow"

    def test_is_committed_before_anything_is_unlinked(self, log_dir: str) -> None:
        born_ms = later(-HOUR_MS).now_ms()
        put(directory_of(log_dir), born_ms=born_ms)
        seen: list[int] = []

        class Watching(LocalFiles):
            def delete(self, path: str) -> None:
                seen.append(image(log_dir).vacuum_horizon_ms)
                super().delete(path)

        sweep(log_dir, files=Watching(log_dir))

        assert seen == [born_ms + 1]

    def test_lets_others_write_though_the_clock_is_a_year_ahead(self, log_dir: str) -> None:
        put(directory_of(log_dir))
        assert sweep(log_dir, clock=later(365 * DAY_MS)).count("files") == 1
        append(log_dir, 0, ["after"])

        assert values(log_dir)[0][-1] == "after"

    def test_lets_others_build_a_table_though_the_clock_is_a_year_ahead(
        self, tmp_path: Path
    ) -> None:
        log_dir = topic_with_table(tmp_path / "table")
        append(log_dir, 0, ["before"])
        build(log_dir)
        name = f"table/part-{uuid7(later(0).now_ms(), bytes(10))}.parquet"
        orphan = put(directory_of(log_dir), name)
        sweep(log_dir, clock=later(365 * DAY_MS))
        append(log_dir, 0, ["after"])

        assert not orphan.exists()
        assert problems(build(log_dir)) == []
        assert table_of(log_dir).num_rows == 2

    def test_covers_the_files_of_forgotten_segments(self, log_dir: str) -> None:
        (entry,) = remove(log_dir, 0)
        sweep(log_dir)

        assert image(log_dir).vacuum_horizon_ms == (born_ms(entry.log_path) or 0) + 1


class TestRefusal:
    def test_nothing_goes_of_a_topic_that_cannot_be_read(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new_topic(log_dir, "sound")
        orphans = [put(directory_of(log_dir)), put(directory_of(log_dir, "sound"))]
        files = log_files(log_dir)
        make_unreadable(monkeypatch, "t")
        swept = sweep(log_dir)

        assert swept.code == FAILED
        assert swept.outcome("t").problems == ["t: a run cannot be read"]
        assert log_files(log_dir) == [path for path in files if path != orphans[1]]


class TestProblems:
    def test_what_cannot_be_unlinked_keeps_its_row(self, log_dir: str) -> None:
        entries = remove(log_dir, 0, 1)

        class Stuck(LocalFiles):
            def delete(self, path: str) -> None:
                if path.endswith(entries[0].log_path):
                    raise StoragePermissionError(f"cannot delete {path}")
                super().delete(path)

        swept = sweep(log_dir, files=Stuck(log_dir))

        assert swept.code == FAILED
        (problem,) = swept.outcome().problems
        assert problem.startswith("1 files could not be deleted, the first: cannot delete t-")
        assert (swept.count("files"), swept.count("segments"), removed_rows(log_dir)) == (3, 1, 1)

    def test_a_full_disk_gets_room_from_what_needs_no_commit(self, log_dir: str) -> None:
        remove(log_dir, 0)
        orphan = put(directory_of(log_dir))
        swept = sweep(log_dir, files=Full(log_dir))

        assert (swept.code, swept.count("segments"), removed_rows(log_dir)) == (DONE, 1, 0)
        assert not orphan.exists()

    def test_a_task_that_fails_fails_for_its_files(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Broken(LocalFleet):
            def map(self, task: Any, works: Sequence[Any], what: str) -> Any:
                done = super().map(task, works[1:], what)
                return [StorageError("lost"), *done]

        monkeypatch.setattr(deleting, "LOCAL_CHUNK", 1)
        remove(log_dir, 0)
        swept = sweep(log_dir, fleet=Broken())

        assert swept.outcome().problems == ["1 files could not be deleted, the first: lost"]
        assert (swept.count("files"), removed_rows(log_dir)) == (1, 1)


class TestDeletedTopic:
    def test_that_is_deleted_meanwhile_goes_as_a_whole(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))
        step = planned(log_dir, "t")
        AdminClient(log_dir).delete_topics(["t"])

        assert executed(step) == Outcome(counts={"conflicts": 1})
        assert orphan.exists()
