"""The data source `sparklog`: a log dir read and written as DataFrames, streams and SQL tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sparklog.errors import InvalidOptionError, SparklogError
from sparklog.spark.access import Access
from sparklog.spark.connect import is_connect
from sparklog.spark.lake.table_options import (
    MARKED,
    PATH,
    is_new_table,
    options_of,
    plain,
    with_options,
    without_sparks_own,
)
from sparklog.spark.session import require_pyarrow, require_workers


class RefusedStream(DataSourceStreamReader):
    """In place of the reader of a stream that cannot be read: raises its error in the first step.

    If the data source itself raised it, the query would end with an UnboundLocalError of PySpark's
    (python_streaming_source_runner stops a reader that it does not have).
    """

    def __init__(self, error: SparklogError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        raise self._error

    def latestOffset(
        self,
        start: dict[str, Any],  # noqa: ARG002 - Spark's
        limit: ReadLimit,  # noqa: ARG002 - Spark's
    ) -> dict[str, Any]:
        """Raise the error: a stream with a checkpoint begins with this step, or with the next."""
        raise self._error

    def partitions(
        self,
        start: dict[str, Any],  # noqa: ARG002 - Spark's
        end: dict[str, Any],  # noqa: ARG002 - Spark's
    ) -> list[InputPartition]:
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - Spark's
        """Raise the error."""
        raise self._error


class SparklogDataSource(DataSource):
    """Topics of a log dir; the path is the log dir. Options are those of Spark's Kafka connector.

    Name: `sparklog`. Options: sparklog.config.options.SOURCE_OPTIONS, and storage.<NAME>. Options
    of the connector that mean nothing without brokers are ignored, with a warning.

        spark.read.format("sparklog").option("subscribe", "flights").load(log_dir)
        df.write.format("sparklog").option("topic", "flights").mode("append").save(log_dir)
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that `format(…)` takes."""
        return "sparklog"

    def __init__(self, options: Mapping[str, str]) -> None:
        require_pyarrow()
        self._given = without_sparks_own(options)
        self._is_new_table = is_new_table(options)
        Access(self._given)  # refuses a wrong option in the call that gives it

    def schema(self) -> StructType:
        """Return the Kafka source's columns, or those that the option `columns` names."""
        schema = Access(self._given).schema
        return with_options(schema, self._given) if self._is_new_table else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader for the options. Raises SchemaError if a schema is given."""
        return self._reading(schema).batch_reader(plain(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with these columns."""
        if overwrite:
            raise InvalidOptionError(
                "a log is only appended to: mode overwrite is not allowed, use mode append "
                "(to empty a topic: AdminClient.delete_records)",
                option="mode",
            )
        return self._writing(schema).batch_writer(plain(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of a stream; its first step raises what is wrong with the options."""
        try:
            return self._reading(schema).stream_reader(plain(schema))
        except SparklogError as error:
            return RefusedStream(error)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of micro-batches."""
        if overwrite:
            raise InvalidOptionError(
                "a log is only appended to: output mode complete is not allowed, use append",
                option="outputMode",
            )
        if PATH not in self._given:  # the schema may have the options of the table that is read
            raise InvalidOptionError(
                "no log dir: give it to start(…), or as the option path (a SQL table cannot be the "
                "sink of a stream: toTable is not allowed)",
                option=PATH,
            )
        return Access(self._given).stream_writer(plain(schema))

    def _reading(self, schema: StructType) -> Access:
        """Return the parsed options of a reader; if they have no log dir, also the SQL table's."""
        if PATH in self._given:
            return Access(self._given)
        return Access({**options_of(schema), **self._given})

    def _writing(self, schema: StructType) -> Access:
        """Return the parsed options of a writer; for INSERT INTO, those of the SQL table.

        INSERT INTO gives no option, and all columns of the table in their order. Without the column
        whose type is the table's alone, the options might be those of another table.
        """
        if self._given:
            return Access(self._given)
        table = Access(options_of(schema))
        is_all = schema.names == table.schema.names and MARKED in schema.names
        return table if is_all else Access({})


def register(spark: SparkSession) -> None:
    """Make `format("sparklog")` known to a session that does not know it yet.

    Where the package is installed Spark finds it by itself (`pyspark_sparklog`), and would warn of
    a second registration. Raises UsageError when the session's workers cannot run it.
    """
    require_workers(spark)
    if is_connect(spark):
        spark.dataSource.register(SparklogDataSource)
        return
    session = spark._jsparkSession  # noqa: SLF001 - nothing public tells which sources there are
    if not session.sessionState().dataSourceManager().dataSourceExists(SparklogDataSource.name()):
        spark.dataSource.register(SparklogDataSource)
