"""Compaction: beside Kafka's own cleaner thread, and in a log ten times as large.

Both compact the same bytes: a dirty log of one partition, 100-byte records, each key five times.
Ours runs as the job does, with `SparkFleet` on a warm session: after a small compaction Python
workers have loaded the kernels, and Kafka's JVM has compiled its loops. The figure is of the whole
step, from the plan to the commit, everything synced; MB are 2^20 bytes, as in Kafka's report, of
the log before the newest segment.

Cost: the same dirty records supersede records in every segment of a clean log, and then in every
tenth segment of a log that is ten times as large.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from bench import keyed_log
from bench.figures import Bar, Figure
from bench.kafka_cleaner import Report, broker_with, clean
from bench.keyed_log import Int64s, append, new_log, shuffled, topic_image
from bench.settings import Settings
from bench.spark import seconds_of, spark_session
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.job import JobContext
from sparklog.metadata.catalog import Catalog
from sparklog.spark.jobs.fleet import SparkFleet
from sparklog.storage import open_files
from tests.kafka.broker import Broker

MB: Final = 1 << 20
TIMES_A_KEY: Final = 5
SEGMENT_BYTES: Final = 128 * MB
RECORD_BYTES: Final = 110
"""The approximate bytes of a record in the log."""
ROUNDS_MAX: Final = 3
TOUCHED: Final = 4
"""Clean segments in which records are superseded."""
TIMES_AS_LARGE: Final = 10
SUPERSEDED: Final = 0.05
"""The share of the records of such a segment."""


def run(settings: Settings) -> list[Figure]:
    """MB/s of ours and of Kafka's, their ratio; seconds in both logs, and their ratio."""
    with spark_session(**{"spark.jars": ""}) as spark:
        return [*_beside_kafka(spark, settings), *_cost(spark, settings)]


# --- beside Kafka --------------------------------------------------------------------------------


def _beside_kafka(spark: SparkSession, settings: Settings) -> list[Figure]:
    folder = settings.directory / "compact"
    dirty = dirty_log(folder / "dirty", settings.records)
    small = dirty_log(folder / "small", settings.records // 10)
    names = [f"round-{number}" for number in range(min(settings.rounds, ROUNDS_MAX))]
    compacted(spark, small, folder / "warm-up")
    rates, reports = [], []
    with broker_with(folder / "broker", {"warm-up": small} | dict.fromkeys(names, dirty)) as broker:
        clean(broker, "warm-up", end_of(small))
        for name in names:
            rates.append(compacted(spark, dirty, folder / name))
            reports.append(_cleaned(broker, name, dirty))
    shutil.rmtree(folder)
    keys = settings.records // TIMES_A_KEY
    group = f"compaction: {settings.records:,} records of 100 bytes, {keys:,} keys"
    ratios = [ours / theirs.rate for ours, theirs in zip(rates, reports, strict=True)]
    return [
        Figure.of_rounds(group, "compact", rates, "MB/s"),
        Figure.of_rounds(group, "Kafka's cleaner", [one.rate for one in reports], "MB/s"),
        Figure.of_rounds(group, "  indexing", [one.indexing for one in reports], "MB/s"),
        Figure.of_rounds(group, "  cleaning", [one.cleaning for one in reports], "MB/s"),
        Figure.of_rounds(group, "compact / Kafka's cleaner", ratios, "x", Bar(least=1.5)),
    ]


def dirty_log(log_dir: Path, records: int) -> Catalog:
    """A log that was never compacted: each key five times, in no order."""
    catalog = new_log(log_dir, SEGMENT_BYTES)
    segments = max(1, records * RECORD_BYTES // SEGMENT_BYTES)
    append(catalog, shuffled(records, records // TIMES_A_KEY, segments))
    return catalog


def end_of(catalog: Catalog) -> int:
    """The base offset of the newest segment."""
    return list(topic_image(catalog).segments(0))[-1].base_offset


def compacted(spark: SparkSession, catalog: Catalog, log_dir: Path) -> float:
    """MB/s of compacting a copy of a log, which is dropped; the copy shares the segments' files."""
    source = Path(catalog.files.uri.removeprefix("file://"))
    shutil.copytree(source, log_dir, copy_function=os.link)
    copy = Catalog(open_files(str(log_dir)))
    entries = list(topic_image(copy).segments(0))
    seconds = seconds_of(lambda: compact_once(spark, copy))
    keys = {entry.record_count for entry in entries[-1:]}
    left = sum(entry.record_count or 0 for entry in topic_image(copy).segments(0))
    expected = sum(entry.record_count or 0 for entry in entries[:-1]) // TIMES_A_KEY + sum(
        count or 0 for count in keys
    )
    if left != expected:
        raise RuntimeError(f"{left} records are left, not {expected}")
    shutil.rmtree(log_dir)
    return sum(entry.log_bytes for entry in entries[:-1]) / MB / seconds


def compact_once(spark: SparkSession, catalog: Catalog) -> None:
    """Run the job. Raises RuntimeError when it could not do all."""
    context = JobContext(catalog, SparkFleet(lambda: spark, is_quiet=True))
    (step,) = compact(context, [keyed_log.TOPIC], {"force": True, "reindex": False})
    outcome = step.execute()
    if outcome.problems:
        raise RuntimeError(f"not compacted: {outcome.problems}")


def _cleaned(broker: Broker, topic: str, catalog: Catalog) -> Report:
    report = clean(broker, topic, end_of(catalog))
    broker.delete_topic(topic)
    return report


# --- cost ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Clean:
    """A clean log to make: each key once; the keys of `superseded` are then written again."""

    segments: list[Int64s]
    superseded: Int64s


def _cost(spark: SparkSession, settings: Settings) -> list[Figure]:
    folder = settings.directory / "cost"
    rounds = min(settings.rounds, ROUNDS_MAX)
    segment_bytes = max(MB, settings.records // 10 * RECORD_BYTES // TOUCHED)
    seconds = {}
    for times in (1, TIMES_AS_LARGE):
        clean_log = _clean(segment_bytes, times)
        catalog = new_log(folder / "log", segment_bytes)
        append(catalog, clean_log.segments)
        compact_once(spark, catalog)
        append(catalog, [clean_log.superseded])
        seconds[times] = [_copied_and_compacted(spark, folder) for _ in range(rounds)]
        shutil.rmtree(folder)
    ratios = [large / small for small, large in zip(seconds[1], seconds[10], strict=True)]
    megabytes = TOUCHED * segment_bytes / MB
    group = f"compaction: {len(clean_log.superseded):,} records supersede in {TOUCHED} segments"
    return [
        Figure.of_rounds(group, f"of {megabytes:.0f} MB, all of them", seconds[1], "s"),
        Figure.of_rounds(group, f"of {10 * megabytes:.0f} MB, every tenth", seconds[10], "s"),
        Figure.of_rounds(group, "ten times as large", ratios, "x", Bar(most=3)),
    ]


def _clean(segment_bytes: int, times: int) -> _Clean:
    count = segment_bytes // RECORD_BYTES
    segments = [
        np.arange(number * count, (number + 1) * count) for number in range(TOUCHED * times)
    ]
    draw = np.random.default_rng(1)
    again = [
        draw.choice(keys, int(count * SUPERSEDED), replace=False) for keys in segments[::times]
    ]
    return _Clean(segments, draw.permutation(np.concatenate(again)))


def _copied_and_compacted(spark: SparkSession, folder: Path) -> float:
    shutil.copytree(folder / "log", folder / "copy", copy_function=os.link)
    catalog = Catalog(open_files(str(folder / "copy")))
    before = {entry.log_path for entry in topic_image(catalog).segments(0)}
    seconds = seconds_of(lambda: compact_once(spark, catalog))
    kept = before & {entry.log_path for entry in topic_image(catalog).segments(0)}
    if len(before) - len(kept) != TOUCHED + 2:
        raise RuntimeError(f"{len(before) - len(kept)} segments were rewritten")
    shutil.rmtree(folder / "copy")
    return seconds
