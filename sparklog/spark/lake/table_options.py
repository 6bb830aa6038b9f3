"""Options of SQL tables, which Spark's catalog keeps but does not hand to Python data sources.

`CREATE TABLE … USING sparklog OPTIONS (…)` gives them to the data source that returns the schema,
and to no later one: PythonDataSourceV2.getTable drops them (Spark 4.2). Every query passes the
table's schema on, so the options are kept in the metadata of each of its columns.

DataFrames derived from the table inherit this metadata, too. So

    secrets       storage settings do not travel: a table with one is refused
    reads         options of a table count where no log dir is given
    writes        they count where no option is given and the columns are all of the table's, as
                  INSERT INTO has them, with `topic` among them

Spark gives the rows of an INSERT the metadata of its target only if it has to convert a column
(V2WriteCommand.outputResolved); otherwise they keep that of another table. So the type of `topic`
is VARCHAR with a length that is a hash of the options: no other table's is the same, and Spark
converts it. DataFrames show it as a string.
"""

import json
from collections.abc import Mapping
from typing import Final
from zlib import crc32

from pyspark.sql.types import DataType, StringType, StructField, StructType, VarcharType

from sparklog.config.options import STORAGE_PREFIX
from sparklog.errors import InvalidOptionError

OPTIONS: Final = "sparklog.options"
PATH: Final = "path"
"""The option that is the log dir; the catalog hands it over once, as the table's location."""
MARKED: Final = "topic"
"""The column whose type no other table has."""

_LENGTH_MIN: Final = 1_000_000
_LENGTHS: Final = 2_000_000_000
_CREATED: Final = "provider"
"""Only the catalog sets this key, for a table that is being created."""
_TWICE: Final = "option."
"""The catalog hands every option of a table over twice, once with this before its name."""
_SPARKS_OWN: Final = frozenset(
    {
        *(_CREATED, "owner", "location", "external", "is_managed_location", "comment"),
        *("checkpointlocation", "queryname"),
    }
)
"""Keys that Spark's catalog adds to a table's options, and options of a stream for Spark itself."""


def is_new_table(options: Mapping[str, str]) -> bool:
    """Whether these are the options of a table that is being created."""
    return any(name.lower() == _CREATED for name in options)


def without_sparks_own(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are ours, names in lower case; of a new table no TBLPROPERTIES."""
    lower = {name.lower(): value for name, value in options.items()}
    is_new = is_new_table(lower)
    return {
        name: value
        for name, value in lower.items()
        if name not in _SPARKS_OWN
        and not name.startswith(_TWICE)
        and (not is_new or name == PATH or f"{_TWICE}{name}" in lower)
    }


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table with these options (`without_sparks_own`).

    Raises InvalidOptionError for a storage setting.
    """
    for name in options:
        if name.startswith(STORAGE_PREFIX):
            raise InvalidOptionError(
                f"option {name} is not allowed in a table: it would stand in the catalog, and in "
                f"the schema of all DataFrames that are derived from the table; set it in the "
                f"environment of the driver and of the executors",
                option=name,
            )
    text = json.dumps(dict(options))
    mark = VarcharType(_LENGTH_MIN + crc32(text.encode()) % _LENGTHS)
    types: dict[str, DataType] = {one.name: one.dataType for one in schema}
    types |= {MARKED: mark} if MARKED in types else {}
    return StructType(
        [StructField(name, kind, metadata={OPTIONS: text}) for name, kind in types.items()]
    )


def options_of(schema: StructType) -> dict[str, str]:
    """Return the options of the table whose columns these are; none when one is not a table's."""
    found = {field.metadata.get(OPTIONS) for field in schema}
    text = found.pop() if len(found) == 1 else None
    options: dict[str, str] = {} if text is None else json.loads(text)
    return options


def plain(schema: StructType) -> StructType:
    """Return a schema without the options and the mark of `with_options`."""
    return StructType(
        [
            StructField(
                one.name,
                StringType() if isinstance(one.dataType, VarcharType) else one.dataType,
                one.nullable,
            )
            for one in schema
        ]
    )
