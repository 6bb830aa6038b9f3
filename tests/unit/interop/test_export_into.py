"""An export into a broker's directory: what is kept, what is refused, and what a failure leaves."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import (
    CorruptionError,
    CorruptRecordError,
    LogDirError,
    StorageError,
    StorageFullError,
    UsageError,
)
from sparklog.interop import staging
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.exports.export_log import (
    ExportOptions,
    export_into,
    export_to,
)
from sparklog.record.checksum import verify_checksums
from sparklog.record.scan import scan_batches
from tests.broker_files import batch, write_indexes, write_segment
from tests.logs import append, new_topic
from tests.unit.interop.conftest import Interop, export

LOG = f"{0:020d}.log"


class TestInto:
    def test_the_id_of_the_target_and_what_others_have_stay(
        self, interop: Interop, second: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1, config={"retention.ms": "-1"})
        append(interop.log_dir, 0, ["a"])
        (second / checkpoints.HIGH_WATERMARK).write_text("0\n2\nother 0 9\nt 0 0\n")
        export_into(interop.catalog, str(second), ExportOptions(topics=["t"]))

        assert (second / checkpoints.HIGH_WATERMARK).read_text() == "0\n2\nother 0 9\nt 0 1\n"
        metadata = (second / "t-0" / "partition.metadata").read_bytes()
        assert checkpoints.read_topic_id(metadata, "") == "A" * 22
        assert (second / "t-0" / LOG).stat().st_size > 0

    def test_records_there_are_given_up_only_when_told(
        self, interop: Interop, second: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1, config={"retention.ms": "-1"})
        write_indexes(write_segment(second / "t-0", 0, batch(0)))

        with pytest.raises(UsageError, match="holds records: --replace"):
            export_into(interop.catalog, str(second), ExportOptions())
        export_into(interop.catalog, str(second), ExportOptions(replace=True))
        assert (second / "t-0" / LOG).read_bytes() == b""

    def test_groups_go_along_only_if_they_are_named(self, interop: Interop, second: Path) -> None:
        new_topic(interop.log_dir, partitions=1, config={"retention.ms": "-1"})
        append(interop.log_dir, 0, ["a"])
        offsets_topic(interop.catalog, interop.catalog.clock, 1)

        [report] = export_into(interop.catalog, str(second), ExportOptions())
        assert str(report.topic_partition) == "t-0"
        with pytest.raises(UsageError, match="no partition __consumer_offsets-0"):
            export_into(interop.catalog, str(second), ExportOptions(topics=[OFFSETS_TOPIC]))

    def test_a_partition_that_is_not_there(self, interop: Interop, second: Path) -> None:
        new_topic(interop.log_dir, partitions=2)

        with pytest.raises(UsageError, match="no partition t-1: start it, create topic 't' with 2"):
            export_into(interop.catalog, str(second), ExportOptions())

    @pytest.mark.parametrize("replace", [False, True])
    def test_a_partition_that_the_topic_does_not_have(
        self, interop: Interop, second: Path, replace: bool
    ) -> None:
        new_topic(interop.log_dir, partitions=1)
        (second / "t-1").mkdir()
        (second / "other-7").mkdir()
        before = sorted(second.rglob("*"))

        with pytest.raises(UsageError, match="t-1: topic 't' has no partition 1, allowed are 0 to"):
            export_into(interop.catalog, str(second), ExportOptions(replace=replace))
        assert sorted(second.rglob("*")) == sorted([*before, second / ".lock"])

    def test_a_directory_of_no_broker(self, interop: Interop, second: Path) -> None:
        new_topic(interop.log_dir, partitions=1)

        with pytest.raises(LogDirError, match="no broker's log directory"):
            export_into(interop.catalog, str(second / "t-0"), ExportOptions())

    def test_a_brokers_directory_is_not_for_files_only(
        self, interop: Interop, second: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1)

        with pytest.raises(LogDirError, match="give it with --into"):
            export(interop, second, ExportOptions(replace=True))

    def test_nothing_is_put_behind_a_link(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=1)
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "t-0").symlink_to(tmp_path)

        with pytest.raises(LogDirError, match="t-0: a symbolic link"):
            export(interop, tmp_path / "out", ExportOptions(replace=True))
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["t-0"]

    def test_a_partition_behind_a_link_is_refused(
        self, interop: Interop, second: Path, tmp_path: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1)
        (second / "t-0").rename(tmp_path / "elsewhere")
        (second / "t-0").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(CorruptionError, match="t-0: a symbolic link"):
            export_into(interop.catalog, str(second), ExportOptions())

    def test_a_directory_that_cannot_be_made(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=1)
        (tmp_path / "file").touch()

        with pytest.raises(StorageError, match="cannot make .*file/to: Not a directory"):
            export(interop, tmp_path / "file" / "to")

    def test_a_directory_that_is_not_empty(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=1)
        export(interop, tmp_path / "out")

        with pytest.raises(LogDirError, match="is not empty"):
            export(interop, tmp_path / "out")
        export(interop, tmp_path / "out", ExportOptions(replace=True))

    def test_a_partition_of_an_older_topic(self, interop: Interop, tmp_path: Path) -> None:
        new_topic(interop.log_dir, partitions=2)
        append(interop.log_dir, 1, ["a"])
        export(interop, tmp_path / "out")
        AdminClient(str(interop.log_dir)).delete_topics(["t"])
        new_topic(interop.log_dir, partitions=1)
        before = {path: path.stat().st_ino for path in (tmp_path / "out").rglob("*")}

        with pytest.raises(UsageError, match="out/t-1: topic 't' has no partition 1"):
            export(interop, tmp_path / "out", ExportOptions(replace=True))
        assert {path: path.stat().st_ino for path in (tmp_path / "out").rglob("*")} == before

    def test_the_checkpoints_lines_of_partitions_that_are_gone(
        self, interop: Interop, tmp_path: Path
    ) -> None:
        new_topic(interop.log_dir, partitions=1)
        (tmp_path / "out").mkdir()
        checkpoint = tmp_path / "out" / checkpoints.RECOVERY_POINT
        checkpoint.write_text("0\n2\nother 0 9\nt 1 5\n")
        export(interop, tmp_path / "out", ExportOptions(replace=True))

        assert checkpoint.read_text() == "0\n2\nother 0 9\nt 0 0\n"


class TestEpochs:
    """A broker does not know the end of an epoch above its own."""

    def exported(self, interop: Interop, second: Path, checkpoint: str, *, link: bool) -> Path:
        """Export four batches of three epochs to a broker that has had these epochs."""
        write_segment(interop.partition(), 0, batch(0), batch(2, epoch=1))
        write_segment(interop.partition(), 4, batch(4, epoch=3))
        write_segment(interop.partition(), 6, batch(6, epoch=7))
        interop.run()
        (second / "t-0" / checkpoints.LEADER_EPOCH).write_text(checkpoint)
        export_into(interop.catalog, str(second), ExportOptions(link=link))
        return second / "t-0"

    @pytest.mark.parametrize(
        ("checkpoint", "epochs", "written"),
        [
            ("", [0, 0, 0, 0], "0\n1\n0 0\n"),
            ("0\n1\n2 0\n", [0, 1, 2, 2], "0\n3\n0 0\n1 2\n2 4\n"),
            ("0\n2\n2 0\n9 5\n", [0, 1, 3, 7], "0\n4\n0 0\n1 2\n3 4\n7 6\n"),
        ],
    )
    def test_above_the_targets_are_lowered(
        self,
        interop: Interop,
        second: Path,
        checkpoint: str,
        epochs: list[int],
        written: str,
    ) -> None:
        folder = self.exported(interop, second, checkpoint, link=False)
        data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        batches = scan_batches(data).batches
        verify_checksums(data, batches)

        assert batches.leader_epoch.tolist() == epochs
        assert (folder / checkpoints.LEADER_EPOCH).read_text() == written

    def test_that_are_lowered_are_in_no_link(self, interop: Interop, second: Path) -> None:
        folder = self.exported(interop, second, "0\n1\n2 0\n", link=True)
        links = {int(path.stem): path.stat().st_nlink for path in folder.glob("*.log")}

        assert links == {0: 3, 4: 1, 6: 1}
        assert interop.catalog.partition(interop.catalog.topic("t"), 0).epochs[-1].epoch == 7


class TestCutOff:
    """What an export leaves that ended too early, by an error here; tests/crash kills it."""

    @pytest.fixture(autouse=True)
    def imported(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0))
        interop.run()

    def stop(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "full")

        monkeypatch.setattr(os, name, fail)

    def test_before_a_file_is_moved_nothing_is_changed(
        self, interop: Interop, second: Path
    ) -> None:
        (log,) = interop.log_dir.glob("t-*/t-0/*.log")
        log.write_bytes(log.read_bytes()[:-1] + b"x")
        before = sorted(second.rglob("*"))

        with pytest.raises(CorruptRecordError, match="checksum"):
            export_into(interop.catalog, str(second), ExportOptions(topics=["t"]))
        assert sorted(second.rglob("*")) == sorted([*before, second / ".lock"])

    def test_later_is_finished_by_the_next(
        self, interop: Interop, second: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            self.stop(patch, "rename")
            with pytest.raises(StorageFullError, match="cannot move files out of sparklog_export_"):
                export_into(interop.catalog, str(second), ExportOptions())
        assert (second / staging.NAME).is_dir()
        write_segment(second / "t-0", 0, b"half of something")
        export_into(interop.catalog, str(second), ExportOptions(flush=False))

        assert (second / "t-0" / LOG).read_bytes() == batch(0)
        assert not list(second.glob(f"{staging.NAME}*"))

    def cut_off(self, interop: Interop, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Export a second time into a directory, and fail where files have gone from `t-0`."""
        export(interop, target)
        with monkeypatch.context() as patch:
            self.stop(patch, "rename")
            with pytest.raises(StorageFullError):
                export(interop, target, ExportOptions(replace=True))

    def test_is_not_finished_by_one_of_other_topics(
        self, interop: Interop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cut_off(interop, tmp_path / "out", monkeypatch)
        new_topic(interop.log_dir, "other", partitions=1)

        with pytest.raises(UsageError, match="files of t-0: export these, too"):
            export(interop, tmp_path / "out", ExportOptions(topics=["other"], replace=True))
        assert export(interop, tmp_path / "out", ExportOptions(topics=["t"])).end == 2

    @pytest.mark.parametrize("others", [[], ["other"]])
    def test_of_a_topic_that_is_gone_is_ended_by_hand(
        self,
        interop: Interop,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        others: list[str],
    ) -> None:
        self.cut_off(interop, out := tmp_path / "out", monkeypatch)
        AdminClient(str(interop.log_dir)).delete_topics(["t"])
        for name in others:
            new_topic(interop.log_dir, name, partitions=1)
        with pytest.raises(
            UsageError, match="or delete the directories there of those that are gone"
        ):
            export_to(interop.catalog, str(out), ExportOptions())
        shutil.rmtree(out / "t-0")
        export_to(interop.catalog, str(out), ExportOptions())

        assert [path.name for path in out.iterdir() if path.is_dir()] == [f"{o}-0" for o in others]
        assert not list(out.glob(f"{staging.NAME}*"))

    def test_is_not_finished_over_another_topic(
        self, interop: Interop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cut_off(interop, out := tmp_path / "out", monkeypatch)
        (out / "other-0").mkdir()

        with pytest.raises(LogDirError, match=r"not empty \(it has other-0\): .* --replace"):
            export_to(interop.catalog, str(out), ExportOptions())

    def test_is_finished_by_one_of_a_topic_with_fewer_partitions(
        self, interop: Interop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        admin = AdminClient(str(interop.log_dir))
        admin.create_partitions({"t": 2})
        with monkeypatch.context() as patch:
            self.stop(patch, "rename")
            with pytest.raises(StorageFullError):
                export(interop, tmp_path / "out")
        admin.delete_topics(["t"])
        new_topic(interop.log_dir, partitions=1)

        assert export(interop, tmp_path / "out").end == 0
        assert not (tmp_path / "out" / "t-1").exists()

    def test_a_list_without_its_directory_means_nothing(
        self, interop: Interop, second: Path
    ) -> None:
        (second / staging.LIST).write_text("t-0\n")
        write_segment(second / "t-0", 0, batch(0))

        with pytest.raises(UsageError, match="holds records: --replace"):
            export_into(interop.catalog, str(second), ExportOptions())
        export_into(interop.catalog, str(second), ExportOptions(replace=True))
        assert not (second / staging.LIST).exists()


class TestLock:
    def test_a_broker_that_runs_is_told(
        self, interop: Interop, second: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new_topic(interop.log_dir, partitions=1)

        def taken(*_: object) -> None:
            raise BlockingIOError

        monkeypatch.setattr(fcntl, "lockf", taken)
        with pytest.raises(LogDirError, match="is in use: stop its broker first"):
            export_into(interop.catalog, str(second), ExportOptions())
