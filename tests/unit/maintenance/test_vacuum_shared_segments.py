"""Vacuum of shared segments: they go when no topic has had a slice of them for a while."""

from pathlib import Path
from uuid import UUID

import pytest

from sparklog.errors import LateWriterError
from sparklog.log.names import CLUSTER_METADATA, uuid7
from sparklog.log_writer import commit_write
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.metadata.upkeep.fold import fold
from sparklog.model import SegmentEntry
from tests import edits
from tests.logs import catalog
from tests.maintenance import new_topic
from tests.sweeping import (
    DAY_MS,
    HOUR_MS,
    Full,
    Stuck,
    add_slices,
    delete,
    later,
    make_old,
    planned,
    put,
    put_shared,
    sweep,
    two_topics,
    written,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return two_topics(tmp_path / "log")


def drop_slices(log_dir: str, *entries: SegmentEntry) -> None:
    """Take slices out of the log, as a merge does."""
    found = catalog(log_dir)
    keys = [entry.key for entry in entries]
    edits.edited(found, found.topic("t"), remove=keys, removed_ms=found.clock.now_ms())


def test_lets_others_write_though_the_clock_is_a_year_ahead(log_dir: str) -> None:
    put_shared(log_dir)
    put(Path(log_dir), f"{CLUSTER_METADATA}/.tmp-1")
    swept = sweep(log_dir, clock=later(365 * DAY_MS))
    assert (swept.count("files", "__shared"), swept.count("metadata_files", CLUSTER_METADATA)) == (
        1,
        1,
    )

    add_slices(log_dir, "t", put_shared(log_dir))
    assert fold(catalog(log_dir).log) is not None


class TestSharedSegment:
    def test_goes_when_it_had_no_slice_for_a_while(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        assert sweep(log_dir, clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        swept = sweep(log_dir)

        assert swept.code == DONE
        counts = {"files": 1, "bytes": 6, "segments": 1, "unknown_files": 0}
        assert swept.outcome("__shared").counts == counts
        assert swept.reports[0].rows[0]["what"] == "unused shared segments"
        assert not (Path(log_dir) / path).exists()
        assert path not in catalog(log_dir).image().shared

    def test_makes_room_on_a_full_disk(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        orphan = put_shared(log_dir)
        swept = sweep(log_dir, files=Full(log_dir))

        assert (swept.code, swept.count("files", "__shared")) == (DONE, 2)
        assert not (Path(log_dir) / orphan).exists()
        assert path not in catalog(log_dir).image().shared

    def test_stays_while_a_topic_has_a_slice(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        first = add_slices(log_dir, "t", path)
        add_slices(log_dir, "gone", path)
        drop_slices(log_dir, first)

        assert sweep(log_dir).code == NOTHING_TO_DO
        assert (Path(log_dir) / path).exists()

    @pytest.mark.parametrize("key", ["file.delete.delay.ms", "sparklog.reader.grace.ms"])
    def test_stays_as_long_as_the_delays_of_any_topic_say(self, log_dir: str, key: str) -> None:
        """Goal: A reader of any topic, also a copy for a backup, finds the files it planned on.

        Method: Another topic, deleted by now, has a delay of three days.
        """
        new_topic(log_dir, "slow", config={key: str(3 * DAY_MS)})
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        delete(log_dir, "slow")

        assert sweep(log_dir, clock=later(3 * DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        assert sweep(log_dir, clock=later(3 * DAY_MS + HOUR_MS)).code == DONE
        assert not (Path(log_dir) / path).exists()

    def test_is_never_named_again_once_it_is_used_up(self, log_dir: str) -> None:
        """Goal: No row names a shared file that is gone, however late a writer comes.

        Method: A topic has three days for orphans. A writer tries after each run of vacuum, before
        and after the one that takes the file.
        """
        new_topic(log_dir, "slow", config={"sparklog.orphan.retention.ms": str(3 * DAY_MS)})
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        for days, is_there in ((2, True), (4, False)):
            sweep(log_dir, clock=later(days * DAY_MS))
            assert (Path(log_dir) / path).exists() is is_there
            assert (path in catalog(log_dir).image().shared) is is_there
            with pytest.raises(LateWriterError, match="write it again"):
                add_slices(log_dir, "slow", path)

    def test_whose_file_is_gone_is_forgotten(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        (Path(log_dir) / path).unlink()

        assert sweep(log_dir).count("files", "__shared") == 0
        assert path not in catalog(log_dir).image().shared

    def test_that_cannot_be_unlinked_is_told_and_stays(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        drop_slices(log_dir, add_slices(log_dir, "t", path))
        swept = sweep(log_dir, files=Stuck(log_dir))

        assert (swept.code, swept.count("segments", "__shared")) == (FAILED, 0)
        assert path in catalog(log_dir).image().shared

    def test_that_nobody_names_goes_when_it_is_older_than_the_horizon(self, log_dir: str) -> None:
        path = Path(log_dir) / put_shared(log_dir)
        assert sweep(log_dir, clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        swept = sweep(log_dir)

        assert swept.reports[0].rows[0]["what"] == "orphan files"
        assert (swept.count("files", "__shared"), swept.count("segments", "__shared")) == (1, 0)
        assert not path.exists()

    def test_that_nobody_names_stays_as_long_as_an_orphan_of_any_topic(self, log_dir: str) -> None:
        """Goal: A produce to a topic of long orphan retention keeps its files, small or large.

        Method: One topic has three days; a shared segment and a file of its own are two days old.
        """
        config = {"sparklog.orphan.retention.ms": str(3 * DAY_MS)}
        new_topic(log_dir, "slow", config=config)
        plan, entries = written(log_dir, ["late"], topic="slow")
        path = put_shared(log_dir)
        make_old(put(Path(log_dir), f"{CLUSTER_METADATA}/.tmp-1"))
        sweep(log_dir, clock=later(2 * DAY_MS))

        assert (Path(log_dir) / path).exists()
        commit_write(catalog(log_dir), plan, entries)
        add_slices(log_dir, "slow", path)

    def test_of_a_writer_slower_than_the_horizon_cannot_be_named(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        sweep(log_dir)

        with pytest.raises(LateWriterError, match="before the vacuum horizon"):
            add_slices(log_dir, "t", path)

    def test_is_committed_before_vacuum_reads_the_image_anew(self, log_dir: str) -> None:
        """A writer who names it between the listing and the horizon keeps it."""
        path = put_shared(log_dir)
        step = planned(log_dir)
        add_slices(log_dir, "t", path)

        assert step.execute().counts["files"] == 0
        assert (Path(log_dir) / path).exists()

    @pytest.mark.parametrize(
        "name", ["notes.txt", f"{uuid7(0, bytes(10))}.txt", f"{UUID(int=0)}.log"]
    )
    def test_files_of_other_names_are_left_alone_and_told(self, log_dir: str, name: str) -> None:
        strange = put(Path(log_dir), f"__shared/{name}")
        swept = sweep(log_dir)

        assert swept.count("unknown_files", "__shared") == 1
        assert strange.exists()
