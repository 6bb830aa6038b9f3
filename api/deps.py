"""What routes take from a request: the names in its path, the service, who asks."""

import re
from typing import Annotated, Any, Final

from fastapi import Path, Request
from pydantic import WithJsonSchema

from api.errors import ApiError
from api.security import Scope, Token, check
from api.service import Service
from sparklog.storage.log_dir import open_log_dir

TopicName = Annotated[
    str,
    Path(description="The topic's name", examples=["flights"], min_length=1, max_length=249),
    WithJsonSchema({"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}),
]
ClusterId = Annotated[str, Path(description="meta.properties' cluster.id", max_length=100)]
PartitionNumber = Annotated[int, Path(description="The partition", ge=0, lt=2**31, examples=[0])]


TOPIC_DOCS: Final[dict[str, Any]] = {
    "name": "topic",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"},
    "example": "flights",
}
PARTITION_DOCS: Final[dict[str, Any]] = {
    "name": "partition",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**31},
    "example": 0,
}
IDEMPOTENCY_DOCS: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "A retry with the same key and records returns the same offsets, "
            "for 24 hours, on any instance",
            "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
        }
    ]
}
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


def partition_of(request: Request) -> int:
    """Return the partition of the path. Raises ApiError (422) for what is no number of one."""
    text: str = request.path_params["partition"]
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise ApiError(422, f"path.partition: {text[:40]!r} is no partition")
    return int(text)


def service_of(request: Request) -> Service:
    """Return the service."""
    service: Service = request.app.state.service
    return service


def token_of(request: Request, *, is_page: bool = False) -> Token:
    """Return who asks. Raises ApiError (401)."""
    authorization = request.headers.get("authorization")
    return service_of(request).tokens.known(authorization, is_page=is_page)


def allowed(request: Request, scope: Scope, topic: str) -> Service:
    """Return the service to somebody who may do this with the topic. Raises ApiError (401, 403)."""
    check(token_of(request), scope, topic)
    return service_of(request)


async def check_cluster(service: Service, cluster_id: str) -> None:
    """Raise ApiError (404) for another cluster than this log dir's, LogDirError without one."""
    if (await service.lookup(lambda: cluster_id_of(service))) != cluster_id:
        raise ApiError(404, f"unknown cluster {cluster_id!r}")


def cluster_id_of(service: Service) -> str:
    """Return the log dir's cluster id. Raises LogDirError when there is none yet."""
    return open_log_dir(service.topics.files).cluster_id


def idempotency_key_of(request: Request) -> str | None:
    """Return the Idempotency-Key, None without one. Raises ApiError (422)."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ApiError(422, "an Idempotency-Key has 1 to 255 visible ASCII characters")
    return key
