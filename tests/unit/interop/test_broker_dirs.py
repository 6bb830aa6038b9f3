"""Several log directories at once: those of one broker, or of the brokers of a cluster."""

import os
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import LogDirError, StoragePermissionError
from sparklog.interop.broker_files.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.imports import broker_dirs
from sparklog.interop.imports.broker_dirs import BrokerDirs
from sparklog.interop.imports.consumer_offsets import committed_offsets
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.interop.imports.take_over import take_over
from sparklog.model import TopicPartition
from tests.broker_files import TRANSACTIONAL, batch, marker, patched, write_segment
from tests.command_line import CommandLine
from tests.unit.interop.conftest import Interop
from tests.unit.interop.test_take_over import ONGOING, state

GROUPS = ImportOptions(topics=[OFFSETS_TOPIC])
DAMAGED = batch(4)[:16] + b"\x09" + batch(4)[17:]
"""A batch of a format that there is not."""
IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The directory of another broker."""
    path = tmp_path / "other"
    path.mkdir()
    return path


def partition(broker: Path, name: str = "t-0") -> Path:
    """The directory of a partition, made."""
    path = broker / name
    path.mkdir()
    return path


def write_id(folder: Path, topic_id: str) -> None:
    """Write the topic's id into a partition's directory."""
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


class TestPartitions:
    def test_of_a_path_that_is_not_utf_8_are_taken(self, interop: Interop, other: Path) -> None:
        named = other.rename(os.fsdecode(os.fsencode(other) + b"\xe9"))
        write_segment(partition(named), 0, batch(0))
        interop.run(None, named)

        history = CommandLine(str(interop.log_dir)).done("log", "--format", "json").json
        assert history[0]["parameters"]["source"].endswith("/other\\xe9")
        assert interop.offsets() == [0, 1]

    def test_of_all_are_taken(self, interop: Interop, other: Path) -> None:
        write_segment(interop.partition("t-1"), 0, batch(0))
        write_segment(partition(other), 0, batch(0, 10))
        (other / "log-start-offset-checkpoint").write_text("0\n2\nt 0 4\nt 1 1\n")
        (interop.broker / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 9\n")

        assert [one.problem for one in interop.run(None, other)] == [None, None]
        assert interop.offsets() == [4, 5, 6, 7, 8, 9]
        topic = interop.catalog.topic("t")
        starts = interop.catalog.topic_image(topic).partition(1).state.log_start_offset
        assert (starts, topic.configs) == (0, {"retention.ms": "-1"})

    def test_of_a_directory_that_comes_twice_are_taken_once(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0))

        assert len(interop.run(None, interop.broker / ".." / "broker")) == 1

    def test_that_are_damaged_are_reported_beside_a_sound_replica(
        self, interop: Interop, other: Path, tmp_path: Path
    ) -> None:
        (interop.broker / "t-0").symlink_to(tmp_path)
        write_segment(partition(other), 0, batch(0))

        wrong, right = sorted(interop.run(None, other), key=lambda one: one.problem is None)
        assert "a symbolic link" in str(wrong.problem)
        assert (right.problem, interop.offsets()) == (None, [0, 1])

    def test_of_none_are_refused(self, interop: Interop, other: Path) -> None:
        with pytest.raises(LogDirError, match=r"broker, .*other has no partition"):
            interop.run(None, other)

    @pytest.mark.parametrize("is_one_broker", [True, False])
    def test_of_a_topic_that_was_created_twice_are_refused(
        self, interop: Interop, other: Path, is_one_broker: bool
    ) -> None:
        second = interop.partition("t-1") if is_one_broker else partition(other)
        for folder, topic_id in zip((interop.partition(), second), IDS, strict=True):
            write_id(folder, topic_id)
        others = [] if is_one_broker else [other]

        with pytest.raises(LogDirError, match=f"two topics 't', {IDS[0]} and {IDS[1]}"):
            interop.run(None, *others)

    def test_of_another_topic_that_was_created_twice_do_not_matter(self, interop: Interop) -> None:
        for name, topic_id in zip(("u-0", "u-1"), IDS, strict=True):
            write_id(interop.partition(name), topic_id)
        write_segment(interop.partition(), 0, batch(0))
        interop.run(ImportOptions(topics=["t"]))

        assert interop.offsets() == [0, 1]

    def test_that_are_refused_anyway_have_no_say_in_the_id(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        write_id(partition(tmp_path, "elsewhere"), IDS[1])
        (interop.broker / "t-1").symlink_to(tmp_path / "elsewhere")
        write_id(interop.partition(), IDS[0])
        write_segment(interop.broker / "t-0", 0, batch(0))
        right, wrong = interop.run()

        assert (right.problem, interop.offsets()) == (None, [0, 1])
        assert "a symbolic link" in str(wrong.problem)

    def test_with_a_damaged_id_are_refused_and_the_others_imported(self, interop: Interop) -> None:
        write_id(interop.partition("t-1"), "short")
        write_segment(interop.partition(), 0, batch(0))
        right, wrong = interop.run()

        assert (right.problem, interop.offsets()) == (None, [0, 1])
        assert "t-1/partition.metadata: it must say" in str(wrong.problem)


class TestReplicas:
    def taken(self, interop: Interop, other: Path) -> Path:
        [found] = BrokerDirs([str(interop.broker), str(other)]).partitions()
        return Path(found.path).parent

    def test_the_longer_one_is_taken(self, interop: Interop, other: Path) -> None:
        write_segment(interop.partition(), 0, batch(0), batch(2))
        folder = partition(other)
        write_segment(folder, 0, batch(0), batch(2), batch(4))
        write_segment(folder, 6)

        assert self.taken(interop, other) == other
        interop.run(None, other)
        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    def test_the_one_of_a_later_leader_is_taken(self, interop: Interop, other: Path) -> None:
        write_segment(interop.partition(), 0, batch(0), batch(2, epoch=3))
        write_segment(partition(other), 0, batch(0), batch(2, epoch=2), batch(4, epoch=2))

        assert self.taken(interop, other) == interop.broker

    def test_one_that_is_damaged_is_not_taken(self, interop: Interop, other: Path) -> None:
        write_segment(interop.partition(), 0, batch(0), batch(2), DAMAGED)
        write_segment(partition(other), 0, batch(0))

        assert self.taken(interop, other) == other

    def test_one_that_may_not_be_read_is_not_taken(
        self, interop: Interop, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(folder: PartitionDir) -> list[SegmentFiles]:
            if folder.path.startswith(str(other)):
                raise StoragePermissionError("no")
            return segments(folder)

        for name in ("t-0", "u-0"):
            write_segment(interop.partition(name), 0, batch(0))
            write_segment(partition(other, name), 0, batch(0), batch(2))
        segments = PartitionDir.segments
        monkeypatch.setattr(PartitionDir, "segments", refused)

        assert [one.problem for one in interop.run(None, other)] == [None, None]
        assert interop.offsets() == [0, 1]

    def test_of_topics_that_are_not_wanted_none_is_read(
        self, interop: Interop, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def seen(one: PartitionDir) -> tuple[int, int]:
            topics.add(one.topic_partition.topic)
            return end_of(one)

        for name in ("t-0", "u-0"):
            write_segment(interop.partition(name), 0, batch(0))
            write_segment(partition(other, name), 0, batch(0))
        topics: set[str] = set()
        end_of = broker_dirs.end_of
        monkeypatch.setattr(broker_dirs, "end_of", seen)
        interop.run(ImportOptions(topics=["t"]), other)

        assert topics == {"t"}

    def test_one_that_has_no_record_is_taken_if_all_have_none(
        self, interop: Interop, other: Path
    ) -> None:
        interop.partition()
        write_segment(partition(other), 7)

        assert self.taken(interop, other) == other


class TestGroups:
    def write(self, folder: Path, group: str, count: int) -> None:
        """A commit of a group, in its partition of so many."""
        name = f"{OFFSETS_TOPIC}-{partition_of(group, count)}"
        held = offset_record(group, TopicPartition("t", 0), CommittedOffset(5))
        commit = (3).to_bytes(8, "big") + batch_of([held], 1)[8:]
        write_segment(partition(folder, name), 0, marker(0, 7, 1), batch(1), commit)

    def test_are_adopted_from_all_brokers_at_once(self, interop: Interop, other: Path) -> None:
        self.write(interop.broker, "c", 2)
        self.write(other, "b", 2)

        with pytest.raises(LogDirError, match="1 of at least 2 partitions; give the log dir"):
            interop.run(GROUPS)
        assert [one.problem for one in interop.run(GROUPS, other)] == [None, None]
        admin = AdminClient(interop.log_dir)
        assert [one.group_id for one in admin.list_consumer_groups()] == ["b", "c"]

    def test_tell_that_the_last_partitions_are_missing(self, interop: Interop) -> None:
        names = {partition_of(one, 4): one for one in "abcd"}
        for number in range(3):
            self.write(interop.broker, names[number], 4)

        with pytest.raises(LogDirError, match="with 3 partitions belongs to .: the last ones are"):
            interop.run(GROUPS)

    def test_do_not_tell_it_where_the_log_is_damaged(self, interop: Interop) -> None:
        write_segment(interop.partition(f"{OFFSETS_TOPIC}-0"), 0, DAMAGED)

        assert "__consumer_offsets-0" in interop.problem(GROUPS)

    def test_are_printed_whatever_other_topics_are(self, interop: Interop) -> None:
        for name, topic_id in zip(("u-0", "u-1"), IDS, strict=True):
            write_id(interop.partition(name), topic_id)
        self.write(interop.broker, "b", 2)

        assert [one.group for one in committed_offsets([str(interop.broker)])] == ["b"]

    def test_are_printed_from_all_brokers(self, interop: Interop, other: Path) -> None:
        self.write(interop.broker, "b", 2)
        self.write(other, "c", 2)
        sparklog = CommandLine(str(interop.log_dir))
        options = ["--consumer-offsets", "--format", "json"]
        rows = sparklog.done("import", interop.broker, other, *options).json

        assert [(one["group"], one["offset"]) for one in rows] == [("b", 5), ("c", 5)]


def test_transactional_ids_are_taken_over_with_offsets_of_another_broker(
    interop: Interop, other: Path
) -> None:
    data = batch(0, producer=7, attributes=TRANSACTIONAL, sequence=0)
    write_segment(interop.partition(), 0, data)
    held = offset_record("g", TopicPartition("t", 0), CommittedOffset(2))
    groups = partition(other, f"{OFFSETS_TOPIC}-9")
    write_segment(groups, 0, patched(batch_of([held], 1), 7, TRANSACTIONAL))
    ids = interop.partition("__transaction_state-3")
    write_segment(ids, 0, batch_of([state("id", ONGOING)], 1))
    interop.run(None, other)
    [found] = take_over(interop.catalog, [str(interop.broker), str(other)])

    assert (found.problem, found.state) == (None, "Ongoing")
    taken = interop.catalog.image().transactional_ids.by_id["id"]
    assert [one[:4] for one in taken.offsets] == [("g", "t", 0, 2)]
