"""Produce and consume against their floors and against Spark's Kafka connector.

Each round runs, in this order: floor of writing, our `format("sparklog")`, our `produce`, the
connector's; floor of reading, our `consume`, our format, the connector's. Rounds are interleaved so
that a slow minute slows all of them; dirty pages are written back before each measurement, so that
none pays for the one before. What floor and format have written is deleted at once, as the last
round's files are before the floor: all three write into memory that deleted files have just left.
Memory that has been free for some seconds is back with the host of a virtual machine, and getting
it again made a write 20 % slower (docs/decisions/0014).

The main load is measured twice: with Python workers that are there, and with workers that are ended
before each measurement. Spark ends a worker that has been idle for a minute, and the daemons stay.
"""

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench import connector, ours
from bench.figures import Bar, Figure
from bench.floors import FloorSource
from bench.processes import end_workers
from bench.settings import Settings
from bench.spark import Variant, drain, rows, seconds_of, spark_session
from tests.kafka.broker import Broker, running_broker

WARM_UP_SHARE = 5
"""The first variant is warmed up by a whole round, which the JVM needs; others by a fifth."""

WRITE_FLOOR, OUR_PRODUCE, CONNECTOR_PRODUCE = "floor of writing", "produce", "connector, produce"
READ_FLOOR, OUR_CONSUME, CONNECTOR_CONSUME = "floor of reading", "consume", "connector, consume"
OUR_WRITE, OUR_READ = "format(sparklog), write", "format(sparklog), read"
OUR_TWO_COLUMNS = "format(sparklog), read offset and timestamp"

RATIOS = {
    "produce / floor": (OUR_PRODUCE, WRITE_FLOOR),
    "produce / connector": (OUR_PRODUCE, CONNECTOR_PRODUCE),
    "write / floor": (OUR_WRITE, WRITE_FLOOR),
    "write / connector": (OUR_WRITE, CONNECTOR_PRODUCE),
    "consume / floor": (OUR_CONSUME, READ_FLOOR),
    "consume / connector": (OUR_CONSUME, CONNECTOR_CONSUME),
    "read / floor": (OUR_READ, READ_FLOOR),
    "read / connector": (OUR_READ, CONNECTOR_CONSUME),
    "two columns / all": (OUR_TWO_COLUMNS, OUR_READ),
}
WARM_BARS = {
    "produce / floor": Bar(least=0.75),
    "produce / connector": Bar(least=3.2),
    "write / floor": Bar(least=0.75),
    "write / connector": Bar(least=3.2),
    "consume / floor": Bar(least=0.70),
    "consume / connector": Bar(least=2.5),
    "read / floor": Bar(least=0.70),
    "read / connector": Bar(least=2.5),
    "two columns / all": Bar(least=1.5),
}
"""Of the first variant, by the name of the ratio."""
COLD_BARS = {
    "produce / connector": Bar(least=2.8),
    "write / connector": Bar(least=2.8),
    "consume / connector": Bar(least=2.0),
    "read / connector": Bar(least=2.0),
}
"""Of the same load after a pause: Spark ends Python workers that have been idle for a minute."""


def run(settings: Settings) -> list[Figure]:
    """Every variant: records/s of each measurement, and the ratios."""
    broker_dir = settings.directory / "broker"
    with running_broker(broker_dir) as broker, spark_session() as spark:
        spark.dataSource.register(FloorSource)
        peers = Peers(spark, broker, settings.directory)
        figures = []
        for number, variant in enumerate(variants(settings.records)):
            _warm_up(peers, variant, is_first=number == 0)
            rounds = [_round(peers, variant) for _ in range(settings.rounds)]
            figures += _figures(variant, rounds, {} if number else WARM_BARS)
            if number == 0:
                rounds = [_round(peers, variant, end_workers) for _ in range(settings.rounds)]
                gone = replace(variant, name=f"{variant.name}, workers gone")
                figures += _figures(gone, rounds, COLD_BARS)
        return figures


def variants(records: int) -> list[Variant]:
    """The main load first, then one change at a time; 1 KB values come in a tenth of the rows."""
    main = Variant("100 B values", records)
    return [
        main,
        replace(main, name="1 KB values", records=records // 10, value_bytes=1000),
        replace(main, name="100 B values, zstd", codec="zstd"),
        replace(main, name="100 B values, flush=none", flush="none"),
    ]


@dataclass(frozen=True, slots=True)
class Peers:
    """The session and the broker that are compared, and a directory to write to."""

    spark: SparkSession
    broker: Broker
    directory: Path


def _warm_up(peers: Peers, variant: Variant, *, is_first: bool) -> None:
    warm_up = variant.records if is_first else variant.records // WARM_UP_SHARE
    _round(peers, replace(variant, records=warm_up))


def _figures(
    variant: Variant, seconds: Sequence[Mapping[str, float]], bars: Mapping[str, Bar]
) -> list[Figure]:
    rates = {name: [variant.records / one[name] for one in seconds] for name in seconds[0]}
    group = f"{variant.name}: {variant.records:,} records, {variant.partitions} partitions"
    figures = [Figure.of_rounds(group, name, each, "records/s") for name, each in rates.items()]
    for name, (of, to) in RATIOS.items():
        each = [ours / theirs for ours, theirs in zip(rates[of], rates[to], strict=True)]
        figures.append(Figure.of_rounds(group, name, each, "x", bars.get(name)))
    return figures


def _round(
    peers: Peers, variant: Variant, before_each: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Seconds of each measurement, on files and a topic that are gone afterwards."""
    spark, broker = peers.spark, peers.broker
    scratch = peers.directory / uuid.uuid4().hex
    log_dir, floor, written = (scratch / name for name in ("log", "floor", "written"))
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, variant.partitions)
    ours.create(log_dir, variant)
    ours.create(written, variant)
    df = rows(spark, variant)
    work: dict[str, Callable[[], None]] = {
        WRITE_FLOOR: lambda: _write_floor(df, floor, variant),
        OUR_WRITE: lambda: ours.write(df, written, variant),
        OUR_PRODUCE: lambda: ours.produce(df, log_dir, variant),
        CONNECTOR_PRODUCE: lambda: connector.produce(df, broker.bootstrap, topic, variant),
        READ_FLOOR: lambda: drain(_read_floor(spark, variant)),
        OUR_CONSUME: lambda: drain(ours.consume(spark, log_dir)),
        OUR_READ: lambda: drain(ours.read(spark, log_dir)),
        OUR_TWO_COLUMNS: lambda: drain(ours.read(spark, log_dir, columns="offset,timestamp")),
        CONNECTOR_CONSUME: lambda: drain(connector.consume(spark, broker.bootstrap, topic)),
    }
    seconds = {}
    for name, each in work.items():
        before_each()
        seconds[name] = seconds_of(each)
        if name == WRITE_FLOOR:
            shutil.rmtree(floor)
        elif name == OUR_WRITE:
            _check(variant, ours.count(written, variant.partitions))
            shutil.rmtree(written)
    _check(
        variant, ours.count(log_dir, variant.partitions), connector.count(broker.bootstrap, topic)
    )
    broker.delete_topic(topic)
    shutil.rmtree(scratch)
    return seconds


def _check(variant: Variant, *found: int) -> None:
    if set(found) != {variant.records}:
        raise RuntimeError(f"{variant.records} records were produced, the topics hold {found}")


def _write_floor(df: DataFrame, path: Path, variant: Variant) -> None:
    sync = "true" if variant.flush == "fsync" else "false"
    df.write.format("floor").option("sync", sync).mode("append").save(str(path))


def _read_floor(spark: SparkSession, variant: Variant) -> DataFrame:
    return (
        spark.read.format("floor")
        .option("records", variant.records)
        .option("valuebytes", variant.value_bytes)
        .option("partitions", variant.partitions)
        .load()
    )
