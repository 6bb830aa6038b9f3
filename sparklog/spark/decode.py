"""decode(): the values of records as columns; a value that cannot be decoded is counted, not fatal.

    JSON    parsed by the JVM (`from_json`), with a schema that is given or sampled
    Avro    with Confluent's header, by fastavro in the Python workers (`sparklog.spark.avro`)

Confluent's header is five bytes: 0, then the schema's id, big-endian. JSON with and without it is
decoded alike.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it
from pyspark.sql.types import BinaryType, StringType, StructType

from sparklog.errors import SchemaError, UsageError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

SCHEMA_ID: Final = "_schema_id"
ERROR: Final = "_error"
UNKNOWN_ID: Final = "unknown schema id"
"""The beginning of a value's error if the subject has no schema of its id."""
HEADER_BYTES: Final = 1 + 4
"""The size of Confluent's header."""


def decode(
    df: DataFrame,
    column: str = "value",
    *,
    schema: StructType | str | DataFrame | None = None,
    registry: "Mapping[str, Any] | SchemaRegistryClient | None" = None,
    subject: str | None = None,
    into: str = "decoded",
    observation: Observation | str = "sparklog.decode",
) -> DataFrame:
    """Return a DataFrame, batch or stream, with the decoded values of a binary or string column.

    Adds three columns: `into`, the decoded value; `_schema_id` (int), the id in Confluent's header;
    `_error` (string). If a value is broken, or its schema is unknown, `into` is null, and `_error`
    says why; for a null value all three are null. No value fails a query.

    Without `registry` values are JSON objects. `schema` is their type, as a StructType or in DDL,
    or a batch DataFrame with the column, from whose first 1,000 values the type is inferred; None:
    from `df` itself, if it is no stream.

    With `registry` (the configuration of confluent-kafka's SchemaRegistryClient, or a client)
    values are Avro with Confluent's header. This call fetches the schemas of all versions of
    `subject`, once; tasks do not ask the registry. `schema` is the reader's schema as Avro's JSON;
    None: the newest version's.

    `observation` names Spark's observed metrics `records`, `errors` and `unknown_ids`: an
    Observation for a batch, a name for a stream, whose progress has them in `observedMetrics`.

    Raises SchemaError for a column that is missing or of another type, and for a schema that Spark
    has no type for; UsageError for a stream without a schema, for a registry without a subject (and
    a subject without a registry), for a registry that cannot be reached, and for a subject that has
    no schema.
    """
    _check_columns(df, column, into, is_avro=registry is not None)
    if registry is None:
        from sparklog.spark.decode_json import json_decoded

        if subject is not None:
            raise UsageError(f"subject {subject!r} needs a registry")
        decoded = json_decoded(df, column, schema, into)
    else:
        from sparklog.spark.avro import avro_decoded
        from sparklog.spark.registry import resolved

        if subject is None:
            raise UsageError("a registry needs a subject, such as 'flights-value'")
        if not isinstance(schema, str | None):
            raise UsageError("with a registry, schema is the reader's schema as Avro's JSON")
        decoded = avro_decoded(df, column, resolved(registry, subject, schema), into)
    error = F.col(ERROR)
    return decoded.observe(
        observation,
        F.count(F.lit(1)).alias("records"),
        F.count(error).alias("errors"),
        F.count_if(error.startswith(UNKNOWN_ID)).alias("unknown_ids"),
    )


def _check_columns(df: DataFrame, column: str, into: str, *, is_avro: bool) -> None:
    found = [field.dataType for field in df.schema if field.name == column]
    if len(found) != 1:
        raise SchemaError(
            f"column {column} is there {len(found)} times; columns are {', '.join(df.columns)}",
            column=column,
        )
    allowed = (BinaryType,) if is_avro else (BinaryType, StringType)
    if not isinstance(found[0], allowed):
        names = " or ".join(kind().simpleString() for kind in allowed)
        raise SchemaError(
            f"column {column} is {found[0].simpleString()}: it must be {names}", column=column
        )
    taken = [name for name in (into, SCHEMA_ID, ERROR) if name in df.columns]
    if taken:
        raise SchemaError(
            f"column {taken[0]} is there already: rename it (withColumnRenamed)", column=taken[0]
        )
