"""The page at `/`: topics, a topic's partitions and records from a time on; groups and their lag.

The list of topics opens none of them. A browser may open the page, but not load it as a part of
another page (an image, a frame). So no foreign page can make browsers request it repeatedly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow.compute as pc
from fastapi import APIRouter, Query, Request
from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.responses import HTMLResponse, Response

from sparklog.config.times import iso_time
from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.metadata.state.image import PartitionLog
from sparklog.rest.deps import service_of, token_of
from sparklog.rest.errors import ApiError, refusal_of
from sparklog.rest.page_groups import group_of, groups_of
from sparklog.rest.parameters import NAME_MAX
from sparklog.rest.payloads.fetch import Fetch
from sparklog.rest.security import check
from sparklog.rest.service import Service
from sparklog.rest.times import parse_time
from sparklog.tokens import Scope, Token

router = APIRouter()

SHOWN_RECORDS: Final = 50
SHOWN_BYTES: Final = 64 * 1024
SHOWN_CHARACTERS: Final = 200
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_DOCUMENT: Final = "document"
_PAGES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=select_autoescape(),
)
_PAGES.filters["iso_time"] = iso_time


@router.get("/", include_in_schema=False)
async def read_page(
    request: Request,
    topic: Annotated[str | None, Query(max_length=249)] = None,
    time: Annotated[str | None, Query(max_length=40)] = None,
    group: Annotated[str | None, Query(max_length=NAME_MAX)] = None,
) -> Response:
    """The page. `topic`: its partitions; with `time` also the first records from then on.

    `group`: its members and lag; an empty value shows the list of groups.
    """
    if request.headers.get("sec-fetch-dest", _DOCUMENT) not in (_DOCUMENT, "empty"):
        raise ApiError(403, "the page cannot be a part of another page")
    token = token_of(request, is_page=True)
    service = service_of(request)
    status = 200
    try:
        context = await service.bulk(lambda: _context(service, token, topic, time, group))
    except (SparklogError, ApiError) as error:
        refusal = error if isinstance(error, ApiError) else refusal_of(error)
        context, status = {"problem": refusal.message}, refusal.status
    html = _PAGES.get_template("index.html").render(
        {"topic": topic, "time": time, "group": group, **context}
    )
    return HTMLResponse(html, status, _HEADERS)


def _context(
    service: Service, token: Token, topic: str | None, time: str | None, group: str | None
) -> dict[str, Any]:
    if group is not None:
        return group_of(service, token, group) if group else groups_of(service, token)
    if not topic:
        found = service.topics.topics().items()
        return {"topics": [one for name, one in found if token.allows(Scope.READ, name)]}
    check(token, Scope.READ, topic)
    reader = service.topics.reader(topic)
    logs = [reader.partition(number) for number in range(reader.topic.num_partitions)]
    when = parse_time(time) if time else None
    records = [] if when is None else _records(reader, when, service.deadline())
    partitions = [_partition(log) for log in logs]
    return {"partitions": partitions, "records": records, "is_asked": when is not None}


def _partition(log: PartitionLog) -> dict[str, int]:
    return {
        "number": log.partition,
        "start": log.log_start_offset,
        "stable": log.last_stable_offset,
        "end": log.log_end_offset,
        "segments": len(log.live),
        "bytes": pc.sum(log.live.table.column("log_bytes")).as_py() or 0,
    }


def _records(
    reader: TopicReader, when: int, check_time: Callable[[], None]
) -> list[dict[str, Any]]:
    """Return up to SHOWN_RECORDS records at or after a time, some of each partition."""
    shown: list[dict[str, Any]] = []
    each = max(1, SHOWN_RECORDS // reader.topic.num_partitions)
    for number in range(reader.topic.num_partitions):
        check_time()
        found = reader.list_offset(number, when)
        if found.offset < 0 or len(shown) >= SHOWN_RECORDS:
            continue
        for part in Fetch(reader, number, found.offset, SHOWN_BYTES, each).records():
            shown += [
                {"partition": number, "offset": offset, "timestamp": time}
                | {"key": _text(key), "value": _text(value)}
                for offset, time, key, value in zip(
                    part.offset.to_pylist(),
                    part.timestamp.to_pylist(),
                    part.key.to_pylist(),
                    part.value.to_pylist(),
                    strict=True,
                )
            ]
    return sorted(shown, key=lambda record: (record["timestamp"], record["partition"]))


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    text = data[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
