"""Routes that read their requests by hand: the most frequent ones.

FastAPI documents them and refuses other methods (405), but does not see their requests: its work
around an endpoint (layers of middleware, routing, parameters, validation, exit stacks,
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
    """A route whose endpoint takes only the request, and returns a Response."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


class PlainRoutes:
    """ASGI application that serves the PlainRoutes among `routes`. It handles no errors."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        plain = [route for route in routes if isinstance(route, PlainRoute)]
        self._routes = [
            (route.path_regex.match, method, route)
            for route in plain
            for method in route.methods or ()
        ]

    def takes(self, scope: Scope) -> bool:
        """Whether one of these routes serves a request; the route is then noted in `scope`."""
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
        """Answer a request for which `takes` has returned True."""
        await scope["route"].app(scope, receive, send)


def query_of(request: Request, name: str) -> str | None:
    """Return the value of the last query parameter of this name; None if there is none."""
    found = None
    for part in request.scope["query_string"].decode("latin-1").split("&"):
        key, _, value = part.partition("=")
        if key == name or ("%" in key and unquote_plus(key) == name):
            found = unquote_plus(value)
    return found


class Json(Response):
    """An object as JSON, with only the two headers that it needs."""

    def __init__(self, content: object) -> None:
        self.body = orjson.dumps(content)
        self.status_code = 200
        self.background = None
        length = b"%d" % len(self.body)
        self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]
