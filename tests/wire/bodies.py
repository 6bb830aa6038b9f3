"""The body of a request, read as the gateway reads it: hot requests by hand, the others by kio."""

from collections.abc import Callable
from typing import Any, Final

from sparklog.wire.handlers.admin.metadata_bodies import read_metadata_request
from sparklog.wire.handlers.groups.offset_commit import read_commit_request
from sparklog.wire.handlers.records.fetch_bodies import read_fetch_request
from sparklog.wire.handlers.records.produce_bodies import read_produce_request
from sparklog.wire.protocol.headers import request_header
from sparklog.wire.protocol.messages import parse
from sparklog.wire.protocol.reading import Reader
from sparklog.wire.protocol.versions import APIS, ApiKey

BY_HAND: Final[dict[ApiKey, Callable[[Reader, int], object]]] = {
    ApiKey.PRODUCE: read_produce_request,
    ApiKey.FETCH: read_fetch_request,
    ApiKey.METADATA: read_metadata_request,
    ApiKey.OFFSET_COMMIT: read_commit_request,
}


def read_request(frame: memoryview) -> Any:
    """The body of a frame; None for a version that gets an answer without a look at the body.

    Raises InvalidRequestError.
    """
    header = request_header(frame)
    if not APIS[header.api_key].serves(header.version):
        return None
    by_hand = BY_HAND.get(header.api_key)
    if by_hand is None:
        return parse(header.api_key, header.version, frame, header.body_at)
    return by_hand(Reader(frame, header.body_at, is_flexible=header.is_flexible), header.version)


def reader_of(key: ApiKey, version: int, body: bytes) -> Reader:
    """A reader of a body that begins behind two bytes."""
    return Reader(memoryview(b"??" + body), 2, is_flexible=version >= APIS[key].flexible_from)
