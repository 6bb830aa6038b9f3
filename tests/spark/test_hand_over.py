"""From a running cluster to a log and back to a cluster, every record at its offset.

A stream mirrors a broker round by round; then producers write to the log; then another broker
mounts it (docs/migrating-from-kafka.md).
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.spark import produce
from tests.kafka.broker import Broker, log_end_offsets, running_broker
from tests.kafka.client import Client, Record, read_topic
from tests.kafka.scenarios import T0, varied_records
from tests.logs import catalog, new_topic, rows
from tests.spark.frames import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

DAY_MS = 86_400_000
KEEP = {"retention.ms": "-1"}
COMPACT = {
    **KEEP,
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.01",
}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (3, KEEP),
    "accounts": (1, COMPACT),
    "payments": (1, KEEP),
}
"""Plain records; a compacted topic, which has gaps; transactions, whose markers are gaps."""

Found = dict[tuple[str, int, int], Record]
"""Records by topic, partition and offset."""


class HandOver:
    """A broker, the log that mirrors it, and what the broker held whenever it was mirrored."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.log_dir = str(folder / "log")
        self.source: Found = {}
        for name, (partitions, config) in TOPICS.items():
            broker.create_topic(name, partitions, config)
            new_topic(self.log_dir, name, partitions, config)

    def mirror(self, checkpoint: str = "checkpoint", **options: str) -> None:
        """Copy what is new, with the stream of the document."""
        given = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(TOPICS),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            **options,
        }
        source = self.spark.readStream.format("kafka").options(**given).load()
        sink = source.writeStream.format("sparklog").option("allowOffsetGaps", "true")
        sink = sink.option("checkpointLocation", str(self.folder / checkpoint))
        sink.trigger(availableNow=True).start(self.log_dir).awaitTermination()

    def round(self, number: int) -> None:
        """Produce to every topic, let the broker compact, and mirror."""
        for partition in range(3):
            Client(self.broker).send("orders", varied_records(40 + number), partition)
        self._compacted(number)
        self._transactions(number)
        self.note()
        self.mirror(minPartitions=str(5 * number))

    def note(self) -> None:
        """Keep what the broker holds now; what it has compacted away stays noted."""
        self.source |= self.served(self.broker)

    def _compacted(self, number: int) -> None:
        """Two days of the same keys: the later one keeps the cleaner off itself alone."""
        for day in (2 * number, 2 * number + 1):
            times = (T0 + day * DAY_MS + i for i in range(20))
            records = [Record(b"k%d" % (at % 7), b"%d" % at, at) for at in times]
            first, *_ = Client(self.broker).send("accounts", records)
        self.broker.await_cleaner("accounts", first)

    def _transactions(self, number: int) -> None:
        client = Client(self.broker, {"transactional.id": f"round-{number}"})
        for end in (client.commit, client.abort, client.commit):
            client.begin()
            client.send("payments", varied_records(5))
            end()

    def served(self, broker: Broker) -> Found:
        """What consumers get of a broker."""
        return {
            (name, number, offset): record
            for name, (partitions, _) in TOPICS.items()
            for number in range(partitions)
            for offset, record in read_topic(broker, name, number)
        }

    def ours(self) -> Found:
        """What stands in the log."""
        return {
            (name, number, row.offset): Record(
                row.key, row.value, row.timestamp, tuple(row.headers or ())
            )
            for name in TOPICS
            for number, found in rows(self.log_dir, name).items()
            for row in found
        }

    def ends(self) -> dict[str, dict[int, int]]:
        """The log end offsets."""
        found = catalog(self.log_dir)
        return {
            name: {
                number: found.partition(found.topic(name), number).log_end_offset
                for number in range(partitions)
            }
            for name, (partitions, _) in TOPICS.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What was seen on the way."""

    source: Found
    mirrored: Found
    ends: dict[str, dict[int, int]]
    source_ends: dict[str, dict[int, int]]
    refusal: str
    after_refusal: Found
    resumed: tuple[Found, Found]
    switched: dict[int, int]
    end: Found
    served: Found
    next_offset: int


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Three rounds, broker and stream starting anew in between; the switch; the way back."""
    folder = tmp_path_factory.mktemp("hand-over")
    with running_broker(folder / "source") as broker:
        found = HandOver(spark, broker, folder)
        for number in (1, 2, 3):
            found.round(number)
            broker.stop()
            broker.start()
        seen: dict[str, Any] = {
            "source": dict(found.source),
            "mirrored": found.ours(),
            "ends": found.ends(),
            "source_ends": {name: log_end_offsets(broker.bootstrap, name) for name in TOPICS},
            "refusal": refusal_of_a_mirror_from_the_beginning(found),
            "after_refusal": found.ours(),
            "resumed": resumed_without_its_checkpoint(found),
        }
    df = numbers(spark, 30, "cast(id % 3 as int) partition")
    ranges = produce(df, found.log_dir, "orders").ranges
    switched = {key.partition: got.start for key, got in ranges.items()}
    return Story(**seen, switched=switched, end=found.ours(), **served_by_another(found))


def refusal_of_a_mirror_from_the_beginning(found: HandOver) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        found.mirror("lost")
    return str(caught.value)


def resumed_without_its_checkpoint(found: HandOver) -> tuple[Found, Found]:
    """The source and the log after a new stream has gone on at the log end."""
    starts = {
        name: {str(number): end for number, end in ends.items()}
        for name, ends in found.ends().items()
    }
    Client(found.broker).send("orders", varied_records(3), 1)
    found.note()
    found.mirror("new", startingOffsets=json.dumps(starts))
    return dict(found.source), found.ours()


def served_by_another(found: HandOver) -> dict[str, Any]:
    """What a broker serves that has mounted the log, and the offset that it gives next."""
    with running_broker(found.folder / "target") as broker:
        for name, (partitions, _) in TOPICS.items():
            broker.create_topic(name, partitions, KEEP)
        broker.stop()
        options = ExportOptions(topics=[*TOPICS])
        export_into(catalog(found.log_dir), str(broker.data_dir), options)
        broker.start()
        served = found.served(broker)
        (offset,) = Client(broker).send("orders", [Record(b"k", b"v", T0)])
    return {"served": served, "next_offset": offset}


class TestMirror:
    def test_has_every_record_at_its_offset(self, story: Story) -> None:
        assert story.mirrored == story.source

    def test_had_gaps_to_keep(self, story: Story) -> None:
        for name in ("accounts", "payments"):
            offsets = [offset for topic, _, offset in story.source if topic == name]

            assert max(offsets) + 1 > len(offsets) + 10

    def test_ends_behind_the_last_record(self, story: Story) -> None:
        for name in ("orders", "accounts"):
            assert story.ends[name] == story.source_ends[name]
        # The last offset of the source is that of a marker.
        assert story.ends["payments"][0] == story.source_ends["payments"][0] - 1

    def test_that_begins_again_changes_nothing(self, story: Story) -> None:
        assert re.search(r"a record has offset \d+, expected is \d+,", story.refusal)
        assert story.after_refusal == story.mirrored

    def test_goes_on_from_the_log_end_without_its_checkpoint(self, story: Story) -> None:
        source, ours = story.resumed

        assert ours == source
        assert len(ours) == len(story.mirrored) + 3


class TestSwitch:
    def test_goes_on_behind_the_last_record(self, story: Story) -> None:
        source, _ = story.resumed
        last = {part: at for (name, part, at) in sorted(source) if name == "orders"}

        assert story.switched == {part: at + 1 for part, at in last.items()}


class TestWayBack:
    def test_another_cluster_serves_all_of_it(self, story: Story) -> None:
        assert story.served == story.end
        assert len(story.end) == len(story.resumed[1]) + 30

    def test_it_goes_on_behind_that(self, story: Story) -> None:
        assert story.next_offset == story.switched[0] + 10
