"""The keys whose rows a fold makes anew: the keys that the edits of entries touch. Pure.

    TouchedKeys.add(edit)   one more edit, as the JSON object of its entry (`codec`)
    keys_of(image)          all keys of an image

A fold needs no decoded edits, because the values of the rows come from the image. So the keys are
taken from the JSON. Nothing is checked: each entry was decoded when its edits were applied to the
image.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from sparklog.metadata.codec.types import Json
from sparklog.metadata.state.cluster import UserKey
from sparklog.metadata.state.edit import ReceiptKey
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import SHARED_PREFIX

Place = tuple[str, int]
"""The path of a segment, and its position there."""


@dataclass(slots=True)
class LogDirKeys:
    """Keys of the log dir."""

    leases: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    users: set[UserKey] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TopicKeys:
    """Keys of one topic.

    - `segments` has places by partition. The value is True for a segment that the edits themselves
      have added: no older run has a row of it.
    - `partitions` are those touched in other ways; one with a touched segment is touched, too.
    - `producers` are pairs of partition and producer id.
    """

    segments: dict[int, dict[Place, bool]] = field(default_factory=lambda: defaultdict(dict))
    partitions: set[int] = field(default_factory=set)
    receipts: set[ReceiptKey] = field(default_factory=set)
    producers: set[tuple[int, int]] = field(default_factory=set)
    all_partitions: bool = False

    @property
    def of_parts(self) -> bool:
        """True if a part of the topic is touched; its own row alone needs no opened topic."""
        return bool(
            self.segments
            or self.partitions
            or self.receipts
            or self.producers
            or self.all_partitions
        )

    def add(self, edit: Json, shared: set[str]) -> None:
        """Note the keys of an edit of the topic; `shared` gets the paths of shared segments."""
        segments = self.segments
        for one in edit.get("segments", ()):
            path = one["log_path"]
            segments[one["partition"]].setdefault((path, one.get("log_position", 0)), True)
            if path.startswith(SHARED_PREFIX):
                shared.add(path)
        for number, states in edit.get("producers", {}).items():
            self.producers.update([(int(number), one[0]) for one in states])
            self.partitions.add(int(number))
        if edit.keys() <= _APPENDS:
            return
        for one in edit.get("replace", ()):
            place = one["log_path"], one.get("log_position", 0)
            segments[one["partition"]].setdefault(place, False)
        removed = edit.get("remove", ())
        shared.update(path for _, path, _ in removed if path.startswith(SHARED_PREFIX))
        for partition, path, position in chain(removed, edit.get("forget", ())):
            segments[partition].setdefault((path, position), False)
        for name in ("partitions", "transactions", "epochs"):
            self.partitions.update(map(int, edit.get(name, ())))
        self.receipts.update(ReceiptKey(*one[:2]) for one in edit.get("receipts", ()))
        self.all_partitions |= "forget_producers_before_ms" in edit


_APPENDS = frozenset({"segments", "leader_epochs", "producers"})
"""The members of edits that only append."""


@dataclass(slots=True)
class TouchedKeys:
    """The keys that edits touched: the log dir's, and those of topics by id."""

    log_dir: LogDirKeys = field(default_factory=LogDirKeys)
    topics: dict[str, TopicKeys] = field(default_factory=lambda: defaultdict(TopicKeys))

    def add(self, edit: Json) -> None:
        """Note the keys of one more edit."""
        for topic_id, of_topic in edit.get("topics", {}).items():
            self.topics[topic_id].add(of_topic, self.log_dir.shared)
        if edit.keys() <= _OF_TOPICS:
            return
        for topic_id in edit.get("forget_topics", ()):
            self.topics[topic_id]
        keys = self.log_dir
        keys.leases.update(edit.get("leases", ()))
        keys.brokers.update(map(int, edit.get("brokers", ())))
        keys.users.update((name, mechanism) for name, mechanism, _ in edit.get("users", ()))
        keys.transactional_ids.update(edit.get("transactional_ids", ()))
        keys.transactional_ids.update(edit.get("added_to_transactions", ()))
        keys.shared.update(edit.get("forget_shared", ()))


_OF_TOPICS = frozenset({"operation", "topics"})


def keys_of(image: Image) -> TouchedKeys:
    """Return all keys of an image whose topics are all opened."""
    log_dir = LogDirKeys(
        set(image.leases),
        set(image.shared),
        set(image.brokers),
        set(image.users),
        set(image.transactional_ids.by_id),
    )
    return TouchedKeys(log_dir, {one: _keys_of(topic) for one, topic in image.topics.items()})


def _keys_of(topic: TopicImage) -> TopicKeys:
    found = TopicKeys(receipts=set(topic.receipts), all_partitions=True)
    for number, log in topic.partitions.items():
        found.producers.update((number, producer_id) for producer_id in log.producers)
    live = [entry for log in topic.partitions.values() for entry in log.entries()]
    for entry in (*live, *topic.removed):
        found.segments[entry.partition][entry.log_path, entry.log_position] = False
    return found
