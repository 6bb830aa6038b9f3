"""A naive log in lock step with every door: random steps, and equal answers after each.

Every acknowledged record is at its offset, in order, once: whichever of two gateways, REST or the
library it went in by, whatever retention, compaction, merges, deletions and restarts come between,
and whichever door it is read by.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sparklog.admin import AdminClient, NewTopic
from sparklog.clock import SystemClock
from sparklog.errors import ErrorCode
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.retention import retention
from sparklog.maintenance.runner import FAILED
from sparklog.metadata.state.producers import SequencedBatch
from sparklog.model import Codec
from tests.maintenance import run
from tests.naive import log as naive
from tests.naive.producers import NaiveProducer
from tests.naive.records import Record
from tests.naive.served import NaivePartition
from tests.wire.doors import INSTANCES, Doors, batch
from tests.wire.fetching import MANY, Part
from tests.wire.fetching import VERSIONS as FETCHES
from tests.wire.test_list_offsets import EARLIEST, LATEST, NEWEST_TIME
from tests.wire.test_produce import SERVED

HOUR_MS = 3_600_000
PARTITIONS = 2
TOPICS: dict[str, dict[str, object]] = {
    "kept": {"retention.ms": HOUR_MS},
    "keyed": {"cleanup.policy": "compact", "retention.ms": -1},
}
PLACES = st.tuples(st.sampled_from(sorted(TOPICS)), st.integers(0, PARTITIONS - 1))
NUMBERS = st.integers(0, INSTANCES - 1)
SHAPES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), min_size=1)
"""For each record: its key, how old it is, and whether it has a value."""
CODECS = st.sampled_from(sorted(Codec))
SIZES = st.sampled_from([0, 1, 100, 300, 1000, MANY])
SENDING = ("next", "again", "gap", "next epoch", "last epoch")
REFUSED: dict[str | int, int] = {
    "epoch": ErrorCode.INVALID_PRODUCER_EPOCH,
    "sequence": ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}

Place = tuple[str, int]
Shape = Sequence[tuple[int, int, bool]]


class Sender:
    """An idempotent producer of one partition, and what it has sent."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.naive = NaiveProducer()
        self.epoch = self.next = 0
        self.sent: list[tuple[SequencedBatch, bytes]] = []


class LockStep(RuleBasedStateMachine):
    """The steps. One log dir for all of them, with a topic that is kept and one that is compacted.

    Subclasses may have more doors, more steps, or more records in a batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lock-step-"))
        log_dir = self.folder / "log"
        wanted = [NewTopic(name, PARTITIONS, config) for name, config in TOPICS.items()]
        self.topics = {one.name: one for one in AdminClient(log_dir).create_topics(wanted)}
        self.doors = Doors(log_dir)
        self.now_ms = SystemClock().now_ms()
        self.logs = {(name, n): NaivePartition() for name in TOPICS for n in range(PARTITIONS)}
        self.senders: dict[tuple[Place, int], Sender] = {}
        self.count = 0

    def teardown(self) -> None:
        try:
            for place in self.logs:
                for number in range(INSTANCES):
                    self.is_read_by_a_gateway(place, number, FETCHES[-1], MANY, 0)
                    self.offsets_are_listed(place, number, 0)
                self.is_read_by_rest(place, 10_000, 0)
                self.is_read_by_the_library(place)
        finally:
            self.doors.close()
            shutil.rmtree(self.folder)

    def records(self, shape: Shape) -> list[Record]:
        """New records: each value is another number."""
        found = []
        for key, age, has_value in shape:
            self.count += 1
            value = b"%d" % self.count if has_value else None
            time = self.now_ms - (age % 2) * 2 * HOUR_MS - age
            found.append(Record(0, time, b"key %d" % key, value))
        return found

    # -------------------------------------------------------------------------------- records in

    @rule(place=PLACES, number=NUMBERS, shape=SHAPES, codec=CODECS, version=st.sampled_from(SERVED))
    def a_gateway_takes(
        self, place: Place, number: int, shape: Shape, codec: Codec, version: int
    ) -> None:
        records, (name, partition) = self.records(shape), place
        data = batch(records, codec if version >= 7 else Codec.GZIP)
        landed = self.doors.instances[number].send(self.topics[name], partition, data, version)
        assert landed == (0, self.logs[place].append(records))

    @rule(place=PLACES, shape=SHAPES)
    def rest_takes(self, place: Place, shape: Shape) -> None:
        records = self.records(shape)
        first = self.doors.produce_by_rest(*place, records)
        assert first == self.logs[place].append(records)

    @rule(place=PLACES, shape=SHAPES)
    def the_library_takes(self, place: Place, shape: Shape) -> None:
        records = self.records(shape)
        first = self.doors.produce_by_library(*place, records)
        assert first == self.logs[place].append(records)

    @rule(
        place=PLACES,
        numbers=st.tuples(NUMBERS, st.integers(0, 1)),
        shape=SHAPES,
        how=st.sampled_from(SENDING),
        which=st.integers(0, 6),
    )
    def an_idempotent_producer_sends(
        self, place: Place, numbers: tuple[int, int], shape: Shape, how: str, which: int
    ) -> None:
        """To any instance: what is next, what was sent before, or what is refused."""
        number, producer = numbers
        instance, (name, partition) = self.doors.instances[number], place
        sender = self.senders.get((place, producer))
        if sender is None:
            sender = self.senders[place, producer] = Sender(instance.new_producer())
        records = self.records(shape)
        wanted, data = self.sequenced(place, sender, records, how, which)
        count = len(sender.naive.taken)
        expected = sender.naive.send(wanted)
        error, offset = instance.send(self.topics[name], partition, data, SERVED[-1])
        assert error == REFUSED.get(expected, 0)
        if not error:
            assert offset == expected
        if len(sender.naive.taken) > count:
            self.logs[place].append(records)
            sender.epoch, sender.next = wanted.epoch, wanted.last_sequence + 1
            sender.sent.append((wanted, data))

    def sequenced(
        self, place: Place, sender: Sender, records: Sequence[Record], how: str, which: int
    ) -> tuple[SequencedBatch, bytes]:
        """A batch as it is sent: how it is numbered, and its bytes."""
        if how == "again" and sender.sent:
            return sender.sent[-1 - which % len(sender.sent)]
        epoch = max(sender.epoch + {"next epoch": 1, "last epoch": -1}.get(how, 0), 0)
        first = sender.next + (how == "gap") if epoch == sender.epoch else 0
        last, end = first + len(records) - 1, self.logs[place].end + len(records) - 1
        fields = {"producer_epoch": epoch, "base_sequence": first}
        data = batch(records, Codec.NONE, producer_id=sender.producer_id, **fields)
        return SequencedBatch(sender.producer_id, epoch, first, last, end, 0), data

    @rule(place=PLACES, shapes=st.tuples(SHAPES, SHAPES, SHAPES, SHAPES))
    def all_doors_take_at_once(self, place: Place, shapes: Sequence[Shape]) -> None:
        """While tails are merged. What each sent is together, and nothing is between or lost."""
        sent = [self.records(shape) for shape in shapes]
        doors = [*map(self.gateway_door, range(INSTANCES))]
        doors += [self.doors.produce_by_rest, self.doors.produce_by_library]
        with ThreadPoolExecutor(len(doors) + 1) as pool:
            merging = pool.submit(self.doors.instances[0].running.tidying.tidy_topics)
            landed = [
                pool.submit(door, *place, records)
                for door, records in zip(doors, sent, strict=True)
            ]
            firsts = [one.result() for one in landed]
            merging.result()
        for first, records in sorted(zip(firsts, sent, strict=True)):
            assert first == self.logs[place].append(records)

    def gateway_door(self, number: int) -> Callable[[str, int, Sequence[Record]], int]:
        def take(topic: str, partition: int, records: Sequence[Record]) -> int:
            data, version = batch(records, Codec.NONE), SERVED[-1]
            instance = self.doors.instances[number]
            error, first = instance.send(self.topics[topic], partition, data, version)
            assert error == 0
            return first

        return take

    # ------------------------------------------------------------------------------- records out

    @rule(
        place=PLACES,
        number=NUMBERS,
        version=st.sampled_from(FETCHES),
        max_bytes=SIZES,
        share=st.floats(0, 1),
    )
    def is_read_by_a_gateway(
        self, place: Place, number: int, version: int, max_bytes: int, share: float
    ) -> None:
        (name, partition), log = place, self.logs[place]
        start = self.offset_in(log, share)
        found = self.doors.read_by_gateway(
            number, self.topics[name], Part(partition, start, max_bytes), version
        )
        assert found == log.behind(start)

    @rule(place=PLACES, limit=st.integers(1, 9), share=st.floats(0, 1))
    def is_read_by_rest(self, place: Place, limit: int, share: float) -> None:
        log = self.logs[place]
        start = self.offset_in(log, share)
        assert self.doors.read_by_rest(*place, start, limit) == log.behind(start)

    @rule(place=PLACES)
    def is_read_by_the_library(self, place: Place) -> None:
        assert self.doors.read_by_library(*place) == self.logs[place].records

    @rule(
        place=PLACES, number=NUMBERS, distance=st.integers(1, 3), version=st.sampled_from(FETCHES)
    )
    def nothing_is_outside_of_the_log(
        self, place: Place, number: int, distance: int, version: int
    ) -> None:
        (name, partition), log = place, self.logs[place]
        for offset in (log.start - distance, log.end + distance):
            asked = Part(partition, offset)
            answer = self.doors.instances[number].read(self.topics[name], version, asked)
            assert int(answer.error_code) == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(place=PLACES, number=NUMBERS, age=st.integers(0, 6))
    def offsets_are_listed(self, place: Place, number: int, age: int) -> None:
        (name, partition), log = place, self.logs[place]
        time = self.now_ms - (age % 2) * 2 * HOUR_MS - age
        pairs = [naive.Record(one.offset, one.timestamp) for one in log.records]
        by_time = naive.first_at_or_after(pairs, time, log.start)
        newest = naive.newest(pairs)
        for asked, expected in {
            EARLIEST: (log.start, -1),
            LATEST: (log.end, -1),
            NEWEST_TIME: (newest.offset, newest.timestamp),
            time: (by_time.offset, by_time.timestamp),
        }.items():
            found = self.doors.instances[number].offset(self.topics[name], partition, asked)
            assert found == expected, (asked, found, expected)

    def offset_in(self, log: NaivePartition, share: float) -> int:
        return log.start + round(share * (log.end - log.start))

    # -------------------------------------------------------------------------- what comes between

    @rule(partition=st.integers(0, PARTITIONS - 1), number=NUMBERS, share=st.floats(0, 1))
    def records_are_deleted(self, partition: int, number: int, share: float) -> None:
        log = self.logs["kept", partition]
        offset = self.offset_in(log, share)
        assert self.doors.instances[number].delete(self.topics["kept"], partition, offset) == offset
        log.delete_before(offset)

    @rule()
    def retention_runs(self) -> None:
        self.run(retention)
        for place, log in self.logs.items():
            start, _ = self.doors.instances[0].offset(self.topics[place[0]], place[1], EARLIEST)
            oldest_ms = self.now_ms - HOUR_MS if place[0] == "kept" else 0
            assert log.may_start_at(start, oldest_ms), (log.start, start)
            log.delete_before(start)

    @rule()
    def compaction_runs(self) -> None:
        self.run(compact, force=True, reindex=False)
        for place, log in self.logs.items():
            if place[0] == "keyed":
                assert log.compact(self.doors.read_by_library(*place))

    @rule(seal=st.booleans())
    def segments_are_merged(self, seal: bool) -> None:
        self.run(merge_segments, seal=seal)

    @rule(number=NUMBERS)
    def tails_are_merged(self, number: int) -> None:
        self.doors.instances[number].running.tidying.tidy_topics()

    @rule(number=NUMBERS)
    def an_instance_restarts(self, number: int) -> None:
        self.doors.restart(number)

    def run(self, job: Any, **options: Any) -> None:
        code, _ = run(job, self.doors.log_dir, **options)
        assert code != FAILED
