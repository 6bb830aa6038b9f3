"""What a broker gets of producers and of groups depends on what it has had itself."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import StorageError
from sparklog.interop.broker_files.broker_dir import BrokerDir
from sparklog.interop.broker_files.checkpoints import (
    LEADER_EPOCH,
    PARTITION_METADATA,
    encode_topic_id,
)
from sparklog.interop.broker_files.producer_snapshot import (
    ProducerState,
    encode_snapshot,
    read_snapshot,
)
from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.interop.exports.export_target import Targets
from sparklog.interop.imports.consumer_offsets import committed_offsets
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID
from sparklog.metadata.state.producers import BATCHES_MAX
from sparklog.model import TopicPartition
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.broker_files import T0, batch, write_segment
from tests.compat.cases import BROKER
from tests.logs import new_topic
from tests.unit.interop.conftest import Interop

OURS = FIRST_PRODUCER_ID
"""The id of a producer that a gateway gave."""


class TestProducers:
    """Brokers give ids from 0 on: a producer must not get the state of another broker's."""

    @pytest.fixture
    def exported(self, interop: Interop, second: Path) -> Callable[..., list[ProducerState]]:
        """Export batches over a broker that has known one producer; return what it gets."""

        def export(known: ProducerState | None, *batches: bytes) -> list[ProducerState]:
            write_segment(interop.partition(), 0, *batches)
            interop.run()
            states = [] if known is None else [known]
            (second / "t-0" / f"{9:020d}.snapshot").write_bytes(encode_snapshot(states))
            export_into(interop.catalog, str(second), ExportOptions())
            (path,) = (second / "t-0").glob("*.snapshot")
            return read_snapshot(path.read_bytes())

        return export

    LAST = ProducerState(3, 0, 1, 1, 1, T0 + 1, -1, -1)
    """That of `batch(0, producer=3, sequence=0)`."""

    @pytest.mark.parametrize(
        ("known", "kept"),
        [
            (None, [OURS]),
            (LAST, [3, OURS]),
            (LAST._replace(producer_epoch=1), [OURS]),
            (LAST._replace(last_sequence=2), [OURS]),
            (LAST._replace(last_offset=2), [OURS]),
            (LAST._replace(timestamp=T0), [OURS]),
            (LAST._replace(last_sequence=-1, last_offset=-1, offset_delta=0), [OURS]),
        ],
    )
    def test_are_taken_if_their_last_batch_is_here(
        self,
        exported: Callable[..., list[ProducerState]],
        known: ProducerState | None,
        kept: list[int],
    ) -> None:
        batches = [batch(2 * at, producer=one, sequence=0) for at, one in enumerate((3, OURS))]

        assert [one.producer_id for one in exported(known, *batches)] == kept

    @pytest.mark.parametrize(("known", "kept"), [(LAST, [3]), (LAST._replace(last_sequence=2), [])])
    def test_whose_last_batch_is_older_than_their_states_here_are_looked_up(
        self,
        exported: Callable[..., list[ProducerState]],
        known: ProducerState,
        kept: list[int],
    ) -> None:
        batches = [batch(at, producer=3, sequence=at) for at in range(0, 2 * BATCHES_MAX + 2, 2)]

        assert [one.producer_id for one in exported(known, *batches)] == kept

    def test_whose_last_batch_has_expired_here_are_left_out(
        self, interop: Interop, exported: Callable[..., list[ProducerState]]
    ) -> None:
        end = 2 * BATCHES_MAX + 2
        batches = [batch(at, producer=3, sequence=at) for at in range(0, end, 2)]
        write_segment(interop.partition(), 0, *batches)
        interop.run()
        AdminClient(str(interop.log_dir)).delete_records({("t", 0): end})

        assert exported(self.LAST, *batches) == []

    @pytest.mark.parametrize(("name", "kept"), [("idempotent-0", 1), ("transactional-0", 0)])
    def test_a_brokers_own_come_back_unless_a_marker_has_ended_their_transaction(
        self, interop: Interop, name: str, kept: int
    ) -> None:
        """With files of a real broker. A marker gives the entry another time."""
        folder = interop.broker / name
        shutil.copytree(BROKER / name, folder)
        (interop.broker / "meta.properties").write_text("version=1\n")
        *_, newest = sorted(folder.glob("*.snapshot"))
        before = read_snapshot(newest.read_bytes())
        interop.run()
        export_into(interop.catalog, str(interop.broker), ExportOptions(replace=True))

        assert len(before) == 1
        assert read_snapshot(newest.read_bytes()) == before[:kept]


def test_an_export_that_was_cut_off_is_repeated_with_what_the_broker_had(
    interop: Interop, second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(interop.partition(), 0, batch(0, producer=3, sequence=0, epoch=4))
    interop.run()
    (second / "t-0" / LEADER_EPOCH).write_text("0\n1\n5 0\n")
    snapshot = encode_snapshot([ProducerState(3, 0, 1, 1, 1, T0 + 1, -1, -1)])
    (second / "t-0" / f"{2:020d}.snapshot").write_bytes(snapshot)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(StorageError, match="cannot move files"):
            export_into(interop.catalog, str(second), ExportOptions())
    assert [path.name for path in (second / "t-0").iterdir()] == [PARTITION_METADATA]
    export_into(interop.catalog, str(second), ExportOptions())

    assert (second / "t-0" / LEADER_EPOCH).read_text() == "0\n1\n4 0\n"
    assert (second / "t-0" / f"{2:020d}.snapshot").read_bytes() == snapshot


def test_the_epoch_of_a_partition_is_read_once(second: Path) -> None:
    """Millions of commits ask for it."""
    (second / "t-0" / LEADER_EPOCH).write_text("0\n1\n5 0\n")
    (partition,) = BrokerDir(str(second)).partitions()
    targets = Targets({(place := TopicPartition("t", 0)): partition}, {})
    before = targets.epoch_of(place)
    (second / "t-0" / LEADER_EPOCH).unlink()

    assert (before, targets.epoch_of(place)) == (5, 5)


class TestCommits:
    """Kafka's Java consumers wait for a leader of the epoch of their committed offset."""

    COMMITS = (
        CommittedOffset(5, 3, "m"),
        CommittedOffset(6, 0),
        CommittedOffset(7, 2),
        CommittedOffset(8),
    )

    @pytest.fixture
    def target(self, interop: Interop, second: Path) -> Path:
        """A broker that has had epoch 2 in t-0 and t-2, and no t-1; groups `g` and `gone` here."""
        new_topic(interop.log_dir, partitions=4)
        offsets_topic(interop.catalog, interop.catalog.clock, 1)
        admin = AdminClient(str(interop.log_dir))
        admin.alter_consumer_group_offsets("gone", {("t", 0): CommittedOffset(1, 3)})
        places = {("t", number): one for number, one in enumerate(self.COMMITS)}
        admin.alter_consumer_group_offsets("g", places)
        admin.delete_consumer_groups(["gone"])
        for name in (f"{OFFSETS_TOPIC}-0", "t-2"):
            (second / name).mkdir()
            (second / name / "partition.metadata").write_bytes(encode_topic_id("A" * 22))
        for name in ("t-0", "t-2"):
            (second / name / LEADER_EPOCH).write_text("0\n1\n2 0\n")
        return second

    def test_have_no_epoch_that_the_broker_has_not_had(
        self, interop: Interop, target: Path
    ) -> None:
        export_into(interop.catalog, str(target), ExportOptions(topics=[OFFSETS_TOPIC]))
        found = [(*one[3:6], one.commit_timestamp) for one in committed_offsets([str(target)])]
        here = AdminClient(str(interop.log_dir)).list_consumer_group_offsets("g").values()
        expected = [
            (one.offset, epoch, one.metadata, one.committed_ms)
            for one, epoch in zip(filter(None, here), (-1, -1, 2, -1), strict=True)
        ]

        assert found == expected

    def test_that_are_written_again_lie_behind_the_log_in_batches_that_fit(
        self, interop: Interop, target: Path
    ) -> None:
        small = AlterConfigOp("max.message.bytes", "150")
        AdminClient(str(interop.log_dir)).incremental_alter_configs({OFFSETS_TOPIC: [small]})
        (report,) = export_into(interop.catalog, str(target), ExportOptions(topics=[OFFSETS_TOPIC]))
        end = interop.log(OFFSETS_TOPIC).log_end_offset
        data = (target / f"{OFFSETS_TOPIC}-0" / f"{end:020d}.log").read_bytes()
        batches = scan_batches(data).batches
        verify_checksums(data, batches)

        assert batches.base_offset.tolist() == [end, end + 1]
        assert batches.leader_epoch.tolist() == [0, 0]
        assert report.end == end + 2
