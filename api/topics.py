"""The topics of the log dir and their manifests, followed: what lookups and fetches read.

Whether anything was committed is told by a look at the Delta log's next entry, on every request, so
an answer is never older than the request. Only new entries are read, by one thread a topic.
An object store would have to be asked over the network, so there an answer may be
`poll_interval_ms` old.
"""

from collections.abc import Mapping
from threading import Lock

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import LogDirError, UnknownTopicError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.kept import KeptSegments
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Image
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from sparklog.storage.files import Files

Topics = Mapping[str, TopicDescription]


class _Followed:
    """One topic: its store, the reader of the newest snapshot, and when that was looked at."""

    def __init__(self, store: Catalog) -> None:
        self.store = store
        self.lock = Lock()
        self.reader: TopicReader | None = None
        self.checked_ms = 0


class FollowedTopics:
    """Readers of the newest snapshots. For several threads at once."""

    def __init__(self, files: Files, clock: Clock, poll_interval_ms: int) -> None:
        self.files = files
        self._kept = KeptSegments(files)
        self._clock = clock
        self._poll_interval_ms = poll_interval_ms
        self._catalog = Catalog(files, clock)
        self._lock = Lock()
        self._state: Image | None = None
        self._live: Topics = {}
        self._checked_ms = 0
        self._followed: dict[str, _Followed] = {}

    def topics(self) -> Topics:
        """Return the topics that exist, by name, in name order; reads what is new.

        None before the first topic made the log dir. Raises LogDirError for what is no log dir.
        """
        with self._lock:
            try:
                state = self._catalog.image()
            except LogDirError:
                if any(True for _ in self.files.list()):
                    raise
                return {}
            return self._noted(state)

    def _noted(self, state: Image) -> Topics:
        self._checked_ms = self._clock.now_ms()
        if state is not self._state:
            self._state, self._live = state, self._catalog.topics()
            ids = {topic.topic_id for topic in self._live.values()}
            self._followed = {key: one for key, one in self._followed.items() if key in ids}
        return self._live

    def topic(self, name: str) -> TopicDescription:
        """Return a topic. Raises UnknownTopicError; names of other topics are not told."""
        return _named(self.topics(), name)

    def reader(self, name: str) -> TopicReader:
        """Return a reader of a topic's newest snapshot. Raises UnknownTopicError."""
        topic = self.topic(name)
        followed = self._follow(topic)
        with followed.lock:
            snapshot = followed.store.snapshot()
            followed.checked_ms = self._clock.now_ms()
            known = followed.reader
            if known is None:
                # Reading a whole manifest takes more than it keeps: that is given back.
                snapshot.segments(0)
                pa.default_memory_pool().release_unused()
            if known is None or known.topic is not topic or known.snapshot is not snapshot:
                followed.reader = known = TopicReader(self.files, topic, snapshot, self._kept)
            return known

    def reader_at_hand(self, name: str) -> TopicReader | None:
        """Return the same without reading anything or waiting, None when that is not possible.

        Raises UnknownTopicError.
        """
        topics = self._topics_at_hand()
        if topics is None:
            return None
        topic = _named(topics, name)
        followed = self._followed.get(topic.topic_id)
        if followed is None or not followed.lock.acquire(blocking=False):
            return None
        try:
            return self._current(followed, topic)
        finally:
            followed.lock.release()

    def _current(self, followed: _Followed, topic: TopicDescription) -> TopicReader | None:
        reader = followed.reader
        if reader is None or reader.topic is not topic:
            return None
        if not self.files.is_local:
            return reader if self._is_fresh(followed.checked_ms) else None
        if followed.store.current() is not reader.image:
            return None
        followed.checked_ms = self._clock.now_ms()
        return reader

    def _topics_at_hand(self) -> Topics | None:
        if self._state is None or not self._lock.acquire(blocking=False):
            return None
        try:
            if not self.files.is_local:
                return self._live if self._is_fresh(self._checked_ms) else None
            return self._live if self._catalog.cluster.current() is self._state else None
        finally:
            self._lock.release()

    def _is_fresh(self, checked_ms: int) -> bool:
        return self._clock.now_ms() - checked_ms < self._poll_interval_ms

    def _follow(self, topic: TopicDescription) -> _Followed:
        with self._lock:
            followed = self._followed.get(topic.topic_id)
            if followed is None:
                followed = _Followed(self._catalog.store(topic))
                self._followed[topic.topic_id] = followed
            return followed

    def let_go(self) -> None:
        """Close the segments that lookups have opened."""
        self._kept.let_go()

    def ages_ms(self) -> dict[str, int]:
        """Return, by topic, how long ago a followed manifest was last seen to be the newest."""
        now_ms, names = self._clock.now_ms(), {t.topic_id: t.name for t in self._live.values()}
        return {
            names[key]: now_ms - one.checked_ms
            for key, one in list(self._followed.items())
            if key in names
        }


def _named(topics: Topics, name: str) -> TopicDescription:
    topic = topics.get(name)
    if topic is None:
        raise UnknownTopicError(f"unknown topic {name!r}", topic=name)
    return topic
