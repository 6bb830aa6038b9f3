"""Readers of all topics at the newest version, for the lookups and fetches of a service.

To learn whether anything was committed to any topic, it is enough to ask for the next entry of the
metadata log. On a local disk every request asks, so no answer is older than its request. An object
store is asked over the network, so there an answer may be `poll_interval_ms` old. Two answers are
always of the newest version: a log end offset, and that something does not exist.

If another process has committed a version, it is made durable before it is served.
"""

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from sparklog.clock import Clock
from sparklog.errors import CommitOutcomeUnknownError, LogDirError, StorageError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.kept import KeptSegments
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.past import PastCatalog
from sparklog.metadata.plans.topics import live, unknown_topic
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription


class _Seen(NamedTuple):
    """An image that is durable, and the last time it was the newest one (`Clock.boot_ms`)."""

    image: Image
    looked_ms: int


class FollowedTopics:
    """Readers of the newest version. For several threads at once."""

    def __init__(self, catalog: Catalog, clock: Clock, poll_interval_ms: int) -> None:
        self.files = catalog.files
        self._catalog = catalog
        self._kept = KeptSegments(catalog.files)
        self._clock = clock
        self._poll_interval_ms = poll_interval_ms
        self._seen: _Seen | None = None
        self._taking = Lock()
        self._readers: dict[str, TopicReader] = {}

    def topics(self) -> Mapping[str, TopicDescription]:
        """Return the topics that exist, by name, in name order; none in an empty directory.

        (The first topic makes the log dir.) Raises LogDirError for a directory that is no log dir.
        """
        image = self.image()
        return {} if image is None else image.names

    def image(self, *topics: TopicDescription) -> Image | None:
        """Return the newest image with these topics opened; None before there is a log dir.

        Raises LogDirError, CorruptMetadataError, and StorageError, also if the newest version
        cannot be made durable.
        """
        looked_ms = self._clock.boot_ms()
        try:
            log = self._catalog.log
        except LogDirError:
            if any(True for _ in self.files.list()):
                raise
            return None
        image = log.image([topic.topic_id for topic in topics])
        try:
            log.sync(image.version)
        except CommitOutcomeUnknownError as error:  # a reader has committed nothing
            raise StorageError(
                f"version {image.version} is not served before it is durable: {error.__cause__}"
            ) from error
        self._take(_Seen(image, looked_ms))
        return image

    def note(self, image: Image) -> None:
        """Take an image that this process has committed, which is durable."""
        with self._taking:
            if self._seen is None or self._seen.image.version < image.version:
                self._seen = _Seen(image, self._clock.boot_ms())

    def _take(self, found: _Seen) -> None:
        """Take the image that a look has found, unless a newer one was taken since the look began.

        A later look may find a lower version: of another log, or of a repaired one.
        """
        with self._taking:
            seen = self._seen
            is_newer = seen is None or seen.image.version <= found.image.version
            if is_newer or (seen is not None and seen.looked_ms < found.looked_ms):
                self._seen = found

    @property
    def last_seen(self) -> Image | None:
        """The image of the last look, which may be old; None before the first look."""
        return None if self._seen is None else self._seen.image

    def has_seen(self, name: str) -> bool:
        """Return True if the topic existed at the last look; it may be deleted since."""
        return self.last_seen is not None and name in self.last_seen.names

    def topic(self, name: str) -> TopicDescription:
        """Return a topic. Raises UnknownTopicError, whose message names no other topic."""
        return live(self.image() or Image(), name)

    def reader(self, name: str) -> TopicReader:
        """Return a reader of a topic's newest version. Raises UnknownTopicError."""
        image = self.image()
        while image is not None:
            topic = image.topic(live(image, name).topic_id)
            if topic is not None and topic.is_open:
                return self.reader_of(topic)
            image = self.image(image.names[name])
            # Opening a topic takes memory that its image does not keep: give it back.
            pa.default_memory_pool().release_unused()
        raise unknown_topic(name)

    def reader_of(self, topic: TopicImage) -> TopicReader:
        """Return the reader of an opened topic; it stays the same until the topic changes."""
        description = topic.description
        known = self._readers.get(description.topic_id)
        if known is None or known.image is not topic:
            known = TopicReader(self.files, description, topic, self._kept)
            self._readers[description.topic_id] = known
        return known

    def reader_at_hand(self, name: str, *, is_newest: bool = False) -> TopicReader | None:
        """Return the topic's reader without reading a file; None if a file has to be read.

        With `is_newest` that is always so on an object store. Raises UnknownTopicError if the topic
        surely does not exist.
        """
        image = self.image_at_hand(is_newest=is_newest)
        if image is None:
            return None
        if name not in image.names:
            if self.files.is_local:
                raise unknown_topic(name)
            return None
        topic = image.topic(image.names[name].topic_id)
        return self.reader_of(topic) if topic is not None and topic.is_open else None

    def is_behind(self) -> bool:
        """Return True if a look might find an image that is newer than `last_seen`; read no file.

        In a local log dir this looks for the next entry, and for nothing else: a gateway calls it
        a hundred times a second.
        """
        seen = self._seen
        if seen is None:
            return True
        if not self.files.is_local:
            return self._clock.boot_ms() - seen.looked_ms >= self._poll_interval_ms
        log = self._catalog.log
        return log.last_version != seen.image.version or log.is_behind(())

    def image_at_hand(self, *, is_newest: bool = False) -> Image | None:
        """Return the newest image without reading a file; None if a file has to be read."""
        seen, now_ms = self._seen, self._clock.boot_ms()
        if seen is None:
            return None
        if not self.files.is_local:
            is_fresh = now_ms - seen.looked_ms < self._poll_interval_ms
            return seen.image if is_fresh and not is_newest else None
        image = self._catalog.log.current()
        if image is None or image.version != seen.image.version:
            return None
        self._take(_Seen(image, now_ms))
        return image

    def past_reader(self, name: str, version: int | None, timestamp_ms: int | None) -> TopicReader:
        """Return a reader of a topic as one commit left it; raises as `PastCatalog`."""
        self.image()  # the newest version may be the one that is asked for: make it durable
        past = PastCatalog(self._catalog, version=version, timestamp_ms=timestamp_ms)
        topic = past.topics().get(name)
        if topic is None:
            raise unknown_topic(name)
        return TopicReader(self.files, topic, past.topic_image(topic), self._kept)

    def let_go(self) -> None:
        """Close the segments that lookups have opened, and forget the readers."""
        self._kept.let_go()
        self._readers.clear()

    def age_ms(self) -> int | None:
        """Return how long ago (ms) the image was surely the newest; None before the first look."""
        seen = self._seen
        return None if seen is None else self._clock.boot_ms() - seen.looked_ms
