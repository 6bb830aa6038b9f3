"""Routes that read their requests by hand: the most frequent ones.

FastAPI documents them, and refuses other methods (405). Their requests do not pass through FastAPI:
its work around an endpoint (layers of middleware, routing, parameters, validation, exit stacks,
serialisation) takes longer than a lookup.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_plus

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request alone and returns a Response."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


class PlainRoutes:
    """ASGI application of the PlainRoutes among the routes; errors leave it as they are."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        plain = [route for route in routes if isinstance(route, PlainRoute)]
        self._routes = [
            (route.path_regex.match, method, route)
            for route in plain
            for method in route.methods or ()
        ]

    def takes(self, scope: Scope) -> bool:
        """Whether a request is for one of these, which is then noted in its scope."""
        if scope.get("root_path"):
            return False
        path, method = scope["path"], scope["method"]
        for match, allowed, route in self._routes:
            if method == allowed and (found := match(path)):
                scope["path_params"] = found.groupdict()
                scope["route"] = route
                return True
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that `takes` was true for."""
        await scope["route"].app(scope, receive, send)


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
