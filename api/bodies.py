"""JSON bodies: read, parsed, refused; and what OpenAPI says of them."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, TypeAdapter, ValidationError

from api.errors import INVALID_JSON, ApiError

Model = TypeVar("Model")

JSON_TYPES: Final = ("application/json", "application/vnd.kafka.v2+json")


def content_type(request: Request) -> str:
    """Return the media type of the body, in lower case, without parameters; "" for none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request, adapter: TypeAdapter[Model]) -> Model:
    """Return the JSON body. Raises ApiError: 415 for another type, 422 for what it may not be."""
    if content_type(request) not in JSON_TYPES:
        raise ApiError(415, f"the body has the Content-Type {' or '.join(JSON_TYPES)}")
    return parsed(await request.body(), adapter)


def parsed(body: bytes, adapter: TypeAdapter[Model]) -> Model:
    """Return what JSON says. Raises ApiError (422)."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> ApiError:
    """Return the refusal of a body, naming the first five problems."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)[:5]
    places = [".".join(map(str, problem["loc"])) for problem in problems]
    told = [
        f"{place}: {problem['msg']}" if place else problem["msg"]
        for place, problem in zip(places, problems, strict=True)
    ]
    is_json = all(problem["type"] != "json_invalid" for problem in problems)
    return ApiError(422 if is_json else INVALID_JSON, "; ".join(told))


def body_docs(
    model: type[BaseModel] | str, example: Any, types: tuple[str, ...] = JSON_TYPES
) -> dict[str, Any]:
    """Return what OpenAPI says of a body; `model` is one of those that api.openapi names."""
    name = model if isinstance(model, str) else model.__name__
    schema: Mapping[str, Any] = {"$ref": f"#/components/schemas/{name}"}
    content = {kind: {"schema": schema, "example": example} for kind in types}
    return {"requestBody": {"required": True, "content": json.loads(json.dumps(content))}}
