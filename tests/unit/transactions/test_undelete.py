"""A topic that comes back: transactions that were open at its deletion are aborted in it."""

from collections.abc import Callable

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    ProducerFencedError,
    TopicExistsError,
)
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.history.read import history
from sparklog.metadata.plans.transactions import edit_of_ids
from sparklog.metadata.state.edit import OpenTransaction, TopicEdit
from sparklog.metadata.state.transactions import EPOCH_MAX, TransactionPartition
from sparklog.model import READ_UNCOMMITTED
from sparklog.transactions.undelete import undelete
from tests.client_batches import NOW_MS
from tests.transactions import Client, Instance, with_damage, with_epoch


@pytest.fixture
def admin(instance: Instance) -> AdminClient:
    return AdminClient(instance.catalog.files.uri, clock=ManualClock(NOW_MS))


@pytest.fixture(params=[13, 9])
def client(instance: Instance, request: pytest.FixtureRequest) -> Client:
    """A producer, of today and from before KIP-890, with a record in a transaction of t and u."""
    found = Client(instance, version=request.param)
    found.init()
    for topic in ("t", "u"):
        found.add(0, topic=topic)
        found.produce("lost", topic=topic)
    return found


def ends(instance: Instance, topic: str = "t") -> tuple[int, int]:
    """The last stable offset of partition 0, and its log end offset."""
    log = instance.log(topic)
    return log.last_stable_offset, log.log_end_offset


def change(instance: Instance, edit: TopicEdit) -> None:
    """Commit an edit of topic t."""
    instance.catalog.commit(instance.catalog.topic("t"), lambda _: edit, operation="TEST")


def test_a_transaction_that_went_on_without_the_topic(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    admin.delete_topics(["t"])
    client.commit()
    admin.undelete_topic("t")

    assert (instance.values("t")[0], instance.values("u")[0]) == ([], ["lost"])
    assert instance.values("t", READ_UNCOMMITTED)[0] == ["lost"]
    assert ends(instance) == (2, 2)  # the record, and its marker


def test_the_producers_next_transaction_is_another_one(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    admin.delete_topics(["t"])
    client.abort()
    admin.undelete_topic("t")
    client.add(0)
    client.produce("kept")
    client.commit()

    assert instance.values()[0] == ["kept"]


def test_one_that_is_still_open_is_aborted_as_a_whole(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    """Its commit would leave out the records of the topic."""
    admin.delete_topics(["t"])
    admin.undelete_topic("t")

    assert (ends(instance), ends(instance, "u")) == ((2, 2), (2, 2))
    with pytest.raises(ProducerFencedError):
        client.commit()
    assert (instance.values("t")[0], instance.values("u")[0]) == ([], [])


def test_behind_the_last_epoch_each_gets_a_producer_of_its_own(
    instance: Instance, admin: AdminClient
) -> None:
    before = []
    for name in ("a", "b"):
        worn = Client(instance, name)
        worn.init()
        before.append(with_epoch(worn, EPOCH_MAX - 1).producer_id)
        worn.produce("lost")
    admin.delete_topics(["t"])
    admin.undelete_topic("t")
    after = [instance.state(name).producer_id for name in ("a", "b")]

    assert len({*before, *after}) == 4
    assert max(after) < instance.catalog.image().next_producer_id


@pytest.mark.parametrize("is_each", [False, True])
def test_one_that_is_still_open_is_aborted_whatever_clock_the_deletion_goes_by(
    instance: Instance, client: Client, is_each: bool
) -> None:
    """The clock of the machine that deletes the topic is slow."""
    slow = AdminClient(instance.catalog.files.uri, clock=ManualClock(NOW_MS - 1))
    if is_each:
        slow.each.delete_topics([instance.catalog.topic("t").topic_id])
    else:
        slow.delete_topics(["t"])
    slow.undelete_topic("t")

    with pytest.raises(ProducerFencedError):
        client.commit()


def test_a_later_transaction_of_the_producer_is_left_alone(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    admin.delete_topics(["t"])
    client.commit()
    instance.catalog.clock.advance(1)  # type: ignore[attr-defined] # a ManualClock
    client.add(0, topic="u")
    client.produce("kept", topic="u")
    admin.undelete_topic("t")
    client.commit()

    assert (instance.values("t")[0], instance.values("u")[0]) == ([], ["lost", "kept"])
    assert ends(instance) == (2, 2)


def test_one_that_has_come_back_to_the_topic(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    topic = instance.catalog.topic("t")
    admin.delete_topics(["t"])
    open_again = instance.state()
    places = (TransactionPartition(topic.topic_id, 0), *open_again.partitions)
    edit = edit_of_ids("TEST", open_again._replace(partitions=places))
    instance.catalog.log.commit(lambda _: edit)
    admin.undelete_topic("t")

    assert (ends(instance), ends(instance, "u")) == ((2, 2), (2, 2))


def test_markers_are_written_again_if_a_transaction_has_grown(
    instance: Instance, admin: AdminClient, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    def grown() -> None:
        admin.create_topics([NewTopic("v")])
        client.add(0, topic="v")
        client.produce("lost", topic="v")

    admin.delete_topics(["t"])
    meanwhile.append(grown)
    admin.undelete_topic("t")

    assert (ends(instance), ends(instance, "v")) == ((2, 2), (2, 2))


def test_all_is_one_entry(instance: Instance, admin: AdminClient, client: Client) -> None:
    admin.delete_topics(["t"])
    version = instance.catalog.image().version
    admin.undelete_topic("t")
    (newest,) = history(instance.catalog.log, limit=1)

    assert (newest.version, newest.operation) == (version + 1, "UNDELETE TOPIC")


def test_one_of_an_imported_id(instance: Instance, admin: AdminClient) -> None:
    Client(instance).init()
    state = instance.state()._replace(transactional_id="imported", producer_id=5, partitions=())
    instance.catalog.log.commit(lambda _: edit_of_ids("TEST", state))
    change(instance, TopicEdit(transactions={0: (OpenTransaction(5, 0),)}))
    admin.delete_topics(["t"])
    admin.undelete_topic("t")

    assert instance.log().transactions == ()


def test_one_of_an_imported_log_stays_open(instance: Instance, admin: AdminClient) -> None:
    client = Client(instance)
    client.init()
    client.add(0)
    client.produce("x")
    client.commit()
    change(instance, TopicEdit(transactions={0: (OpenTransaction(5, 1),)}))
    admin.delete_topics(["t"])
    admin.undelete_topic("t")

    assert instance.log().transactions == (OpenTransaction(5, 1),)


def test_a_producer_whose_state_is_forgotten(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    change(instance, TopicEdit(forget_producers_before_ms=NOW_MS + 1))
    admin.delete_topics(["t"])
    admin.undelete_topic("t")

    assert (instance.values()[0], ends(instance)) == ([], (2, 2))


def test_markers_are_written_again_if_the_topic_has_changed(
    instance: Instance, admin: AdminClient, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    def changed() -> None:
        admin.undelete_topic("t")
        client.init()
        client.add(1)
        client.produce("lost, too", partition=1)
        admin.delete_topics(["t"])

    admin.delete_topics(["t"])
    meanwhile.append(changed)
    admin.undelete_topic("t")

    assert instance.values() == {0: [], 1: []}
    assert instance.log(partition=1).transactions == ()


def test_a_topic_of_its_transactions_cannot_be_read(
    instance: Instance, admin: AdminClient, client: Client
) -> None:
    admin.delete_topics(["t"])
    fresh = with_damage(instance, "u")

    with pytest.raises(CorruptMetadataError, match="damaged"):
        undelete(fresh.catalog, "t")
    assert client.instance.state(client.name).is_open


def test_a_name_that_is_taken_meanwhile(
    instance: Instance, admin: AdminClient, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    admin.delete_topics(["t"])
    meanwhile.append(lambda: admin.create_topics([NewTopic("t")]))

    with pytest.raises(TopicExistsError, match="already exists"):
        admin.undelete_topic("t")


def test_gives_up_when_it_keeps_changing(
    instance: Instance, admin: AdminClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.delete_topics(["t"])
    monkeypatch.setattr(AppendWriter, "_write_small", lambda *_: {})

    with pytest.raises(CommitConflictError, match="could not be written 20 times in a row"):
        admin.undelete_topic("t")
    assert [one.name for one in admin.list_deleted_topics()] == ["t"]
