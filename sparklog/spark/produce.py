"""produce(): writes a DataFrame to a log in one commit, and returns its offsets.

plan      the newest image of each topic
write     every Spark task encodes its rows straight into segment files, without a shuffle
commit    one commit of all topics gives the offsets, in (task, file) order
answer    the offset range of each partition
"""

from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame

from sparklog.config.connector import without_connector_options
from sparklog.config.options import PRODUCE_OPTIONS, parse_options
from sparklog.errors import UsageError
from sparklog.spark.connect import require_classic
from sparklog.spark.schema import input_columns
from sparklog.spark.session import require_workers
from sparklog.spark.writing.produce_result import ProduceResult
from sparklog.storage import open_files


def produce(
    df: DataFrame, log_dir: str | PathLike[str], topic: str | None = None, **options: Any
) -> ProduceResult:
    """Write a DataFrame's rows as records; return the offset range of each partition.

    Columns are those of Spark's Kafka sink: value (string or binary), and if there are such
    columns key (string or binary), topic (string; needed without the argument), partition (int),
    headers (array<struct<key: string, value: binary>>); and timestamp (timestamp, timestamp_ntz or
    bigint milliseconds) and offset (bigint; needs partition). Other columns are ignored.

    Options are Kafka's: `compression.type`, `batch.size`, `partitioner`, `segment.bytes`; and
    `flush`, `clustered`, `allowOffsetGaps`, `txnAppId` with `txnVersion`, `storage.<NAME>`. The
    names may begin with `kafka.`, as for the connector.

    With a column `offset` records keep their offsets, if these continue the log: in each partition
    they begin at the log end offset, rise in the order of each task's rows, and leave no gap
    (unless allowOffsetGaps). Otherwise, also when another producer has written meanwhile, the call
    raises UnexpectedAppendOffsetError, which names the place, and writes nothing.

    All partitions of all topics become visible in one commit, and with txnAppId and txnVersion only
    once. Raises the errors of sparklog.errors, also those of tasks; then nothing is visible, except
    perhaps after CommitOutcomeUnknownError. An error about a row gives the row's number in a batch,
    and the place of the batch's row 0: its number in a Spark partition (`spark_partition_id`; if
    `clustered`, after the shuffle). An error of the DataFrame itself is Spark's.
    """
    from sparklog.spark.writing.write_job import WriteJob, writing_catalog
    from sparklog.spark.writing.write_rows import written_segments

    require_batch(df)
    require_workers(df.sparkSession)
    given, storage = parse_options(
        PRODUCE_OPTIONS, without_connector_options(options, PRODUCE_OPTIONS)
    )
    given["topic"] = topic if topic is not None else given["topic"]
    columns = input_columns(df.schema, needs_topic=given["topic"] is None)
    catalog = writing_catalog(open_files(fspath(log_dir), storage), given)
    job = WriteJob.planned(catalog, given, columns)
    # A write that has landed is answered from its receipt: its rows are not even computed.
    if job.is_committed(catalog):
        return job.replayed(catalog)
    written = written_segments(df.select(*columns), job.task(), given["clustered"])
    return job.commit(catalog, written)


def require_batch(df: DataFrame) -> None:
    """Raise UsageError for a stream, and for a DataFrame of Spark Connect."""
    require_classic(df)
    if df.isStreaming:
        raise UsageError(
            "produce takes a batch DataFrame, this one is a stream: produce its batches in "
            "writeStream.foreachBatch, with txnAppId and txnVersion=batch id"
        )
