"""Groups in the log of a log dir, as a coordinator leaves them."""

from collections.abc import Sequence

from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import Record
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.catalog import Catalog
from tests.group_language import GROUP, START_MS


def append_records(catalog: Catalog, records: Sequence[Record], group: str = GROUP) -> None:
    """Append records to a group's partition of __consumer_offsets."""
    topic = offsets_topic(catalog, catalog.clock, 50)
    number = partition_of(group, topic.num_partitions)
    slot = Slot(Append(topic.topic_id, number, batch_of(records, START_MS)))
    AppendWriter(catalog, flush=False).write([slot])
    assert isinstance(slot.outcome, Appended)
