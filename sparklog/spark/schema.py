"""The columns of written and read records: those of the Kafka sink and source.

in    value (string or binary); optional: key (string or binary), topic (string),
      partition (int), headers (array<struct<key: string, value: binary>>),
      timestamp (timestamp, timestamp_ntz taken as UTC, or bigint milliseconds) and
      offset (bigint: the log's next offsets, in order; needs partition)
out   key binary, value binary, topic string, partition int, offset bigint,
      timestamp timestamp, timestampType int [, headers]
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparklog.config.options import RECORD_COLUMNS
from sparklog.errors import InvalidOptionError, SchemaError, SparklogWarning

_SPARK_COLUMNS: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def output_columns(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns that options (parsed CONSUME_OPTIONS) ask for, in order.

    The Kafka source's seven, and `headers` with `includeHeaders`; `columns` names others. Raises
    InvalidOptionError.
    """
    wanted: tuple[str, ...] | None = options["columns"]
    if wanted is None:
        return [name for name in RECORD_COLUMNS if options["includeHeaders"] or name != "headers"]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidOptionError(
            f"option columns: {','.join(wanted)!r} must name at least one column, and none twice",
            option="columns",
        )
    if options["includeHeaders"] and "headers" not in wanted:
        raise InvalidOptionError(
            "option columns leaves out headers, includeHeaders asks for them: drop one of the two",
            option="columns",
        )
    return list(wanted)


def output_schema(columns: Sequence[str] = RECORD_COLUMNS) -> StructType:
    """Return columns of a consumed DataFrame; all are nullable, as the connector's are."""
    return StructType([StructField(name, _SPARK_COLUMNS[name]) for name in columns])


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_json(name: str, kind: DataType) -> bool:
    """Whether a key or value can be written as JSON, as programs for Kafka usually do."""
    return name in ("key", "value") and isinstance(kind, StructType | ArrayType | MapType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    pairs = [(field.name, type(field.dataType)) for field in kind.elementType]
    return pairs == [("key", StringType), ("value", BinaryType)]


_INPUT: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "key": (_is_text, "string or binary"),
    "value": (_is_text, "string or binary"),
    "topic": (lambda kind: isinstance(kind, StringType), "string"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "int"),
    "headers": (_is_headers, "array<struct<key: string, value: binary>>"),
    "timestamp": (
        lambda kind: isinstance(kind, TimestampType | TimestampNTZType | LongType),
        "timestamp, timestamp_ntz or bigint (milliseconds)",
    ),
    "offset": (lambda kind: isinstance(kind, LongType), "bigint"),
}


INPUT_COLUMNS: Final = {name: allowed for name, (_, allowed) in _INPUT.items()}
"""The columns that a produce takes, and their types in words; `value` must be there."""


def input_columns(schema: StructType, *, needs_topic: bool) -> list[str]:
    """Return the columns of a DataFrame that are written, in the order of the table above.

    Other columns are ignored, as the Kafka sink ignores them; so is `topic` where an option names
    the topic. One that looks misspelt is warned of, for it may hold the keys. Raises SchemaError
    for a column that is missing (naming the nearest), there twice, differs only in case, or is of
    the wrong type.
    """
    names = [field.name for field in schema]
    types = {field.name: field.dataType for field in schema}
    _refuse_ambiguous(names)
    for name in ("value", *(("topic",) if needs_topic else ())):
        if name not in types:
            raise SchemaError(_missing(name, names), column=name)
    taken = [name for name in _INPUT if name in types and (needs_topic or name != "topic")]
    for name in taken:
        accepts, allowed = _INPUT[name]
        if not accepts(types[name]):
            hint = " (to_json makes a string of it)" if _is_json(name, types[name]) else ""
            raise SchemaError(
                f"column {name} is {types[name].simpleString()}: it must be {allowed}{hint}",
                column=name,
            )
    if "offset" in types and "partition" not in types:
        raise SchemaError(
            "column offset needs column partition: without either the log gives offsets",
            column="offset",
        )
    _warn_of_misspelt(names)
    return taken


def _refuse_ambiguous(names: list[str]) -> None:
    """Refuse a column that is there twice, or as `Key`, which Spark takes for `key`.

    The Kafka sink would ignore `Key` and lose the keys. Raises SchemaError.
    """
    for name in _INPUT:
        same = [given for given in names if given.lower() == name]
        if len(same) > 1:
            raise SchemaError(f"column {name} is there {len(same)} times", column=name)
        if same and same != [name]:
            raise SchemaError(f"column {same[0]} must be spelt {name}", column=same[0])


def _missing(name: str, present: list[str]) -> str:
    near = get_close_matches(name, present, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    other = " (or give the option topic)" if name == "topic" else ""
    return f"required column {name} not found{other}{hint}; columns are {', '.join(present)}"


def _warn_of_misspelt(names: list[str]) -> None:
    absent = [name for name in _INPUT if name not in names]
    ignored = [name for name in names if name not in RECORD_COLUMNS]
    for name in ignored:
        near = get_close_matches(name.lower(), absent, n=1, cutoff=0.8)
        if near:
            warnings.warn(
                f"column {name} is ignored; did you mean {near[0]}?", SparklogWarning, stacklevel=4
            )
