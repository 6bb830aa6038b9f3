"""Erase: the records of a person leave the log, its table, and after vacuum every file."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.admin import AdminClient
from sparklog.admin.erase import OUTSIDE, EraseReport, erase
from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptRecordError,
    InvalidOptionError,
    TopicClosedError,
    UnknownTopicError,
)
from sparklog.fleet import LocalFleet
from sparklog.log_reader import TopicReader
from sparklog.log_reader.slices import read_slices
from sparklog.log_writer import WriteOptions
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.history.read import history
from sparklog.storage.local import LocalFiles
from tests.erasing import (
    ALICE,
    SECRET,
    Meanwhile,
    ends,
    erased,
    flip,
    holding,
    keyed,
    left,
    produce,
    share,
    swept,
    unshare,
)
from tests.logs import OWN_FILES, append, catalog, client, image, new_topic, rows
from tests.maintenance import run
from tests.sweeping import DAY_MS, later, sweep


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic with files of its own."""
    return new_topic(tmp_path / "log", partitions=2, config=OWN_FILES)


class TestLog:
    def test_loses_the_records_and_keeps_the_offsets(self, log_dir: str) -> None:
        keyed(log_dir)
        before = rows(log_dir)[0]
        report = erased(log_dir, ALICE)

        assert rows(log_dir)[0] == [row for row in before if row.key != ALICE.encode()]
        assert ends(log_dir) == {0: 9}
        assert (report.records, report.partitions, report.segments) == (3, {0: 3}, 1)
        assert report.searched == 1

    @pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
    def test_no_file_holds_her_after_vacuum(self, log_dir: str, codec: str) -> None:
        keyed(log_dir, options=WriteOptions(compression_type=codec, flush=False))
        keyed(log_dir, 1)
        erased(log_dir, ALICE)

        assert holding(log_dir, ALICE, SECRET) != []
        assert swept(log_dir) == []
        assert left(log_dir) == {0: [1, 2, 4, 5, 7, 8], 1: [1, 2, 4, 5, 7, 8]}

    def test_is_sound(self, log_dir: str) -> None:
        keyed(log_dir)
        append(log_dir, 0, [SECRET], keys=[ALICE])
        erased(log_dir, ALICE)

        assert run(verify, log_dir, repair=False, records=True, table=False)[0] == 0

    def test_segments_without_her_stay_as_they_are(self, log_dir: str) -> None:
        append(log_dir, 0, ["v"], keys=["other"])
        keyed(log_dir)
        before = image(log_dir).partition(0).entries()
        erased(log_dir, ALICE)
        after = image(log_dir).partition(0).entries()

        assert after[0] == before[0]
        assert (after[1].base_offset, after[1].next_offset) == (1, 10)
        assert after[1].created_ms == before[1].created_ms

    def test_a_second_time_finds_nothing_and_commits_nothing(self, log_dir: str) -> None:
        keyed(log_dir)
        erased(log_dir, ALICE)
        version = catalog(log_dir).image().version

        assert erased(log_dir, ALICE).records == 0
        assert catalog(log_dir).image().version == version

    def test_several_keys_go_in_one_commit(self, log_dir: str) -> None:
        keyed(log_dir)
        version = catalog(log_dir).image().version

        assert erased(log_dir, ALICE, "key-1", "").records == 4
        assert catalog(log_dir).image().version == version + 1

    def test_a_dry_run_changes_nothing(self, log_dir: str) -> None:
        keyed(log_dir)
        before = rows(log_dir)
        report = erased(log_dir, ALICE, dry_run=True)

        assert (report.records, report.dry_run) == (3, True)
        assert rows(log_dir) == before

    def test_tombstones_of_others_stay(self, log_dir: str) -> None:
        append(log_dir, 0, [SECRET, None, "v"], keys=[ALICE, "gone", "here"])
        erased(log_dir, ALICE)

        assert [row.value for row in rows(log_dir)[0]] == [None, b"v"]
        assert image(log_dir).partition(0).entries()[0].delete_horizon_ms is None

    def test_the_history_names_no_key(self, log_dir: str) -> None:
        keyed(log_dir)
        erased(log_dir, ALICE)
        newest = next(iter(history(catalog(log_dir).log)))

        assert newest.operation == "ERASE"
        assert newest.parameters["erased"] == "3"
        assert ALICE not in str(newest)

    def test_a_reader_that_runs_sees_what_it_had_planned(self, log_dir: str) -> None:
        keyed(log_dir)
        reader = TopicReader.open(catalog(log_dir), "t")
        slices = list(reader.slices(0, 0, 9))
        erased(log_dir, ALICE)

        found = read_slices(reader.files, reader.directory, slices)
        assert sum(some.num_rows for some in found) == 9

    @given(
        produces=st.lists(
            st.tuples(
                st.sampled_from(["none", "gzip", "lz4", "zstd"]),
                st.lists(
                    st.tuples(
                        st.sampled_from([ALICE, "bob", "", None]), st.sampled_from(["v", None])
                    ),
                    min_size=1,
                    max_size=5,
                ),
            ),
            min_size=1,
            max_size=4,
        ),
        shared=st.booleans(),
    )
    @settings(max_examples=20, deadline=None)
    def test_is_the_log_without_the_records(self, produces: list[Any], shared: bool) -> None:
        """Whatever was produced: the same records but hers, at the same offsets.

        Records with a key, an empty one or none, values and tombstones, of any codec, in files of
        their own or shared.
        """
        with TemporaryDirectory() as folder:
            log_dir = new_topic(folder, partitions=1, config={} if shared else OWN_FILES)
            for codec, records in produces:
                keys, values = zip(*records, strict=True)
                options = WriteOptions(compression_type=codec, flush=False)
                produce(log_dir, keys, values, options)
            before = rows(log_dir)[0]
            erased(log_dir, ALICE)

            wanted = [row for row in before if row.key != ALICE.encode()]
            assert rows(log_dir).get(0, []) == wanted
            assert ends(log_dir) == {0: len(before)}
            assert swept(log_dir) == []


class TestRefused:
    def test_without_a_key(self, log_dir: str) -> None:
        with pytest.raises(InvalidOptionError, match="no key"):
            erased(log_dir)

    def test_an_unknown_topic(self, log_dir: str) -> None:
        with pytest.raises(UnknownTopicError):
            erased(log_dir, ALICE, topic="other")

    def test_a_damaged_segment_stops_it_before_the_commit(self, log_dir: str) -> None:
        keyed(log_dir)
        (path,) = Path(log_dir).rglob("*.log")
        flip(path, path.stat().st_size - 3)
        version = catalog(log_dir).image().version

        with pytest.raises(CorruptRecordError):
            erased(log_dir, ALICE)
        assert catalog(log_dir).image().version == version

    @pytest.mark.parametrize("position", [-3, 12])
    def test_a_segment_that_is_damaged_before_it_is_written_anew(
        self, log_dir: str, position: int
    ) -> None:
        keyed(log_dir)
        (path,) = Path(log_dir).rglob("*.log")
        fleet = Meanwhile("search t", lambda: flip(path, position % path.stat().st_size))

        with pytest.raises(CorruptRecordError, match=path.name):
            erase(catalog(log_dir), "t", [ALICE], fleet)

    def test_a_topic_that_is_deleted_meanwhile(self, log_dir: str) -> None:
        keyed(log_dir)
        fleet = Meanwhile("search t", lambda: AdminClient(log_dir).delete_topics(["t"]))

        with pytest.raises(TopicClosedError, match="vacuum"):
            erase(catalog(log_dir), "t", [ALICE], fleet)

    def test_when_other_jobs_copy_the_records_again_and_again(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.admin.erase.ROUNDS_MAX", 1)
        keyed(log_dir)

        with pytest.raises(CommitConflictError, match="copied the records again, 1 times"):
            erased(log_dir, ALICE)


class TestReport:
    def test_says_when_the_last_file_goes_and_what_is_out_of_reach(self, log_dir: str) -> None:
        keyed(log_dir)
        report = erased(log_dir, ALICE)

        assert catalog(log_dir).clock.now_ms() < report.files_gone_ms
        assert report.outside == OUTSIDE
        assert json.loads(json.dumps(report.as_row()))["partitions"] == {"0": 3}

    @pytest.mark.parametrize(
        ("config", "is_merged", "days"), [({}, False, 3), ({}, True, 3), (OWN_FILES, False, 1)]
    )
    def test_says_when_vacuum_takes_the_last_file(
        self, tmp_path: Path, config: dict[str, object], is_merged: bool, days: int
    ) -> None:
        """Another topic may share a shared segment, and its delays are longer."""
        log_dir = new_topic(tmp_path / "log", partitions=1, config=config)
        new_topic(log_dir, "u", 1, {"sparklog.reader.grace.ms": 3 * DAY_MS})
        keyed(log_dir)
        if is_merged:
            unshare(log_dir)
        clock = later()
        report = erase(Catalog(LocalFiles(log_dir), clock), "t", [ALICE], LocalFleet())
        sweep(log_dir, clock=ManualClock(report.files_gone_ms - 60_000))

        assert report.files_gone_ms == clock.now_ms() + days * DAY_MS
        assert holding(log_dir, ALICE, SECRET) != []
        sweep(log_dir, clock=ManualClock(report.files_gone_ms))
        assert holding(log_dir, ALICE, SECRET) == []

    def test_a_deleted_topic_keeps_a_shared_segment(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2)
        new_topic(log_dir, "u", 1)
        share(log_dir)
        clock = later()
        admin = AdminClient(log_dir, clock=clock)
        admin.delete_topics(["u"])
        clock.advance(DAY_MS // 2)
        report = admin.erase("t", [ALICE])

        assert report.outside[0] == (
            "shared segments of deleted topics (u): erase again if one is undeleted"
        )
        for at_ms in (clock.now_ms() + DAY_MS // 2, report.files_gone_ms - 60_000):
            sweep(log_dir, clock=ManualClock(at_ms))
        assert holding(log_dir, ALICE, SECRET) != []
        sweep(log_dir, clock=ManualClock(report.files_gone_ms))
        assert holding(log_dir, ALICE, SECRET) == []

    def test_after_an_undelete_a_second_one_reaches_the_shared_segment(
        self, tmp_path: Path
    ) -> None:
        log_dir = new_topic(tmp_path / "log", partitions=2)
        new_topic(log_dir, "u", 1)
        share(log_dir)
        admin = client(log_dir)
        admin.delete_topics(["u"])
        admin.erase("t", [ALICE])
        admin.undelete_topic("u")
        report = admin.erase("t", [ALICE])

        assert (report.records, report.moved) == (0, 1)
        assert swept(log_dir) == []

    def test_names_files_that_repair_has_put_aside(self, log_dir: str) -> None:
        aside = Path(log_dir, catalog_directory(log_dir), "quarantine", "t-0")
        aside.mkdir(parents=True)
        (aside / "0.log").write_bytes(b"?")

        assert erased(log_dir, ALICE).outside[0].startswith("1 files in t-")

    def test_is_exported(self) -> None:
        assert EraseReport.__module__ == "sparklog.admin.erase"


def catalog_directory(log_dir: str) -> str:
    """The directory of the topic."""
    from sparklog.metadata.catalog import topic_directory

    return topic_directory(catalog(log_dir).topic("t"))
