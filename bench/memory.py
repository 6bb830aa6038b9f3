"""Memory of a Python worker: how far above its idle size it goes, whatever the input's size."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench import ours
from bench.figures import Bar, Figure
from bench.processes import Memory, watch_workers
from bench.settings import Settings
from bench.spark import Variant, rows, spark_session

MIB = 2**20
ABOVE_IDLE = Bar(most=500)
GROWTH_WITH_SIZE = Bar(most=1.1)
"""Ten times the range may take a tenth more: polled figures differ that much."""
VALUE_BYTES = 1000


def run(settings: Settings) -> list[Figure]:
    """Peaks of produce and consume over a small and a ten times larger range, above idle."""
    small = 100_000 if settings.quick else 1_000_000
    folder = settings.directory / "memory"
    with spark_session() as spark:
        return list(_figures(spark, folder, small))


def _figures(spark: SparkSession, folder: Path, small: int) -> Iterator[Figure]:
    group = "memory: largest Python worker above its idle size"
    loads = [Variant(_title(n), n, VALUE_BYTES) for n in (small, 10 * small)]
    idle = _peak_of_both(spark, folder, Variant("idle", 1000, VALUE_BYTES))
    consumed = []
    for load in loads:
        produced, read = _peak_of_both(spark, folder, load)
        for name, peak, base in (("produce", produced, idle[0]), ("consume", read, idle[1])):
            above = (peak.resident - base.resident) / MIB
            yield Figure(group, f"{name} {load.name}", above, "MiB", ABOVE_IDLE)
            yield Figure(
                group,
                f"{name} {load.name}, without pages of files",
                (peak.anonymous - base.anonymous) / MIB,
                "MiB",
            )
        consumed.append(read.resident)
    ratio = consumed[1] / consumed[0]
    yield Figure(group, "consume, large / small (whole worker)", ratio, "x", GROWTH_WITH_SIZE)


def _title(records: int) -> str:
    return f"{records * VALUE_BYTES / 1e9:g} GB"


def _peak_of_both(spark: SparkSession, folder: Path, load: Variant) -> tuple[Memory, Memory]:
    """Peaks while a load is produced, and while it is consumed."""
    shutil.rmtree(folder, ignore_errors=True)
    ours.create(folder, load)
    produced = _peak(lambda: ours.produce(rows(spark, load), folder, load))
    consumed = _peak(
        lambda: ours.consume(spark, folder).write.format("noop").mode("overwrite").save()
    )
    shutil.rmtree(folder)
    return produced, consumed


def _peak(work: Callable[[], object]) -> Memory:
    with watch_workers() as watch:
        work()
    return watch.peak
