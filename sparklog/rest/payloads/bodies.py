"""JSON bodies: reads and parses them, refuses bad ones, and describes them in OpenAPI."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from sparklog.rest.errors import INVALID_JSON, ApiError
from sparklog.rest.payloads.json_parts import Text, check_values
from sparklog.rest.payloads.media_types import PLAIN_JSON, V2

Model = TypeVar("Model")


def _not_lax(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("must be a number, not text or a boolean")
    return value


NUMBER: Final = BeforeValidator(_not_lax)
"""Validator for an int in a body: without it pydantic takes true and '5' for numbers."""

BYTES_MAX: Final = 4 * 1024 * 1024
"""The most bytes of a body without records. Ten thousand lookups have a quarter of that."""

JSON_TYPES: Final = (PLAIN_JSON, V2)


def content_type(request: Request) -> str:
    """Return the media type of the body, in lower case, without parameters; "" for none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def received(request: Request) -> bytearray:
    """Return the body. `request.body()` would need twice the memory while it joins the parts."""
    body = bytearray()
    async for part in request.stream():
        body += part
    return body


async def body_of(request: Request, adapter: TypeAdapter[Model]) -> Model:
    """Return the JSON body of a request without records.

    Raises ApiError: 413 for too many bytes or values, 415 for another type, 422 for a body that the
    adapter refuses.
    """
    if content_type(request) not in JSON_TYPES:
        raise ApiError(415, f"the body has the Content-Type {' or '.join(JSON_TYPES)}")
    body = await received(request)
    if len(body) > BYTES_MAX:
        raise ApiError(413, f"a body without records has at most {BYTES_MAX} bytes")
    check_values(body)
    return parsed(body, adapter)


def parsed(body: Text, adapter: TypeAdapter[Model], place: tuple[str, int] = ("", 0)) -> Model:
    """Return the parsed JSON. Raises ApiError (422, or 42203 for text that is not JSON)."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise invalid(error, place) from None


def invalid(error: ValidationError, place: tuple[str, int] = ("", 0)) -> ApiError:
    """Return the refusal of a body, naming the first five problems.

    `place` says where a parsed part belongs in the body: the name of its list, and the number of
    the part's first element.
    """
    problems = error.errors(include_url=False, include_input=False, include_context=False)[:5]
    places = [".".join(map(str, _placed(problem["loc"], *place))) for problem in problems]
    told = [
        f"{place}: {problem['msg']}" if place else problem["msg"]
        for place, problem in zip(places, problems, strict=True)
    ]
    is_json = all(problem["type"] != "json_invalid" for problem in problems)
    return ApiError(422 if is_json else INVALID_JSON, "; ".join(told))


def _placed(loc: tuple[int | str, ...], name: str, first: int) -> tuple[int | str, ...]:
    if not name:
        return loc
    return (name, first + int(loc[0]), *loc[1:]) if loc else (name, first)


def body_docs(models: type[BaseModel] | Mapping[str, str], example: Any) -> dict[str, Any]:
    """Return OpenAPI's description of a body: of a model, or of model names by content type."""
    if not isinstance(models, Mapping):
        models = dict.fromkeys(JSON_TYPES, models.__name__)
    content = {
        kind: {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": deepcopy(example)}
        for kind, name in models.items()
    }
    return {"requestBody": {"required": True, "content": content}}
