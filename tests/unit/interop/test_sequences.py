"""Idempotent producers of a broker go on after an import, and after an export."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sparklog.interop.broker_files.producer_snapshot import ProducerState as SnapshotState
from sparklog.interop.broker_files.producer_snapshot import encode_snapshot, read_snapshot
from sparklog.interop.exports.export_log import ExportOptions, export_to
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.interop.sequences import NO_OFFSET, Sequences, entry_of, state_of
from sparklog.metadata.state import producers
from sparklog.metadata.state.cluster import PRODUCER_IDS_END
from sparklog.metadata.state.producers import ProducerBatch, ProducerState
from sparklog.record.batches import BatchTable
from sparklog.record.scan import scan_batches
from tests.broker_files import (
    T0,
    batch,
    marker,
    write_epochs,
    write_indexes,
    write_segment,
)
from tests.unit.interop.conftest import Interop

COMMIT = 1
LAST = 2**31 - 1


def snapshot(*states: SnapshotState) -> bytes:
    return encode_snapshot(states)


def state(producer_id: int, last: int, offset: int) -> SnapshotState:
    """The entry of a producer whose last batch has two records."""
    return SnapshotState(producer_id, 0, last, offset, 1, T0, -1, -1)


def ends(interop: Interop) -> dict[int, list[tuple[int, int, int]]]:
    """The batches of each producer in the image: (first sequence, last sequence, last offset)."""
    found = interop.log().producers.values()
    return {one.producer_id: [batch[:3] for batch in one.batches] for one in found}


def table(*batches: bytes) -> BatchTable:
    return scan_batches(b"".join(batches)).batches


class TestFollowing:
    def test_the_last_five_batches_of_a_producer_stay(self) -> None:
        followed = Sequences()
        followed.add(table(*(batch(2 * at, producer=7, sequence=2 * at) for at in range(4))))
        followed.add(table(*(batch(2 * at, producer=7, sequence=2 * at) for at in range(4, 7))))
        (found,) = followed.ended((), NO_OFFSET)

        assert [one.first_sequence for one in found.batches] == [4, 6, 8, 10, 12]
        assert found.batches[-1] == ProducerBatch(12, 13, 13, T0 + 13)

    def test_sequences_begin_again(self) -> None:
        followed = Sequences()
        followed.add(table(batch(0, producer=7, sequence=LAST)))

        assert followed.ended((), NO_OFFSET)[0].batches[0][:2] == (LAST, 0)

    def test_a_marker_is_no_batch_of_its_producer(self) -> None:
        followed = Sequences()
        followed.add(table(batch(0, producer=7, sequence=0), marker(2, 7, COMMIT)))

        assert [len(one.batches) for one in followed.ended((), NO_OFFSET)] == [1]

    def test_batches_without_a_producer_are_passed_over(self) -> None:
        followed = Sequences()
        followed.add(table(batch(0)))

        assert followed.ended((), NO_OFFSET) == ()

    def test_another_epoch_begins_anew(self) -> None:
        followed = Sequences([ProducerState(7, 1, (ProducerBatch(0, 4, 4, T0),))])
        later = table(batch(5, producer=7, sequence=0))
        later.producer_epoch[:] = 2
        followed.add(later)

        assert followed.ended((), NO_OFFSET) == (
            ProducerState(7, 2, (ProducerBatch(0, 1, 6, T0 + 6),)),
        )

    def test_those_that_wrote_last_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
        followed = Sequences()
        followed.add(table(*(batch(2 * at, producer=at % 3, sequence=0) for at in range(5))))

        assert [one.producer_id for one in followed.ended((), NO_OFFSET)] == [0, 1]

    def test_a_batch_table_without_rows_changes_nothing(self) -> None:
        followed = Sequences()
        followed.add(BatchTable.from_matrix(np.empty((13, 0), np.int64)))

        assert followed.ended([state(7, 1, 1)], 2) == (state_of(state(7, 1, 1)),)


class TestSnapshot:
    @pytest.mark.parametrize(
        "batches",
        [
            (),
            (ProducerBatch(3, 9, 106, T0),),
            (ProducerBatch(LAST - 1, 2, 104, T0),),
        ],
    )
    def test_a_last_batch_comes_back(self, batches: Sequence[ProducerBatch]) -> None:
        one = ProducerState(7, 2, tuple(batches))

        assert state_of(entry_of(one)) == one


class TestImport:
    def test_producers_go_on_from_the_newest_snapshot(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, producer=7, sequence=4))
        (folder / f"{2:020d}.snapshot").write_bytes(snapshot(state(7, 5, 1), state(9, LAST, 0)))
        interop.run()

        assert ends(interop) == {7: [(4, 5, 1)], 9: [(LAST - 1, LAST, 0)]}

    @pytest.mark.parametrize("check", [True, False])
    def test_and_with_the_batches_behind_it(self, check: bool, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_indexes(write_segment(folder, 0, batch(0, producer=8, sequence=0)))
        write_segment(folder, 2, batch(2, producer=7, sequence=6), batch(4, producer=6, sequence=0))
        told = snapshot(state(7, 5, 1), state(8, 1, 1))
        (folder / f"{2:020d}.snapshot").write_bytes(told)
        interop.run(ImportOptions(check=check))

        assert ends(interop) == {6: [(0, 1, 5)], 7: [(6, 7, 3)], 8: [(0, 1, 1)]}

    def test_a_producer_that_the_broker_has_forgotten_is_forgotten(self, interop: Interop) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, producer=7, sequence=0))
        (folder / f"{2:020d}.snapshot").write_bytes(snapshot())
        interop.run()

        assert ends(interop) == {}

    @pytest.mark.parametrize(("offset", "data"), [(2, b"\0\1"), (9, snapshot(state(7, 1, 1)))])
    def test_snapshots_that_are_damaged_or_of_a_lost_end_are_passed_over(
        self, offset: int, data: bytes, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_segment(folder, 0, batch(0, producer=7, sequence=0))
        (folder / f"{offset:020d}.snapshot").write_bytes(data)
        (folder / f"{0:020d}.snapshot").write_bytes(snapshot(state(5, 1, -1)))
        interop.run()

        assert ends(interop) == {5: [], 7: [(0, 1, 1)]}

    def test_a_second_import_does_not_go_back(self, interop: Interop) -> None:
        """The snapshot is older than the batches that the first import has seen."""
        folder = interop.partition()
        (folder / f"{0:020d}.snapshot").write_bytes(snapshot(state(7, 5, -1)))
        batches = [batch(0, producer=7, sequence=6), batch(2, producer=8, sequence=0)]
        write_segment(folder, 0, batches[0])
        interop.run()
        write_segment(folder, 0, *batches)
        interop.run()

        assert ends(interop) == {7: [(6, 7, 1)], 8: [(0, 1, 3)]}

    @pytest.mark.parametrize(
        ("producer", "following"), [(2**41, 2**41 + 1), (2**63 - 2, PRODUCER_IDS_END)]
    )
    def test_its_producer_ids_are_not_given_again(
        self, producer: int, following: int, interop: Interop
    ) -> None:
        write_segment(interop.partition(), 0, batch(0, producer=producer, sequence=0))
        interop.run()

        assert interop.catalog.image().next_producer_id == following


class TestExport:
    def test_producers_are_in_a_snapshot_at_the_end(self, interop: Interop, tmp_path: Path) -> None:
        write_segment(interop.partition(), 0, batch(0, producer=7, sequence=4), batch(2))
        interop.run()
        export_to(interop.catalog, str(tmp_path / "out"), ExportOptions())
        written = (tmp_path / "out" / "t-0" / f"{4:020d}.snapshot").read_bytes()

        assert read_snapshot(written) == [state(7, 5, 1)._replace(timestamp=T0 + 1)]

    def test_without_producers_there_is_none(self, interop: Interop, tmp_path: Path) -> None:
        write_segment(interop.partition(), 0, batch(0))
        interop.run()
        export_to(interop.catalog, str(tmp_path / "out"), ExportOptions())

        assert not list((tmp_path / "out" / "t-0").glob("*.snapshot"))
