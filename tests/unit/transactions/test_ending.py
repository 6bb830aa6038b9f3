"""The end of a transaction while others come between: what is written, and written again."""

import threading
from collections.abc import Callable

import pytest

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.coordinator.offsets_topic import claim, offsets_topic
from sparklog.errors import (
    CommitConflictError,
    InvalidProducerEpochError,
    ProducerFencedError,
    StorageError,
)
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.plans.transactions import Producer, to_abort_in
from sparklog.metadata.state.edit import EpochStart, OpenTransaction, PartitionState, TopicEdit
from sparklog.metadata.state.producers import ProducerState
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.model import TopicPartition
from tests.edits import segment
from tests.transactions import Client, Instance
from tests.waiting import until


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer with a record in an open transaction."""
    found = Client(instance)
    found.init()
    found.produce("x")
    return found


def test_a_topic_that_comes_between_is_ended_too(
    instance: Instance, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    meanwhile.append(lambda: client.produce("y", topic="u"))
    client.commit()

    assert (instance.values("t")[0], instance.values("u")[0]) == (["x"], ["y"])


def test_a_claim_that_comes_between_gets_markers_of_its_epoch(
    instance: Instance, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    topic = offsets_topic(instance.catalog, instance.catalog.clock, 1)
    client.offsets("g", 5)
    meanwhile.append(lambda: claim(instance.catalog, topic, 0))
    client.commit()

    assert instance.log(topic.name).entries()[-1].max_leader_epoch == 1
    assert instance.log(topic.name).epochs == (EpochStart(1, 0),)


def test_markers_may_be_the_first_bytes_of_a_leader_epoch(
    instance: Instance, client: Client
) -> None:
    """As after an import. A consumer asks where the epoch of its last batch ends (KIP-320)."""
    newer = TopicEdit(partitions={0: PartitionState(leader_epoch=3)})
    instance.catalog.commit(instance.catalog.topic("t"), lambda _: newer, operation="TEST")
    client.commit()

    assert instance.log().epochs == (EpochStart(0, 0), EpochStart(3, 1))
    assert instance.log().end_of_epoch(3) == EpochStart(3, 2)


def test_one_that_its_producer_has_ended_is_not_aborted(
    instance: Instance, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    other = Instance(instance.catalog.files.uri)  # ends in one process wait for each other
    meanwhile.append(lambda: other.transactions.end(client.step, is_commit=True))

    assert not instance.transactions.abort("id")
    assert instance.values()[0] == ["x"]


def test_gives_up_when_it_keeps_changing(
    instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppendWriter, "_write_small", lambda *_: {})

    with pytest.raises(CommitConflictError, match="kept changing, 20 times in a row"):
        client.commit()


def test_those_that_wait_are_ended_together(instance: Instance, client: Client) -> None:
    """Goal: one segment and one entry. Method: others come while the first one is written."""
    others = [Client(instance, name) for name in ("a", "b", "c")]
    for one in others:
        one.init()
        one.produce("y")
    others[2].producer = others[1].producer  # fenced: it stops nobody
    errors: list[Exception] = []
    threads = [threading.Thread(target=_commit, args=(one, errors)) for one in others]
    version = instance.catalog.image().version
    with instance.transactions.ends._leading:
        for thread in threads:
            thread.start()
        until(lambda: len(instance.transactions.ends._queue) == len(threads))
    for thread in threads:
        thread.join()

    assert instance.catalog.image().version == version + 1
    assert [type(one) for one in errors] == [ProducerFencedError]
    assert not any(instance.state(name).is_open for name in ("a", "b"))


def _commit(client: Client, errors: list[Exception]) -> None:
    try:
        client.commit()
    except ProducerFencedError as error:
        errors.append(error)


def test_what_cannot_be_written_ends_nothing(
    instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("sparklog.transactions.pieces.SharedSegment.put", broken)
        with pytest.raises(StorageError, match="the disk is full"):
            client.commit()
    assert instance.state().is_open

    client.commit()
    assert instance.values()[0] == ["x"]


def test_offsets_are_committed_where_nobody_has_committed_any(
    instance: Instance, client: Client
) -> None:
    client.offsets("g", 5)
    client.commit()
    admin = AdminClient(instance.catalog.files.uri)

    found = admin.list_consumer_group_offsets("g")[TopicPartition("t", 0)]
    assert found is not None
    assert found.offset == 5


def test_offsets_of_many_requests_are_batches_of_the_allowed_size(
    instance: Instance, client: Client
) -> None:
    topic = offsets_topic(instance.catalog, instance.catalog.clock, 1)
    admin = AdminClient(instance.catalog.files.uri)
    admin.incremental_alter_configs({topic.name: [AlterConfigOp("max.message.bytes", "130")]})
    for partition in (0, 1):
        client.offsets("g", 5, partition=partition)
    client.commit()

    (row,) = instance.log(topic.name).entries()
    assert (row.batch_count, row.record_count, row.log_bytes <= 260) == (2, 2, True)
    assert len(admin.list_consumer_group_offsets("g")) == 2


def test_a_marker_of_an_older_epoch_is_refused(instance: Instance, client: Client) -> None:
    place = TransactionPartition(instance.catalog.topic("t").topic_id, 0)
    old = client.producer
    client.commit()

    with pytest.raises(InvalidProducerEpochError, match="of epoch 0 .*, which has epoch 1 now"):
        instance.transactions.abort_in(place, old)


def test_a_marker_of_an_older_epoch_leaves_the_next_transaction(
    instance: Instance, client: Client
) -> None:
    place = TransactionPartition(instance.catalog.topic("t").topic_id, 1)
    old = client.producer
    client.commit()
    client.add(1)

    with pytest.raises(InvalidProducerEpochError, match="of epoch 0 .*, which has epoch 1 now"):
        instance.transactions.abort_in(place, old)
    assert instance.state().is_open


def test_a_marker_never_lowers_an_epoch(instance: Instance) -> None:
    """Goal: also if the epoch rises after the check. Method: an import's transaction, unchecked."""
    topic = instance.catalog.topic("t")
    place = TransactionPartition(topic.topic_id, 0)
    edit = TopicEdit(
        segments=(segment(),),
        transactions={0: (OpenTransaction(5, 0),)},
        producers={0: (ProducerState(5, 3),)},
    )
    instance.catalog.commit(topic, lambda _: edit, operation="IMPORT")
    instance.transactions.ends.end(lambda image: to_abort_in(image, place, Producer(5, 1)))

    assert (instance.log().transactions, instance.log().producers[5].epoch) == ((), 3)


def test_a_deleted_topic_has_nothing_to_end(instance: Instance) -> None:
    topic_id = instance.catalog.topic("u").topic_id
    AdminClient(instance.catalog.files.uri).delete_topics(["u"])
    version = instance.catalog.image().version
    instance.transactions.abort_in(TransactionPartition(topic_id, 0), Producer(5, 0))

    assert instance.catalog.image().version == version
