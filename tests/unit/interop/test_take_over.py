"""A broker's transactional ids: read from its log, and going on here."""

from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.messages import write_message
from sparklog.coordinator.records import TRANSACTION_RECORDS, Record
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import CorruptionError, InvalidTxnStateError, ProducerFencedError
from sparklog.interop.broker_files.broker_dir import BrokerDir
from sparklog.interop.imports.take_over import TakenId, take_over
from sparklog.interop.imports.transaction_state import BrokerStatus, broker_transactions
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import Producer
from sparklog.metadata.state.transactions import EPOCH_MAX, TransactionalId
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from sparklog.transactions.timeouts import OpenSince
from tests.broker_files import TRANSACTIONAL, batch, marker, patched, write_segment
from tests.command_line import CommandLine
from tests.compat.cases import BROKER
from tests.crashes import END_WRITES, Crash, Fails
from tests.transactions import Client, Instance
from tests.unit.interop.conftest import Interop, export

ONGOING, PREPARE_COMMIT, PREPARE_ABORT = BrokerStatus.ONGOING, 2, 3
READ = TopicPartition("t", 1)


def state(name: str, status: int, *, version: int = 1, **fields: Any) -> Record:
    """A record of __transaction_state; producer 7 of epoch 0, and partition 0 of `t`."""
    kind = TRANSACTION_RECORDS[0]
    value = {
        "producerId": 7,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": status,
        "transactionPartitions": [{"topic": "t", "partitionIds": [0]}],
        "transactionLastUpdateTimestampMs": 1,
        "transactionStartTimestampMs": 1,
        **fields,
    }
    body = write_message(value, kind.values[version], flexible=version >= 1)
    return Record(key(name), version.to_bytes(2, "big") + body)


def key(name: str) -> bytes:
    return b"\0\0" + write_message({"transactionalId": name}, TRANSACTION_RECORDS[0].key)


def write(interop: Interop, *records: Record) -> Path:
    return write_segment(interop.partition("__transaction_state-3"), 0, batch_of(records, 1))


def data(offset: int) -> bytes:
    """A transactional batch of two records."""
    return batch(offset, producer=7, attributes=TRANSACTIONAL, sequence=offset)


@pytest.fixture
def broker(interop: Interop) -> Interop:
    """Partition 0 of `t` has two records of an open transaction of producer 7; 1 has none."""
    write_segment(interop.partition("t-0"), 0, data(0))
    write_segment(interop.partition("t-1"), 0, batch(0))
    held = offset_record("g", READ, CommittedOffset(2))
    offsets = patched(batch_of([held], 1), 7, TRANSACTIONAL)
    write_segment(interop.partition("__consumer_offsets-9"), 0, offsets)
    return interop


def imported(broker: Interop) -> Instance:
    """The log dir behind an import, with the ids."""
    broker.run()
    take_over(broker.catalog, [str(broker.broker)])
    return Instance(str(broker.log_dir))


def returning(instance: Instance, epoch: int = 0) -> Client:
    """The producer of the broker's transaction, which has sent two records to partition 0."""
    client = Client(instance)
    client.goes_on(Producer(7, epoch))
    client.sent(2)
    return client


def group(instance: Instance) -> list[int]:
    found = AdminClient(instance.catalog.files.uri).list_consumer_group_offsets("g")
    return [one.offset for one in found.values() if one]


V = "v" * 40


class TestOpen:
    def test_goes_on_with_the_producer_that_returns(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        client = returning(instance)

        assert (client.produce("x"), client.produce("y", 1)) == (2, 2)
        assert (instance.values()[0], group(instance)) == ([], [])
        client.commit()
        assert instance.values() == {0: [V, V, "x"], 1: [V, V, "y"]}
        assert group(instance) == [2]

    def test_is_aborted_by_the_producer_that_begins_anew(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        client = Client(instance)

        assert client.init() == Producer(7, 2)
        client.produce("x")
        client.commit()
        assert (instance.values()[0], group(instance)) == (["x"], [])

    def test_of_one_that_never_returns_is_ended_by_hand(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        CommandLine(str(broker.log_dir)).done("transactions", "abort", "id")

        assert instance.log().last_stable_offset == instance.log().log_end_offset == 3
        assert instance.values() == {0: [], 1: [V, V]}
        with pytest.raises(ProducerFencedError):
            returning(instance).commit()

    def test_has_its_timeout_here(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        since, ids = OpenSince(), imported(broker).catalog.image().transactional_ids

        assert [since.overdue(ids, now_ms) for now_ms in (0, 60_000)] == [[], []]
        assert [one.transactional_id for one in since.overdue(ids, 60_001)] == ["id"]

    def test_makes_a_round_trip(self, broker: Interop, tmp_path: Path) -> None:
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        client = returning(instance)
        client.produce("x")
        client.commit()
        client.produce("open")
        export(broker, tmp_path / "back")
        copy = Interop(tmp_path / "back", tmp_path / "copy")
        copy.run()

        assert Instance(str(copy.log_dir)).values() == instance.values()
        assert copy.log().transactions == ()

    def test_leaves_out_what_is_not_here(self, broker: Interop) -> None:
        partitions = [
            {"topic": "t", "partitionIds": [0, 9]},
            {"topic": "gone", "partitionIds": [0]},
            {"topic": "__consumer_offsets", "partitionIds": [9]},
        ]
        write(broker, state("id", ONGOING, transactionPartitions=partitions))
        places = imported(broker).state().partitions

        assert [place.partition for place in places] == [0]


class TestPrepared:
    """Kafka's PrepareCommit: some partitions have their marker, and the others get it here."""

    @pytest.fixture
    def broker(self, broker: Interop) -> Interop:
        write_segment(broker.partition("t-1"), 0, data(0), marker(2, 7, 1))
        return broker

    def test_a_commit_is_completed_here(self, broker: Interop) -> None:
        fields = {"producerEpoch": 1, "clientTransactionVersion": 2}
        write(broker, state("id", PREPARE_COMMIT, **fields))
        instance = imported(broker)

        assert instance.values() == {0: [V, V], 1: [V, V]}
        assert (instance.log(partition=1).log_end_offset, group(instance)) == (3, [2])
        client = returning(instance)
        assert client.commit() == Producer(7, 1)  # the answer that it never got

    def test_an_abort_is_completed_here(self, broker: Interop) -> None:
        write_segment(broker.partition("t-1"), 0, data(0), marker(2, 7, 0))
        write(broker, state("id", PREPARE_ABORT, producerEpoch=1))
        instance = imported(broker)

        assert (instance.values(), group(instance)) == ({0: [], 1: []}, [])
        assert (instance.state().status, instance.state().epoch) == ("CompleteAbort", 1)

    def test_behind_the_last_epoch_the_next_producer_goes_on(self, broker: Interop) -> None:
        fields = {"producerEpoch": EPOCH_MAX, "nextProducerId": 8, "clientTransactionVersion": 2}
        write(broker, state("id", PREPARE_COMMIT, **fields))
        instance = imported(broker)

        assert instance.values()[0] == [V, V]
        assert returning(instance, EPOCH_MAX - 1).commit() == Producer(8, 0)

    @pytest.mark.parametrize("is_behind", [False, True])
    @pytest.mark.parametrize("at", range(1, len(END_WRITES) + 1))
    def test_a_crash_leaves_it_to_the_next_import(
        self, broker: Interop, at: int, *, is_behind: bool
    ) -> None:
        write(broker, state("id", PREPARE_COMMIT, producerEpoch=1))
        broker.run()
        AdminClient(str(broker.log_dir)).alter_consumer_group_offsets("other", {READ: 0})
        files: Any = Fails(open_files(str(broker.log_dir)), at, is_behind=is_behind)
        with pytest.raises(Crash):
            take_over(Catalog(files, ManualClock()), [str(broker.broker)])
        before = Instance(str(broker.log_dir))
        assert (before.values()[0], group(before)) in [([], []), ([V, V], [2])]

        instance = imported(broker)
        assert (instance.values()[0], group(instance)) == ([V, V], [2])


class TestHanging:
    """A transaction of which its id knows nothing: nobody at the broker would have ended it."""

    def test_is_aborted_before_its_producer_goes_on(self, broker: Interop) -> None:
        write(broker, state("id", BrokerStatus.COMPLETE_COMMIT, producerEpoch=3))
        broker.run()
        [found] = take_over(broker.catalog, [str(broker.broker)])
        instance = Instance(str(broker.log_dir))
        assert found.aborted == ("t-0",)
        client = Client(instance)
        client.goes_on(Producer(7, 3))
        client.produce("x")
        client.commit()

        assert instance.values()[0] == ["x"]

    def test_is_told_from_what_the_id_has_open(self, broker: Interop) -> None:
        write_segment(broker.partition("t-1"), 0, data(0))
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        returning(instance).commit()

        assert instance.values() == {0: [V, V], 1: []}

    def test_of_others_is_left_to_people(self, broker: Interop) -> None:
        write(broker, state("id", BrokerStatus.EMPTY, producerId=8))
        instance = imported(broker)

        assert instance.log().transactions == ((7, 0),)

    def test_without_an_id_nobody_adds_to_it(self, broker: Interop) -> None:
        broker.run()
        instance = Instance(str(broker.log_dir))
        client, new = returning(instance), Client(instance, "new")

        assert client.produce("x") is InvalidTxnStateError
        assert client.produce("x", attributes=0) is InvalidTxnStateError
        assert new.init().producer_id > 7
        new.produce("y")
        new.commit()
        assert instance.values()[0] == []
        options = ("--topic", "t", "--start-offset", "0")
        CommandLine(str(broker.log_dir)).done("transactions", "abort", *options)
        assert instance.values()[0] == ["y"]


class TestIds:
    def test_without_a_transaction_go_on_too(self, broker: Interop) -> None:
        write(
            broker,
            state("a", BrokerStatus.EMPTY, version=0, transactionPartitions=[], producerId=5),
            state("b", 4, producerId=6, producerEpoch=3, clientTransactionVersion=2),
            state("c", 5, producerId=9, previousProducerId=8, clientTransactionVersion=2),
            state("d", BrokerStatus.DEAD),
            state("e", 4, producerId=4, clientTransactionVersion=2),
        )
        ids = imported(broker).catalog.image().transactional_ids.by_id

        assert ids["a"][1:7] == (5, 0, 60_000, "Empty", -1, -1)
        assert ids["b"][1:7] == (6, 3, 60_000, "CompleteCommit", 6, 2)
        assert ids["c"][1:7] == (9, 0, 60_000, "CompleteAbort", 8, EPOCH_MAX - 1)
        assert ids["e"][1:7] == (4, 0, 60_000, "CompleteCommit", -1, -1)
        assert sorted(ids) == ["a", "b", "c", "e"]

    def test_need_no_group(self, interop: Interop) -> None:
        write_segment(interop.partition("t-0"), 0, data(0))
        write(interop, state("id", ONGOING))
        instance = imported(interop)
        returning(instance).commit()

        assert (instance.values(), group(instance)) == ({0: [V, V]}, [])

    def test_new_producers_get_other_ids(self, broker: Interop) -> None:
        write(broker, state("a", BrokerStatus.EMPTY, producerId=2**41, nextProducerId=2**42))
        instance = imported(broker)

        assert Client(instance, "new").init().producer_id == 2**42 + 1

    def test_that_are_here_stay_as_they_are(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        instance = imported(broker)
        returning(instance).commit()
        before = instance.state()
        [found] = take_over(broker.catalog, [str(broker.broker)])

        assert found.problem == "it is here already, and stays as it is"
        assert (found.state, instance.state()) == ("CompleteCommit", before)

    def test_whose_producer_is_anothers_here_are_refused(self, broker: Interop) -> None:
        write(broker, state("id", BrokerStatus.EMPTY))
        imported(broker)
        write(broker, state("late", PREPARE_COMMIT))
        found = take_over(broker.catalog, [str(broker.broker)])

        problem = "producer id 7 belongs to 'id' here"
        assert found == [TakenId("late", 7, "PREPARE_COMMIT", problem=problem)]

    def test_of_one_producer_are_taken_once(self, broker: Interop) -> None:
        write(broker, state("a", BrokerStatus.EMPTY), state("b", PREPARE_COMMIT))
        broker.run()
        found = take_over(broker.catalog, [str(broker.broker)])

        assert [one.problem for one in found] == [None, "producer id 7 belongs to 'a' here"]

    def test_that_the_broker_forgot_are_not_taken(self, broker: Interop) -> None:
        unknown = Record(b"\0\7", b"")
        write(broker, state("id", ONGOING), unknown, Record(key("id"), None))
        broker.run()

        assert take_over(broker.catalog, [str(broker.broker)]) == []


class TestReading:
    def read(self, broker: Interop) -> list[str]:
        found = BrokerDir(str(broker.broker)).partitions()
        chosen = [one for one in found if one.topic_partition.topic == "__transaction_state"]
        return [one.transactional_id for one in broker_transactions(chosen)]

    def test_what_a_broker_kept(self) -> None:
        found = BrokerDir(str(BROKER)).partitions()
        chosen = [one for one in found if one.topic_partition.topic == "__transaction_state"]

        assert [one.status.name for one in broker_transactions(chosen)]

    def test_passes_over_control_batches(self, interop: Interop) -> None:
        data = batch_of([state("id", ONGOING)], 1)
        write_segment(interop.partition("__transaction_state-0"), 0, data, marker(1, 7, 1))

        assert self.read(interop) == ["id"]

    def test_a_state_that_there_is_not_is_refused(self, interop: Interop) -> None:
        path = write(interop, state("id", 9))

        with pytest.raises(CorruptionError, match=f"{path}.*'id': status 9; there are 0 to 7"):
            self.read(interop)

    def test_too_many_are_refused(self, interop: Interop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.interop.imports.transaction_state.IDS_MAX", 1)
        write(interop, state("a", ONGOING), state("b", ONGOING))

        with pytest.raises(CorruptionError, match="more than 1 transactional ids"):
            self.read(interop)


class TestCommand:
    def run(self, broker: Interop, *options: str) -> Any:
        return CommandLine(str(broker.log_dir))("import", broker.broker, *options)

    def test_tells_the_ids(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        found = self.run(broker, "--transactional-ids", "--format", "json")
        again = self.run(broker, "--transactional-ids")

        row = {"transactional_id": "id", "producer_id": 7, "state": "Ongoing", "aborted": []}
        assert found.json[-1] == row | {"problem": None}
        assert "'id' was not taken over: it is here already" in again.err
        assert self.run(broker, "--transactional-ids", "-q").text == ""

    def test_tells_that_there_is_none(self, broker: Interop) -> None:
        found = self.run(broker, "--transactional-ids")
        quiet = self.run(broker, "--transactional-ids", "-q")

        told = f"no transactional id was taken over: there is none in {broker.broker} "
        assert (found.code, found.err) == (
            0,
            f"sparklog: warning: {told}(__transaction_state)\n",
        )
        assert (quiet.code, quiet.err) == (0, "")

    def test_without_the_option_ids_stay_at_the_broker(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        self.run(broker)

        assert Instance(str(broker.log_dir)).transactions.list() == []

    def test_a_partition_that_is_refused_keeps_them_there(self, broker: Interop) -> None:
        write(broker, state("id", ONGOING))
        (broker.partition("t-1") / f"{0:020d}.log").write_bytes(b"x" * 100)
        found = self.run(broker, "--transactional-ids")

        assert (found.code, "transactional ids were not taken over" in found.err) == (1, True)
        ids: list[TransactionalId] = list(Instance(str(broker.log_dir)).transactions.list())
        assert ids == []
