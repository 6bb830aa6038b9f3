"""Vacuum outside of topics: deleted topics, unknown directories, files of other names."""

import os
from collections.abc import Iterator
from dataclasses import replace
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import (
    CorruptMetadataError,
    InvalidOptionError,
    MissingFileError,
    TopicClosedError,
    UnknownTopicError,
)
from sparklog.fleet import LocalFleet
from sparklog.log.names import CLUSTER_METADATA, GATEWAYS
from sparklog.log_writer import commit_write
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO, executed
from sparklog.maintenance.vacuuming import vacuum_log_dir
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.catalog import Catalog
from sparklog.storage.files import FileStat
from sparklog.storage.local import LocalFiles
from tests import edits
from tests.logs import append, catalog, rows
from tests.maintenance import new_topic
from tests.sweeping import (
    DAY_MS,
    HOUR_MS,
    Stuck,
    add_slices,
    delete,
    directory_of,
    later,
    make_old,
    planned,
    put,
    put_shared,
    remove,
    sweep,
    two_topics,
    written,
)

UNKNOWN = "lost-" + "A" * 22
UNKNOWN_TOPIC = {"unknown_topics": 1, "unknown_files": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return two_topics(tmp_path / "log")


def ids(log_dir: str) -> set[str]:
    return {topic.description.name for topic in catalog(log_dir).image().topics.values()}


class TestDeletedTopic:
    def test_goes_with_its_directory_and_its_row(self, log_dir: str) -> None:
        directory = delete(log_dir)
        before = rows(log_dir)
        swept = sweep(log_dir)

        assert swept.code == DONE
        assert swept.count("files", directory.name) == 2
        assert not directory.exists()
        assert ids(log_dir) == {"t"}
        assert rows(log_dir) == before

    def test_stays_until_the_delays_are_over(self, log_dir: str) -> None:
        directory = delete(log_dir)

        assert sweep(log_dir, clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        assert directory.exists()

    def test_stays_when_other_topics_are_asked_for(self, log_dir: str) -> None:
        directory = delete(log_dir)

        assert sweep(log_dir, "t").code == NOTHING_TO_DO
        assert directory.exists()

    def test_goes_when_it_is_asked_for(self, log_dir: str) -> None:
        directory = delete(log_dir)

        assert sweep(log_dir, "gone", clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        assert sweep(log_dir, "gone").code == DONE
        assert not directory.exists()
        assert ids(log_dir) == {"t"}

    def test_goes_with_the_topic_that_has_its_name_now(self, log_dir: str) -> None:
        directory = delete(log_dir)
        new_topic(log_dir, "gone")
        put(directory_of(log_dir, "gone"))
        swept = sweep(log_dir, "gone", "t")

        assert [report.topic for report in swept.reports] == ["gone", directory.name]

    def test_that_was_vacuumed_is_unknown(self, log_dir: str) -> None:
        delete(log_dir)
        sweep(log_dir, "gone")

        with pytest.raises(UnknownTopicError, match="unknown topic 'gone'"):
            sweep(log_dir, "gone")

    def test_that_was_vacuumed_does_not_come_back(self, log_dir: str) -> None:
        delete(log_dir)
        sweep(log_dir, "gone")

        with pytest.raises(UnknownTopicError, match="vacuum has erased it"):
            AdminClient(log_dir).undelete_topic("gone")

    def test_that_is_erased_in_part_does_not_come_back(self, log_dir: str) -> None:
        delete(log_dir)
        sweep(log_dir, files=Stuck(log_dir))

        assert AdminClient(log_dir).list_deleted_topics() == []
        with pytest.raises(TopicClosedError, match="begun to erase"):
            AdminClient(log_dir).undelete_topic("gone")
        assert sweep(log_dir).code == DONE

    def test_that_came_back_meanwhile_keeps_its_files(self, log_dir: str) -> None:
        delete(log_dir)
        step = planned(log_dir, "gone")
        AdminClient(log_dir).undelete_topic("gone")

        assert step.execute().counts == {"conflicts": 1}
        assert rows(log_dir, "gone") == rows(log_dir, "t")

    def test_keeps_what_is_in_quarantine(self, log_dir: str) -> None:
        directory = delete(log_dir)
        quarantined = put(directory, "quarantine/t-0/damaged.log")
        sweep(log_dir)
        again = sweep(log_dir, clock=later(9 * DAY_MS))

        assert [path for path in directory.rglob("*") if path.is_file()] == [quarantined]
        assert ids(log_dir) == {"t"}
        assert again.code == NOTHING_TO_DO

    def test_keeps_its_row_as_long_as_a_file_of_it(self, log_dir: str) -> None:
        directory = delete(log_dir)
        swept = sweep(log_dir, files=Stuck(log_dir))

        assert swept.code == FAILED
        assert "could not be deleted" in swept.outcome(directory.name).problems[0]
        assert directory.exists()
        assert ids(log_dir) == {"t", "gone"}

    def test_whose_directory_is_gone_loses_its_row(self, log_dir: str) -> None:
        directory = delete(log_dir)
        LocalFiles(log_dir).delete_tree(directory.name)

        assert sweep(log_dir).count("files", directory.name) == 0
        assert ids(log_dir) == {"t"}

    def test_that_is_forgotten_meanwhile_is_done(self, log_dir: str) -> None:
        delete(log_dir)
        step = planned(log_dir, "gone")
        sweep(log_dir)

        assert step.execute().problems == ()

    def test_that_is_deleted_and_forgotten_before_its_step_is_done(self, log_dir: str) -> None:
        written(log_dir, ["orphan"], topic="gone")
        step = planned(log_dir, "gone", clock=later(9 * DAY_MS))
        delete(log_dir)
        sweep(log_dir)

        assert executed(step) == Outcome(counts={"conflicts": 1})

    def test_that_is_forgotten_while_its_files_are_listed_is_done(self, log_dir: str) -> None:
        class Meanwhile(LocalFiles):
            def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
                if recursive and not directory and "gone" in ids(log_dir):
                    delete(log_dir)
                    sweep(log_dir)
                return super().list(directory, recursive)

        mine = Catalog(Meanwhile(log_dir), later())
        steps = vacuum(JobContext(mine, LocalFleet()), [], {})

        assert [line for step in steps for line in executed(step).problems] == []
        assert "gone" not in ids(log_dir)

    def test_a_writer_who_knew_it_gets_an_error(self, log_dir: str) -> None:
        """Also one whose catalog was open all the while."""
        plan, entries = written(log_dir, ["late"], topic="gone")
        own = catalog(log_dir)
        own.topic_image(plan.topic)
        directory = delete(log_dir)
        sweep(log_dir)

        with pytest.raises(MissingFileError, match="there is no such topic"):
            commit_write(own, plan, entries)
        assert not directory.exists()

    def test_a_large_one_goes_in_parts(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vacuum_log_dir, "LOCAL_CHUNK", 1)
        directory = delete(log_dir)

        assert sweep(log_dir).count("files", directory.name) == 2
        assert not directory.exists()

    def test_takes_its_slices_of_shared_segments_with_it(self, log_dir: str) -> None:
        path = put_shared(log_dir)
        add_slices(log_dir, "gone", path)
        delete(log_dir)
        assert catalog(log_dir).image().shared[path].slice_count == 1
        sweep(log_dir)

        assert catalog(log_dir).image().shared[path].slice_count == 0


class TestUnknownTopic:
    """The directory of a topic that the metadata log does not know: a restored one may not."""

    def test_is_told_and_left_alone(self, log_dir: str) -> None:
        segment = put(Path(log_dir) / UNKNOWN, born_ms=0)
        put(Path(log_dir) / UNKNOWN, "quarantine/t-0/damaged.log")
        swept = sweep(log_dir)

        outcome = swept.outcome(CLUSTER_METADATA)
        said = "1 files of 6 bytes of a topic that the metadata log does not know"
        assert (swept.code, outcome.counts) == (DONE, {"metadata_files": 0, **UNKNOWN_TOPIC})
        assert outcome.notes == [f"{UNKNOWN}: {said}; they are left alone"]
        assert segment.exists()

    def test_may_have_come_to_be_while_files_were_listed(self, log_dir: str) -> None:
        class Meanwhile(LocalFiles):
            def list(self, *arguments: Any, **options: Any) -> Any:
                if "new" not in ids(log_dir):
                    append(new_topic(log_dir, "new"), 0, range(3), topic="new")
                    put(directory_of(log_dir, "new"), "notes.txt")
                return super().list(*arguments, **options)

        assert sweep(log_dir, files=Meanwhile(log_dir)).code == NOTHING_TO_DO


class TestDropUnknown:
    def test_erases_a_directory_but_for_its_quarantine(self, log_dir: str) -> None:
        segment = put(Path(log_dir) / UNKNOWN)
        damaged = put(Path(log_dir) / UNKNOWN, "quarantine/t-0/damaged.log")
        swept = sweep(log_dir, drop_unknown=[UNKNOWN])

        assert swept.outcome(UNKNOWN).counts == {"files": 1, "bytes": 6}
        assert [report.topic for report in swept.reports] == [UNKNOWN]
        assert (segment.exists(), damaged.exists()) == (False, True)

    @pytest.mark.parametrize("directory", ["nothing", "__shared", CLUSTER_METADATA, "t"])
    def test_of_another_directory_is_refused(self, log_dir: str, directory: str) -> None:
        swept = sweep(log_dir, drop_unknown=[directory])

        assert swept.code == FAILED
        assert swept.outcome(CLUSTER_METADATA).problems == [
            f"{directory!r} is not the directory of an unknown topic: see a dry run"
        ]

    def test_waits_until_no_writer_can_be_about_to_commit(self, log_dir: str) -> None:
        segment = put(Path(log_dir) / UNKNOWN)
        swept = sweep(log_dir, drop_unknown=[UNKNOWN], clock=later(HOUR_MS))

        (problem,) = swept.outcome(UNKNOWN).problems
        assert problem.startswith(f"{UNKNOWN}/t-0/{segment.name} is younger than sparklog.orphan")
        assert segment.exists()

    def test_spares_a_topic_that_came_to_be_while_files_were_listed(self, log_dir: str) -> None:
        class Meanwhile(LocalFiles):
            def list(self, *arguments: Any, **options: Any) -> Any:
                if "new" not in ids(log_dir):
                    append(new_topic(log_dir, "new"), 0, range(3), topic="new")
                    directories.append(directory_of(log_dir, "new").name)
                return super().list(*arguments, **options)

        directories: list[str] = []
        swept = sweep(log_dir, files=Meanwhile(log_dir), drop_unknown=directories)

        assert swept.outcome(directories[0]).counts == {"conflicts": 1}
        assert len(rows(log_dir, "new")[0]) == 3

    def test_does_not_go_with_names_of_topics(self, log_dir: str) -> None:
        with pytest.raises(InvalidOptionError, match="do not go together"):
            sweep(log_dir, "t", drop_unknown=[UNKNOWN])


class TestLogDir:
    @pytest.mark.parametrize(
        "path", ["notes.txt", "backup/t-0/x.log", f"{UNKNOWN}/notes.txt", f"x-{'A' * 21}/y"]
    )
    def test_other_names_are_left_alone_and_told(self, log_dir: str, path: str) -> None:
        strange = put(Path(log_dir), path)
        make_old(strange)
        swept = sweep(log_dir)

        assert swept.count("unknown_files", CLUSTER_METADATA) == 1
        assert swept.reports[0].rows[0]["example"] == path
        assert strange.exists()

    def test_signs_of_life_of_gateways_are_no_strangers(self, log_dir: str) -> None:
        sign = put(Path(log_dir), "__gateways/7.json")
        make_old(sign)

        assert sweep(log_dir).code == NOTHING_TO_DO

    def test_a_log_dirs_own_files_are_no_strangers(self, log_dir: str) -> None:
        put(Path(log_dir), "meta.properties.half")

        assert sweep(log_dir).code == NOTHING_TO_DO

    def test_a_config_that_cannot_be_read_keeps_all_files(self, log_dir: str) -> None:
        """Goal: Nothing goes when nobody knows how long it has to stay.

        Method: A topic has a config that only a newer release knows.
        """
        path = put_shared(log_dir)
        found = catalog(log_dir)
        topic = replace(found.topic("gone"), configs={"sparklog.newer": "1"})
        edits.edited(found, topic, description=topic)
        swept = sweep(log_dir)

        assert swept.code == FAILED
        assert "sparklog.newer" in swept.outcome(CLUSTER_METADATA).problems[0]
        assert (Path(log_dir) / path).exists()

    @pytest.mark.parametrize("directory", [CLUSTER_METADATA, GATEWAYS])
    def test_leftovers_of_small_files_go(self, log_dir: str, directory: str) -> None:
        old = put(Path(log_dir), f"{directory}/.tmp-1")
        make_old(old)
        swept = sweep(log_dir)

        assert swept.reports[0].rows[0]["what"] == "leftovers of the log dir"
        assert swept.count("metadata_files", CLUSTER_METADATA) == 1
        assert not old.exists()
        assert ids(log_dir) == {"t", "gone"}

    def test_a_log_that_cannot_be_read_stops_everything(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))
        for path in Path(log_dir).glob(f"{CLUSTER_METADATA}/_delta_log/*.json"):
            path.write_bytes(b"{")

        with pytest.raises(CorruptMetadataError):
            sweep(log_dir)
        assert orphan.exists()


@pytest.mark.parametrize("is_foreign", [True, False])
def test_a_directory_that_cannot_be_read_is_told_and_holds_up_no_other(
    log_dir: str, monkeypatch: pytest.MonkeyPatch, is_foreign: bool
) -> None:
    deleted = delete(log_dir)
    hidden = ".Trash-0" if is_foreign else deleted.name
    Path(log_dir, ".Trash-0").mkdir()
    shared = put_shared(log_dir)
    remove(log_dir, 0)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith(f"/{hidden}"):
            raise PermissionError(EACCES, "refused")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    swept = sweep(log_dir)
    problems = [line for one in swept.reports for line in one.as_row()["problems"]]

    assert swept.code == FAILED
    assert {*problems} == {f"cannot list {hidden} in {log_dir}: Permission denied"}
    assert (swept.count("segments"), deleted.exists()) == (1, not is_foreign)
    assert not Path(log_dir, shared).exists()


def test_files_that_are_only_told_need_no_commit(log_dir: str) -> None:
    directory_of(log_dir).joinpath("t-0", "notes").write_text("mine")
    Path(log_dir, "README").write_text("ours")
    before = catalog(log_dir).image().version
    swept = sweep(log_dir)

    assert [swept.count("unknown_files", topic) for topic in ("t", CLUSTER_METADATA)] == [1, 1]
    assert catalog(log_dir).image().version == before
