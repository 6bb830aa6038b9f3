"""Routes for operators: whether the process runs, whether it can serve, and its counters."""

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from sparklog.rest.deps import service_of, token_of
from sparklog.rest.errors import UNAVAILABLE, ApiError
from sparklog.service.metrics import CONTENT_TYPE
from sparklog.tokens import Resource, Scope

router = APIRouter(tags=["operations"])


class Status(BaseModel):
    """The answer if nothing is wrong."""

    status: str = "ok"


@router.get("/healthy")
async def read_health() -> Status:
    """Whether the process answers."""
    return Status()


@router.get("/ready")
async def read_readiness(request: Request) -> Status:
    """Whether the log dir can be read; 503 if it cannot, within a second."""
    problem = await service_of(request).readiness.problem()
    if problem is not None:
        raise ApiError(UNAVAILABLE, problem)
    return Status()


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(request: Request) -> Response:
    """The counters of this instance, for Prometheus."""
    token_of(request)
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE)


@router.get(
    "/metrics/kafka",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_kafka_metrics(request: Request) -> Response:
    """Metrics of the topics and groups that the token may read, for Prometheus.

    Names and labels are those of kafka_exporter.
    """
    token, service = token_of(request), service_of(request)
    text = await service.bulk(
        lambda: service.kafka_metrics.text(
            sees_topic=lambda name: token.allows(Scope.READ, name),
            sees_group=lambda name: token.allows(Scope.READ, name, Resource.GROUP),
        )
    )
    return Response(text, media_type=CONTENT_TYPE)
