"""The facts that a stopped broker has about the partitions into which an export writes.

    newest leader epoch    the broker knows none above it, and its next ones may be the same numbers
    producers              those in its newest snapshot of the partition, with their last batches

Every broker gives producer ids from 0 on, and begins with epoch 0. So an id of another broker, in
a log that was imported, is soon given to a new producer, or has been. If the partition knew a state
of the other one, batches of its own producer would count as repeated, and be lost. So the target
gets the state of an id in two cases:

    the id was given here: no broker gives these
    the last batch that the target has of the id is in the log here, with the same epoch, sequences,
    offset and time: so the log here goes on where the target's producer was

Its coordinator goes on with its own epochs: a transactional producer may begin anew with one that
was used here, so a state of another epoch is left out. So are producers whose transaction has
ended, as their entries have the marker's time. A broker takes any next batch of a producer that it
does not know.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sparklog.coordinator.requests import NO_EPOCH
from sparklog.errors import CorruptionError
from sparklog.interop.broker_files.broker_dir import PartitionDir
from sparklog.interop.broker_files.checkpoints import EPOCH_MAX, LEADER_EPOCH, read_epochs
from sparklog.interop.broker_files.producer_snapshot import ProducerState as SnapshotState
from sparklog.interop.broker_files.producer_snapshot import (
    encode_snapshot,
    read_snapshot,
    snapshots_of,
)
from sparklog.interop.sequences import state_of
from sparklog.interop.staging import LIST
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID
from sparklog.metadata.state.producers import ProducerState
from sparklog.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The facts about one partition; the default allows every epoch and every producer.

    `producers` are the entries of its newest snapshot; None allows all.
    """

    newest_epoch: int = EPOCH_MAX
    producers: Mapping[int, SnapshotState] | None = None

    def takes(self, state: ProducerState, state_at: Callable[[int], ProducerState | None]) -> bool:
        """Return True if the partition may know this state of a producer.

        `state_at` gives the state of a producer by one batch, the one here that has an offset.
        """
        if self.producers is None or state.producer_id >= FIRST_PRODUCER_ID:
            return True
        entry = self.producers.get(state.producer_id)
        if entry is None or entry.producer_epoch != state.epoch or not state.batches:
            return False
        known = state_of(entry)
        if entry.last_offset < state.batches[0].last_offset:
            return state_at(entry.last_offset) == known
        return known.batches[0] in state.batches

    @property
    def line(self) -> str:
        """The facts as words of a line: the newest leader epoch, and the snapshot in hex."""
        return f"{self.newest_epoch} {encode_snapshot([*(self.producers or {}).values()]).hex()}"

    @classmethod
    def of_line(cls, line: str) -> "Target":
        """Return the facts in a line."""
        epoch, snapshot = line.split()
        return cls.of(int(epoch), read_snapshot(bytes.fromhex(snapshot)))

    @classmethod
    def of(cls, newest_epoch: int, snapshot: Iterable[SnapshotState]) -> "Target":
        """Return the facts of a checkpoint's newest epoch and a snapshot's producers."""
        producers = {one.producer_id: one for one in snapshot}
        return cls(newest_epoch=newest_epoch, producers=producers)


NEW: Final = Target()
"""A new directory."""


class Targets:
    """The partitions of a broker's log directory.

    `moving` are lines of partitions from which an interrupted export may have removed files.
    """

    def __init__(
        self, found: Mapping[TopicPartition, PartitionDir], moving: Mapping[str, str]
    ) -> None:
        self._found = found
        self._moving = moving
        self._known: dict[TopicPartition, Target] = {}

    def of(self, topic_partition: TopicPartition) -> Target:
        """Return the facts about a partition of the broker. Raises CorruptionError."""
        if topic_partition not in self._known:
            line = self._moving.get(str(topic_partition))
            self._known[topic_partition] = (
                _listed(topic_partition, line) if line else _read(self._found[topic_partition])
            )
        return self._known[topic_partition]

    def epoch_of(self, topic_partition: TopicPartition) -> int:
        """Return a partition's newest leader epoch; NO_EPOCH if it is not in the directory."""
        partition = self._found.get(topic_partition)
        if partition is None or partition.problem:
            return NO_EPOCH
        return self.of(topic_partition).newest_epoch


def _listed(topic_partition: TopicPartition, line: str) -> Target:
    try:
        return Target.of_line(line)
    except (CorruptionError, ValueError) as error:  # ValueError: an odd number of hex digits
        raise CorruptionError(f"{LIST}, the line of {topic_partition}: {error}") from None


def _read(partition: PartitionDir) -> Target:
    """Read the facts from a partition's files. Raises CorruptionError.

    The newest leader epoch is 0, a new topic's, without an entry in the checkpoint: so is that of a
    broker that has only followed another one.
    """
    epochs = read_epochs(partition.read(LEADER_EPOCH), f"{partition.path}/{LEADER_EPOCH}")
    snapshot = next((one for _, one in snapshots_of(partition, OFFSET_MAX)), ())
    return Target.of(epochs[-1].epoch if epochs else 0, snapshot)
