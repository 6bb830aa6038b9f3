"""The end of a transaction while others come between: what is written, and written again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient
from sparklog.coordinator.offsets_topic import claim, offsets_topic
from sparklog.errors import CommitConflictError, StorageError
from sparklog.metadata.transaction_plans import Producer
from sparklog.metadata.transactions import TransactionPartition
from sparklog.model import TopicPartition
from sparklog.transactions import ending, pieces
from tests.transactions import Client, Instance, new_log_dir


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t", "u")


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer with a record in an open transaction."""
    found = Client(instance)
    found.init()
    found.produce("x")
    return found


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens, each once, while an end is written; it is empty when all has happened."""
    events: list[Callable[[], object]] = []
    write = pieces.written

    def written(*arguments: Any) -> Any:
        found = write(*arguments)
        if events:
            events.pop(0)()
        return found

    monkeypatch.setattr(ending, "written", written)
    return events


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


def test_one_that_its_producer_has_ended_is_not_aborted(
    instance: Instance, client: Client, meanwhile: list[Callable[[], object]]
) -> None:
    meanwhile.append(client.commit)

    assert not instance.transactions.abort("id")
    assert instance.values()[0] == ["x"]


def test_gives_up_when_it_keeps_changing(
    instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "written", lambda *_: {})

    with pytest.raises(CommitConflictError, match="kept changing, 20 times in a row"):
        client.commit()


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


def test_a_deleted_topic_has_nothing_to_end(instance: Instance) -> None:
    topic_id = instance.catalog.topic("u").topic_id
    AdminClient(instance.catalog.files.uri).delete_topics(["u"])
    version = instance.catalog.image().version
    instance.transactions.abort_in(TransactionPartition(topic_id, 0), Producer(5, 0))

    assert instance.catalog.image().version == version
