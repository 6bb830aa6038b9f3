"""Ends and batches in one group: one segment, one entry, and each its own outcome."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import ManualClock
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    InvalidTxnStateError,
    LateWriterError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    SparklogError,
    StorageError,
)
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.group_commit.appends import AppendCommit, AppendLimits
from sparklog.log_writer import SharedSegment
from sparklog.metadata.state.image import Image
from sparklog.model import READ_UNCOMMITTED
from sparklog.transactions import end_group, ending
from sparklog.transactions.end_group import EndGroup
from sparklog.transactions.steps import EndOfStep
from tests.client_batches import client_batch
from tests.logs import fill
from tests.transactions import Client, Instance, with_damage


def opened(instance: Instance, *names: str, topic: str = "t") -> list[Client]:
    """Producers, each with a record of its name in both partitions of a topic."""
    clients = [Client(instance, name) for name in names]
    for one in clients:
        one.init()
        for partition in range(2):
            one.produce(one.name, partition, topic)
    return clients


def end(client: Client, *, is_commit: bool = True) -> EndOfStep:
    return EndOfStep(client.step, is_commit=is_commit, bumps=True)


def slot(
    instance: Instance,
    value: str,
    topic: str = "t",
    transactional_id: str | None = None,
    **fields: Any,
) -> Slot:
    """A batch for partition 0 of a topic."""
    topic_id = instance.catalog.topic(topic).topic_id
    return Slot(Append(topic_id, 0, client_batch(value, **fields)), 13, transactional_id)


def of(client: Client, value: str, topic: str) -> Slot:
    """A producer's first batch of a topic, in its transaction."""
    producer_id, epoch = client.producer
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    name = client.step.transactional_id
    return slot(client.instance, value, topic, name, attributes=0x10, **fields)


def write(instance: Instance, slots: Sequence[Slot], *ends: EndOfStep) -> Image | None:
    return instance.writer.write(slots, EndGroup(ends))


def told(one: EndOfStep) -> Any:
    """What a client is told: the next epoch, or the kind of the error."""
    try:
        return one.producer.epoch
    except SparklogError as error:
        return type(error)


def test_offsets_are_not_older_than_their_topic(instance: Instance) -> None:
    """The topic was made by a machine whose clock is a day ahead."""
    ahead = ManualClock(instance.catalog.clock.now_ms() + 86_400_000)
    admin = AdminClient(instance.catalog.files.uri, clock=ahead)
    admin.create_topics([NewTopic("late", 1)])
    [client] = opened(instance, "id")
    client.offsets("g", 5, "late")
    write(instance, [], end(client))
    [found] = admin.list_consumer_group_offsets("g").values()
    assert found is not None
    assert found.offset == 5


@pytest.mark.parametrize("topic", ["t", "u"])
def test_a_topic_that_cannot_be_read_costs_no_other(instance: Instance, topic: str) -> None:
    [a], [b] = opened(instance, "a", topic="t"), opened(instance, "b", topic="u")
    fresh = with_damage(instance, topic)
    ends, slots = [end(a), end(b)], [slot(fresh, "x", "t"), slot(fresh, "y", "u")]
    write(fresh, slots, *ends)

    good = topic == "t"
    outcomes = [one.outcome for one in slots]
    assert isinstance(outcomes[good], Appended)
    assert isinstance(outcomes[not good], CorruptMetadataError)
    assert (told(ends[good]), told(ends[not good])) == (1, CorruptMetadataError)


class TestGroup:
    def test_is_one_entry_and_one_segment(self, instance: Instance) -> None:
        a, b, c, d = opened(instance, "a", "b", "c", "d")
        version = instance.catalog.image().version
        ends = [end(a), end(b, is_commit=False), end(c), end(d, is_commit=False)]
        image = write(instance, [slot(instance, "x")], *ends)

        assert image is not None
        assert (image.version, instance.catalog.image().version) == (version + 1, version + 1)
        rows = instance.log().entries()[-2:]
        assert len({row.log_path for row in rows}) == 1
        assert [(row.base_offset, row.record_count, row.batch_count) for row in rows] == [
            (4, 1, 1),
            (5, 4, 4),
        ]
        assert [told(one) for one in ends] == [1, 1, 1, 1]
        assert instance.values() == {0: ["a", "c", "x"], 1: ["a", "c"]}
        assert instance.values(isolation=READ_UNCOMMITTED)[1] == ["a", "b", "c", "d"]
        assert not image.transactional_ids.open

    def test_has_room_for_its_markers_in_a_full_log(self, instance: Instance) -> None:
        fill(instance.catalog.files.uri, 2**63 - 5)
        a, b, c = (Client(instance, name) for name in "abc")
        for one in (a, b, c):
            one.init()

        assert [a.produce("a"), b.produce("b"), a.produce("+"), c.produce("c")] == [
            2**63 - 5,
            2**63 - 4,
            OffsetOutOfRangeError,
            OffsetOutOfRangeError,
        ]
        ends, refused = [end(a), end(b)], slot(instance, "x")
        write(instance, [refused], *ends)
        assert [told(one) for one in ends] == [1, 1]
        assert isinstance(refused.outcome, OffsetOutOfRangeError)
        assert instance.log().log_end_offset == 2**63 - 1

    def test_its_image_has_all_edits(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        image = write(instance, [slot(instance, "x")], end(client))

        assert image is not None
        topic = image.topic(instance.catalog.topic("t").topic_id)
        assert topic is not None
        assert topic.partition(0).last_stable_offset == 3

    def test_ends_alone_are_a_group(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        asked = end(client)
        write(instance, [], asked)

        assert (told(asked), instance.writer._counts.commits) == (1, 2)
        assert instance.values()[0] == ["a"]

    def test_partitions_of_other_producers_have_other_markers(self, instance: Instance) -> None:
        (a,), (b,) = opened(instance, "a"), opened(instance, "b", topic="u")
        both = Client(instance, "both")
        both.init()
        both.produce("both", 1, "t")
        both.produce("both", 0, "u")
        write(instance, [], end(a), end(both, is_commit=False), end(b))

        assert instance.values("t") == {0: ["a"], 1: ["a"]}
        assert instance.values("u") == {0: ["b"], 1: ["b"]}

    def test_an_end_asked_for_twice_happens_once(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        asked = [end(client), end(client), end(client, is_commit=False)]
        write(instance, [], *asked)

        assert [told(one) for one in asked] == [1, 1, InvalidTxnStateError]
        assert instance.log().log_end_offset == 2

    def test_of_an_end_that_has_landed_nothing_is_written(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        step = client.step
        after = client.commit()
        again = EndOfStep(step, is_commit=True, bumps=True)

        assert write(instance, [], again) is None
        assert again.producer == after


class TestAppends:
    def test_are_found_once_if_no_other_commit_comes_between(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[object] = []

        def found(*arguments: Any) -> Any:
            calls.append(arguments)
            return ending.appends_of(*arguments)

        (client,) = opened(instance, "a")
        monkeypatch.setattr(end_group, "appends_of", found)
        write(instance, [], end(client))

        assert len(calls) == 1

    def test_are_found_again_behind_batches(self, instance: Instance) -> None:
        a, b = opened(instance, "a", "b")
        write(instance, [slot(instance, "x")], end(a), end(b, is_commit=False))

        assert [one.base_offset for one in instance.log().entries()[-2:]] == [2, 3]


class TestRefused:
    def test_an_end_stops_neither_batches_nor_others(self, instance: Instance) -> None:
        a, b = opened(instance, "a", "b")
        old = end(a)
        Client(instance, "a").init()  # fences it
        batch, other = slot(instance, "x"), end(b)
        write(instance, [batch], old, other)

        assert [told(old), told(other)] == [ProducerFencedError, 1]
        assert instance.values()[0] == ["b", "x"]

    def test_alone_it_commits_nothing(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        old = end(client)
        Client(instance, "a").init()

        assert write(instance, [], old) is None
        assert told(old) is ProducerFencedError

    def test_a_batch_stops_no_end(self, instance: Instance) -> None:
        (client,) = opened(instance, "a")
        batch, asked = (
            slot(instance, "x", producer_id=5, base_sequence=0, attributes=0x10),
            end(client),
        )
        write(instance, [batch], asked)

        assert (type(batch.outcome), told(asked)) == (InvalidTxnStateError, 1)

    def test_nobody_is_told_success_if_nothing_can_be_written(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise StorageError("the disk is full")

        (client,) = opened(instance, "a")
        batch, asked = slot(instance, "x"), end(client)
        with monkeypatch.context() as patched:
            patched.setattr(SharedSegment, "put", full)
            write(instance, [batch], asked)

        assert (type(batch.outcome), told(asked)) == (StorageError, StorageError)
        assert instance.values(isolation=READ_UNCOMMITTED)[0] == ["a"]

    def test_a_segment_that_is_not_durable_is_named_by_no_entry(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(_: SharedSegment) -> None:
            raise StorageError("an I/O error")

        (client,) = opened(instance, "a")
        batch, asked = slot(instance, "x"), end(client)
        version = instance.catalog.image().version
        with monkeypatch.context() as patched:
            patched.setattr(SharedSegment, "sync", lost)
            write(instance, [batch], asked)

        assert (type(batch.outcome), told(asked)) == (StorageError, StorageError)
        assert instance.catalog.image().version == version
        assert client.commit().epoch == 1


class TestWrittenAgain:
    def test_with_a_batch_that_adds_a_topic(self, instance: Instance) -> None:
        """Goal: the end of a transaction has a marker in all its partitions."""
        (client,) = opened(instance, "a")
        batch, asked = of(client, "late", "u"), end(client)
        write(instance, [batch], asked)

        assert told(asked) == 1
        assert instance.values("u")[0] == ["late"]

    def test_if_the_files_may_be_gone(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (client,) = opened(instance, "a")
        edit_of, refusals = ending.edit_of, [LateWriterError("before the horizon")]

        def late(*arguments: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return edit_of(*arguments)

        monkeypatch.setattr(end_group, "edit_of", late)
        asked = end(client)
        write(instance, [], asked)

        assert told(asked) == 1

    def test_is_given_up_without_the_batches(
        self, instance: Instance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_small = AppendWriter._write_small

        def without_places(*arguments: Any) -> Any:
            write_small(*arguments)
            return {}

        (client,) = opened(instance, "a")
        monkeypatch.setattr(AppendWriter, "_write_small", without_places)
        batch, asked = slot(instance, "x"), end(client)
        write(instance, [batch], asked)

        assert told(asked) is CommitConflictError
        assert instance.values(isolation=READ_UNCOMMITTED)[0] == ["a", "x"]


class TestQueue:
    def test_ends_and_batches_of_clients_share_a_commit(self, instance: Instance) -> None:
        a, b = opened(instance, "a", "b")
        version = instance.catalog.image().version
        ends = [end(a), end(b)]

        async def main() -> None:
            commit = AppendCommit(instance.catalog, AppendLimits(), EndGroup)
            one = slot(instance, "x")
            waiting = [commit.join(ends[0]), commit.append([one]), commit.join(ends[1])]
            found = await asyncio.gather(*waiting)
            assert [len(one) for one in found] == [0, 1, 0]
            await commit.close()

        asyncio.run(main())

        assert instance.catalog.image().version == version + 1
        assert instance.values()[0] == ["a", "b", "x"]
