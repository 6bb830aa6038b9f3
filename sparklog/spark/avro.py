"""Avro values with Confluent's header as columns, by fastavro.

The header names the schema that wrote a value. The value is read by that schema into the reader's
schema (Avro's schema resolution).
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sparklog.spark.decode import ERROR, HEADER_BYTES, SCHEMA_ID, UNKNOWN_ID
from sparklog.spark.registry import AvroSchemas
from sparklog.spark.session import require_workers

if TYPE_CHECKING:
    import pyarrow as pa

_ERROR_CHARS: Final = 200


def avro_decoded(df: DataFrame, column: str, schemas: AvroSchemas, into: str) -> DataFrame:
    """Return the columns of `decode` for Avro with Confluent's header."""
    import pyarrow as pa

    require_workers(df.sparkSession)
    added = pa.schema([(into, schemas.arrow_type()), (SCHEMA_ID, pa.int32()), (ERROR, pa.string())])
    fields = [*df.schema.fields, *from_arrow_schema(added).fields]
    return df.mapInArrow(AvroTask(df.columns.index(column), schemas, added), StructType(fields))


class AvroTask:
    """The function of `mapInArrow` that decodes one column; the others pass through."""

    def __init__(self, index: int, schemas: AvroSchemas, added: "pa.Schema") -> None:
        self._index = index
        self._schemas = schemas
        self._added = added

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Yield each batch with the three columns."""
        import pyarrow as pa

        for batch in batches:
            columns = self.decoded(batch.column(self._index).to_pylist())
            names = [*batch.schema.names, *self._added.names]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], names)

    def decoded(self, values: Sequence[bytes | None]) -> "list[pa.Array]":
        """Return the decoded values, their schemas' ids, and their errors."""
        import pyarrow as pa

        rows = decoded_rows(self._schemas, values)
        kind = self._added.types[0]
        try:
            found = _array(rows.values, kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            # A value that is valid Avro does not fit its Arrow type: find it.
            _fit(rows, kind)
            found = _array(rows.values, kind)
        return [found, pa.array(rows.ids, pa.int32()), pa.array(rows.errors, pa.string())]


def _array(values: "Sequence[Any]", kind: "pa.DataType") -> "pa.Array":
    """Return values as an Arrow array; records field by field, which is three times as fast."""
    import pyarrow as pa

    if not pa.types.is_struct(kind) or not kind.num_fields:
        return pa.array(values, kind)
    nothing = dict.fromkeys(kind.names)
    is_null = [value is None for value in values]
    rows = [value or nothing for value in values] if any(is_null) else values
    fields = [pa.array([*map(itemgetter(one.name), rows)], one.type) for one in kind]
    return pa.StructArray.from_arrays(fields, fields=[*kind], mask=pa.array(is_null, pa.bool_()))


class Rows(NamedTuple):
    """Decoded values, their schemas' ids, and their errors, each as many as there were values."""

    values: list[Any]
    ids: list[int | None]
    errors: list[str | None]


def decoded_rows(schemas: AvroSchemas, values: Sequence[bytes | None]) -> Rows:
    """Return the decoded values, ids and errors; never raises."""
    # One function: its loop is the only cost beside fastavro's.
    from fastavro import schemaless_reader

    reader, count = schemas.reader, len(values)
    writers = {
        b"\0" + schema_id.to_bytes(4, "big", signed=True): (schema_id, writer)
        for schema_id, writer in schemas.writers.items()
    }
    rows = Rows([None] * count, [None] * count, [None] * count)
    found, ids, errors = rows
    for at, data in enumerate(values):
        if data is None:
            continue
        known = writers.get(data[:HEADER_BYTES])
        if known is None:
            ids[at], errors[at] = _unknown(data)
            continue
        ids[at], writer = known
        source = BytesIO(data)
        source.seek(HEADER_BYTES)
        try:
            value = schemaless_reader(source, writer, reader)
        except Exception as error:  # noqa: BLE001 - fastavro raises any error
            errors[at] = _told(error)
            continue
        if source.tell() == len(data):
            found[at] = value
        else:
            left = len(data) - source.tell()
            errors[at] = f"{left} bytes follow the value: another schema wrote it"
    return rows


def _unknown(data: bytes) -> tuple[int | None, str]:
    """Return the id in the header of a value (None without a header), and why it is not decoded."""
    if len(data) < HEADER_BYTES or data[0]:
        return None, "no header of Confluent's: it is a byte 0 and a schema id of four bytes"
    schema_id = int.from_bytes(data[1:HEADER_BYTES], "big", signed=True)
    return schema_id, f"{UNKNOWN_ID} {schema_id}"


def _fit(rows: Rows, kind: "pa.DataType") -> None:
    """Turn values that do not have this type into errors."""
    import pyarrow as pa

    for at, value in enumerate(rows.values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as unfit:
            rows.values[at], rows.errors[at] = None, _told(unfit)


def _told(error: Exception) -> str:
    return f"broken: {type(error).__name__}: {error}"[:_ERROR_CHARS]
