"""__consumer_offsets: a topic like others, but only coordinators append to it.

A coordinator claims a partition by an edit that raises the partition's leader epoch, and then reads
the partition. Every append carries the epoch, so appends of a former coordinator are refused.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

from sparklog.clock import Clock
from sparklog.coordinator.batches import records_of
from sparklog.coordinator.records import OFFSETS_TOPIC, Record
from sparklog.garbage import seldom_collected
from sparklog.log.names import random_uuid
from sparklog.log_reader import TopicReader
from sparklog.log_reader.raw import PIECE_BYTES, raw_batches
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.topics import live_topic, with_new
from sparklog.metadata.state.edit import Done, Edit, PartitionState, TopicEdit
from sparklog.metadata.state.image import Image
from sparklog.model import READ_COMMITTED, TopicDescription

CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
"""As in Kafka's GroupCoordinatorConfig.offsetsTopicConfigs; compression.type is producer."""
NUM_PARTITIONS: Final = 50
"""The default of offsets.topic.num.partitions."""
READ_BYTES_MAX: Final = 2**62


def offsets_topic(catalog: Catalog, clock: Clock, num_partitions: int) -> TopicDescription:
    """Return the topic; create it with `num_partitions` if it does not exist."""
    wanted = TopicDescription(
        OFFSETS_TOPIC, random_uuid(os.urandom(16)), num_partitions, CONFIGS, clock.now_ms()
    )

    def plan(image: Image) -> Edit | Done:
        return Done() if OFFSETS_TOPIC in image.names else with_new(image, [wanted])

    return catalog.log.commit(plan).image.names[OFFSETS_TOPIC]


def claim(catalog: Catalog, topic: TopicDescription, partition: int) -> int | None:
    """Raise a partition's leader epoch; return the new one.

    Returns None if another process has claimed the partition meanwhile. Raises UnknownTopicError.
    """
    topic_id = topic.topic_id
    seen = catalog.topic_image(topic).partition(partition).leader_epoch

    def plan(image: Image) -> Edit | Done:
        if live_topic(image, topic_id).partition(partition).leader_epoch != seen:
            return Done()
        state = PartitionState(leader_epoch=seen + 1)
        return Edit(
            operation="CLAIM COORDINATOR",
            parameters={"topics": topic.name, "partition": str(partition)},
            topics={topic_id: TopicEdit(partitions={partition: state})},
        )

    committed = catalog.log.commit(plan, [topic_id])
    return None if committed.edit is None else seen + 1


def newest(catalog: Catalog, topic: TopicDescription) -> TopicReader:
    """Return a reader of the topic as it is now. Raises ForgottenTopicError."""
    return TopicReader(catalog.files, topic, catalog.topic_image(topic))


def load(
    reader: TopicReader,
    partition: int,
    replay: Callable[[bytes, bytes | None], None],
    start: int = 0,
) -> int:
    """Call `replay` with each record of a partition from `start` on; return the log end offset.

    Records of aborted transactions are left out. Raises CorruptRecordError, MissingFileError.
    """
    log = reader.partition(partition)
    start, end = max(start, log.log_start_offset), log.log_end_offset
    with seldom_collected():
        for record in _records(reader, partition, start, end):
            replay(*record)
    return end


def records(
    catalog: Catalog, topic: TopicDescription, partition: int, start: int, end: int
) -> list[Record]:
    """Return the records of a partition in [start, end). The rest is as for `load`."""
    reader = newest(catalog, topic)
    start = max(start, reader.partition(partition).log_start_offset)
    return list(_records(reader, partition, start, end))


def _records(reader: TopicReader, partition: int, start: int, end: int) -> Iterator[Record]:
    if start < end:
        slices = reader.slices(partition, start, end)
        pieces = raw_batches(
            reader.files, reader.directory, slices, READ_BYTES_MAX, PIECE_BYTES, READ_COMMITTED
        )
        yield from records_of(pieces, start, end)
