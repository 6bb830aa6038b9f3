"""The parts of a request that routes use: the numbers in its path, the service, the token."""

import re
from typing import Final

from fastapi import Request

from sparklog.log_reader import TopicReader
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.rest.errors import ApiError
from sparklog.rest.parameters import KEY_PATTERN, OFFSET_END, PARTITION_END
from sparklog.rest.plain import query_of
from sparklog.rest.security import authenticated, check
from sparklog.rest.service import AsOf, Service
from sparklog.rest.times import parse_time
from sparklog.storage.log_dir import open_log_dir
from sparklog.tokens import Scope, Token

_VERSION: Final = re.compile(r"[0-9]{1,18}")
_KEY: Final = re.compile(KEY_PATTERN)


def as_of(request: Request) -> AsOf | None:
    """Return the past commit that the query names; None for the newest.

    Raises ApiError (422) for text that is not a version or a time, and if both are given.
    """
    version, timestamp = query_of(request, "versionAsOf"), query_of(request, "timestampAsOf")
    if version is not None and timestamp is not None:
        raise ApiError(422, "query.versionAsOf: not together with timestampAsOf")
    if timestamp is not None:
        return AsOf(timestamp_ms=max(0, parse_time(timestamp)))
    if version is None:
        return None
    if not _VERSION.fullmatch(version):
        raise ApiError(422, f"query.versionAsOf: {version[:40]!r} is no version")
    return AsOf(version=int(version))


async def reader_of(request: Request, topic: str) -> TopicReader:
    """Return a reader of a topic as of the newest commit, or of the one that the query names.

    Raises as `as_of`, and as `Service.reader` or `Service.past_reader`.
    """
    past, service = as_of(request), service_of(request)
    if past is None:
        return await service.reader(topic, is_newest=True)
    return await service.past_reader(topic, past)


def partition_of(request: Request) -> int:
    """Return the partition of the path. Raises ApiError (422) for any other text."""
    return _number(request, "partition", PARTITION_END)


def offset_of(request: Request) -> int:
    """Return the offset of the path. Raises ApiError (422) for any other text."""
    return _number(request, "offset", OFFSET_END)


def isolation_of(request: Request) -> str:
    """Return the isolation level of the query. Raises ApiError (422) for one that is unknown."""
    level = query_of(request, "isolation_level")
    if level is None:
        return READ_UNCOMMITTED
    if level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(
            422, f"query.isolation_level: allowed are {READ_UNCOMMITTED} and {READ_COMMITTED}"
        )
    return level


def _number(request: Request, name: str, end: int) -> int:
    text: str = request.path_params[name]
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < end):
        raise ApiError(422, f"path.{name}: {text[:40]!r} is no {name}")
    return int(text)


def service_of(request: Request) -> Service:
    """Return the service."""
    service: Service = request.app.state.service
    return service


def token_of(request: Request, *, is_page: bool = False) -> Token:
    """Return the client's token. Raises ApiError (401)."""
    return authenticated(service_of(request).tokens, _authorization(request), is_page=is_page)


def allowed(request: Request, scope: Scope, topic: str) -> Service:
    """Return the service if the token has the scope on the topic. Raises ApiError (401, 403)."""
    service = service_of(request)
    check(authenticated(service.tokens, _authorization(request)), scope, topic)
    return service


def _authorization(request: Request) -> str | None:
    # request.headers takes longer: it raises and catches an exception for a missing header.
    found = (value for name, value in request.scope["headers"] if name == b"authorization")
    return next((value.decode("latin-1") for value in found), None)


async def check_cluster(service: Service, cluster_id: str) -> None:
    """Raise ApiError (404) for a foreign cluster id, LogDirError if the log dir does not exist."""
    if (await service.read_files(lambda: cluster_id_of(service))) != cluster_id:
        raise ApiError(404, f"unknown cluster {cluster_id!r}: GET /v3/clusters tells this one's id")


def cluster_id_of(service: Service) -> str:
    """Return the log dir's cluster id. Raises LogDirError if the log dir does not exist yet."""
    return open_log_dir(service.topics.files).cluster_id


def idempotency_key_of(request: Request) -> str | None:
    """Return the Idempotency-Key, None if none was sent. Raises ApiError (422) for a bad one."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ApiError(422, "an Idempotency-Key has 1 to 255 visible ASCII characters")
    return key
