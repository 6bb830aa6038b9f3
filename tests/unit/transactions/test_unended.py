"""An abort by hand is refused where the log has the transaction's marker already."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.errors import InvalidProducerEpochError, InvalidTxnStateError, MissingFileError
from sparklog.log.names import LOG_SUFFIX
from sparklog.log_reader.opened import log_path
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.record.markers import ABORT, COMMIT, encode_marker
from sparklog.transactions import steps, unended
from sparklog.transactions.unended import Marker, first_marker
from tests.broker_files import emptied_marker
from tests.client_batches import client_batch
from tests.maintenance import run
from tests.partitions import DIRECTORY, NOW_MS, Partition, Piece
from tests.transactions import OLD, TRANSACTIONAL, Client, Instance, new_log_dir, ready
from tests.unit.maintenance.test_verify_ended import check, reopen, sent, set_id


def record(producer: int = 7) -> Piece:
    """A record of a transaction."""
    return lambda at: client_batch(
        "x", producer_id=producer, base_offset=at, base_sequence=at, attributes=TRANSACTIONAL
    )


def end(kind: int, producer: int = 7) -> Piece:
    return lambda at: encode_marker(kind, producer, 0, NOW_MS, at, 0)


def emptied(at: int) -> bytes:
    return emptied_marker(at, 7)


def found(partition: Partition, first: int = 0) -> Marker | None:
    """The marker behind the first record of producer 7's transaction."""
    return first_marker(partition.files, DIRECTORY, partition.log, OpenTransaction(7, first))


class TestFirstMarker:
    def test_in_the_segment_of_the_record(self) -> None:
        assert found(Partition().append(record(), end(COMMIT), end(ABORT))) == (COMMIT, 1)

    def test_in_a_later_segment(self) -> None:
        partition = (
            Partition().append(record()).append(record(8)).append(end(ABORT, 8)).append(end(ABORT))
        )

        assert found(partition) == (ABORT, 3)

    def test_of_another_producer(self) -> None:
        assert found(Partition().append(record(), end(COMMIT, 8))) is None

    def test_before_the_transaction(self) -> None:
        assert found(Partition().append(record(), end(COMMIT), record()), 2) is None

    def test_below_the_log_start(self) -> None:
        partition = Partition().append(record()).append(record(), end(COMMIT)).delete_records(1)

        assert found(partition) == (COMMIT, 2)

    def test_other_producers_segments_are_not_read(self) -> None:
        partition = Partition().append(record()).append(record(8)).append(end(COMMIT))
        partition.remove(partition.path(LOG_SUFFIX, 1))

        assert found(partition) == (COMMIT, 2)

    def test_a_segment_is_read_if_its_row_names_no_producers(self) -> None:
        partition = Partition().append(record()).append(end(COMMIT), producer_ids=None)

        assert found(partition) == (COMMIT, 1)

    def test_behind_a_gap_before_the_transaction(self) -> None:
        partition = Partition().append(record(8), 1, record(), end(COMMIT))

        assert found(partition, 2) == (COMMIT, 3)

    @pytest.mark.parametrize("count", [None, 1])
    def test_behind_anothers_segment_that_lacks_records(self, count: int | None) -> None:
        partition = Partition().append(record())
        partition.append(record(8), record(8), record_count=count).append(end(COMMIT))

        assert found(partition) == (COMMIT, 3)


class TestGaps:
    """A marker may have been in a gap."""

    @pytest.mark.parametrize(
        "append",
        [
            lambda log: log.append(record(), 1, record()),
            lambda log: log.append(record(), next_offset=2),
            lambda log: log.append(record()).append(record(8), 1, record(8)),
            lambda log: log.append(record()).append(emptied),
        ],
        ids=["in a segment", "at its end", "in another's segment", "an emptied marker"],
    )
    def test_before_the_marker(self, append: Callable[[Partition], Partition]) -> None:
        assert found(append(Partition()).append(end(COMMIT))) is None

    def test_within_a_segment_of_the_marker(self) -> None:
        assert found(Partition().append(record(), 1, end(COMMIT))) is None

    def test_between_segments(self) -> None:
        partition = Partition().append(record()).append(end(ABORT)).append(record(), end(COMMIT))
        partition.commit(remove=[partition.segments[1].key])

        assert found(partition) is None


def place(instance: Instance, partition: int = 0) -> TransactionPartition:
    return TransactionPartition(instance.catalog.topic("t").topic_id, partition)


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t")


class TestAbort:
    @pytest.fixture
    def client(self, instance: Instance) -> Client:
        """A producer whose transaction was committed, and is open by the metadata."""
        client = sent(instance, "a")
        known = instance.state()
        client.commit()
        producer = client.producer.producer_id
        reopen(instance, (producer + 1, 1), (producer, 0))
        set_id(instance, known)
        return client

    def test_of_an_id_hides_nothing_that_was_committed(
        self, instance: Instance, client: Client
    ) -> None:
        before = instance.catalog.image().version
        with pytest.raises(InvalidTxnStateError) as refused:
            instance.transactions.abort("id")

        assert str(refused.value) == (
            f"t-0: the transaction of producer {client.producer.producer_id} from offset 0 on has "
            f"ended with the COMMIT at 1, and an abort would hide its records: run sparklog verify "
            f"--repair t"
        )
        assert instance.catalog.image().version == before

    @pytest.mark.usefixtures("client")
    def test_in_a_partition_hides_nothing_that_was_committed(self, instance: Instance) -> None:
        admin = AdminClient(instance.catalog.files.uri)
        with pytest.raises(InvalidTxnStateError, match="COMMIT at 1"):
            admin.abort_transaction_at(("t", 0), 0)

        check(instance, repair=True)
        assert instance.transactions.abort("id")
        assert instance.values()[0] == ["a"]

    def test_in_a_partition_searches_no_other_transaction(
        self, instance: Instance, client: Client
    ) -> None:
        instance.transactions.abort_in(place(instance, 1), client.producer)

        assert instance.state().is_open

    def test_of_an_older_epoch_searches_nothing(self, instance: Instance, client: Client) -> None:
        set_id(instance, instance.state()._replace(epoch=5))

        with pytest.raises(InvalidProducerEpochError):
            instance.transactions.abort_in(place(instance), client.producer)

    def test_reads_the_segment_that_has_replaced_one(
        self, instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def merged_meanwhile(*given: Any) -> Marker | None:
            monkeypatch.undo()
            run(merge_segments, instance.catalog.files.uri, seal=True)
            for entry in given[2].entries():
                instance.catalog.files.delete(log_path(given[1], entry))
            return first_marker(*given)

        monkeypatch.setattr(unended, "first_marker", merged_meanwhile)
        with pytest.raises(InvalidTxnStateError, match="COMMIT at 1"):
            instance.transactions.abort_in(place(instance), client.producer)

    def test_fails_if_a_segment_is_missing(self, instance: Instance, client: Client) -> None:
        directory = topic_directory(instance.catalog.topic("t"))
        instance.catalog.files.delete(log_path(directory, instance.log().entries()[0]))

        with pytest.raises(MissingFileError):
            instance.transactions.abort_in(place(instance), client.producer)

    def test_ends_one_whose_marker_may_be_lost(self, instance: Instance) -> None:
        client = ready(instance)
        for value in ("a", "b"):
            client.produce(value)
            client.commit()
        lost = instance.log().entries()[1].key
        reopen(instance, (client.producer.producer_id, 0), remove=[lost])
        AdminClient(instance.catalog.files.uri).abort_transaction_at(("t", 0), 0)

        assert (instance.log().transactions, instance.values()[0]) == ((), [])


class TestAbortOfOneThatEndsMeanwhile:
    """The next transaction begins while the log is searched: it goes on."""

    @pytest.fixture
    def client(self, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Client:
        client = ready(instance, OLD)

        def send(value: str) -> None:
            client.add(0)
            assert isinstance(client.produce(value), int)

        def then_next(*_: object) -> None:
            client.commit()
            send("b")

        send("a")
        monkeypatch.setattr(steps, "check_unended", then_next)
        return client

    def test_of_an_id(self, instance: Instance, client: Client) -> None:
        assert not instance.transactions.abort("id")

        client.commit()
        assert instance.values()[0] == ["a", "b"]

    def test_in_a_partition(self, instance: Instance, client: Client) -> None:
        assert not instance.transactions.abort_in(place(instance), client.producer)

        client.commit()
        assert instance.values()[0] == ["a", "b"]

    def test_at_an_offset(self, instance: Instance, client: Client) -> None:
        admin = AdminClient(instance.catalog.files.uri)
        with pytest.raises(InvalidTxnStateError, match="from offset 0 on has ended meanwhile"):
            admin.abort_transaction_at(("t", 0), 0)

        client.commit()
        assert instance.values()[0] == ["a", "b"]
