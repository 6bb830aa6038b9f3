"""Vacuum deletes the files that a table names no more, and those that it never named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import LateWriterError
from sparklog.log.names import uuid7
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import executed
from sparklog.maintenance.table_files import TIER_FILES
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.plans.backups import begun, ended
from tests.compaction import Compacted
from tests.logs import append
from tests.maintenance import run
from tests.partitions import DIRECTORY
from tests.tables import (
    WITH_TABLE,
    build,
    names,
    snapshot_of,
    table_of,
    topic_with_table,
)

DAY_MS = 24 * 3600 * 1000


class TestVacuum:
    @pytest.fixture
    def log(self) -> Compacted:
        """A table of one merged file, with the small ones beside it."""
        log = Compacted(**names(WITH_TABLE))
        log.wait(10 * DAY_MS)
        for number in range(TIER_FILES):
            log.put(f"{number}")
            build(log.context)
        return log

    def paths(self, log: Compacted) -> list[str]:
        listed = log.partition.files.list(f"{DIRECTORY}/table")
        return [one.path for one in listed if one.path.endswith(".parquet")]

    def vacuumed(self, log: Compacted, wait_ms: int) -> list[str]:
        log.wait(wait_ms)
        for step in vacuum(log.context, ["t"], {}):
            step.execute()
        return self.paths(log)

    def test_unlinks_what_was_removed_when_readers_are_done(self, log: Compacted) -> None:
        assert len(self.vacuumed(log, DAY_MS - 1)) == TIER_FILES + 1
        assert len(self.vacuumed(log, 1)) == 1

    def merged_in_a_backup(self, days: int) -> tuple[Compacted, set[str]]:
        """A table whose files were merged after a backup began, and the files that it needs."""
        log, needed = Compacted(**names(WITH_TABLE)), set[str]()
        log.wait(10 * DAY_MS)
        now_ms = log.context.clock.now_ms()
        for number in range(TIER_FILES):
            log.put(f"{number}")
            if number == TIER_FILES - 1:
                log.context.catalog.log.commit(
                    lambda image: begun(image, "b", now_ms, now_ms + days * DAY_MS)
                )
                needed.update(self.paths(log))
            build(log.context)
        return log, needed

    def test_spares_what_a_backup_needs(self) -> None:
        log, needed = self.merged_in_a_backup(9)
        while_it_lasts = self.vacuumed(log, 2 * DAY_MS)
        log.context.catalog.log.commit(lambda image: ended(image, "b"))

        assert needed < {*while_it_lasts}
        assert len(self.vacuumed(log, 1)) == 1

    def test_spares_it_when_the_table_has_forgotten_that_it_was_removed(self) -> None:
        """A checkpoint lists a removed file for seven days."""
        log, needed = self.merged_in_a_backup(12)
        for day in range(11):
            for number in range(2):
                log.put(f"{day} {number}")
                build(log.context)
            assert needed <= {*self.vacuumed(log, DAY_MS - 1)}

        assert not needed & {*snapshot_of(log.partition).removed}

    def alter(self, log: Compacted, key: str, value: int) -> None:
        topic = log.partition.image.description
        changed = replace(topic, configs={**topic.configs, key: str(value)})
        log.partition.commit(description=changed)

    def test_a_checkpoint_lists_what_was_removed_until_readers_are_done(
        self, log: Compacted
    ) -> None:
        self.alter(log, "sparklog.reader.grace.ms", 30 * DAY_MS)
        removed = set(snapshot_of(log.partition).removed)
        for number in range(12):
            log.put(f"more {number}")
            build(log.context)
            assert removed <= {path.rpartition("/")[2] for path in self.vacuumed(log, DAY_MS)}
        assert len(removed) == TIER_FILES

    def test_a_damaged_table_does_not_keep_the_garbage_of_the_log(self, log: Compacted) -> None:
        stray = f"{DIRECTORY}/t-0/{'0' * 20}.{'0' * 8}-0000-7000-8000-{'0' * 12}.log"
        log.partition.files.write_new(stray, b"")
        log.partition.files.write_new(f"{DIRECTORY}/table/_delta_log/{9:020d}.json", b"{")
        log.wait(DAY_MS)
        outcomes = [executed(step) for step in vacuum(log.context, ["t"], {})]

        assert ["cannot be understood" in str(one.problems) for one in outcomes] == [True, False]
        assert stray not in [one.path for one in log.partition.files.list(recursive=True)]

    def test_unlinks_what_no_commit_named(self, log: Compacted) -> None:
        stray = f"{DIRECTORY}/table/part-{'0' * 8}-0000-7000-8000-{'0' * 12}.parquet"
        log.partition.files.write_new(stray, b"")

        assert stray not in self.vacuumed(log, 0)

    def test_obeys_a_delay_that_changed_since_it_began(self, log: Compacted) -> None:
        log.wait(DAY_MS)
        (step,) = vacuum(log.context, ["t"], {})
        self.alter(log, "sparklog.reader.grace.ms", 10 * DAY_MS)
        step.execute()

        assert len(self.paths(log)) == TIER_FILES + 1

    def test_leaves_orphans_where_it_may_not_commit(self, log: Compacted) -> None:
        """Another engine has raised the table's protocol."""
        orphan = f"{DIRECTORY}/table/part-{uuid7(log.now_ms, bytes(10))}.parquet"
        log.partition.files.write_new(orphan, b"")
        names = [one.path for one in log.partition.files.list(f"{DIRECTORY}/table/_delta_log")]
        version = max(int(name[-25:-5]) for name in names if name.endswith(".json")) + 1
        raised = b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}'
        entry = f"{DIRECTORY}/table/_delta_log/{version:020d}.json"
        log.partition.files.put_new(entry, raised)

        assert orphan in self.vacuumed(log, 100 * DAY_MS)

    def test_leaves_the_files_of_others_alone(self, log: Compacted) -> None:
        other = f"{DIRECTORY}/table/part-00000-1.snappy.parquet"
        log.partition.files.write_new(other, b"")

        assert other in self.vacuumed(log, 100 * DAY_MS)

    def test_finds_nothing_to_do_in_a_table(self, log: Compacted) -> None:
        self.vacuumed(log, DAY_MS)

        assert [*vacuum(log.context, ["t"], {})] == []

    def built_meanwhile(self, log: Compacted, happens: Callable[[], object]) -> None:
        """Build, while something happens after the files were written and before the commit."""

        class Slow:
            def map(self, task: Any, works: Any, what: str) -> Any:
                done = [task(work) for work in works]
                happens()
                return done

        context = JobContext(log.catalog, Slow())  # type: ignore[arg-type] # no shuffle in it
        (step,) = build_table(context, [], {"rebuild": False})
        step.execute()

    def test_a_build_whose_files_it_has_unlinked_is_refused(self, log: Compacted) -> None:
        log.put("late")
        before = table_of(log.partition)

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, lambda: self.vacuumed(log, DAY_MS + 1))
        assert table_of(log.partition).equals(before)

    def test_its_horizon_holds_if_the_config_is_changed_meanwhile(self, log: Compacted) -> None:
        log.put("late")

        def happens() -> None:
            self.alter(log, "sparklog.orphan.retention.ms", 3_600_000)
            self.vacuumed(log, 3_600_001)

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, happens)

    def test_a_slow_build_lands_if_no_vacuum_ran(self, log: Compacted) -> None:
        log.put("late")
        self.built_meanwhile(log, lambda: log.wait(2 * DAY_MS))
        assert table_of(log.partition).num_rows == TIER_FILES + 1

    @pytest.mark.parametrize("retention_ms", [0, DAY_MS])
    def test_a_first_build_whose_files_it_has_unlinked_is_refused(self, retention_ms: int) -> None:
        """Vacuum makes an empty table for its horizon: it may go by another clock than a build."""
        kept = {"sparklog.orphan.retention.ms": str(retention_ms)}
        log = Compacted(**names({**WITH_TABLE, **kept})).put("late")
        now_ms = log.now_ms

        def happens() -> None:
            assert self.vacuumed(log, retention_ms + 1) == []
            log.catalog.clock.set_wall(now_ms)  # type: ignore[attr-defined] # a ManualClock

        with pytest.raises(LateWriterError, match="took longer to write"):
            self.built_meanwhile(log, happens)
        log.wait(DAY_MS + 1)
        build(log.context)
        assert table_of(log.partition).num_rows == 1


class TestDeletedTopic:
    @pytest.mark.parametrize(("config", "left"), [("true", 0), ("false", 2)])
    def test_takes_its_table_along_unless_told_not_to(
        self, tmp_path: Path, config: str, left: int
    ) -> None:
        own = {"sparklog_table_delete": config, "sparklog_reader_grace_ms": 0}
        log_dir = topic_with_table(tmp_path / "log", 1, file_delete_delay_ms=0, **own)
        append(log_dir, 0, ["a"])
        build(log_dir)
        AdminClient(log_dir).delete_topics(["t"])
        run(vacuum, log_dir)
        run(vacuum, log_dir)

        assert len([one for one in Path(log_dir).glob("t-*/table/**/*") if one.is_file()]) == left
