"""One Kafka producer writes 4,000 records/s to 1,000 topics of 4 partitions, at a gateway.

Each record is a batch of its own partition, so this is about the number of topics and slices, not
about bytes. A round is a minute; the bar is for ten of them, in one run: `--rounds 10`.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.figures import Bar, Figure
from bench.gateway_memory import resident_mb
from bench.group_load import cpu_seconds
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.kafka.jars import KAFKA, class_path, java
from tests.wire.processes import GatewayProcess, gateway_process

PROGRAM: Final = Path(__file__).with_name("ManyTopics.java")
TOPICS: Final = 1_000
PARTITIONS: Final = 4
RATE: Final = 4_000
"""Records a second over all topics."""
WARM_S: Final = 10
ROUND_S: Final = 60
SLICES_MAX: Final = 32


def run(settings: Settings) -> list[Figure]:
    """Measure one gateway; every figure is of one run."""
    seconds = settings.rounds * ROUND_S
    log_dir = settings.directory / "topics"
    AdminClient(log_dir).create_topics(
        [NewTopic(f"topic-{number}", PARTITIONS) for number in range(TOPICS)]
    )
    catalog = Catalog(open_files(str(log_dir)))
    with gateway_process(log_dir) as process:
        (rate, median, p99, most), cores, entries = _written(process, catalog, seconds)
        memory_mb = resident_mb(process)
        slices = _slices(catalog)
    group = f"{TOPICS:,} topics of {PARTITIONS} partitions, {RATE:,} records/s, {seconds} s"
    return [
        Figure(group, "acknowledged", rate, "records/s"),
        Figure(group, "latency, median", median, "ms"),
        Figure(group, "latency, p99", p99, "ms", Bar(most=250)),
        Figure(group, "latency, max", most, "ms"),
        Figure(group, "entries", entries, "/s", Bar(most=200)),
        Figure(group, "CPU of the gateway", cores, "cores", Bar(most=1)),
        Figure(group, "CPU of a record", 1e6 * cores / rate, "µs"),
        Figure(group, "memory of the gateway", memory_mb, "MB"),
        Figure(group, "slices of a partition, most", max(slices), "", Bar(most=SLICES_MAX)),
        Figure(group, "slices of a partition, mean", sum(slices) / len(slices), ""),
    ]


def _written(
    process: GatewayProcess, catalog: Catalog, seconds: int
) -> tuple[Sequence[float], float, float]:
    """Run the producer; return its figures, and cores and entries a second of the gateway."""
    arguments = [process.address, TOPICS, PARTITIONS, RATE, WARM_S, seconds]
    command = [java(), "-Xmx512M", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", class_path(KAFKA), str(PROGRAM), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as producer:
        assert producer.stdout is not None
        begun = producer.stdout.readline()
        begun_s = time.perf_counter()
        cpu, version = cpu_seconds(process.pid), catalog.image().version
        told = producer.stdout.readline()
        elapsed_s = time.perf_counter() - begun_s
        cpu, version = cpu_seconds(process.pid) - cpu, catalog.image().version - version
    if begun != "begun\n" or producer.returncode:
        raise RuntimeError(f"the producer ended with {producer.returncode}")
    return [float(number) for number in told.split()], cpu / elapsed_s, version / elapsed_s


def _slices(catalog: Catalog) -> list[int]:
    """Return how many slices of shared segments each partition has."""
    image = catalog.image(*catalog.topics().values())
    return [
        sum(entry.is_shared for entry in log.entries())
        for topic in image.topics.values()
        for log in topic.partitions.values()
    ]
