"""The Arrow type and the Spark type of each Avro type.

    Avro                        Arrow                     Spark
    boolean, int, long          bool, int32, int64        boolean, int, bigint
    float, double               float, double             float, double
    bytes, fixed                binary                    binary
    string, enum                string                    string
    record                      struct                    struct
    array                       list                      array
    map                         map of strings            map
    [null, T]                   T                         T
    date                        date32                    date
    decimal                     decimal128                decimal
    timestamp-millis, -micros   timestamp[us, UTC]        timestamp
    local-timestamp-…           timestamp[us]             timestamp_ntz

Other logical types (uuid, time-…, duration) are ignored: the value has the underlying type. A union
of several types, a recursive record, and a decimal of more than 38 digits have no Spark type.
"""

from typing import Any, Final

import pyarrow as pa

from sparklog.errors import SchemaError

DECIMAL_DIGITS_MAX: Final = 38

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "null": pa.null(),
}
_NESTED: Final = {"type", "items", "values", "fields"}
"""The attributes of a schema that hold schemas."""
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def without_other_logical_types(schema: Any) -> Any:
    """Return a schema (parsed JSON) without the logical types that are not in the table above."""
    if isinstance(schema, list):
        return [without_other_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    is_kept = schema.get("logicalType") in {*_LOGICAL, "decimal"}
    return {
        name: without_other_logical_types(value) if name in _NESTED else value
        for name, value in schema.items()
        if is_kept or name != "logicalType"
    }


def arrow_type(schema: Any, path: str = "") -> pa.DataType:
    """Return the Arrow type of an expanded schema. Raises SchemaError that names the field."""
    match schema:
        case str() if schema in _PLAIN:
            return _PLAIN[schema]
        case [*branches]:
            return _union(branches, path)
        case {"type": "record", "fields": fields}:
            return pa.struct(
                [
                    (one["name"], arrow_type(one["type"], _below(path, one["name"])))
                    for one in fields
                ]
            )
        case {"type": "array", "items": items}:
            return pa.list_(arrow_type(items, _below(path, "items")))
        case {"type": "map", "values": values}:
            return pa.map_(pa.string(), arrow_type(values, _below(path, "values")))
        case {"logicalType": "decimal", "precision": int(precision)}:
            if precision > DECIMAL_DIGITS_MAX:
                raise _without_type(path, f"decimal of {precision} digits")
            return pa.decimal128(precision, schema.get("scale", 0))
        case {"logicalType": str(logical)} if logical in _LOGICAL:
            return _LOGICAL[logical]
        case {"type": kind}:
            return arrow_type(kind, path)
        case _:
            raise _without_type(path, f"recursive type {schema}")


def _union(branches: list[Any], path: str) -> pa.DataType:
    others = [one for one in branches if one != "null"]
    if len(others) > 1:
        raise _without_type(path, "union of several types")
    return arrow_type(others[0] if others else "null", path)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _without_type(path: str, what: str) -> SchemaError:
    where = f"field {path}" if path else "the schema"
    return SchemaError(
        f"{where} is a {what}, which Spark has no type for: give a reader's schema without it",
        column=path,
    )
