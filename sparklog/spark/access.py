"""The parsed options of the data source, and the readers and writers that they ask for.

Spark makes a data source in one process, plans its read in a second one and reads in others. So
modules are imported where they are needed.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from sparklog.config.connector import without_connector_options
from sparklog.config.options import BATCH_ONLY, SOURCE_OPTIONS, STREAM_OPTIONS, parse_options
from sparklog.errors import InvalidOptionError, SchemaError, SparklogWarning
from sparklog.spark.lake.table_options import PATH
from sparklog.spark.schema import input_columns, output_columns, output_schema
from sparklog.storage import Files, open_files

if TYPE_CHECKING:
    from sparklog.spark.reading.batch_reader import BatchReader
    from sparklog.spark.reading.stream_reader import StreamReader
    from sparklog.spark.writing.writers import BatchWriter, StreamWriter

_STREAM_ONLY: Final = tuple(option.name for option in STREAM_OPTIONS)
_OF_A_GROUP: Final = ("groupId", "auto.offset.reset")
"""Options that a batch ignores without startingOffsets=committed."""


class Access:
    """A log dir, and the options by which it is read or written.

    `options` are text, names in lower case: SOURCE_OPTIONS, `path`, and storage.<NAME>. Options of
    the connector that mean nothing without brokers are ignored, with a warning. Raises
    InvalidOptionError.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._log_dir = options.get(PATH)
        given = {name: value for name, value in options.items() if name != PATH}
        ours = without_connector_options(given)
        self._given, self._storage = parse_options(SOURCE_OPTIONS, ours)
        self._names = {name.lower() for name in ours}

    @property
    def schema(self) -> StructType:
        """The Kafka source's columns, or those that the option `columns` names."""
        return output_schema(output_columns(self._given))

    def batch_reader(self, schema: StructType) -> "BatchReader":
        """Return a batch reader for the options. Raises SchemaError if a schema is given."""
        self._check_schema(schema)
        from sparklog.spark.reading.batch_reader import BatchReader
        from sparklog.spark.reading.groups import starts_as_group
        from sparklog.spark.reading.selection import check_selectors

        self._warn(_STREAM_ONLY, "is for streams")
        if not starts_as_group(self._given):
            self._warn(_OF_A_GROUP, "is for startingOffsets=committed and for streams")
        check_selectors(self._given)
        return BatchReader(self._files(), self._given)

    def batch_writer(self, schema: StructType) -> "BatchWriter":
        """Return a writer of rows with these columns. Raises SchemaError, UnknownTopicError."""
        from sparklog.spark.writing.write_job import WriteJob, writing_catalog
        from sparklog.spark.writing.writers import BatchWriter

        catalog, columns = writing_catalog(self._files(), self._given), self._columns(schema)
        job = WriteJob.planned(catalog, self._given, columns)
        return BatchWriter(job, columns, is_done=job.is_committed(catalog))

    def stream_reader(self, schema: StructType) -> "StreamReader":
        """Return a reader of a stream.

        Raises SchemaError if a schema is given, InvalidOptionError for an option of batches.
        """
        self._check_schema(schema)
        for name in BATCH_ONLY:
            if self._given[name] is not None:
                raise InvalidOptionError(
                    f"option {name} is not allowed in a stream, which has no end and reads no past",
                    option=name,
                )
        from sparklog.spark.reading.groups import check_start
        from sparklog.spark.reading.selection import check_selectors
        from sparklog.spark.reading.stream_reader import StreamReader

        check_selectors(self._given)
        check_start(self._given)  # also where the checkpoint says where the stream goes on
        return StreamReader(self._files(), self._given)

    def stream_writer(self, schema: StructType) -> "StreamWriter":
        """Return a writer of micro-batches.

        Raises SchemaError, UnknownTopicError, and InvalidOptionError for an option of batches.
        """
        for name in ("txnAppId", "txnVersion"):
            if self._given[name] is not None:
                raise InvalidOptionError(
                    f"option {name} is not allowed in a stream, which commits each micro-batch "
                    f"once for its query id and batch id; it is for foreachBatch",
                    option=name,
                )
        from sparklog.spark.writing.write_job import WriteJob, writing_catalog
        from sparklog.spark.writing.writers import StreamWriter

        columns = self._columns(schema)
        catalog = writing_catalog(self._files(), self._given)
        return StreamWriter(WriteJob.planned(catalog, self._given, columns), columns)

    def _warn(self, names: Sequence[str], why: str) -> None:
        """Warn of those options that were given; a batch read ignores them."""
        for name in names:
            if name.lower() in self._names:
                problem = f"option {name} {why}, a batch read ignores it"
                warnings.warn(problem, SparklogWarning, stacklevel=3)

    def _files(self) -> Files:
        if not self._log_dir:
            raise InvalidOptionError(
                "no log dir: give it to load(…), save(…) or start(…), or as the option path (a SQL "
                "table keeps its options only if it is created without a list of columns and "
                "without AS SELECT, and takes rows only if topic is one of its columns)",
                option=PATH,
            )
        return open_files(self._log_dir, self._storage)

    def _columns(self, schema: StructType) -> list[str]:
        if self._given["clustered"] == "true":
            raise InvalidOptionError(
                "option clustered=true is for sparklog.spark.produce: a data source cannot ask "
                "Spark to shuffle; call df.repartition(…) before the write",
                option="clustered",
            )
        return input_columns(schema, needs_topic=self._given["topic"] is None)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self.schema:
            raise SchemaError(
                "the source has a fixed schema: schema(…) cannot be given, and no table be read "
                "that has other columns (by saveAsTable or ALTER TABLE, for example): the schema "
                f"is {self.schema.simpleString()}"
            )
