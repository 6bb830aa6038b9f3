"""Avro values with Confluent's header as columns, by fastavro.

A value is read by the schema that wrote it, into the reader's schema (Avro's schema resolution).
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sparklog.spark.decode import ERROR, SCHEMA_ID, UNKNOWN_ID
from sparklog.spark.registry import AvroSchemas
from sparklog.spark.session import require_workers

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER_BYTES: Final = 5
_ERROR_CHARS: Final = 200


def avro_decoded(df: DataFrame, column: str, schemas: AvroSchemas, into: str) -> DataFrame:
    """Return the columns of `decode`, of Avro with Confluent's header."""
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

        decode = AvroDecoder(self._schemas)
        rows = [decode(value) for value in values]
        kind = self._added.types[0]
        try:
            found = _array([row[0] for row in rows], kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            # A value that Avro lets pass does not fit its type: find it.
            rows = [_fitting(row, kind) for row in rows]
            found = _array([row[0] for row in rows], kind)
        ids, errors = ([row[at] for row in rows] for at in (1, 2))
        return [found, pa.array(ids, pa.int32()), pa.array(errors, pa.string())]


def _array(values: "Sequence[Any]", kind: "pa.DataType") -> "pa.Array":
    """Return values as Arrow has them; of records field by field, which is three times as fast."""
    import pyarrow as pa

    if not pa.types.is_struct(kind) or not kind.num_fields:
        return pa.array(values, kind)
    rows = [value or {} for value in values]
    fields = [pa.array([row.get(one.name) for row in rows], one.type) for one in kind]
    is_null = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(fields, fields=[*kind], mask=is_null)


Row = tuple[Any, int | None, str | None]
"""A decoded value, its schema's id, its error."""


class AvroDecoder:
    """Decodes values one by one."""

    def __init__(self, schemas: AvroSchemas) -> None:
        from fastavro import schemaless_reader

        self._read = schemaless_reader
        self._schemas = schemas

    def __call__(self, data: bytes | None) -> Row:
        """Return what a value holds; never raises."""
        if data is None:
            return None, None, None
        if len(data) < _HEADER_BYTES or data[0]:
            return None, None, "no header of Confluent's: the first byte must be 0, an id follow"
        schema_id = int.from_bytes(data[1:_HEADER_BYTES], "big", signed=True)
        writer = self._schemas.writers.get(schema_id)
        if writer is None:
            return None, schema_id, f"{UNKNOWN_ID} {schema_id}"
        source = BytesIO(data)
        source.seek(_HEADER_BYTES)
        try:
            value = self._read(source, writer, self._schemas.reader)
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever broken bytes lead to
            return None, schema_id, _told(error)
        if source.tell() < len(data):
            left = len(data) - source.tell()
            return None, schema_id, f"{left} bytes follow the value: another schema wrote it"
        return value, schema_id, None


def _fitting(row: Row, kind: "pa.DataType") -> Row:
    """Return a row whose value has this type; its error otherwise."""
    import pyarrow as pa

    value, schema_id, error = row
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as unfit:
        return None, schema_id, _told(unfit)
    return value, schema_id, error


def _told(error: Exception) -> str:
    return f"broken: {type(error).__name__}: {error}"[:_ERROR_CHARS]
