"""The application: routes around a Service that lives as long as the server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from api.edge import Edge
from api.errors import add_error_handlers
from api.openapi import describe
from api.routes import clusters, offsets, operations, page, records, topics
from api.service import Service
from api.settings import Settings
from sparklog.clock import Clock, SystemClock


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
    add_error_handlers(app)
    for module in (offsets, records, topics, clusters, operations, page):
        app.include_router(module.router)
    describe(app)
    app.add_middleware(Edge, settings=settings, metrics=service.metrics)
    return app
