"""The parameters of paths, queries and headers, with their bounds and their text in OpenAPI.

FastAPI reads an annotation, such as `TopicName`. The routes of `plain` read their requests by hand
(`deps`), so OpenAPI gets the same parameter as a dict, such as `TOPIC_DOCS`.
"""

from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query
from pydantic import WithJsonSchema

from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED

Docs = dict[str, Any]

TOPIC_PATTERN: Final = "^[a-zA-Z0-9._-]{1,249}$"
PARTITION_END: Final = 2**31
OFFSET_END: Final = 2**63
VERSION_END: Final = 10**18
"""The bounds of numbers; the end itself is not allowed."""
NAME_MAX: Final = 2_000
"""The most characters of a group's or a member's name. A URL with both, each character as twelve,
has room in a request's head."""
KEY_PATTERN: Final = "[!-~]{1,255}"
"""An Idempotency-Key: visible ASCII characters."""

_TOPIC: Final = "The topic's name"
_PARTITION: Final = "The partition"
_ISOLATION: Final = "With read_committed, the log ends at the last stable offset"
_VERSION: Final = "Read the log as it was after this commit of the log dir"
_TIMESTAMP: Final = "Read the log as it was at this time; not together with versionAsOf"
_TIME: Final = (
    "Milliseconds since 1970, or an ISO 8601 time (UTC if it has no offset); "
    "-1: latest; -2: earliest; -3: the record with the largest timestamp"
)
_TIME_SCHEMA: Final[Docs] = {
    "anyOf": [
        {"type": "integer", "format": "int64", "minimum": -3, "maximum": 2**63 - 1},
        {"type": "string", "format": "date-time"},
    ]
}

TopicName = Annotated[
    str,
    Path(description=_TOPIC, examples=["flights"], min_length=1, max_length=249),
    WithJsonSchema({"type": "string", "pattern": TOPIC_PATTERN}),
]
ClusterId = Annotated[str, Path(description="The log dir's cluster id", max_length=100)]
PartitionNumber = Annotated[int, Path(description=_PARTITION, ge=0, lt=PARTITION_END, examples=[0])]
IsolationLevel = Annotated[
    Literal["read_uncommitted", "read_committed"], Query(description=_ISOLATION)
]
VersionAsOf = Annotated[
    int | None, Query(alias="versionAsOf", ge=0, lt=VERSION_END, description=_VERSION)
]
TimestampAsOf = Annotated[
    str | None,
    Query(alias="timestampAsOf", description=_TIMESTAMP),
    WithJsonSchema(_TIME_SCHEMA),
]
Time = Annotated[
    str,
    Query(description=_TIME, examples=["2013-01-01T00:00:00Z", "1357002000000", "-1"]),
    WithJsonSchema(_TIME_SCHEMA),
]


def _docs(place: str, name: str, description: str, schema: Docs, **more: Any) -> Docs:
    """Return OpenAPI's description of a parameter; only one in a path is required."""
    required = place == "path"
    return {
        "name": name,
        "in": place,
        "required": required,
        "description": description,
        "schema": schema,
        **more,
    }


def _below(end: int) -> Docs:
    return {"type": "integer", "minimum": 0, "exclusiveMaximum": end}


TOPIC_DOCS: Final = _docs(
    "path", "topic", _TOPIC, {"type": "string", "pattern": TOPIC_PATTERN}, example="flights"
)
PARTITION_DOCS: Final = _docs("path", "partition", _PARTITION, _below(PARTITION_END), example=0)
OFFSET_DOCS: Final = _docs("path", "offset", "An offset of the log", _below(OFFSET_END))
ISOLATION_DOCS: Final = _docs(
    "query",
    "isolation_level",
    _ISOLATION,
    {"type": "string", "enum": [READ_UNCOMMITTED, READ_COMMITTED], "default": READ_UNCOMMITTED},
)
AS_OF_DOCS: Final = (
    _docs("query", "versionAsOf", _VERSION, _below(VERSION_END)),
    _docs("query", "timestampAsOf", _TIMESTAMP, _TIME_SCHEMA),
)
TIME_DOCS: Final = _docs("query", "timestamp", _TIME, _TIME_SCHEMA)
IDEMPOTENCY_DOCS: Final = _docs(
    "header",
    "Idempotency-Key",
    "A retry with the same key and records returns the same offsets, for 24 hours, on any instance",
    {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
)
