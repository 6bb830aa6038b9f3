"""The first records of a session that runs, but whose Python workers Spark has ended meanwhile.

Spark ends a worker that has been idle for a minute; here they are killed, which leaves the same:
the daemons that workers are forked from, and a JVM that has done it all before. The connector has
no Python, so to it nothing happens.
"""

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench import connector, ours
from bench.figures import Bar, Figure
from bench.processes import end_workers
from bench.settings import Settings
from bench.spark import Variant, rows, spark_session
from tests.kafka.broker import running_broker

LOAD = Variant("cold", records=1000)
SPARKS_OWN = {"spark.python.daemon.module": "pyspark.daemon"}

Reads = dict[str, Callable[[], DataFrame]]


def run(settings: Settings) -> list[Figure]:
    """Seconds of a read of 1,000 records without workers, with our daemon and with Spark's own."""
    log_dir, rounds = settings.directory / "cold", max(settings.rounds, 3)
    ours.create(log_dir, LOAD)
    with running_broker(settings.directory / "cold-broker") as broker:
        broker.create_topic(ours.TOPIC, LOAD.partitions)
        with spark_session() as spark:
            ours.produce(rows(spark, LOAD), log_dir, LOAD)
            connector.produce(rows(spark, LOAD), broker.bootstrap, ours.TOPIC, LOAD)
            reads = _reads(spark, log_dir)
            theirs = {"connector": lambda: connector.consume(spark, broker.bootstrap, ours.TOPIC)}
            cold = _cold(reads | theirs, rounds)
    with spark_session(**SPARKS_OWN) as spark:
        slow = _cold(_reads(spark, log_dir), rounds)
    return _figures(cold, slow)


def _reads(spark: SparkSession, log_dir: Path) -> Reads:
    return {
        "consume": lambda: ours.consume(spark, log_dir),
        "format(sparklog), read": lambda: ours.read(spark, log_dir),
    }


def _figures(cold: dict[str, list[float]], slow: dict[str, list[float]]) -> list[Figure]:
    group = "cold: 1,000 records, workers gone"
    ratios = [mine / its for mine, its in zip(cold["consume"], cold["connector"], strict=True)]
    bar = Bar(most=1.2)
    return [
        Figure.of_rounds(group, "consume", cold.pop("consume"), "s", bar),
        *(Figure.of_rounds(group, name, each, "s") for name, each in cold.items()),
        Figure.of_rounds(group, "consume / connector", ratios, "x", Bar(most=2)),
        *(
            Figure.of_rounds(group, f"{name}, Spark's own daemon", each, "s")
            for name, each in slow.items()
        ),
    ]


def _cold(reads: Reads, rounds: int) -> dict[str, list[float]]:
    """Seconds of each read in each round; all have been read before, by workers now gone."""
    for read in reads.values():
        _seconds(read)
    taken: dict[str, list[float]] = {name: [] for name in reads}
    for _ in range(rounds):
        for name, read in reads.items():
            end_workers()
            taken[name].append(_seconds(read))
    return taken


def _seconds(read: Callable[[], DataFrame]) -> float:
    start = time.perf_counter()
    found = len(read().select("offset", "value").collect())
    if found != LOAD.records:
        raise RuntimeError(f"{found} records, not {LOAD.records}")
    return time.perf_counter() - start
