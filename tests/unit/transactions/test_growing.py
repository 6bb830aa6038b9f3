"""A transaction grows: each entry has only what is new in it."""

from dataclasses import replace
from functools import partial

import pytest

from sparklog.errors import CorruptMetadataError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.history.files import cuts_of
from sparklog.metadata.history.read import cut_at
from sparklog.metadata.names import entry_path
from sparklog.metadata.plans.transactions import edit_of_ids, with_offsets
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.transactions import (
    NO_TRANSACTIONAL_IDS,
    Added,
    PendingOffset,
    TransactionPartition,
)
from sparklog.metadata.upkeep.fold import fold
from tests.transactions import Client, Instance


def offset(partition: int, at: int = 5) -> PendingOffset:
    return PendingOffset("g", "t", partition, at)


def newest(catalog: Catalog) -> Edit:
    """The edit of the newest entry."""
    entry = catalog.log.entries.read(catalog.image().version)
    assert entry is not None
    (edit,) = entry.edits
    return edit


def test_an_entry_of_offsets_has_the_new_ones(instance: Instance, client: Client) -> None:
    client.offsets("g", 5)
    begun = newest(instance.catalog)
    client.offsets("g", 5, partition=1)
    grown = newest(instance.catalog)

    assert begun.transactional_ids["id"] is not None
    assert begun.transactional_ids["id"].offsets == (offset(0),)
    assert grown.added_to_transactions == {"id": Added(offsets=(offset(1),))}
    assert not grown.transactional_ids
    assert instance.state().offsets == (offset(0), offset(1))


def test_an_entry_of_a_group_has_the_group(instance: Instance, client: Client) -> None:
    client.add(0)
    instance.transactions.add_group(client.step, "g")

    assert newest(instance.catalog).added_to_transactions == {"id": Added(groups=("g",))}
    assert instance.state().groups == ("g",)


def test_an_entry_of_partitions_has_the_new_ones(instance: Instance, client: Client) -> None:
    topic_id = instance.catalog.topic("t").topic_id
    client.add(0)
    client.add(0, 1)
    new = Added(partitions=(TransactionPartition(topic_id, 1),))

    assert newest(instance.catalog).added_to_transactions == {"id": new}
    assert [one.partition for one in instance.state().partitions] == [0, 1]


def test_a_produce_adds_its_partition_alone(instance: Instance, client: Client) -> None:
    client.offsets("g", 5)
    for value, partition in (("a", 0), ("b", 1)):
        client.produce(value, partition)
        place = TransactionPartition(instance.catalog.topic("t").topic_id, partition)
        assert newest(instance.catalog).added_to_transactions == {"id": Added(partitions=(place,))}
    client.produce("c")

    assert not newest(instance.catalog).added_to_transactions
    client.commit()
    assert instance.values() == {0: ["a", "c"], 1: ["b"]}


def test_one_group_adds_all_partitions_of_all_its_transactions(
    instance: Instance, client: Client
) -> None:
    client.offsets("g", 5)
    other = Client(instance, "other")
    other.init()
    topic_id = instance.catalog.topic("t").topic_id
    places = tuple(TransactionPartition(topic_id, one) for one in (0, 1))
    instance.writer.write([one.slot("a", place) for one in (client, other) for place in (0, 1)])
    grown = newest(instance.catalog)

    assert grown.added_to_transactions == {"id": Added(partitions=places)}
    assert grown.transactional_ids.keys() == {"other"}
    assert instance.state("id").partitions == instance.state("other").partitions == places
    client.commit()
    other.commit()
    assert instance.values() == {0: ["a", "a"], 1: ["a", "a"]}


def test_a_newer_offset_takes_the_place_of_the_older(instance: Instance, client: Client) -> None:
    for at, partition in ((5, 0), (5, 1), (6, 0)):
        client.offsets("g", at, partition=partition)

    assert instance.state().offsets == (offset(0, 6), offset(1))
    version = instance.catalog.image().version
    client.offsets("g", 6)
    assert instance.catalog.image().version == version


def test_steps_share_an_entry(instance: Instance, client: Client) -> None:
    client.offsets("g", 5)
    plans = [
        partial(with_offsets, step=client.step, group_id="g", offsets=[new], adds_group=True)
        for new in (offset(1), offset(0, 6), offset(1, 7))
    ]
    instance.catalog.log.commit_each(plans, ())

    assert Instance(instance.catalog.files.uri).state().offsets == (offset(0, 6), offset(1, 7))


def test_a_fold_has_what_was_added(instance: Instance, client: Client) -> None:
    client.offsets("g", 5)
    fold(instance.catalog.log)
    instance.catalog.clock.advance(70)  # type: ignore[attr-defined] # it is a ManualClock
    client.offsets("g", 5, partition=1)
    fold(instance.catalog.log)
    found = Instance(instance.catalog.files.uri).state()

    assert found == instance.state()
    assert found.offsets == (offset(0), offset(1))
    assert found.used_ms == found.started_ms + 70


def test_a_cut_has_no_transaction_that_could_grow(
    instance: Instance, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklog.metadata.history.files.CUT_EVERY", 1)
    client.offsets("g", 5)
    folded = fold(instance.catalog.log)
    assert folded is not None
    assert cuts_of(folded.fold)
    client.offsets("g", 5, partition=1)
    client.produce("x")
    topic_id = instance.catalog.topic("t").topic_id
    found = cut_at(instance.catalog.log, instance.catalog.image().version)

    assert found.topics[topic_id].partitions[0].log_end_offset == 1


def test_one_that_is_not_open_does_not_grow_in_silence(instance: Instance, client: Client) -> None:
    client.offsets("g", 5)
    other = Instance(instance.catalog.files.uri).catalog.log
    other._image = replace(other.image(), transactional_ids=NO_TRANSACTIONAL_IDS)
    client.offsets("g", 5, partition=1)
    path = entry_path(instance.catalog.image().version)

    with pytest.raises(CorruptMetadataError, match=f"^{path}: an edit adds to the trans"):
        other.image()


def test_entries_of_older_releases_are_read(instance: Instance, client: Client) -> None:
    """Goal: A log dir in which each entry has the whole transaction goes on.

    Method: One step as older releases wrote it, then one more.
    """
    client.offsets("g", 5)
    whole = edit_of_ids("TEST", instance.state().with_added(Added(offsets=(offset(1),))))
    instance.catalog.log.commit(lambda _: whole)
    client.offsets("g", 6)

    assert Instance(instance.catalog.files.uri).state().offsets == (offset(0, 6), offset(1))
