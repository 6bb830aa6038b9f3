"""The peer of compaction: a broker's cleaner thread, and the figures that it logs.

The segments are put under a stopped broker, so both compact the same bytes. A topic is not
compacted before its policy says so: a small one is compacted first, so that the JVM is warm.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.keyed_log import TOPIC, topic_image
from sparklog.metadata.catalog import Catalog, topic_directory
from tests.kafka.broker import Broker, running_broker
from tests.kafka.dump import SegmentFiles
from tests.kafka.scenarios import mount

TIMEOUT_S: Final = 600
INFORMANTS: Final = ("org.apache.kafka.storage.internals.log",)
SETTINGS: Final = {
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
}
"""One thread with Kafka's default of memory: five million keys at once."""

_REPORT = re.compile(
    r"cleaned log (?P<topic>\S+)-0 .*?"
    r"(?P<mb>[\d.,]+) MB of log processed in (?P<seconds>[\d.,]+) seconds"
    r" \((?P<rate>[\d.,]+) MB/sec\).*?"
    r"Indexed [^(]*\((?P<indexing>[\d.,]+) Mb/sec.*?"
    r"Cleaned [^(]*\((?P<cleaning>[\d.,]+) Mb/sec",
    re.DOTALL,
)


class Report(NamedTuple):
    """The cleaner's figures of one round: MB of log, and MB/s in all and of its two halves."""

    mb: float
    rate: float
    indexing: float
    cleaning: float


@contextmanager
def broker_with(directory: Path, logs: Mapping[str, Catalog]) -> Iterator[Broker]:
    """A broker that holds a copy of each log as the topic of that name; nothing is cleaned yet."""
    with running_broker(directory, SETTINGS, INFORMANTS) as broker:
        for topic in logs:
            configs = {"retention.ms": "-1", "min.cleanable.dirty.ratio": "0.01"}
            broker.create_topic(topic, config=configs)
        broker.stop()
        for topic, catalog in logs.items():
            mount(broker, topic, _segments(catalog))
        broker.start()
        yield broker


def clean(broker: Broker, topic: str, end_offset: int) -> Report:
    """Let the cleaner compact a topic up to an offset; return its report."""
    broker.set_topic_config(topic, "cleanup.policy", "compact")
    broker.await_cleaner(topic, end_offset, TIMEOUT_S)
    reports = [found for found in _REPORT.finditer(broker.log_text) if found["topic"] == topic]
    if len(reports) != 1:
        raise RuntimeError(f"{topic} was cleaned in {len(reports)} rounds, not in one")
    names = ("mb", "rate", "indexing", "cleaning")
    return Report(*(float(reports[0][name].replace(",", "")) for name in names))


def _segments(catalog: Catalog) -> list[SegmentFiles]:
    folder = Path(catalog.files.uri.removeprefix("file://"))
    folder /= topic_directory(catalog.topic(TOPIC))
    return [
        SegmentFiles(
            entry.base_offset,
            folder / entry.log_path,
            folder / entry.index_path if entry.index_path else None,
            folder / entry.time_index_path if entry.time_index_path else None,
        )
        for entry in topic_image(catalog).segments(0)
    ]
