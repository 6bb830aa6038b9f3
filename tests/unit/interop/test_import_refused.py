"""What an import refuses: partitions that no broker can have left so, and directories."""

import fcntl
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sparklog.errors import (
    InvalidOptionError,
    LogDirError,
    StorageError,
    UnknownTopicError,
)
from sparklog.interop import staging
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.imports import import_log
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.interop.imports.import_partition import ImportedPartition
from sparklog.model import Codec, TopicPartition
from tests.broker_files import (
    batch,
    write_epochs,
    write_indexes,
    write_segment,
)
from tests.unit.interop.conftest import NO_PRODUCERS, TRUST, Interop


def broker_starts(log_dir: Path) -> bool:
    """Whether another process gets the lock, as a broker does (FileLock.tryLock)."""
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", code, str(log_dir / ".lock")]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


class TestTrusted:
    def test_without_time_index_or_snapshot_the_log_is_read(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_segment(folder, 0, batch(0))
        write_indexes(write_segment(folder, 2, batch(2)))
        (folder / f"{2:020d}.timeindex").write_bytes(bytes(12))
        write_segment(folder, 4, batch(4))
        (folder / f"{4:020d}.snapshot").write_bytes(NO_PRODUCERS)
        interop.run(TRUST)

        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    def test_a_directory_of_a_snapshots_name_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / f"{4:020d}.snapshot").mkdir()
        (tmp_path / f"{2:020d}.snapshot").write_bytes(NO_PRODUCERS)

        assert PartitionDir(str(tmp_path), TopicPartition("t", 0)).snapshots() == [2]

    def test_a_snapshot_that_is_damaged_is_refused(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_segment(folder, 0, batch(0))
        (folder / f"{0:020d}.snapshot").write_bytes(b"\0\1")

        assert f"{0:020d}.snapshot: Snapshot failed" in interop.problem(TRUST)


class TestRefused:
    """Nothing is imported from a partition that no broker can have left so."""

    def refused(self, interop: Interop, options: ImportOptions | None = None) -> str:
        problem = interop.problem(options)
        assert interop.offsets() == []
        return problem

    def test_a_wrong_checksum_with_file_and_position(self, interop: Interop) -> None:
        data = bytearray(batch(0) + batch(2))
        data[-1] ^= 1
        path = write_segment(interop.partition(), 0, bytes(data))

        expected = f"{path}, position {len(batch(0))}, offset 2: the checksum of the batch"
        assert self.refused(interop).startswith(expected)

    def test_bytes_that_are_no_batch_behind_a_sealed_segment(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0), batch(2)[:-1])
        write_segment(folder, 4, batch(4))

        assert f"position {len(batch(0))}: truncated" in self.refused(interop)

    def test_a_batch_of_half_a_gibibyte(self, interop: Interop) -> None:
        data = bytearray(batch(0))
        data[8:12] = (2**29).to_bytes(4, "big")
        path = write_segment(interop.partition(), 0, bytes(data))
        os.truncate(path, 2**29 + 100)

        assert "position 0: a batch of 536870924 bytes" in self.refused(interop)

    def test_a_large_batch_is_read_all_the_same(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.interop.examine.WINDOW_BYTES", 16)
        write_segment(interop.partition(), 0, batch(0), batch(2), batch(4))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    def test_overlapping_segments(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, 4))
        write_segment(folder, 2, batch(2))

        assert "it ends at offset 4, and the next segment begins at 2" in self.refused(interop)

    def test_offsets_that_do_not_grow(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(4), batch(2))

        assert "batch of offsets 2 to 3, where 6 or more is due" in self.refused(interop)

    def test_a_decompression_bomb(self, interop: Interop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.record.payload.BATCH_BYTES_MAX", 100)
        monkeypatch.setattr("sparklog.interop.examine.DECOMPRESSED_BYTES_MAX", 100)
        bomb = [batch(base, 50, codec=Codec.GZIP) for base in (0, 50)]
        write_segment(interop.partition(), 0, *bomb)

        assert "position 0, offset 0: decompressed size above 100" in self.refused(interop)

    def test_too_many_producers(self, interop: Interop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.interop.examine.PRODUCERS_MAX", 1)
        write_segment(interop.partition(), 0, batch(0, producer=1), batch(2, producer=2))

        assert "more than 1 producers" in self.refused(interop)

    @pytest.mark.parametrize(
        ("suffix", "entries", "says"),
        [
            (".index", "0000000100001000", "entry 0 says 4096; positions"),
            (".index", "00000001ffffffff", "entry 0 says -1; positions"),
            (".index", "0000000900000000", "entry 0 says 9; offsets"),
            (".index", "00000001000000010000000000000002", "entry 1 says 0; offsets"),
            (".index", "00000001000001", "are no whole number of entries"),
            (".timeindex", "000000000000000100000002", "entry 0 says 2; offsets"),
            (".timeindex", "ffffffffffffffff00000001", "entry 0 says -1; timestamps"),
        ],
    )
    def test_index_entries_outside_the_file(
        self, suffix: str, entries: str, says: str, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_indexes(write_segment(folder, 0, batch(0)))
        write_segment(folder, 2, batch(2))
        path = folder / f"{0:020d}{suffix}"
        path.write_bytes(bytes.fromhex(entries))
        (folder / f"{2:020d}.snapshot").write_bytes(NO_PRODUCERS)

        assert says in self.refused(interop)
        assert self.refused(interop, TRUST).startswith(str(path))

    def test_links_and_other_strange_files(self, interop: Interop, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_bytes(batch(0))
        folder = interop.partition()
        (folder / f"{0:020d}.log").symlink_to(secret)

        assert "a symbolic link" in self.refused(interop)
        (folder / f"{0:020d}.log").unlink()
        (folder / "leader-epoch-checkpoint").symlink_to(secret)
        assert "leader-epoch-checkpoint" in self.refused(interop)
        (folder / "leader-epoch-checkpoint").unlink()
        os.mkfifo(folder / "leader-epoch-checkpoint")
        assert "no plain file" in self.refused(interop)

    def test_a_cleaning_that_was_cut_off(self, interop: Interop) -> None:
        folder = interop.partition()
        (folder / f"{0:020d}.log.swap").write_bytes(b"")

        assert "cleaning was cut off" in self.refused(interop)

    def test_a_file_that_is_too_large(self, interop: Interop) -> None:
        path = write_segment(interop.partition(), 0)
        os.truncate(path, 2**31)

        assert "2147483648 bytes" in self.refused(interop)

    def test_a_log_start_behind_its_end(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0))
        (interop.broker / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")

        assert "begins at 4, behind its end at 2" in self.refused(interop)

    def test_the_other_partitions_go_on(self, interop: Interop) -> None:
        write_segment(interop.partition("t-0"), 0, batch(0))
        write_segment(interop.partition("t-1"), 0, b"x" * 100)

        good, bad = interop.run()
        assert (good.segments, bad.added) == (1, None)
        assert interop.offsets() == [0, 1]


class TestDirectories:
    def test_none(self, interop: Interop) -> None:
        with pytest.raises(LogDirError, match="no directory"):
            replace(interop, broker=interop.broker / "x").run()

    @pytest.mark.parametrize("name", ["..-0", "a b-0", "t-00", "t-100000", "t-4294967296"])
    def test_names_that_no_broker_gives(self, name: str, interop: Interop) -> None:
        write_segment(interop.partition(name), 0, batch(0))
        write_segment(interop.partition("sound-0"), 0, batch(0))

        wrong, right = sorted(interop.run(), key=lambda report: report.problem is None)
        assert str(wrong.problem).startswith(str(interop.broker / name))
        assert (right.problem, interop.offsets("sound")) == (None, [0, 1])
        assert list(interop.catalog.topics()) == ["sound"]

    def test_a_linked_directory(self, interop: Interop, tmp_path: Path) -> None:
        (interop.broker / "t-0").symlink_to(tmp_path)
        write_segment(interop.partition("t-1"), 0, batch(0))

        wrong, right = interop.run()
        assert str(wrong.problem) == f"{interop.broker / 't-0'}: a symbolic link, or no directory"
        assert (right.problem, right.segments) == (None, 1)

    def test_in_which_nothing_is_sound(self, interop: Interop, tmp_path: Path) -> None:
        (interop.broker / "t-0").symlink_to(tmp_path)

        assert "a symbolic link" in interop.problem()
        assert not interop.log_dir.exists()

    def test_of_a_broker_that_runs(self, interop: Interop, monkeypatch: pytest.MonkeyPatch) -> None:
        def taken(*_: object) -> None:
            raise BlockingIOError

        write_segment(interop.partition(), 0, batch(0))
        (interop.broker / ".lock").touch()
        interop.run()
        monkeypatch.setattr(fcntl, "lockf", taken)
        with pytest.raises(LogDirError, match="is in use: stop its broker first"):
            interop.run()

    def test_are_held_until_the_import_is_done(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_segment(interop.partition(), 0, batch(0))
        (interop.broker / ".lock").touch()
        seen = []

        def tried(job: import_log.ImportWork) -> ImportedPartition:
            seen.append(broker_starts(interop.broker))
            return take(job)

        take = import_log.take
        monkeypatch.setattr(import_log, "take", tried)
        interop.run()

        assert (seen, broker_starts(interop.broker)) == ([False], True)

    def test_without_a_partition(self, interop: Interop) -> None:
        with pytest.raises(LogDirError, match="broker has no partition: give what a broker's log"):
            interop.run()

    def test_of_a_controller(self, interop: Interop) -> None:
        write_segment(interop.partition("__cluster_metadata-0"), 0, batch(0))

        with pytest.raises(
            LogDirError, match="no partition but those of the broker's own topics: "
        ):
            interop.run()

    def test_whose_lock_cannot_be_opened(self, interop: Interop) -> None:
        (interop.broker / ".lock").symlink_to(".lock")

        with pytest.raises(StorageError, match="cannot open .lock"):
            interop.run()

    def test_that_an_export_has_not_finished(self, interop: Interop) -> None:
        (interop.broker / staging.NAME).mkdir()

        with pytest.raises(LogDirError, match="cut off .*: export the same topics again"):
            interop.run()

    def test_topics_that_are_not_there_or_not_for_import(self, interop: Interop) -> None:
        interop.partition("__transaction_state-0")
        interop.partition("t-0")
        (interop.broker / "x-0").touch()

        with pytest.raises(UnknownTopicError, match="no partition of 'x'"):
            interop.run(ImportOptions(topics=["x"]))
        with pytest.raises(InvalidOptionError, match="internal to the broker"):
            interop.run(ImportOptions(topics=["__transaction_state"]))
