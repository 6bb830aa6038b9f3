"""Several log directories as one: those of a broker (log.dirs), or of the brokers of a cluster.

A partition may have replicas in several of them. Of these, the one with the highest leader epoch in
its last batch is taken; among equal epochs, the one with the highest end offset. Brokers compare
logs in the same way (OffsetAndEpoch, KIP-595).
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from sparklog.errors import CorruptionError, LogDirError, StorageError
from sparklog.interop.broker_files.broker_dir import BrokerDir, PartitionDir
from sparklog.interop.examine import source_of, walked
from sparklog.model import TopicPartition

NOTHING = (-1, -1)
"""The end of a log that cannot be read."""


class BrokerDirs:
    """Log directories of stopped brokers. Raises LogDirError if a path is no directory."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._dirs = [BrokerDir(path) for path in dict.fromkeys(map(os.path.abspath, paths))]

    def __str__(self) -> str:
        r"""Return the paths; a byte that is not UTF-8 is \xNN, because an entry cannot hold it."""
        return os.fsencode(", ".join(self.paths)).decode(errors="backslashreplace")

    @property
    def paths(self) -> list[str]:
        """The absolute paths of the log directories."""
        return [one.path for one in self._dirs]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep brokers from starting meanwhile. Raises as `BrokerDir.stopped`."""
        with ExitStack() as stack:
            for one in self._dirs:
                stack.enter_context(one.stopped())
            yield

    def partitions(self, wanted: Collection[str] | None = None) -> list[PartitionDir]:
        """Return the directories of partitions, by topic and number; of replicas the one to take.

        Directories with a `problem` are all returned; a partition.metadata without an id is a
        problem. Raises LogDirError for a topic that has two ids, also in a single log directory:
        one of the two topics was deleted. Nothing is read of topics that are not `wanted` (None:
        all).
        """
        found = [one for directory in self._dirs for one in directory.partitions()]
        if wanted is None:
            wanted = {one.topic_partition.topic for one in found}
        _check_ids(one for one in found if one.topic_partition.topic in wanted)
        if len(self._dirs) > 1:
            replicas: dict[TopicPartition, list[PartitionDir]] = {}
            for one in found:
                if one.problem is None:
                    replicas.setdefault(one.topic_partition, []).append(one)
            found = [one for one in found if one.problem is not None]
            found += [
                _furthest(each) if place.topic in wanted else each[0]
                for place, each in replicas.items()
            ]
        return sorted(found, key=lambda one: (one.topic_partition, one.path))

    def partitions_of(self, topic: str) -> list[PartitionDir]:
        """Return the directories of one topic's partitions, as `partitions`."""
        return [one for one in self.partitions({topic}) if one.topic_partition.topic == topic]

    def offsets(
        self, name: str, partitions: Iterable[PartitionDir]
    ) -> Mapping[TopicPartition, int]:
        """Return the offsets of partitions, each from the checkpoint `name` of its log directory.

        Partitions that the checkpoint does not have are left out. Raises CorruptionError.
        """
        told = {one.path: one.offsets(name) for one in self._dirs}
        found = ((one.topic_partition, told[os.path.dirname(one.path)]) for one in partitions)
        return {place: offsets[place] for place, offsets in found if place in offsets}


def _check_ids(partitions: Iterable[PartitionDir]) -> None:
    """Raise LogDirError for a topic with two ids: it was created twice, or in two clusters.

    A partition whose id cannot be read gets that as its problem.
    """
    known: dict[str, tuple[str, str]] = {}
    for one in (one for one in partitions if one.problem is None):
        try:
            topic_id = one.topic_id
        except CorruptionError as error:
            one.problem = error
            continue
        if topic_id is not None:
            topic = one.topic_partition.topic
            other_id, path = known.setdefault(topic, (topic_id, one.path))
            if other_id != topic_id:
                raise LogDirError(
                    f"{path} and {one.path} are of two topics {topic!r}, {other_id} and "
                    f"{topic_id}: give the directories of one cluster, none that is outdated, and "
                    f"none with partitions of a deleted topic"
                )


def _furthest(replicas: Sequence[PartitionDir]) -> PartitionDir:
    return replicas[0] if len(replicas) == 1 else max(replicas, key=end_of)


def end_of(partition: PartitionDir) -> tuple[int, int]:
    """Return the leader epoch of a log's last batch, -1 without one, and the log's end offset.

    NOTHING if the log is damaged, or cannot be read.
    """
    try:
        segments = partition.segments()
        for files in reversed(segments):
            end = NOTHING
            for _, _, batches in walked(
                source_of(partition, files, is_newest=files is segments[-1])
            ):
                end = int(batches.leader_epoch[-1]), int(batches.next_offset[-1])
            if end != NOTHING:
                # If the last segments have expired, the broker keeps an empty one at the log's end.
                return end[0], max(end[1], segments[-1].base_offset)
    except (CorruptionError, StorageError):
        return NOTHING
    return -1, max((files.base_offset for files in segments), default=0)
