"""The OpenAPI document: FastAPI's, with additions that FastAPI cannot know.

Routes read the bodies of requests themselves, so the schemas of these bodies are added here; so are
the errors of every operation, and the tokens that it asks for.
"""

from copy import deepcopy
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from sparklog.rest.payloads.batch import Batch3In
from sparklog.rest.payloads.records import PRODUCE, RECORD3
from sparklog.rest.schemas import models, models3

_REFERENCES: Final = "#/components/schemas/{model}"
_BODIES: Final = (
    models.LookupsIn,
    models3.NewTopicIn,
    models3.PartitionsCountIn,
    models3.ConfigValueIn,
    models3.ConfigChangesIn,
    models.ErrorBody,
)
_TYPED: Final[tuple[TypeAdapter[Any], ...]] = (PRODUCE, RECORD3, TypeAdapter(Batch3In))
_BASE64: Final[dict[str, Any]] = {
    "anyOf": [
        {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        },
        {"type": "null"},
    ]
}
_OPEN: Final = ("/healthy", "/ready")
_ERRORS: Final = {
    "400": "A request that the log does not allow (40002)",
    "401": "No valid token (40101)",
    "403": "A token without this scope on this topic (40301)",
    "404": "No such topic (40401), partition (40402), consumer (40403), offset (40404), "
    "group (40405) or resource (404)",
    "406": "No such format of records (406), or records that do not have it (40601)",
    "408": "A body that took too long",
    "413": "A body (413) or a record (41301) that is too large",
    "415": "A body with a Content-Type that is not allowed",
    "422": "A body or parameter that cannot be understood (422, 42201, 42203, 42206, 42208)",
    "429": "Too much waits to be committed, or for a thread (42901)",
    "500": "A failure (50002), or one that a retry may overcome (50003)",
    "503": "The storage cannot be reached (50302), or lookups took too long (50303)",
}


def describe(app: FastAPI, *, is_guarded: bool) -> None:
    """Give the application its OpenAPI document. `is_guarded`: the service asks for tokens."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, is_guarded)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI says to extend it


def _document(app: FastAPI, is_guarded: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    components = document.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **_schemas()}
    if is_guarded:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, is_guarded=is_guarded and path not in _OPEN)
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
    schemas |= _binary_schemas(schemas)
    schemas["Records"] = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/RecordOut"},
    }
    return schemas


def _binary_schemas(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of a v2 produce with base64 keys and values. Header values always are."""
    schemas["HeaderIn"]["properties"]["value"] = _BASE64
    record, produce = deepcopy(schemas["RecordIn"]), deepcopy(schemas["ProduceIn"])
    record["properties"] |= {"key": _BASE64, "value": _BASE64}
    produce["properties"]["records"]["items"] = {"$ref": "#/components/schemas/BinaryRecordIn"}
    return {"BinaryRecordIn": record, "BinaryProduceIn": produce}


def _complete(operation: dict[str, Any], *, is_guarded: bool) -> None:
    if is_guarded:
        operation["security"] = [{"bearer": []}]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    operation["responses"] |= {
        status: {"description": text, "content": error} for status, text in _ERRORS.items()
    }
