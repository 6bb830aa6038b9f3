"""What is open in a partition, and what is known of it."""

from pathlib import Path

from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.open_transactions import OpenedTransaction, opened_in
from tests.client_batches import NOW_MS
from tests.edits import edited
from tests.transactions import Client, Instance, new_log_dir


def opened(instance: Instance) -> list[OpenedTransaction]:
    topic = instance.catalog.topic("t")
    ids = instance.catalog.image().transactional_ids
    return opened_in(topic.topic_id, instance.log(), ids)


def test_has_its_id_and_its_begin(tmp_path: Path) -> None:
    instance = new_log_dir(str(tmp_path / "log"), "t")
    clients = [Client(instance, name) for name in ("a", "b")]
    for client in clients:
        client.init()
        client.produce("x")
    first, second = (client.producer.producer_id for client in clients)

    assert opened(instance) == [(0, 0, first, "a", NOW_MS), (0, 1, second, "b", NOW_MS)]
    clients[0].commit()
    assert opened(instance) == [(0, 1, second, "b", NOW_MS)]


def test_without_an_id_is_as_old_as_its_segment(tmp_path: Path) -> None:
    instance = new_log_dir(str(tmp_path / "log"), "t")
    Client(instance).produce("x", attributes=0)
    topic, found = instance.catalog.topic("t"), (OpenTransaction(5, 0), OpenTransaction(6, 9))
    edited(instance.catalog, topic, transactions={0: found})

    assert opened(instance) == [(0, 0, 5, None, NOW_MS), (0, 9, 6, None, None)]
