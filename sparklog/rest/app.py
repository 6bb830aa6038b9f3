"""The application: routes around a Service that lives as long as the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from sparklog.clock import Clock, SystemClock
from sparklog.rest.edge import Edge
from sparklog.rest.errors import add_error_handlers
from sparklog.rest.openapi import describe
from sparklog.rest.plain import PlainRoutes
from sparklog.rest.routes import (
    clusters,
    configs,
    consumer_groups,
    offsets,
    operations,
    page,
    produce,
    produce3,
    records,
    topics,
)
from sparklog.rest.service import Service
from sparklog.rest.settings import Settings

_MODULES: Final = (
    offsets,
    produce,
    records,
    produce3,
    topics,
    configs,
    clusters,
    consumer_groups,
    operations,
    page,
)
_ROUTERS: Final = tuple(module.router for module in _MODULES)


class Application(FastAPI):
    """FastAPI; it only documents the plain routes, which are answered before it."""

    def __init__(self, service: Service, **options: Any) -> None:
        super().__init__(**options)
        self.state.service = service
        self.state.routes = routes = [route for router in _ROUTERS for route in router.routes]
        add_error_handlers(self)
        # Not include_router: it would match the route of every request twice more.
        self.router.routes.extend(routes)
        self.add_middleware(Edge, settings=service.settings, metrics=service.metrics)
        self._plain = PlainRoutes(routes)
        self._answer_plain = Edge(self._plain, service.settings, service.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; HEAD as GET (RFC 9110, 9.3.2): the server leaves the body out."""
        is_http = scope["type"] == "http"
        if is_http and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        if is_http and self._plain.takes(scope):
            scope["app"] = self
            await self._answer_plain(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(settings: Settings, *, clock: Clock | None = None) -> Application:
    """Return the application. Raises InvalidConfigError if the file of tokens cannot be read."""
    service = Service(settings, clock or SystemClock())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        works = [asyncio.create_task(work) for work in (service.let_go(), service.keep_house())]
        yield
        for one in works:
            one.cancel()
        await service.close()

    app = Application(
        service,
        title="sparklog",
        version="1",
        summary="Kafka's log without brokers: lookups, fetch, produce and administration",
        lifespan=lifespan,
        docs_url=None,  # its scripts would be loaded from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    describe(app, is_guarded=settings.tokens_file is not None)
    return app
