"""Imports of leader epochs and of transactions."""

from pathlib import Path

import pytest

from sparklog.interop.broker_files.producer_snapshot import ProducerState, encode_snapshot
from sparklog.interop.epochs import Epochs, epochs_from
from sparklog.interop.imports.import_log import ImportOptions, PartitionReport
from sparklog.interop.transactions import spans_of
from sparklog.metadata.state.edit import EpochStart
from sparklog.model import READ_COMMITTED
from tests.broker_files import (
    TRANSACTIONAL,
    batch,
    emptied_marker,
    marker,
    write_epochs,
    write_indexes,
    write_segment,
)
from tests.logs import append
from tests.unit.interop.conftest import Interop

TRUST = ImportOptions(check=False, flush=False)


class TestEpochs:
    def test_are_those_of_the_checkpoint(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, epoch=2), batch(2, epoch=5))
        (folder / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n5 2\n7 4\n")
        interop.run()

        # No record has epoch 7 yet: a broker that starts on such a log forgets it, too.
        assert interop.log().epochs == ((1, 0), (5, 2))
        assert interop.log().leader_epoch == 8

    def test_are_those_of_the_batches_where_it_says_less(self, interop: Interop) -> None:
        folder = interop.partition()
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
        newest = write_segment(folder, 0, batch(0, epoch=2), batch(2, epoch=3), batch(4, epoch=3))
        interop.run()
        assert interop.log().epochs == ((2, 0), (3, 2))
        newest.write_bytes(newest.read_bytes() + batch(6, epoch=3) + batch(8, epoch=6))
        interop.run()

        assert interop.log().epochs == ((2, 0), (3, 2), (6, 8))

    def test_go_on_with_what_is_produced(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0, epoch=4))
        interop.run()
        append(interop.log_dir, 0, ["a"])

        assert interop.log().epochs == ((4, 0), (5, 2))

    def test_one_that_begins_where_another_does_takes_its_place(self) -> None:
        epochs = Epochs(EpochStart(*one) for one in ((1, 0), (2, 5), (2, 6), (3, 5), (4, 9)))

        assert epochs.starts == [(1, 0), (3, 5), (4, 9)]
        assert epochs.below(9) == ((1, 0), (3, 5))

    @pytest.mark.parametrize(
        ("start", "kept"),
        [
            (0, [(2, 1), (4, 5)]),
            (1, [(2, 1), (4, 5)]),
            (3, [(2, 3), (4, 5)]),
            (5, [(4, 5)]),
            (9, [(4, 9)]),
        ],
    )
    def test_begin_where_the_log_does(self, start: int, kept: list[tuple[int, int]]) -> None:
        assert epochs_from([EpochStart(2, 1), EpochStart(4, 5)], start) == kept


class TestTransactions:
    def data(self, offset: int, producer: int) -> bytes:
        return batch(offset, producer=producer, attributes=TRANSACTIONAL)

    def test_aborted_ones_are_hidden(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, self.data(0, 1), self.data(2, 2))
        write_segment(folder, 4, batch(4), marker(6, 1, 0), marker(7, 2, 1), self.data(8, 1))
        write_segment(folder, 10, marker(10, 1, 1), marker(11, 9, 0), marker(12, 3, 5))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3, 4, 5, 8, 9]
        assert interop.offsets("t", READ_COMMITTED) == [2, 3, 4, 5, 8, 9]

    @pytest.mark.parametrize(("kind", "seen"), [(0, [0, 1, 5, 6]), (1, [0, 1, 2, 3, 5, 6])])
    def test_readers_of_committed_records_end_at_an_open_one(
        self, kind: int, seen: list[int], interop: Interop
    ) -> None:
        folder = interop.partition()
        newest = write_segment(folder, 0, batch(0), self.data(2, 7), batch(4, 1))
        interop.run()
        assert interop.log().transactions == ((7, 2),)
        assert interop.log().last_stable_offset == 2
        assert [entry.aborted for entry in interop.log().segments] == [()]
        assert interop.offsets("t", READ_COMMITTED) == [0, 1]
        newest.write_bytes(newest.read_bytes() + marker(5, 7, kind) + batch(6))
        interop.run()

        assert interop.log().transactions == ()
        assert interop.offsets("t", READ_COMMITTED) == [*seen[:-2], 4, 6, 7]

    def test_offsets_of_groups_in_an_open_one_are_not_adopted(self, interop: Interop) -> None:
        write_segment(interop.partition("__consumer_offsets-0"), 0, self.data(0, 7))

        assert "producer 7 has offsets" in interop.problem(
            ImportOptions(topics=["__consumer_offsets"])
        )

    def test_those_that_abort_later_are_known_to_all_segments(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0), self.data(2, 7))
        write_segment(folder, 4, batch(4), self.data(6, 7), self.data(8, 9))
        newest = write_segment(folder, 10, self.data(10, 8))
        interop.run()
        assert interop.log().transactions == ((7, 2), (8, 10), (9, 8))
        newest.write_bytes(newest.read_bytes() + marker(12, 7, 0) + marker(13, 8, 1))
        interop.run()

        found = [spans_of(entry) for entry in interop.log().segments]
        assert found == [[(7, 2, 12)]] * 4
        assert interop.log().transactions == ((9, 8),)
        assert interop.offsets("t", READ_COMMITTED) == [0, 1, 4, 5]
        assert len(interop.offsets()) == 12

    def test_what_is_produced_behind_an_open_one_is_not_stable(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0), self.data(2, 7))
        interop.run()
        append(interop.log_dir, 0, ["a"])

        assert interop.log().last_stable_offset == 2
        assert interop.offsets("t", READ_COMMITTED) == [0, 1]
        assert interop.offsets() == [0, 1, 2, 3, 4]

    def test_one_that_stays_open_stays_hidden(self, interop: Interop) -> None:
        newest = write_segment(interop.partition(), 0, self.data(0, 7), marker(2, 7, 0))
        newest.write_bytes(newest.read_bytes() + self.data(3, 7))
        interop.run()
        newest.write_bytes(newest.read_bytes() + self.data(5, 7))
        interop.run()
        newest.write_bytes(newest.read_bytes() + self.data(7, 7) + marker(9, 7, 0))
        interop.run()

        assert interop.offsets("t", READ_COMMITTED) == []
        assert len(interop.offsets()) == 8

    @pytest.mark.parametrize("options", [ImportOptions(), TRUST])
    def test_a_marker_that_the_broker_has_cleaned_away_is_none(
        self, options: ImportOptions, interop: Interop
    ) -> None:
        """If it is the last batch of its producer, the broker keeps it, without a record."""
        write_segment(interop.partition(), 0, batch(0), emptied_marker(5, 7), self.data(6, 7))
        interop.run(options)

        assert interop.log().transactions == ((7, 6),)
        assert interop.offsets("t", READ_COMMITTED) == [0, 1]


def data(offset: int) -> bytes:
    """A batch in a transaction of producer 7."""
    return batch(offset, producer=7, attributes=TRANSACTIONAL)


def write_snapshot(folder: Path, offset: int, first: int = -1) -> None:
    """Producer 7, with a transaction open from offset `first` on; -1: none."""
    one = ProducerState(7, 0, -1, -1, 0, -1, -1, first)
    (folder / f"{offset:020d}.snapshot").write_bytes(encode_snapshot([one]))


class TestLostEnd:
    """The broker has deleted the end of a transaction, and its snapshots tell that it is over."""

    MISSING = (
        "t-0: offsets 4 to 6 are not in the directory: the broker has deleted them, or has them "
        "only in remote storage"
    )
    NOTE = (
        f"{MISSING}; the broker has deleted the end of the transaction of producer 7 at offset 2: "
        "its records count as committed"
    )

    @pytest.fixture
    def folder(self, interop: Interop) -> Path:
        """The first import has an open transaction, and the broker deletes the segment then."""
        folder = interop.partition()
        log = write_segment(folder, 0, batch(0), data(2))
        interop.run()
        log.unlink()
        return folder

    def again(self, interop: Interop, options: ImportOptions | None = None) -> PartitionReport:
        (report,) = interop.run(options)
        assert report.problem is None
        return report

    @pytest.mark.parametrize("at", [7, 11])
    def test_is_told_and_readers_go_on(self, at: int, interop: Interop, folder: Path) -> None:
        write_segment(folder, 7, batch(7, 4))
        write_snapshot(folder, at)

        assert self.again(interop).warning == self.NOTE
        assert interop.log().transactions == ()
        assert interop.offsets("t", READ_COMMITTED) == [0, 1, 2, 3, 7, 8, 9, 10]

    def test_does_not_touch_the_next_transaction(self, interop: Interop, folder: Path) -> None:
        write_segment(folder, 7, data(7), marker(9, 7, 0))
        write_snapshot(folder, 7)

        assert self.again(interop).warning == self.NOTE
        assert interop.offsets("t", READ_COMMITTED) == [0, 1, 2, 3]

    @pytest.mark.parametrize("at", [7, 9])
    def test_leaves_the_next_transaction_open(
        self, at: int, interop: Interop, folder: Path
    ) -> None:
        write_segment(folder, 7, data(7))
        write_snapshot(folder, at, first=6)

        assert self.again(interop).warning == self.NOTE
        assert interop.log().transactions == ((7, 6),)

    @pytest.mark.parametrize("first", [1, 2])
    def test_is_none_while_the_broker_has_it_open(
        self, first: int, interop: Interop, folder: Path
    ) -> None:
        write_segment(folder, 7, batch(7))
        write_snapshot(folder, 9, first=first)

        assert self.again(interop).warning == self.MISSING
        assert interop.log().transactions == ((7, 2),)

    def test_is_unknown_without_a_new_snapshot(self, interop: Interop, folder: Path) -> None:
        write_segment(folder, 7, batch(7))
        write_snapshot(folder, 4)

        assert self.again(interop).warning == self.MISSING
        assert interop.log().transactions == ((7, 2),)

    def test_is_none_where_the_marker_was_read(self, interop: Interop, folder: Path) -> None:
        write_segment(folder, 7, marker(7, 7, 0), batch(8))
        write_snapshot(folder, 7, first=2)
        write_snapshot(folder, 10)

        assert self.again(interop).warning == self.MISSING
        assert interop.offsets("t", READ_COMMITTED) == [0, 1, 8, 9]

    def test_is_none_where_the_marker_was_not_read(self, interop: Interop, folder: Path) -> None:
        write_epochs(folder)
        write_indexes(write_segment(folder, 4, marker(4, 7, 1), batch(5)))
        write_segment(folder, 7)
        write_snapshot(folder, 7)

        assert self.again(interop, TRUST).warning is None
        assert interop.log().transactions == ()

    def test_may_come_after_a_batch_that_was_cut(self, interop: Interop, folder: Path) -> None:
        write_segment(folder, 7, batch(7), batch(9)[:-1])
        write_snapshot(folder, 7)

        told = f"t-0: {len(batch(9)) - 1} bytes behind the last whole batch are left out; offsets 4"
        assert str(self.again(interop).warning).startswith(told)
