"""Requests in every version: fields that a version does not have are left out."""

import io
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from kio.index import load_request_schema
from kio.serial import entity_writer

from sparklog.wire.protocol.versions import APIS, ApiKey

SOON: Final = timedelta(seconds=30)


def versions(key: ApiKey) -> range:
    """The versions that are served."""
    return range(APIS[key].min_version, APIS[key].max_version + 1)


def newest(key: ApiKey) -> int:
    """The newest version that is served."""
    return APIS[key].max_version


def body(key: ApiKey, version: int, **fields: Any) -> Any:
    """A request of kio's class."""
    return made(load_request_schema(key, version), **fields)


def part(key: ApiKey, version: int, kind: str, /, **fields: Any) -> Any:
    """A struct inside a request, by the name of its class."""
    module = import_module(load_request_schema(key, version).__module__)
    return made(getattr(module, kind), **fields)


def made(kind: Any, /, **fields: Any) -> Any:
    """An instance of kio's class, with those of the fields that it has."""
    known = kind.__dataclass_fields__
    return kind(**{name: value for name, value in fields.items() if name in known})


def encoded(entity: Any) -> bytes:
    """The bytes of an instance of kio's class, as kio writes them."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()
