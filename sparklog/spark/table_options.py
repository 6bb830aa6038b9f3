"""Options of SQL tables, which Spark's catalog keeps but does not hand to Python data sources.

`CREATE TABLE … USING sparklog OPTIONS (…)` gives them to the data source that is asked for the
schema, and to none after it: PythonDataSourceV2.getTable drops them (Spark 4.2). A table's schema
is handed over in every query, so they travel in the metadata of its first column.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

OPTIONS: Final = "sparklog.options"

_CREATED: Final = "provider"
"""The catalog says it of a table that is being created, and nobody else does."""
_TWICE: Final = "option."
"""The catalog hands every option of a table over twice, once with this before its name."""
_SPARKS_OWN: Final = frozenset(
    {
        *(_CREATED, "owner", "location", "external", "is_managed_location", "comment"),
        *("checkpointlocation", "queryname"),
    }
)
"""What Spark's catalog adds to a table's options, and what Spark itself reads of a stream's."""


def is_new_table(options: Mapping[str, str]) -> bool:
    """Whether these are the options of a table that is being created."""
    return any(name.lower() == _CREATED for name in options)


def without_sparks_own(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are ours, names in lower case."""
    lower = {name.lower(): value for name, value in options.items()}
    return {
        name: value
        for name, value in lower.items()
        if name not in _SPARKS_OWN and not name.startswith(_TWICE)
    }


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table with these options."""
    first, *others = schema.fields
    metadata = {OPTIONS: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, metadata=metadata), *others])


def options_of(schema: StructType) -> dict[str, str]:
    """Return the options of the table that has this schema; none when it is no table's."""
    for field in schema:
        if OPTIONS in field.metadata:
            found: dict[str, str] = json.loads(field.metadata[OPTIONS])
            return found
    return {}


def plain(schema: StructType) -> StructType:
    """Return a schema without what was put into it here."""
    return StructType([StructField(f.name, f.dataType, f.nullable) for f in schema])
