"""What a stopped broker has had in the partitions into which an export writes.

    newest leader epoch    the broker knows none above it, and its next ones may be the same numbers
    producers              the ids and epochs in its newest snapshot of the partition

A broker gives producer ids from 0 on. So an id of another broker, in a log that was imported, is
soon given to a new producer. If the partition knew a state of the id, the first batches of the new
producer would count as repeated, and be lost. So the target gets the states of ids that it has had
itself, in the same epoch, and of ids that were given here: no broker gives these. (Its coordinator
goes on with its own epochs: a transactional producer may begin anew with one that was used here.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sparklog.interop.broker_dir import PartitionDir
from sparklog.interop.checkpoints import EPOCH_MAX, LEADER_EPOCH, read_epochs
from sparklog.interop.producer_snapshot import snapshots_of
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.cluster import FIRST_PRODUCER_ID
from sparklog.metadata.producers import ProducerState
from sparklog.model import TopicPartition

NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a partition has had; by default all that is possible.

    `producers` are pairs (id, epoch); None allows all.
    """

    newest_epoch: int = EPOCH_MAX
    producers: frozenset[tuple[int, int]] | None = None

    def takes(self, state: ProducerState) -> bool:
        """Return True if the partition may know this state of a producer."""
        if self.producers is None or state.producer_id >= FIRST_PRODUCER_ID:
            return True
        return (state.producer_id, state.epoch) in self.producers


NEW: Final = Target()
"""A new directory."""


class Targets:
    """The partitions of a broker's log directory."""

    def __init__(self, found: Mapping[TopicPartition, PartitionDir]) -> None:
        self._found = found

    def of(self, topic_partition: TopicPartition) -> Target:
        """Return what a partition of the broker has had. Raises CorruptionError."""
        partition = self._found[topic_partition]
        snapshot = next((one for _, one in snapshots_of(partition, OFFSET_MAX)), ())
        return Target(
            newest_epoch=_newest_epoch(partition),
            producers=frozenset((one.producer_id, one.producer_epoch) for one in snapshot),
        )

    def epoch_of(self, topic_partition: TopicPartition) -> int:
        """Return a partition's newest leader epoch; NO_EPOCH if it is not in the directory."""
        partition = self._found.get(topic_partition)
        return NO_EPOCH if partition is None or partition.problem else _newest_epoch(partition)


def _newest_epoch(partition: PartitionDir) -> int:
    """Return the newest leader epoch in a partition's checkpoint; 0, a new topic's, without one.

    A broker that has only followed another one has no entry. Raises CorruptionError.
    """
    epochs = read_epochs(partition.read(LEADER_EPOCH), f"{partition.path}/{LEADER_EPOCH}")
    return epochs[-1].epoch if epochs else 0
