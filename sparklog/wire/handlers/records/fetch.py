"""Fetch: record batches as they lie in the segments, at once or when there are enough of them.

A fetch is answered at once if there are fetch.min.bytes, if any partition has an error, if
fetch.max.wait.ms is 0, or if it takes long to read its batches (READ_MS). Otherwise it is answered
when one of these becomes true, and at the latest after fetch.max.wait.ms (Kafka's
ReplicaManager.fetchMessages, DelayedFetch). Fetch sessions (KIP-227) are declined: every answer has
session id 0, and a client then names all its partitions each time.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from sparklog.errors import ErrorCode, MissingFileError, StorageError
from sparklog.metadata.state.image import Image
from sparklog.wire.gateway import Gateway, are_open
from sparklog.wire.handlers.call import Call, Later, Outcome
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


def fetch(call: Call) -> Outcome:
    """Return the answer, or wait for it. Only a long request keeps its bytes until it is read."""
    return _at_length(call) if call.is_long else _answer(call, _asked(call))


async def _at_length(call: Call) -> Outcome:
    """Return the answer to a request for hundreds of partitions, made beside the event loop."""
    return _answer(call, await call.step(lambda: _asked(call)))


def _asked(call: Call) -> FetchAsked:
    return read_fetch_request(call.reader(), call.version)


def _answer(call: Call, asked: FetchAsked) -> Outcome:
    call.let_go()
    if asked.session_epoch not in FULL_FETCHES:
        return fetch_answer(call, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return _Fetch(call, asked).read()


class _Fetch:
    """A fetch that is answered when its answer is due: it reads, waits for a change, and reads.

    It needs no task: thousands of idle consumers wait at a gateway.
    """

    __slots__ = ("_call", "_end_ms", "_gateway", "_request")

    def __init__(self, call: Call, asked: FetchAsked) -> None:
        self._call, self._gateway = call, call.gateway
        self._request = FetchRequest(call, asked)
        self._end_ms = call.gateway.clock.boot_ms() + asked.max_wait_ms

    def read(self) -> Outcome:
        """Return the answer, or wait for it."""
        found = None if self._call.is_long else _at_once(self._gateway, self._request)
        return self._read_files() if found is None else self._take(*found)

    async def _read_files(self) -> Outcome:
        """As `read`, on another thread; if the storage fails, all partitions have its error."""
        try:
            found = await _read(self._gateway, self._request)
        except StorageError as error:
            return self._told(self._request.failed(error))
        return self._take(*found)

    def _take(self, image: Image, topics: Topics) -> Outcome:
        """Return the answer if it is due; otherwise wait for an image that may change it."""
        request = self._request
        left_ms = self._end_ms - self._gateway.clock.boot_ms()
        if left_ms <= 0 or _is_due(request, topics):
            return self._told(topics)
        has_changed = partial(_has_changed, request, request.marks(image))
        ids = [topic.topic_id for topic in request.known(image)]
        changed = self._gateway.watch.wait(image, ids, has_changed, left_ms / 1000)
        return Later(changed, partial(self._go_on, topics))

    def _go_on(self, topics: Topics, changed: "asyncio.Future[bool]") -> Outcome:
        """Read again if the answer may be another one than before the wait."""
        may_differ = changed.result() or self._request.may_have_grown
        if self._gateway.watch.is_closed or not may_differ:
            return self._told(topics)
        return self.read()

    def _told(self, topics: Topics) -> Outcome:
        call = self._call
        if call.is_long:
            return call.step(lambda: fetch_answer(call, topics))
        return fetch_answer(call, topics)


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
    image = await gateway.opened(image, request.known(image))
    tries = 0
    while True:
        tries += 1
        try:
            topics = await gateway.lookup(partial(request.read, image, is_last=tries >= TRIES))
        except MissingFileError:
            pass
        else:
            has_errors = any(one.error_code for topic in topics for one in topic.partitions)
            if gateway.catalog.files.is_local or not has_errors or tries >= TRIES:
                return image, topics
        image = await gateway.newest_image()
        image = await gateway.opened(image, request.known(image))
