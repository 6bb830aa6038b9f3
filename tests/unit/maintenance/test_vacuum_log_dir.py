"""What deleted topics and cut-off creations leave behind."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import (
    LateWriterError,
    MissingFileError,
    SparklogError,
    StoragePermissionError,
    UnknownTopicError,
)
from sparklog.log.names import segment_name, uuid7
from sparklog.log_writer import commit_write
from sparklog.maintenance.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO
from sparklog.maintenance.vacuum_log_dir import (
    deleted_topic_steps,
    finish_deletion,
    log_dir_steps,
)
from sparklog.metadata.UNKNOWN import manifest_directory
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.log import CLUSTER_METADATA
from sparklog.metadata.UNKNOWN import DeltaManifestStore
from sparklog.model import TopicDescription
from sparklog.storage.local import LocalFiles
from tests.logs import append, catalog, new_topic, rows
from tests.sweeping import DAY_MS, HOUR_MS, directory_of, later, make_old, put, sweep, written

UNKNOWN = "lost-" + "A" * 22


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A topic that stays, and one that is deleted."""
    log_dir = new_topic(tmp_path / "log")
    new_topic(log_dir, "gone")
    for topic in ("t", "gone"):
        append(log_dir, 0, range(20), topic=topic)
    return log_dir


def delete(log_dir: str, topic: str = "gone") -> Path:
    """Delete a topic; return its directory."""
    directory = directory_of(log_dir, topic)
    AdminClient(log_dir).delete_topics([topic])
    return directory


def ids(log_dir: str) -> set[str]:
    return {topic.name for topic in catalog(log_dir).image().topics.values()}


def unfinished(log_dir: str) -> Path:
    """What a creation leaves that died before its commit."""
    found = catalog(log_dir)
    topic = TopicDescription("lost", "A" * 22, 1, {}, found.clock.now_ms())
    DeltaManifestStore.create(found.files, manifest_directory(topic), found.clock)
    return Path(log_dir) / UNKNOWN


class TestDeletedTopic:
    def test_goes_with_its_directory_and_its_row(self, log_dir: str) -> None:
        directory = delete(log_dir)
        before = rows(log_dir)
        swept = sweep(log_dir)

        assert swept.code == DONE
        assert swept.count("files", directory.name) > 2
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

    def test_goes_without_being_read(self, log_dir: str) -> None:
        directory = delete(log_dir)
        for path in directory.glob("manifest/*/*.json"):
            path.write_bytes(b"{")

        assert sweep(log_dir).code == DONE
        assert not directory.exists()

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

        class Stuck(LocalFiles):
            def delete(self, path: str) -> None:
                raise StoragePermissionError(f"cannot delete {path}")

        swept = sweep(log_dir, files=Stuck(log_dir))

        assert swept.code == FAILED
        assert "could not be deleted" in swept.outcome(directory.name).problems[0]
        assert (directory / "manifest").exists()
        assert ids(log_dir) == {"t", "gone"}

    def test_whose_directory_is_gone_loses_its_row(self, log_dir: str) -> None:
        directory = delete(log_dir)
        LocalFiles(log_dir).delete_tree(directory.name)

        assert sweep(log_dir).count("files", directory.name) == 0
        assert ids(log_dir) == {"t"}

    def test_whose_row_is_gone_meanwhile_is_done(self, log_dir: str) -> None:
        delete(log_dir)
        context = JobContext(Catalog(LocalFiles(log_dir), later()), LocalFleet())
        topics = context.catalog.image().topics.values()
        (step,) = deleted_topic_steps(context, {}, topics)
        sweep(log_dir)

        assert step.execute().problems == ()

    def test_a_writer_who_knew_it_gets_an_error(self, log_dir: str) -> None:
        """Also one whose store was open all the while, and so remembers the topic as it was."""
        plan, entries = written(log_dir, ["late"], topic="gone")
        store = Catalog(LocalFiles(log_dir), ManualClock()).store(plan.topic)
        store.image()
        directory = delete(log_dir)
        sweep(log_dir)

        with pytest.raises(MissingFileError, match="the table was deleted"):
            commit_write(store, plan, entries)
        assert not directory.exists()

    def test_what_a_writer_puts_there_afterwards_is_unfinished(self, log_dir: str) -> None:
        plan, _ = written(log_dir, ["one"], topic="gone")
        directory = delete(log_dir)
        sweep(log_dir)
        name = segment_name(0, uuid7(plan.topic.created_ms, bytes(10)), ".log")
        make_old(put(directory, f"gone-0/{name}"))

        assert sweep(log_dir).count("files", directory.name) == 1
        assert not directory.exists()

    def test_finishing_a_deletion_twice_is_once(self, log_dir: str) -> None:
        topic = catalog(log_dir).topic("gone")
        context = JobContext(Catalog(LocalFiles(log_dir), ManualClock(5)), LocalFleet())
        finish_deletion(context, topic)
        finish_deletion(JobContext(Catalog(LocalFiles(log_dir)), LocalFleet()), topic)

        assert catalog(log_dir).image().topics[topic.topic_id].deleted_ms == 5
        sweep(log_dir)
        finish_deletion(context, topic)
        assert ids(log_dir) == {"t"}


class TestUnfinishedTopic:
    def test_goes_when_it_is_older_than_the_horizon(self, log_dir: str) -> None:
        directory = unfinished(log_dir)
        put(directory)
        swept = sweep(log_dir)

        assert swept.code == DONE
        assert swept.reports[0].rows[0]["what"] == "unfinished topic"
        assert not directory.exists()

    def test_stays_for_a_day(self, log_dir: str) -> None:
        directory = unfinished(log_dir)

        assert sweep(log_dir, clock=later(DAY_MS - HOUR_MS)).code == NOTHING_TO_DO
        assert directory.exists()

    def test_stays_while_a_file_in_it_is_young(self, log_dir: str) -> None:
        directory = unfinished(log_dir)
        make_old(put(directory, born_ms=later().now_ms()))

        assert sweep(log_dir).code == NOTHING_TO_DO
        assert directory.exists()

    def test_a_slow_creation_gets_an_error(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Never a topic without a manifest."""
        create = DeltaManifestStore.create

        def slowly(*arguments: Any, **options: Any) -> Any:
            made = create(*arguments, **options)
            sweep(log_dir)
            return made

        monkeypatch.setattr(DeltaManifestStore, "create", slowly)
        with pytest.raises(LateWriterError, match="'new': its creation began before the vacuum"):
            AdminClient(log_dir).create_topics([NewTopic("new")])
        assert AdminClient(log_dir).list_topics() == ["gone", "t"]

    def test_that_comes_to_be_meanwhile_stays(self, log_dir: str) -> None:
        directory = unfinished(log_dir)

        class Finishing(LocalFiles):
            """The creation commits once vacuum has listed the files."""

            def list(self, *arguments: Any, **options: Any) -> Any:
                found = super().list(*arguments, **options)
                topic = TopicDescription("lost", "A" * 22, 1, {}, later().now_ms())
                catalog(log_dir).cluster.commit(lambda state: state.with_topics(topic))
                return found

        context = JobContext(Catalog(LocalFiles(log_dir), later()), LocalFleet())
        files = list(LocalFiles(log_dir).list(UNKNOWN, recursive=True))
        (step,) = log_dir_steps(context, {UNKNOWN: files})
        list(Finishing(log_dir).list(UNKNOWN))

        assert step.execute().counts == {"files": 0, "bytes": 0}
        assert directory.exists()

    def test_that_cannot_be_unlinked_is_told(self, log_dir: str) -> None:
        directory = unfinished(log_dir)
        make_old(put(directory, born_ms=0))

        class Stuck(LocalFiles):
            def delete(self, path: str) -> None:
                raise StoragePermissionError(f"cannot delete {path}")

        assert "cannot delete" in sweep(log_dir, files=Stuck(log_dir)).outcome(UNKNOWN).problems[0]


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

    def test_a_log_dirs_own_files_are_no_strangers(self, log_dir: str) -> None:
        put(Path(log_dir), "meta.properties.half")

        assert sweep(log_dir).code == NOTHING_TO_DO

    def test_old_files_of_the_cluster_metadata_go(self, log_dir: str) -> None:
        old = put(Path(log_dir), f"{CLUSTER_METADATA}/live-00000001-lost.parquet")
        make_old(old)
        swept = sweep(log_dir)

        assert swept.count("manifest_files", CLUSTER_METADATA) == 1
        assert not old.exists()
        assert ids(log_dir) == {"t", "gone"}

    def test_a_state_that_cannot_be_read_stops_everything(self, log_dir: str) -> None:
        orphan = put(directory_of(log_dir))
        for path in Path(log_dir).glob(f"{CLUSTER_METADATA}/*.parquet"):
            path.write_bytes(b"")

        with pytest.raises(SparklogError, match="cannot be read"):
            sweep(log_dir)
        assert orphan.exists()
