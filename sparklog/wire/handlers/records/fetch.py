"""Fetch: record batches as they lie in the segments, at once or when there are enough of them.

A fetch is answered at once if there are fetch.min.bytes, if any partition has an error, if
fetch.max.wait.ms is 0, or if it takes long to read its batches (READ_MS). Otherwise it is answered
when one of these becomes true, and at the latest after fetch.max.wait.ms (Kafka's
ReplicaManager.fetchMessages, DelayedFetch). Fetch sessions (KIP-227) are declined: every answer has
session id 0, and a client then names all its partitions each time.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from sparklog.errors import ErrorCode, MissingFileError, StorageError
from sparklog.metadata.state.image import Image
from sparklog.wire.gateway import Gateway, are_open
from sparklog.wire.handlers.call import Call, Reply
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


def fetch(call: Call) -> Reply | Awaitable[Reply]:
    """Return the answer, or wait for it. Only a long request keeps its bytes until it is read."""
    return _at_length(call) if call.is_long else _answer(call, _asked(call))


async def _at_length(call: Call) -> Reply:
    """Return the answer to a request for hundreds of partitions, made beside the event loop."""
    answer = _answer(call, await call.step(lambda: _asked(call)))
    return await answer if isinstance(answer, Awaitable) else answer


def _asked(call: Call) -> FetchAsked:
    return read_fetch_request(call.reader(), call.version)


def _answer(call: Call, asked: FetchAsked) -> Reply | Awaitable[Reply]:
    call.let_go()
    if asked.session_epoch not in FULL_FETCHES:
        return fetch_answer(call, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    request = FetchRequest(call, asked)
    read = None if call.is_long else _at_once(call.gateway, request)
    if read is not None and _is_due(request, read[1]):
        return fetch_answer(call, read[1])
    return _unless_failed(call, request, read)


def _at_once(gateway: Gateway, request: FetchRequest) -> tuple[Image, Topics] | None:
    """Return the newest image and its batches; None if this thread would have to wait for them."""
    image = gateway.topics.image_at_hand(is_newest=True)
    if image is None or not are_open(image, request.known(image)):
        return None
    try:
        return image, request.read(image, at_once=True)
    except (BlockingIOError, MissingFileError):
        return None


async def _unless_failed(
    call: Call, request: FetchRequest, read: tuple[Image, Topics] | None
) -> Reply:
    """Return the answer when it is due; if the storage fails, all partitions have its error."""
    try:
        return await _when_due(call, request, read)
    except StorageError as error:
        topics = request.failed(error)
        return await call.step(lambda: fetch_answer(call, topics))


async def _when_due(call: Call, request: FetchRequest, read: tuple[Image, Topics] | None) -> Reply:
    loop, gateway = asyncio.get_running_loop(), call.gateway
    deadline = loop.time() + request.asked.max_wait_ms / 1000
    while True:
        image, topics = read or await _read(gateway, request)
        left_s = deadline - loop.time()
        if left_s <= 0 or _is_due(request, topics):
            break
        has_changed = partial(_has_changed, request, request.marks(image))
        ids = [topic.topic_id for topic in request.known(image)]
        is_changed = await gateway.watch.wait(image, ids, has_changed, left_s)
        if gateway.watch.is_closed or not (is_changed or request.may_have_grown):
            break
        read = None if call.is_long else _at_once(gateway, request)
    return await call.step(lambda: fetch_answer(call, topics))


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
