"""The table of a topic: reading history from it, beside the connector and beside plain Parquet.

The table holds 95 % of the records. Every reader drains all columns of the Kafka source, or counts
by partition, or reads a time filter of 1 %. Rounds are interleaved; the first warms up. Building is
timed in this process, on one core, in turns with its two plain steps: decode the log, and write
Parquet.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from bench import connector, ours
from bench.figures import Bar, Figure
from bench.settings import Settings
from bench.spark import Variant, drain, seconds_of, spark_session
from sparklog.admin import AdminClient, NewTopic
from sparklog.fleet import LocalFleet
from sparklog.log_reader.slices import read_slices
from sparklog.log_reader.topic import TopicReader
from sparklog.maintenance.build_table import build_table
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.metadata.catalog import Catalog
from sparklog.record.record_batches import BatchMaker
from sparklog.spark import consume
from sparklog.storage import open_files
from sparklog.table.schema import ARROW_SCHEMA, COLUMNS
from tests.kafka.broker import Broker, running_broker

AUTO, LOG, PARQUET, CONNECTOR = "history=auto", "history=log", "plain Parquet", "connector"
AUTO_BARS = {"constant": 8.0, "random": 4.0}
OF_PARQUET, FEW_BAR = 0.7, 10.0
BUILD_MIB, OF_STEPS = 50.0, 0.8
STEP_MS = 10
"""Between the timestamps of two records of a partition."""
T0 = 1_600_000_000_000
VALUES = {
    "constant": "cast(repeat('x', 100) as binary)",
    "random": "cast(substr(concat(sha2(cast(id as string), 256), "
    "sha2(cast(-id as string), 256)), 1, 100) as binary)",
}


def run(settings: Settings) -> list[Figure]:
    """Records/s of every reader for constant and random values; building; sizes."""
    figures: list[Figure] = []
    with running_broker(settings.directory / "broker") as broker, spark_session(**DELTA) as spark:
        for kind in VALUES:
            log_dir = settings.directory / f"table-{kind}"
            load = Load(spark, broker, log_dir, kind, settings.records, settings.rounds)
            figures += _figures(load, settings.rounds)
            shutil.rmtree(load.log_dir)
    return figures


DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass
class Load:
    """One kind of records, in a topic of ours and in one of the broker's."""

    spark: SparkSession
    broker: Broker
    log_dir: Path
    kind: str
    records: int
    rounds: int
    built_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    log_bytes: int = 0
    table_bytes: int = 0

    def __post_init__(self) -> None:
        variant = Variant(self.kind, self.records)
        config = {"sparklog.table.enable": "true", "sparklog.table.target.lag.ms": 0}
        new = NewTopic(ours.TOPIC, variant.partitions, {**config, "retention.ms": -1})
        AdminClient(self.log_dir).create_topics([new])
        share = self.records * 95 // 100
        ours.produce(self._rows(0, share), self.log_dir, variant)
        for number in range(max(self.rounds, 1)):
            self.plain_s.append(seconds_of(self._plain_steps))
            self.built_s.append(seconds_of(partial(self._build, rebuild=number > 0)))
        ours.produce(self._rows(share, self.records), self.log_dir, variant)
        self.topic = f"table-{self.kind}"
        self.broker.create_topic(self.topic, variant.partitions)
        connector.produce(self._rows(0, self.records), self.broker.bootstrap, self.topic, variant)

    def _rows(self, start: int, end: int) -> DataFrame:
        return self.spark.range(start, end).selectExpr(
            "cast(cast(id % 100000 as string) as binary) key",
            f"{VALUES[self.kind]} value",
            f"timestamp_millis({T0} + id * {STEP_MS}) timestamp",
            "cast(id % 4 as int) partition",
        )

    def _plain_steps(self) -> None:
        """Decode all of the log, and write it as Parquet, on one core: nothing else."""
        catalog = Catalog(open_files(str(self.log_dir)))
        reader = TopicReader.open(catalog, ours.TOPIC)
        target = self.log_dir / "plain.parquet"
        with pq.ParquetWriter(target, ARROW_SCHEMA, compression="zstd") as writer:
            for number in range(reader.topic.num_partitions):
                to_batch = BatchMaker(ours.TOPIC, number, COLUMNS)
                held: list[pa.RecordBatch] = []
                slices = reader.slices(number, 0, reader.partition(number).log_end_offset)
                for records in read_slices(reader.files, reader.directory, slices):
                    held.append(to_batch(records))
                    if len(held) == 8:
                        writer.write_table(pa.Table.from_batches(held))
                        held = []
                if held:
                    writer.write_table(pa.Table.from_batches(held))
        target.unlink()

    def _build(self, *, rebuild: bool) -> None:
        context = JobContext(Catalog(open_files(str(self.log_dir))), LocalFleet())
        reports: list[StepReport] = []
        run = JobRun(name="build_table", job=build_table, options={"rebuild": rebuild})
        run.run(context, reports.append)
        outcomes = [one.outcome for one in reports if one.outcome is not None]
        self.log_bytes = sum(one.counts.get("log_bytes", 0) for one in outcomes)
        self.table_bytes = sum(one.counts["bytes"] for one in outcomes if "records" in one.counts)

    def readers(self) -> dict[str, DataFrame]:
        """Every way to read all records, with the same columns."""
        auto = consume(self.spark, self.log_dir, subscribe=ours.TOPIC, history="auto")
        (table,) = self.log_dir.glob(f"{ours.TOPIC}-*/table")
        files = DeltaTable(table).file_uris()
        return {
            AUTO: auto,
            LOG: ours.consume(self.spark, self.log_dir),
            PARQUET: self.spark.read.parquet(*files).select(*auto.columns),
            CONNECTOR: connector.consume(self.spark, self.broker.bootstrap, self.topic),
        }

    @property
    def few(self) -> str:
        """The condition of 1 % of the records."""
        start = T0 + self.records * STEP_MS // 2
        end = start + self.records * STEP_MS // 100
        return f"timestamp >= timestamp_millis({start}) AND timestamp < timestamp_millis({end})"


def _figures(load: Load, rounds: int) -> Iterator[Figure]:
    group = f"table of a topic, {load.kind} values of 100 B"
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for name, df in load.readers().items():
            works: dict[str, Callable[[], object]] = {
                "all columns": partial(drain, df),
                "count by partition": df.groupBy("partition").count().collect,
                "1 % by time": partial(drain, df.where(load.few)),
            }
            for what, work in works.items():
                seconds = seconds_of(work)
                if number or not rounds:
                    times.setdefault((what, name), []).append(seconds)
    rates = {key: [load.records / one for one in found] for key, found in times.items()}
    for (what, name), found in rates.items():
        yield Figure.of_rounds(group, f"{what}, {name}", found, "records/s")
    for what, bar in (
        ("all columns", AUTO_BARS[load.kind]),
        ("count by partition", FEW_BAR),
        ("1 % by time", FEW_BAR),
    ):
        ratio = median(rates[what, AUTO]) / median(rates[what, CONNECTOR])
        yield Figure(group, f"{what}, auto / connector", ratio, "", Bar(bar))
        # What plain Parquet reaches is the most that a reader of it can.
        ratio = median(rates[what, PARQUET]) / median(rates[what, CONNECTOR])
        yield Figure(group, f"{what}, plain Parquet / connector", ratio, "")
    of_parquet = median(rates["all columns", AUTO]) / median(rates["all columns", PARQUET])
    yield Figure(group, "all columns, auto / plain Parquet", of_parquet, "", Bar(OF_PARQUET))
    built = [load.log_bytes / 2**20 / one for one in load.built_s]
    yield Figure.of_rounds(group, "build_table", built, "MiB/s a core", Bar(BUILD_MIB))
    steps = [plain / one for plain, one in zip(load.plain_s, load.built_s, strict=True)]
    name = "build_table / decode and write Parquet"
    yield Figure.of_rounds(group, name, steps, "", Bar(OF_STEPS))
    yield Figure(group, "table / log, bytes", load.table_bytes / load.log_bytes, "")
