"""Fetch: record batches as they lie in the segments, at once or when there are enough of them.

A fetch is answered at once if there are fetch.min.bytes, if any partition has an error, if
fetch.max.wait.ms is 0, or if it takes long to read its batches (READ_MS). Otherwise it is answered
when one of these becomes true, and at the latest after fetch.max.wait.ms (Kafka's
ReplicaManager.fetchMessages, DelayedFetch). Fetch sessions (KIP-227) are declined: every answer has
session id 0, and a client then names all its partitions each time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from weakref import ref

from sparklog.errors import ErrorCode, MissingFileError, StorageError
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.wire.gateway import Gateway, are_open
from sparklog.wire.handlers.call import Call, Handled, Later, Reply
from sparklog.wire.handlers.records.fetch_bodies import (
    FULL_FETCH,
    FetchAsked,
    TopicFetched,
    fetch_answer,
    read_fetch_request,
)
from sparklog.wire.handlers.records.fetch_read import FetchRequest

FULL_FETCHES: Final = (0, FULL_FETCH)
"""Session epochs of a fetch that names all its partitions (FetchMetadata)."""
TRIES: Final = 3
"""The most reads for a fetch: if a file is gone, it is read again on a newer image."""

Topics = Sequence[TopicFetched]


def fetch(call: Call) -> Handled:
    """Return the answer, or wait for it. Only a long request keeps its bytes until it is read."""
    before, call.session.fetch = call.session.fetch, None
    if before is not None and before.is_repeated_by(call):
        repeated: Handled = before.repeat(call)
        return repeated
    if not call.is_long:
        return _answer(call, _asked(call))
    # A request for hundreds of partitions is read beside the event loop.
    reading = asyncio.ensure_future(call.step(lambda: _asked(call)))
    return Later(reading, lambda done: _answer(call, done.result()))


def _asked(call: Call) -> FetchAsked:
    return read_fetch_request(call.reader(), call.version)


def _answer(call: Call, asked: FetchAsked) -> Handled:
    if asked.session_epoch not in FULL_FETCHES:
        return fetch_answer(call, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return _Fetch(call, asked).read()


class _Fetch:
    """A fetch that is answered when its answer is due: it reads, waits for a change, and reads.

    Thousands of idle consumers wait at a gateway. So a fetch needs no task; and if it has found
    nothing, and its client asks the same again, it goes on with its answer as long as its topics
    stay the same.
    """

    __slots__ = (
        "_body",
        "_call",
        "_end_ms",
        "_gateway",
        "_has_changed",
        "_principal",
        "_reply",
        "_request",
        "_seen",
        "_topics",
    )

    def __init__(self, call: Call, asked: FetchAsked) -> None:
        self._gateway = call.gateway
        self._request = FetchRequest(call, asked)
        # With a rack the answer also depends on the other instances.
        is_kept = not (call.is_long or asked.rack)
        self._body = bytes(_body(call)) if is_kept else b""
        """The request without its header; b"" if it is not to be repeated."""
        self._topics: Topics = ()
        """The answers that are not due yet."""
        self._seen: Mapping[str, ref[TopicImage]] = {}
        """The topics as they were read, by id, with the grants that `_principal` had."""
        self._reply: Reply = None
        self._begin(call)

    def _begin(self, call: Call) -> None:
        self._call = self._request.call = call
        self._end_ms = self._gateway.clock.boot_ms() + self._request.asked.max_wait_ms
        call.let_go()

    def is_repeated_by(self, call: Call) -> bool:
        """Return True if the client's next request has the same version and body."""
        return call.version == self._call.version and _body(call) == self._body

    def repeat(self, call: Call) -> Handled:
        """Return the answer of a request that asks the same, or wait for it."""
        self._begin(call)
        return self._read_again()

    def read(self) -> Handled:
        """Return the answer, or wait for it."""
        self._principal = self._call.session.principal
        found = None if self._call.is_long else _at_once(self._gateway, self._request)
        if found is not None:
            return self._take(*found)
        reading = asyncio.ensure_future(_read(self._gateway, self._request))
        return Later(reading, self._have_read)

    def _have_read(self, reading: "asyncio.Future[tuple[Image, Topics]]") -> Handled:
        """As `_take`; if the storage has failed, all partitions have its error."""
        try:
            found = reading.result()
        except StorageError as error:
            return self._told(self._request.failed(error))
        return self._take(*found)

    def _take(self, image: Image, topics: Topics) -> Handled:
        """Return the answer if it is due; otherwise wait for an image that may change it."""
        request = self._request
        if _is_due(request, topics):
            return self._told(topics)
        known = (image.topic(one.topic_id) for one in request.known(image))
        self._seen = {one.description.topic_id: ref(one) for one in known if one is not None}
        self._has_changed = partial(_has_changed, request, request.marks(image))
        self._topics, self._reply = topics, None
        return self._wait(image)

    def _wait(self, image: Image) -> Handled:
        left_ms = self._end_ms - self._gateway.clock.boot_ms()
        if left_ms <= 0:
            return self._found_too_little()
        changed = self._gateway.watch.wait(image, self._seen, self._has_changed, left_ms / 1000)
        return Later(changed, self._go_on)

    def _go_on(self, changed: "asyncio.Future[bool]") -> Handled:
        """Read again if the answer may be another one than before the wait."""
        may_differ = changed.result() or self._request.may_have_grown
        if self._gateway.watch.is_closed or not may_differ:
            return self._found_too_little()
        return self._read_again()

    def _read_again(self) -> Handled:
        """As `read`; the answers stay as long as the topics and the client's grants do."""
        image = self._gateway.topics.image_at_hand()
        if image is None or self._principal is not self._call.session.principal:
            return self.read()
        topics = ((image.topic(one), seen()) for one, seen in self._seen.items())
        is_same = all(topic is not None and topic is seen for topic, seen in topics)
        return self._wait(image) if is_same else self.read()

    def _found_too_little(self) -> Handled:
        has_batches = any(one.size for topic in self._topics for one in topic.partitions)
        if not self._body or has_batches:
            return self._told(self._topics)
        self._call.session.fetch = self
        if self._reply is None:
            self._reply = fetch_answer(self._call, self._topics)
        return self._reply

    def _told(self, topics: Topics) -> Handled:
        call = self._call
        if call.is_long:
            return call.step(lambda: fetch_answer(call, topics))
        return fetch_answer(call, topics)


def _body(call: Call) -> memoryview:
    return call.frame[call.header.body_at :]


def _at_once(gateway: Gateway, request: FetchRequest) -> tuple[Image, Topics] | None:
    """Return the newest image and its batches; None if this thread would have to wait for them."""
    image = gateway.topics.image_at_hand(is_newest=True)
    if image is None or not are_open(image, request.known(image)):
        return None
    try:
        return image, request.read(image, at_once=True)
    except (BlockingIOError, MissingFileError):
        return None


def _has_changed(request: FetchRequest, marks: Sequence[object], image: Image) -> bool:
    # A read of too few bytes is repeated later, and on an object store each read takes requests.
    return not are_open(image, request.known(image)) or (
        request.marks(image) != marks and request.may_be_due(image)
    )


def _is_due(request: FetchRequest, topics: Topics) -> bool:
    partitions = [one for topic in topics for one in topic.partitions]
    return (
        sum(one.size for one in partitions) >= request.min_bytes
        or request.is_cut_short
        or not partitions
        or any(one.is_urgent for one in partitions)
    )


async def _read(gateway: Gateway, request: FetchRequest) -> tuple[Image, Topics]:
    """Return an image and its batches; the newest image if it may give another answer."""
    image = await gateway.image()
    tries = 0
    while True:
        tries += 1
        image = await gateway.opened(image, request.known(image))
        try:
            topics = await gateway.lookup(partial(request.read, image, is_last=tries >= TRIES))
        except MissingFileError:
            pass
        else:
            has_errors = any(one.error_code for topic in topics for one in topic.partitions)
            if gateway.catalog.files.is_local or not has_errors or tries >= TRIES:
                return image, topics
        image = await gateway.newest_image()
