"""The schemas of a subject, fetched once from a schema registry, in the driver."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklog.errors import SchemaError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """Schemas, parsed by fastavro: the writers' schemas by id, and the reader's schema."""

    writers: Mapping[int, Any]
    reader: Any

    def arrow_type(self) -> "pa.DataType":
        """Return the type of a decoded value. Raises SchemaError."""
        from fastavro.schema import expand_schema

        from sparklog.spark.avro_types import arrow_type

        return arrow_type(expand_schema(self.reader))


def resolved(
    registry: "Mapping[str, Any] | SchemaRegistryClient", subject: str, reader: str | None
) -> AvroSchemas:
    """Fetch every version of a subject; `reader` is Avro's JSON, None for the newest version.

    Raises UsageError when the extra is missing, when the registry refuses or cannot be reached, and
    for schemas of another type than Avro; SchemaError for a text that is no Avro schema.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError
        from fastavro.schema import SchemaParseException
        from httpx2 import TransportError
    except ImportError as error:
        raise UsageError(
            f"Avro needs the extra registry: pip install 'sparklog[registry]' ({error})"
        ) from None
    if isinstance(registry, Mapping):
        registry = SchemaRegistryClient.new_client(dict(registry))
    try:
        versions = sorted(registry.get_versions(subject))
        found = [registry.get_version(subject, version) for version in versions]
        if not found:
            raise UsageError(f"subject {subject!r} has no schema in the registry")
        parsed = [_parsed(registry, subject, one.schema) for one in found]
        wanted = parsed[-1] if reader is None else _avro(json.loads(reader), {})
    except SchemaRegistryError as error:
        raise UsageError(f"subject {subject!r}: the registry answers {error}") from None
    except TransportError as error:
        where = error.request.url.copy_with(userinfo=b"", query=None)
        raise UsageError(
            f"subject {subject!r}: the registry cannot be reached at {where}: {error}"
        ) from None
    except (SchemaParseException, ValueError) as error:
        raise SchemaError(f"subject {subject!r}: no Avro schema: {error!r}", column="") from None
    ids = [one.schema_id or 0 for one in found]
    return AvroSchemas(dict(zip(ids, parsed, strict=True)), wanted)


def _parsed(client: "SchemaRegistryClient", subject: str, schema: "Schema") -> Any:
    named: dict[str, Any] = {}
    for one in _with_references(client, subject, schema):
        parsed = _avro(json.loads(one), named)
    return parsed


def _with_references(
    client: "SchemaRegistryClient", subject: str, schema: "Schema"
) -> Iterator[str]:
    """Yield the texts of the schemas that a schema refers to, each once, and then its own."""
    if schema.schema_type != "AVRO":
        raise UsageError(f"subject {subject!r} has a schema of type {schema.schema_type}: no Avro")
    seen: set[str] = set()
    for one in schema.references or ():
        name = str(one.subject)
        referred = client.get_version(name, one.version or "latest")
        for text in _with_references(client, name, referred.schema):
            if text not in seen:
                seen.add(text)
                yield text
    yield str(schema.schema_str)


def _avro(schema: Any, named: dict[str, Any]) -> Any:
    """Return a schema parsed by fastavro; adds its named types to `named`."""
    from fastavro.schema import parse_schema

    from sparklog.spark.avro_types import without_other_logical_types

    return parse_schema(without_other_logical_types(schema), named_schemas=named)
