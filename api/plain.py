"""Routes that read their requests by hand, for what is asked most often.

FastAPI documents them; what it does around an endpoint (parameters, validation, exit stacks,
serialisation) takes longer than a lookup. Errors reach the application's handlers all the same.
"""

from typing import Any
from urllib.parse import unquote_plus

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request alone and returns a Response."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def query_of(request: Request, name: str) -> str | None:
    """Return the last parameter of this name, None when there is none."""
    found = None
    for part in request.scope["query_string"].decode("latin-1").split("&"):
        key, _, value = part.partition("=")
        if key == name:
            found = unquote_plus(value)
    return found


class Json(Response):
    """An object as JSON, with the two headers that takes."""

    def __init__(self, content: object) -> None:
        self.body = orjson.dumps(content)
        self.status_code = 200
        self.background = None
        length = b"%d" % len(self.body)
        self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]
