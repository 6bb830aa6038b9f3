"""Topics by name: the door through which readers, writers and administrators reach a manifest."""

from difflib import get_close_matches

from sparklog.clock import Clock, SystemClock
from sparklog.errors import UnknownTopicError
from sparklog.log.names import MANIFEST, topic_dir
from sparklog.manifest.cluster import ClusterStore, DeltaClusterStore
from sparklog.manifest.delta_store import DeltaManifestStore
from sparklog.manifest.store import ManifestStore
from sparklog.model import TopicDescription
from sparklog.storage.files import Files
from sparklog.storage.log_dir import open_log_dir


def topic_directory(topic: TopicDescription) -> str:
    """Return the topic's directory, relative to the log dir."""
    return topic_dir(topic.name, topic.topic_id)


def manifest_directory(topic: TopicDescription) -> str:
    """Return the directory of the topic's manifest, relative to the log dir."""
    return f"{topic_directory(topic)}/{MANIFEST}"


def check_partition(topic: TopicDescription, partition: int) -> None:
    """Raise UnknownTopicError unless the topic has the partition."""
    if not 0 <= partition < topic.num_partitions:
        raise UnknownTopicError(
            f"topic {topic.name!r} has no partition {partition}: it has "
            f"0 to {topic.num_partitions - 1}",
            topic=topic.name,
            partition=partition,
        )


class Catalog:
    """The topics of one log dir, each with its manifest store, opened once and kept."""

    def __init__(self, files: Files, clock: Clock | None = None, *, flush: bool = True) -> None:
        self.files = files
        self.clock: Clock = clock or SystemClock()
        self._flush = flush
        self._cluster: DeltaClusterStore | None = None
        self._stores: dict[str, ManifestStore] = {}

    @property
    def cluster(self) -> ClusterStore:
        """The controller's state. Raises LogDirError when this is no log dir."""
        if self._cluster is None:
            open_log_dir(self.files)
            self._cluster = DeltaClusterStore(self.files, self.clock)
        return self._cluster

    def topics(self) -> dict[str, TopicDescription]:
        """Return the topics that exist, by name, in name order; lets go of stores of others."""
        topics = self.cluster.state().live()
        if len(self._stores) > len(topics):
            for gone in self._stores.keys() - {topic.topic_id for topic in topics.values()}:
                del self._stores[gone]
        return topics

    def topic(self, name: str) -> TopicDescription:
        """Return a topic; raises UnknownTopicError naming the nearest ones."""
        topics = self.topics()
        if name not in topics:
            near = get_close_matches(name, topics, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnknownTopicError(
                f"unknown topic {name!r}: create it first (topics are not made on first use){hint}",
                topic=name,
            )
        return topics[name]

    def store(self, topic: TopicDescription) -> ManifestStore:
        """Return the topic's manifest store."""
        if topic.topic_id not in self._stores:
            self._stores[topic.topic_id] = DeltaManifestStore(
                self.files, manifest_directory(topic), self.clock, flush=self._flush
            )
        return self._stores[topic.topic_id]
