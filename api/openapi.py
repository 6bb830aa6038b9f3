"""The OpenAPI document: what FastAPI finds out, and what it cannot know.

Bodies are read by the routes, which know the limits, so their schemas are named here; so are the
errors that every operation may answer with, and who may ask.
"""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from api import models
from api.records import PRODUCE, RECORD3

_REFERENCES: Final = "#/components/schemas/{model}"
_BODIES: Final = (
    models.LookupsIn,
    models.NewTopicIn,
    models.PartitionsCountIn,
    models.ConfigValueIn,
    models.ConfigChangesIn,
    models.ErrorBody,
)
_TYPED: Final[tuple[TypeAdapter[Any], ...]] = (PRODUCE, RECORD3)
_OPEN: Final = ("/healthy", "/ready")
_ERRORS: Final = {
    "400": "A request that the log does not allow (40002)",
    "401": "No valid token (40101)",
    "403": "A token without this scope on this topic (40301)",
    "404": "No such topic (40401), partition (40402), offset (40404) or resource (404)",
    "406": "No such form of records (406), or records that do not have it (40601)",
    "408": "A body that took too long",
    "413": "A body, or a record (41301), that is too large",
    "415": "A body of another type",
    "422": "A body or parameter that cannot be understood (422, 42201, 42203, 42206)",
    "429": "Too much waits to be committed (42901)",
    "500": "A failure (50002), or one that passes (50003)",
    "503": "The storage cannot be reached (50302)",
}


def describe(app: FastAPI) -> None:
    """Give the application its OpenAPI document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI says to extend it


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = document.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **_schemas()}
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, is_open=path in _OPEN)
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def _schemas() -> dict[str, Any]:
    _, found = models_json_schema(
        [(model, "validation") for model in _BODIES], ref_template=_REFERENCES
    )
    schemas: dict[str, Any] = found["$defs"]
    for adapter in _TYPED:
        schema = adapter.json_schema(ref_template=_REFERENCES)
        schemas |= schema.pop("$defs", {})
        schemas[schema["title"]] = schema
    schemas["Records"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/RecordOut"},
    }
    return schemas


def _complete(operation: dict[str, Any], *, is_open: bool) -> None:
    if not is_open:
        operation["security"] = [{"bearer": []}]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    operation["responses"] |= {
        status: {"description": text, "content": error} for status, text in _ERRORS.items()
    }
