"""The application: routes around a Service that lives as long as the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI

from api.edge import Edge
from api.errors import add_error_handlers
from api.openapi import describe
from api.routes import (
    clusters,
    configs,
    offsets,
    operations,
    page,
    produce3,
    records,
    topics,
)
from api.service import Service
from api.settings import Settings
from sparklog.clock import Clock, SystemClock

_MODULES: Final = (offsets, records, produce3, topics, configs, clusters, operations, page)
_ROUTERS: Final = tuple(module.router for module in _MODULES)


def create_app(settings: Settings, *, clock: Clock | None = None) -> FastAPI:
    """Return the application. Raises SettingsError for a file of tokens that cannot be read."""
    service = Service(settings, clock or SystemClock())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="sparklog",
        version="1",
        summary="Kafka's log without brokers: lookups, fetch, produce and administration",
        lifespan=lifespan,
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.routes = [route for router in _ROUTERS for route in router.routes]
    add_error_handlers(app)
    # Not include_router: that looks for the route of every request twice more.
    app.router.routes.extend(app.state.routes)
    describe(app, is_guarded=settings.tokens_file is not None)
    app.add_middleware(Edge, settings=settings, metrics=service.metrics)
    return app
