"""A producer's batch lands once, whichever instance takes its retries, and in its order."""

import errno
import os
import sys

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    CommitConflictError,
    CorruptRecordError,
    InvalidProducerEpochError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    SparklogError,
    StorageFullError,
    UnknownTopicError,
)
from sparklog.group_commit.append_slots import Append, Appended, Slot
from tests.appends import Appender
from tests.client_batches import NOW_MS, client_batch
from tests.failing import failing
from tests.logs import FOREVER, OWN_FILES, fill, image, log_files, values


def batch(sequence: int, *records: str, producer: int = 7, epoch: int = 0) -> bytes:
    """A producer's batch; its only record is its sequence, if nothing else is said."""
    return client_batch(
        *(records or [str(sequence)]),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def to(partition: int, *batches: bytes, topic: str = "t") -> list[tuple[str, int, bytes]]:
    """The batches, for one partition."""
    return [(topic, partition, one) for one in batches]


@pytest.fixture
def one(log_dir: str) -> Appender:
    """An instance."""
    return Appender(log_dir)


@pytest.fixture
def other(log_dir: str) -> Appender:
    """Another instance over the same log dir."""
    return Appender(log_dir)


class TestRetries:
    def test_to_the_same_instance_get_the_same_offset(self, one: Appender, log_dir: str) -> None:
        one.append(*to(0, batch(0, "a", "b"), batch(2, "c")))
        version = image(log_dir).version

        assert one.append(*to(0, batch(2, "c"), batch(0, "a", "b"))) == [2, 0]
        assert values(log_dir) == {0: ["a", "b", "c"]}
        assert image(log_dir).version == version

    def test_to_another_instance_do_as_well(self, one: Appender, other: Appender) -> None:
        one.append(*to(0, batch(0), batch(1)))

        assert other.append(*to(0, batch(1), batch(2))) == [1, 2]

    def test_in_one_group(self, one: Appender, log_dir: str) -> None:
        assert one.append(*to(0, batch(0), batch(0), batch(1), batch(0))) == [0, 0, 1, 0]
        assert values(log_dir) == {0: ["0", "1"]}

    def test_are_known_a_partition(self, one: Appender) -> None:
        assert one.append(("t", 0, batch(0)), ("t", 1, batch(0)), ("t", 1, batch(0))) == [0, 0, 0]

    def test_of_the_last_five_batches_alone_are_known(self, one: Appender) -> None:
        one.append(*to(0, *map(batch, range(6))))

        assert one.append(*to(0, batch(1), batch(0))) == [1, OutOfOrderSequenceError]

    def test_are_known_in_a_full_log(self, one: Appender, log_dir: str) -> None:
        fill(log_dir, 2**63 - 3)
        found = one.append(*to(0, batch(0, "a", "b"), batch(0, "a", "b"), batch(2)))

        assert found == [2**63 - 3, 2**63 - 3, OffsetOutOfRangeError]
        assert one.append(*to(0, batch(0, "a", "b"))) == [2**63 - 3]

    def test_are_not_counted(self, one: Appender) -> None:
        for _ in range(2):
            one.append(*to(0, batch(0), batch(0)))

        assert (one.counts.batches, one.counts.commits) == (1, 1)

    def test_have_the_time_of_the_append(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        config = {**FOREVER, "message.timestamp.type": "LogAppendTime"}
        AdminClient(log_dir).create_topics([NewTopic("timed", 1, config)])
        one.append(*to(0, batch(0), topic="timed"))
        other.catalog.clock.advance(9)  # type: ignore[attr-defined] # it is a ManualClock

        assert other.outcomes(*to(0, batch(0), topic="timed")) == [Appended(0, NOW_MS, 0)]


class TestOrder:
    def test_what_does_not_follow_is_refused(self, one: Appender, log_dir: str) -> None:
        found = one.append(*to(0, batch(0), batch(2), batch(3), batch(1)))

        assert found == [0, OutOfOrderSequenceError, OutOfOrderSequenceError, 1]
        assert values(log_dir) == {0: ["0", "1"]}

    def test_what_follows_a_refused_batch_is_refused(self, one: Appender) -> None:
        found = one.append(*to(0, batch(0), batch(1)[:-1] + b"!", batch(2)))

        assert found[0] == 0
        assert found[2] is OutOfOrderSequenceError

    def test_of_one_producer_does_not_concern_others(self, one: Appender) -> None:
        found = one.append(
            *to(
                0, batch(0), batch(5, producer=8), batch(9), batch(6, producer=8), client_batch("x")
            )
        )

        assert found == [0, 1, OutOfOrderSequenceError, 2, 3]

    def test_goes_from_the_last_sequence_to_zero(self, one: Appender) -> None:
        last = 2**31 - 1

        assert one.append(*to(0, batch(last, "a", "b"), batch(1), batch(last, "a", "b"))) == [
            0,
            2,
            0,
        ]

    def test_an_epoch_that_is_over_is_fenced(self, one: Appender) -> None:
        found = one.append(*to(0, batch(0, epoch=3), batch(1, epoch=2)))

        assert found == [0, InvalidProducerEpochError]

    def test_a_new_epoch_begins_at_zero(self, one: Appender) -> None:
        found = one.append(
            *to(0, batch(0), batch(1, epoch=1), batch(0, epoch=1), batch(0, epoch=1))
        )

        assert found == [0, OutOfOrderSequenceError, 1, 1]


class TestRaces:
    """Another instance appends while one has written its file and not committed it."""

    def meanwhile(self, one: Appender, other: Appender, *batches: bytes, topic: str = "t") -> None:
        one.meanwhile.append(lambda: other.append(*to(0, *batches, topic=topic)))

    def rows(self, log_dir: str, topic: str = "t") -> list[tuple[int, int]]:
        return [
            (entry.base_offset, entry.next_offset)
            for entry in image(log_dir, topic).partition(0).entries()
        ]

    def test_a_slice_is_split_around_what_landed(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        self.meanwhile(one, other, batch(0), batch(1))
        batches = [client_batch("a", "b"), batch(0), batch(1), client_batch("c"), batch(2)]

        assert one.append(*to(0, *batches)) == [2, 0, 1, 4, 5]
        assert values(log_dir) == {0: ["0", "1", "a", "b", "c", "2"]}
        assert self.rows(log_dir) == [(0, 2), (2, 4), (4, 6)]

    def test_all_of_it_has_landed(self, one: Appender, other: Appender, log_dir: str) -> None:
        self.meanwhile(one, other, batch(0), batch(1))

        assert one.append(*to(0, batch(0), batch(1)), ("t", 1, client_batch("a"))) == [0, 1, 0]
        assert values(log_dir) == {0: ["0", "1"], 1: ["a"]}

    def test_rows_say_what_their_batches_say(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        self.meanwhile(one, other, batch(0))
        one.append(*to(0, batch(0, producer=5), batch(0), batch(0, "x", "y", producer=6)))
        entries = image(log_dir).partition(0).entries()

        assert [entry.producer_ids for entry in entries] == [(7,), (5,), (6,)]
        assert [entry.record_count for entry in entries] == [1, 1, 2]
        assert [entry.max_timestamp_delta for entry in entries] == [0, 0, 1]

    def test_an_epoch_that_is_over_since_then_is_fenced(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        self.meanwhile(one, other, batch(0, epoch=1))

        assert one.append(*to(0, batch(0), client_batch("a"))) == [InvalidProducerEpochError, 1]

    def test_segments_of_its_own_are_written_again(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        AdminClient(log_dir).create_topics([NewTopic("own", 1, {**FOREVER, **OWN_FILES})])
        self.meanwhile(one, other, batch(0), topic="own")

        assert one.append(*to(0, batch(0), batch(1), topic="own")) == [0, 1]
        assert values(log_dir, "own") == {0: ["0", "1"]}
        assert len(log_files(log_dir)) == 3

    def test_segments_of_its_own_that_landed_elsewhere_are_no_part_of_it(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        AdminClient(log_dir).create_topics([NewTopic("own", 1, {**FOREVER, **OWN_FILES})])
        self.meanwhile(one, other, batch(0), batch(1), topic="own")

        assert one.append(*to(0, batch(0), batch(1), topic="own")) == [0, 1]
        assert self.rows(log_dir, "own") == [(0, 2)]

    def test_a_batch_that_follows_by_now_is_written_after_all(
        self, one: Appender, other: Appender, log_dir: str
    ) -> None:
        other.append(*to(0, batch(0)))
        self.meanwhile(one, other, batch(1))

        assert one.append(*to(0, batch(2), client_batch("a"))) == [2, 3]
        assert values(log_dir) == {0: ["0", "1", "2", "a"]}

    def test_again_and_again_are_a_conflict(
        self, one: Appender, other: Appender, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other.append(*to(0, batch(0)))
        self.meanwhile(one, other, batch(1))
        monkeypatch.setattr("sparklog.group_commit.append_writer.PLANS_MAX", 1)

        assert one.append(*to(0, batch(2)), ("t", 1, client_batch("a"))) == [CommitConflictError, 0]


@pytest.mark.usefixtures("no_collector")
class TestMemoryOfRefusedBatches:
    """Goal: a refused batch is freed with its answer. Method: Python's collector does not run."""

    def refused(self, one: Appender, refused: bytes, *, by: type[SparklogError]) -> None:
        """Have a batch refused, and look for others who hold it."""
        before = sys.getrefcount(refused)

        assert one.append(*to(0, refused)) == [by]
        assert sys.getrefcount(refused) == before

    def test_that_is_damaged(self, one: Appender) -> None:
        self.refused(one, batch(0)[:-1] + b"!", by=CorruptRecordError)

    def test_that_does_not_follow(self, one: Appender) -> None:
        one.append(*to(0, batch(0)))

        self.refused(one, batch(2), by=OutOfOrderSequenceError)

    @pytest.mark.parametrize(
        "step",
        [
            "storage.local.LocalFiles.create",
            "log_writer.SharedSegment.sync",
            "storage.local.LocalFiles.put_new",
        ],
    )
    def test_for_which_there_is_no_space(
        self, one: Appender, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        """The disk is full for its segment, for the segment's sync, or for the entry."""
        monkeypatch.setattr(f"sparklog.{step}", failing(StorageFullError, "no space left"))

        self.refused(one, batch(0), by=StorageFullError)

    def test_whose_sync_fails(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        sync = os.fsync

        def full(descriptor: int) -> None:
            if "__shared" in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", full)

        self.refused(Appender(log_dir, flush=True), batch(0), by=StorageFullError)

    def test_of_a_topic_that_is_deleted_meanwhile(self, one: Appender, log_dir: str) -> None:
        topic_id = one.topic_id("t")
        one.meanwhile.append(lambda: AdminClient(log_dir).delete_topics(["t"]))
        refused = batch(0)
        before = sys.getrefcount(refused)
        slot = Slot(Append(topic_id, 0, refused))
        one.writer.write([slot])

        assert isinstance(slot.outcome, UnknownTopicError)
        del slot
        assert sys.getrefcount(refused) == before


def test_a_bug_is_raised(one: Appender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sparklog.group_commit.append_topics.TopicAppends.placed", failing(ZeroDivisionError)
    )

    with pytest.raises(ZeroDivisionError):
        one.append(*to(0, batch(0)))
