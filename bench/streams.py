"""Streams: what a micro-batch costs, how it is planned over many segments, and memory over many.

The peer of a micro-batch is one of an empty Python source and sink: what Spark itself takes. Every
micro-batch has one record, and the next begins at once.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.figures import Bar, Figure
from bench.lookups import SEGMENTS, TOPIC, fill, one_more
from bench.processes import memory_of, worker_pids
from bench.settings import Settings
from bench.spark import spark_session
from sparklog.admin import AdminClient, NewTopic
from sparklog.config.options import SOURCE_OPTIONS, parse_options
from sparklog.spark import produce
from sparklog.spark.reading.stream_reader import StreamReader
from sparklog.storage.open import open_files

BATCHES, WARM_UP = 60, 10
MANY_BATCHES = 1000
MIB = 2**20


def run(settings: Settings) -> list[Figure]:
    """Milliseconds of a micro-batch and of its plan; MiB that many micro-batches add."""
    folder = settings.directory / "streams"
    many = BATCHES if settings.quick else MANY_BATCHES
    with spark_session() as spark:
        spark.dataSource.register(EmptySource)
        rounds = [_batches(spark, folder / str(number)) for number in range(settings.rounds)]
        growth = _growth(spark, folder, many)
    empty, ours = zip(*rounds, strict=True)
    ratios = [our / their for our, their in zip(ours, empty, strict=True)]
    batch, group = "micro-batch, ", "streams: micro-batches of one record"
    return [
        Figure.of_rounds(group, f"{batch}empty source and sink", empty, "ms"),
        Figure.of_rounds(group, f"{batch}sparklog to sparklog", ours, "ms"),
        Figure.of_rounds(group, "sparklog / empty", ratios, "x", Bar(most=1.5)),
        Figure(group, f"largest worker, batch {many} less batch {many // 2}", growth, "MiB"),
        _planning(folder / "planning"),
    ]


def _batches(spark: SparkSession, folder: Path) -> tuple[float, float]:
    """Median milliseconds of a micro-batch: of the empty ones, and of ours."""
    empty = spark.readStream.format("empty").option("batches", BATCHES).load()
    log_dir = _log(spark, folder / "log", BATCHES)
    return (
        median(_run(empty, "empty", folder / "empty")),
        median(_run(_stream(spark, log_dir), "sparklog", folder / "ours", log_dir)),
    )


def _log(spark: SparkSession, path: Path, records: int) -> str:
    AdminClient(path).create_topics([NewTopic("in", 1), NewTopic("out", 1)])
    produce(spark.range(records).selectExpr("cast(id as string) value"), path, "in")
    return str(path)


def _stream(spark: SparkSession, log_dir: str) -> DataFrame:
    options = {"subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1"}
    return spark.readStream.format("sparklog").options(**options).load(log_dir).select("value")


def _run(df: DataFrame, sink: str, checkpoint: Path, path: str = "") -> list[float]:
    """Run to the end; return the milliseconds of each micro-batch that had rows."""
    df.sparkSession.conf.set("spark.sql.streaming.numRecentProgressUpdates", 2 * MANY_BATCHES)
    writer = df.writeStream.format(sink).option("checkpointLocation", str(checkpoint))
    query = writer.option("topic", "out").trigger(availableNow=True).start(path or None)
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    if len(progress) != BATCHES:
        raise RuntimeError(f"{len(progress)} micro-batches had rows, not {BATCHES}")
    return [float(one["durationMs"]["triggerExecution"]) for one in progress[WARM_UP:]]


def _growth(spark: SparkSession, folder: Path, batches: int) -> float:
    """How much the largest Python worker grows over the second half of many micro-batches."""
    log_dir = _log(spark, folder / "memory", batches)
    writer = _stream(spark, log_dir).writeStream.format("sparklog").option("topic", "out")
    where = str(folder / "memory-checkpoint")
    writer = writer.option("checkpointLocation", where).trigger(availableNow=True)
    query = writer.start(log_dir)
    half = 0
    largest = 0
    while query.isActive:
        last = query.lastProgress
        largest = max((memory_of(pid)[1] for pid in worker_pids()), default=largest)
        if not half and last is not None and last["batchId"] >= batches // 2:
            half = largest
        time.sleep(0.5)
    query.awaitTermination()
    return (largest - half) / MIB


def _planning(folder: Path) -> Figure:
    """Milliseconds that a reader takes to plan a micro-batch of one new segment among many."""
    first_ms = fill(folder)
    parsed, _ = parse_options(SOURCE_OPTIONS, {"subscribe": TOPIC, "startingOffsets": "latest"})
    reader = StreamReader(open_files(str(folder)), parsed)
    start = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    taken = []
    for number in range(BATCHES):
        one_more(folder, first_ms, number)
        began = time.perf_counter()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found = reader.partitions(start, end)
        taken.append((time.perf_counter() - began) * 1000)
        if len(found) != 1:
            raise RuntimeError(f"{len(found)} partitions, not 1")
        start = end
    group = f"a stream over {SEGMENTS:,} segments"
    return Figure.of_rounds(group, "plan of a micro-batch", taken, "ms", Bar(most=100))


class EmptySource(DataSource):
    """`format("empty")`: batches of one constant row each, and a sink that takes what comes."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: StructType) -> "EmptyReader":
        return EmptyReader(int(self.options["batches"]))

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,
    ) -> "EmptyWriter":
        return EmptyWriter()


class EmptyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One row a batch, as often as asked."""

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:
        return ReadMaxRows(1)

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(start["at"] + 1, self._batches)}

    def partitions(
        self,
        start: dict[str, int],
        end: dict[str, int],
    ) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([b"1"])], names=["value"])


class EmptyWriter(DataSourceStreamArrowWriter):
    """Takes rows and forgets them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass
