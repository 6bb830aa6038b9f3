"""The bytes that consumers exchange through a classic group: topics and partitions.

    subscription   int16 version | topics | …      a member sends it when it joins
    assignment     int16 version | partitions | …  the leader sends it to a member

See the schemas ConsumerProtocolSubscription and ConsumerProtocolAssignment.
"""

from typing import Final

from sparklog.coordinator.messages import MessageReader, Schema
from sparklog.model import TopicPartition

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members send these bytes."""

_PARTITIONS: Final[Schema] = (("topic", "string"), ("partitions", ["int32"]))
SUBSCRIPTION: Final[Schema] = (
    ("topics", ["string"]),
    ("userData", "bytes"),
    ("ownedPartitions", [_PARTITIONS]),
    ("generationId", "int32"),
    ("rackId", "string"),
)
ASSIGNMENT: Final[Schema] = (("assignedPartitions", [_PARTITIONS]), ("userData", "bytes"))


def topics_of(subscription: bytes) -> list[str]:
    """Return the topics of a subscription. Raises CorruptRecordError."""
    reader = MessageReader(subscription, flexible=False)
    reader.value("int16")
    return reader.value(["string"]) or []


def partitions_of(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions of an assignment; [] for empty bytes. Raises CorruptRecordError."""
    if not assignment:
        return []
    reader = MessageReader(assignment, flexible=False)
    reader.value("int16")
    return [
        TopicPartition(one["topic"], partition)
        for one in reader.value([_PARTITIONS]) or ()
        for partition in one["partitions"] or ()
    ]
