"""The job over a real log dir; which segments go is tested in tests/unit/log/test_retention.py."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.coordinator import offsets_topic, shard
from sparklog.coordinator.commits.offsets import offset_records
from sparklog.coordinator.group_log import GroupLog
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import CorruptRecordError
from sparklog.fleet import LocalFleet
from sparklog.log_reader import TopicReader
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import DONE, FAILED, NOTHING_TO_DO, JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.history.read import history
from sparklog.metadata.plans.cluster import with_broker
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests import edits
from tests.edits import segment, spans
from tests.group_logs import append_records
from tests.logs import append, catalog, image, log_files, values
from tests.maintenance import alter, make_unreadable, new_topic

NOW = 1_700_000_000_000
OLD = NOW - 10_001


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Partition 0: two old segments and a young one. Partition 1: an old one. 2: nothing."""
    log_dir = new_topic(tmp_path / "log", partitions=3, config={"retention.ms": "10000"})
    for partition, time in ((0, OLD), (0, OLD), (0, NOW), (1, OLD)):
        append(log_dir, partition, range(5), timestamps=[time] * 5)
    return log_dir


def context_of(log_dir: str) -> JobContext:
    return JobContext(Catalog(open_files(log_dir), ManualClock(NOW)), LocalFleet())


def run(log_dir: str, *topics: str, dry_run: bool = False) -> tuple[int, list[StepReport]]:
    reports: list[StepReport] = []
    job = JobRun(name="retention", job=retention, topics=topics, options={}, dry_run=dry_run)
    return job.run(context_of(log_dir), reports.append), reports


def row_of(partition: int, by_time: int, size: int, start: int) -> dict[str, int]:
    counts = {"by_start_offset": 0, "by_size": 0, "by_time": by_time, "log_start_offset": start}
    return {"partition": partition, "segments": by_time, "bytes": size, **counts}


class TestRetention:
    def test_obeys_a_config_that_changed_since_it_began(self, log_dir: str) -> None:
        (step,) = retention(context_of(log_dir), ["t"], {})
        alter(log_dir, retention_ms=-1)

        assert step.execute().counts == {"segments": 0, "bytes": 0}
        assert len(values(log_dir)[0]) == 15

    def test_says_why_in_the_history(self, log_dir: str) -> None:
        AdminClient(log_dir).delete_records({("t", 0): 5})
        run(log_dir)
        told = next(history(catalog(log_dir).log, limit=1)).parameters

        assert told["why"] == "log start offset: 1, retention.ms: 2"
        assert told["logStartOffsets"] == "t-0:10, t-1:5"

    def test_takes_old_segments_out_of_the_log(self, log_dir: str) -> None:
        version = image(log_dir).version
        code, (report,) = run(log_dir)

        assert code == DONE
        assert report.outcome is not None
        assert report.outcome.counts["segments"] == 3
        assert image(log_dir).version == version + 1
        assert spans(image(log_dir), 0) == [(10, 15)]
        assert values(log_dir) == {0: list("01234")}

    def test_the_log_start_follows_and_the_log_end_stays(self, log_dir: str) -> None:
        run(log_dir)
        logs = image(log_dir).partitions

        assert (logs[0].log_start_offset, logs[0].log_end_offset) == (10, 15)
        assert (logs[1].log_start_offset, logs[1].log_end_offset) == (5, 5)
        assert append(log_dir, 1, ["next"]).ranges == ((1, 5, 6),)

    def test_takes_slices_of_shared_segments_out(self, log_dir: str) -> None:
        found = catalog(log_dir)
        slices = [
            segment(2, log_path="__shared/x.log", log_position=at, max_timestamp=time)
            for at, time in ((0, OLD), (100, NOW))
        ]
        edits.append(found, found.topic("t"), *slices)
        run(log_dir)

        assert spans(image(log_dir), 2) == [(10, 20)]
        assert catalog(log_dir).image().shared["__shared/x.log"].slice_count == 1

    def test_unlinks_nothing(self, log_dir: str) -> None:
        before = log_files(log_dir)
        run(log_dir)

        assert log_files(log_dir) == before

    def test_a_dry_run_says_what_would_go(self, log_dir: str) -> None:
        version = image(log_dir).version
        size = log_files(log_dir)[0].stat().st_size
        code, (report,) = run(log_dir, dry_run=True)

        assert code == DONE
        assert report.rows == [row_of(0, 2, 2 * size, 10), row_of(1, 1, size, 5)]
        assert image(log_dir).version == version

    def test_a_second_run_finds_nothing(self, log_dir: str) -> None:
        run(log_dir)

        assert run(log_dir) == (NOTHING_TO_DO, [])

    def test_a_topic_without_segments_has_nothing_to_do(self, tmp_path: Path) -> None:
        assert run(new_topic(tmp_path / "log"))[0] == NOTHING_TO_DO

    def test_records_that_were_deleted_go_whatever_the_policy(self, tmp_path: Path) -> None:
        log_dir = new_topic(tmp_path / "log", config={"retention.ms": "-1"})
        for _ in range(3):
            append(log_dir, 0, range(5))
        AdminClient(log_dir).delete_records({("t", 0): 12})
        code, _ = run(log_dir, "t")

        assert code == DONE
        assert spans(image(log_dir)) == [(10, 15)]
        assert image(log_dir).partition(0).log_start_offset == 12


class TestOthers:
    def test_what_was_removed_meanwhile_is_not_counted(self, log_dir: str) -> None:
        (step,) = retention(context_of(log_dir), [], {})
        run(log_dir)

        assert step.execute().counts == {"segments": 0, "bytes": 0}

    def test_what_was_written_meanwhile_is_in_the_sum(self, log_dir: str) -> None:
        (step,) = retention(context_of(log_dir), [], {})
        append(log_dir, 2, range(5), timestamps=[OLD] * 5)

        assert step.execute().counts["segments"] == 4

    def test_a_topic_that_is_being_deleted_is_left_alone(self, log_dir: str) -> None:
        (step,) = retention(context_of(log_dir), [], {})
        AdminClient(log_dir).delete_topics(["t"])

        assert step.execute().counts == {"segments": 0, "bytes": 0}

    def test_a_topic_that_cannot_be_read_fails_alone(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new_topic(log_dir, "broken")
        make_unreadable(monkeypatch, "broken")
        code, (broken, sound) = run(log_dir)

        assert code == FAILED
        assert broken.topic == "broken"
        assert broken.is_failed
        assert sound.outcome is not None
        assert sound.outcome.counts["segments"] == 3


class TestGroups:
    """What groups have committed expires after a week."""

    WEEK_MS = 7 * 24 * 60 * 60 * 1000

    @pytest.fixture
    def log_dir(self, tmp_path: Path) -> str:
        """The topic `t`, and offsets of the groups `old` and `young` of it."""
        clock = ManualClock(NOW - self.WEEK_MS)
        admin = AdminClient(tmp_path / "log", clock=clock)
        admin.create_topics([NewTopic("t", 1)])
        admin.alter_consumer_group_offsets("old", {("t", 0): 0})
        clock.advance(self.WEEK_MS)
        admin.alter_consumer_group_offsets("young", {("t", 0): 0})
        return str(tmp_path / "log")

    def names(self, log_dir: str) -> list[str]:
        return [one.group_id for one in AdminClient(log_dir).list_consumer_groups()]

    def test_old_offsets_are_removed_and_their_groups(self, log_dir: str) -> None:
        code, (planned,) = run(log_dir, dry_run=True)
        assert (code, planned.topic) == (DONE, OFFSETS_TOPIC)
        assert [row["offsets"] for row in planned.rows] == [1]
        assert self.names(log_dir) == ["old", "young"]
        code, (report,) = run(log_dir)
        assert report.outcome is not None
        assert (code, report.outcome.counts) == (DONE, {"offsets": 1})
        assert self.names(log_dir) == ["young"]
        assert run(log_dir)[0] == NOTHING_TO_DO

    def test_their_groups_may_come_in_a_later_step(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shard, "EXPIRED_MAX", 1)
        (report,) = run(log_dir)[1]
        assert report.outcome is not None
        assert report.outcome.counts == {"offsets": 1}
        assert self.names(log_dir) == ["young"]

    def test_other_topics_alone_do_not_ask_for_it(self, log_dir: str) -> None:
        assert run(log_dir, "t")[0] == NOTHING_TO_DO

    def test_a_gateway_does_it_itself(self, log_dir: str) -> None:
        broker = Broker(0, "incarnation", (Endpoint("PLAINTEXT", "localhost", 9092),), None)
        catalog(log_dir).log.commit(lambda image: with_broker(image, broker))
        assert run(log_dir)[0] == NOTHING_TO_DO

    def test_groups_that_cannot_be_read_are_told(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def load(*_: object) -> int:
            raise CorruptRecordError("bad crc")

        monkeypatch.setattr("sparklog.coordinator.group_log.load", load)
        code, (report,) = run(log_dir)
        assert (code, report.topic) == (FAILED, OFFSETS_TOPIC)

    def test_nor_where_the_topic_cannot_be_opened(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_unreadable(monkeypatch, OFFSETS_TOPIC)
        reports = run(log_dir)[1]
        assert [one.topic for one in reports if one.is_failed] == [OFFSETS_TOPIC] * 2

    def test_a_partition_that_cannot_be_read_fails_alone(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = partition_of("young", 50)

        def load(reader: TopicReader, partition: int, *rest: Any) -> int:
            if partition == broken:
                raise CorruptRecordError("bad crc")
            return offsets_topic.load(reader, partition, *rest)

        monkeypatch.setattr("sparklog.coordinator.group_log.load", load)
        code, (report,) = run(log_dir)
        assert report.outcome is not None
        assert (code, report.outcome.counts["offsets"]) == (FAILED, 1)
        assert {"partition": broken, "problem": "bad crc"} in report.rows
        assert report.outcome.problems == [f"{OFFSETS_TOPIC}-{broken}: bad crc"]

    def test_more_offsets_than_a_batch_holds_go_in_several_batches(self, log_dir: str) -> None:
        topics = [f"a-topic-with-a-name-of-forty-letters-{number:03d}" for number in range(20)]
        offset = CommittedOffset(5, committed_ms=NOW - self.WEEK_MS)
        for topic in topics:
            places = [TopicPartition(topic, number) for number in range(1_000)]
            append_records(
                catalog(log_dir), offset_records("old", dict.fromkeys(places, offset)), "old"
            )
        code, (report,) = run(log_dir)
        assert report.outcome is not None
        assert (code, report.outcome.counts) == (DONE, {"offsets": 20_001})
        assert self.names(log_dir) == ["young"]

    def test_what_others_have_written_to_waits(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(GroupLog, "_has_appended", lambda *_: False)
        assert GroupLog(Catalog(open_files(log_dir), ManualClock(NOW))).expire() == ({}, {})
        assert self.names(log_dir) == ["old", "young"]

    def test_before_the_first_group_there_is_nothing(self, tmp_path: Path) -> None:
        assert GroupLog(catalog(new_topic(tmp_path / "new"))).expire() == ({}, {})
