"""JSON values as a struct, by Spark's `from_json`."""

import json
from collections import Counter
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from sparklog.errors import SchemaError, UsageError
from sparklog.spark.decode import ERROR, HEADER_BYTES, SCHEMA_ID

SAMPLE_ROWS: Final = 1000
_SHOWN: Final = 100
"""The most characters of a broken value that its error shows."""
_PARSED: Final = "_sparklog_parsed"
_BROKEN: Final = "_sparklog_broken"
"""The field in which from_json keeps the text of a value that does not match the schema."""


def json_decoded(
    df: DataFrame, column: str, schema: StructType | str | DataFrame | None, into: str
) -> DataFrame:
    """Return the columns of `decode`, of JSON objects."""
    fields = _struct(df, column, schema)
    _refuse_alike(df, column, fields.names)
    data = F.col(_quoted(column)).cast("binary")
    is_framed = (F.length(data) >= HEADER_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    body = F.substring(data, HEADER_BYTES + 1, 2**31 - 1)
    text = F.when(is_framed, body).otherwise(data).cast("string")
    broken = StructField(_BROKEN, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    parsed = F.col(_PARSED)
    is_null_in_json = F.trim(text) == "null"
    # from_json takes the first element of an array where the schema has a struct.
    is_bad = parsed.isNull() | parsed[_BROKEN].isNotNull() | F.ltrim(text).startswith("[")
    error = F.concat(F.lit("no JSON of the schema: "), F.substring(text, 1, _SHOWN))
    row = F.struct(*[parsed[field.name].alias(field.name) for field in fields])
    unsigned = F.conv(F.hex(F.substring(data, 2, 4)), 16, 10).cast("long")
    schema_id = F.when(unsigned >= 2**31, unsigned - 2**32).otherwise(unsigned).cast("int")
    columns = [F.col(_quoted(name)) for name in df.columns]
    return df.withColumn(
        _PARSED, F.from_json(text, StructType([*fields.fields, broken]), options)
    ).select(
        *columns,
        F.when(~is_bad, row).alias(into),
        F.when(is_framed, schema_id).alias(SCHEMA_ID),
        F.when(data.isNotNull() & is_bad & ~is_null_in_json, error).alias(ERROR),
    )


def _struct(df: DataFrame, column: str, schema: StructType | str | DataFrame | None) -> StructType:
    if isinstance(schema, DataFrame):
        return _sampled(schema, column)
    if schema is None:
        if df.isStreaming:
            raise UsageError(
                "a stream is not sampled: give its schema, or a batch DataFrame of the same "
                "records to sample"
            )
        return _sampled(df, column)
    found: object = DataType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, DataType):
        raise SchemaError(
            f"schema {found!r}: it must be a StructType, DDL or a DataFrame", column=column
        )
    if not isinstance(found, StructType):
        raise SchemaError(f"schema {found.simpleString()} is no struct", column=column)
    return found


def _refuse_alike(df: DataFrame, column: str, names: list[str]) -> None:
    """Raise SchemaError for fields that Spark does not tell apart, as `id` and `ID`."""
    setting = df.sparkSession.conf.get("spark.sql.caseSensitive") or ""
    is_exact = setting.strip().lower() == "true"
    keys = names if is_exact else [name.lower() for name in names]
    counts = Counter(keys)
    alike = [name for name, key in zip(names, keys, strict=True) if counts[key] > 1]
    if alike:
        differ = len(set(alike)) == len(alike)
        advice = ", or set spark.sql.caseSensitive=true to read both" if differ else ""
        raise SchemaError(
            f"column {column}: fields {', '.join(alike)} have the same name to Spark: give a "
            f"schema with one of each{advice}",
            column=column,
        )


def _sampled(df: DataFrame, column: str) -> StructType:
    """Return the type of the objects among the first values."""
    data = F.col(_quoted(column)).cast("binary")
    rows = df.where(data.isNotNull()).select(data).limit(SAMPLE_ROWS).collect()
    objects = [one for (value,) in rows if isinstance(one := _parsed(bytes(value)), dict)]
    if not objects:
        raise UsageError(
            f"no JSON object among the first {len(rows)} values of column {column}: give a schema"
        )
    told = F.schema_of_json(F.lit(json.dumps(objects)))
    ((text,),) = df.sparkSession.range(1).select(told).collect()
    kind = DataType.fromDDL(text)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        raise SchemaError(f"the sampled values are {text}: no struct", column=column)
    return kind.elementType


def _parsed(data: bytes) -> Any:
    body = data[HEADER_BYTES:] if data[:1] == b"\0" else data
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
