"""The gateway beside a Kafka 4.1.1 broker on this machine: the same tools of Kafka's, in turns.

The broker does not sync what it acknowledges. The gateway does; a second one does not (flush=none).
Figures of the tools are those of their last line.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from statistics import median

from bench.figures import Bar, Figure
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from tests.kafka.broker import running_broker
from tests.kafka.jars import KAFKA, class_path, java
from tests.wire.processes import gateway_process

TOPIC = "bench"
PARTITIONS = 4
_RATE = re.compile(r"sent, ([0-9.]+) records/sec .* ([0-9.]+) ms 50th, .* ([0-9.]+) ms 99th")
VARIANTS: Mapping[str, Sequence[str]] = {
    "100 B, defaults": (),
    "100 B, batch.size=1 MiB": ("batch.size=1048576",),
    "1 KB, defaults": (),
}
SIZES = {"1 KB, defaults": 1000}
LEAST = {"100 B, defaults": 0.9, "100 B, batch.size=1 MiB": 1.1}


def run(settings: Settings) -> list[Figure]:
    """Measure producers, in turns."""
    figures: list[Figure] = []
    with (
        running_broker(settings.directory / "broker") as broker,
        gateway_process(settings.directory / "log") as process,
        gateway_process(settings.directory / "unsynced", "--flush", "none") as unsynced,
    ):
        broker.create_topic(TOPIC, PARTITIONS)
        for log_dir in ("log", "unsynced"):
            AdminClient(settings.directory / log_dir).create_topics([NewTopic(TOPIC, PARTITIONS)])
        places = {"broker": broker.bootstrap, "gateway": process.address}
        everywhere = places | {"gateway, flush=none": unsynced.address}
        for place in everywhere.values():  # warm up
            produced(place, settings.records // 10, ())
        for name, properties in VARIANTS.items():
            rates: dict[str, list[float]] = {place: [] for place in everywhere}
            for _ in range(settings.rounds):
                for place, bootstrap in everywhere.items():
                    os.sync()  # the broker leaves its writes to the system
                    count, size = settings.records, SIZES.get(name, 100)
                    count = count * 100 // size
                    rates[place].append(produced(bootstrap, count, properties, size_bytes=size)[0])
            group = f"kafka-producer-perf-test, {name}"
            for place, found in rates.items():
                figures.append(Figure.of_rounds(group, place, found, "records/s"))
            broker_rates = rates.pop("broker")
            for place, found in rates.items():
                ratios = [a / b for a, b in zip(found, broker_rates, strict=True)]
                bar = Bar(least=LEAST[name]) if name in LEAST else None
                figures.append(Figure.of_rounds(group, f"{place} / broker", ratios, "x", bar))
        figures += _latency(places, settings)
    return figures


def _latency(places: Mapping[str, str], settings: Settings) -> list[Figure]:
    """Return median and p99 of an acknowledged record at 2,000 records a second.

    Twice: of a producer that sends at once, and of one with Kafka's linger.ms of 5, in which a
    record waits some 2.5 ms before it is sent.
    """
    return [*_latency_with(0, places, settings), *_latency_with(5, places, settings)]


def _latency_with(
    linger_ms: int, places: Mapping[str, str], settings: Settings
) -> Sequence[Figure]:
    count = 10_000 if settings.quick else 120_000
    properties = (f"linger.ms={linger_ms}",)
    found: dict[str, list[tuple[float, float, float]]] = {place: [] for place in places}
    for _ in range(settings.rounds):
        for place, bootstrap in places.items():
            os.sync()
            found[place].append(produced(bootstrap, count, properties, rate=2000))
    group = f"2,000 records/s, linger.ms={linger_ms}, latency"
    figures = []
    for place, rounds in found.items():
        medians, worst = [one[1] for one in rounds], [one[2] for one in rounds]
        bars: tuple[Bar | None, Bar | None] = (None, None)
        if place == "gateway":
            bars = Bar(most=4), Bar(most=max(25.0, 1.2 * median(one[2] for one in found["broker"])))
        figures += [
            Figure.of_rounds(group, f"{place}, median", medians, "ms", bars[0]),
            Figure.of_rounds(group, f"{place}, p99", worst, "ms", bars[1]),
        ]
    return figures


def produced(
    bootstrap: str, count: int, properties: Sequence[str], rate: int = -1, size_bytes: int = 100
) -> tuple[float, float, float]:
    """Run ProducerPerformance; return records/s, median and 99th percentile in ms."""
    given = [f"bootstrap.servers={bootstrap}", *properties]
    command = [java(), "-Xmx512M", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", class_path(KAFKA), "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", TOPIC, "--num-records", str(count), "--record-size", str(size_bytes)]
    command += ["--throughput", str(rate), "--producer-props", *given]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = [found for line in told.stdout.splitlines() if (found := _RATE.search(line))]
    if not lines:
        raise RuntimeError(f"{told.stdout[-2000:]}{told.stderr[-2000:]}")
    rate_found, middle, p99 = map(float, lines[-1].groups())
    return rate_found, middle, p99
