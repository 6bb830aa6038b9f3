"""Transactions of Kafka's Java client (version 2) at a gateway, beside a Kafka 4.1.1 broker.

A transaction has 10 records of 100 bytes over 4 partitions; broker and gateway are measured in
turns. The broker does not sync what it acknowledges, the gateway does: the floor of a transaction
is that of its two entries.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

from bench.figures import Bar, Figure
from bench.metadata import MS, commit_floor, timed
from bench.settings import Settings
from sparklog.admin import AdminClient, NewTopic
from tests.kafka.broker import running_broker
from tests.kafka.jars import KAFKA, class_path, java
from tests.wire.processes import gateway_process

PROGRAM: Final = Path(__file__).with_name("Transactions.java")
PARTITIONS: Final = 4
TOPICS: Final = ("bench", "read", "wait")
RECORDS: Final = 10
PRODUCERS: Final = (1, 8)
READ_RECORDS: Final = 1_000
"""Records of each transaction that is read."""
TIMEOUT_S: Final = 1200
FLOORS: Final = 100

Places = Mapping[str, str]
"""The bootstrap address of each."""


def run(settings: Settings) -> list[Figure]:
    """Measure producers, reads and a waiting reader, in turns."""
    with (
        running_broker(settings.directory / "broker") as broker,
        gateway_process(settings.directory / "log") as process,
    ):
        for topic in TOPICS:
            broker.create_topic(topic, PARTITIONS)
        AdminClient(settings.directory / "log").create_topics(
            [NewTopic(topic, PARTITIONS) for topic in TOPICS]
        )
        places = {"broker": broker.bootstrap, "gateway": process.address}
        figures: list[Figure] = []
        for count in PRODUCERS:
            figures += _written(places, count, settings)
        return [*figures, *_read(places, settings), *_waited(places, settings)]


def _written(places: Places, producers: int, settings: Settings) -> list[Figure]:
    """Return transactions a second, and how long one takes."""
    each = max((100 if settings.quick else 1_000) // producers, 50)
    found: dict[str, list[list[float]]] = {place: [] for place in places}
    floors, folder = list[float](), settings.directory / "floor"
    folder.mkdir(exist_ok=True)
    for _ in range(settings.rounds):
        floors.append(2 * MS * median(timed(lambda: commit_floor(folder), FLOORS)))
        for place, address in places.items():
            os.sync()  # the broker leaves its writes to the system
            told = asked("write", address, "bench", producers, each, RECORDS)
            found[place].append(told)
    group = f"Transactions of {RECORDS} records over {PARTITIONS} partitions, {producers} producer"
    group += "s" if producers > 1 else ""
    figures = [Figure.of_rounds(group, "floor: two entries, synced", floors, "ms")]
    for place, rounds in found.items():
        for slot, (name, unit) in enumerate((("", "/s"), (", median", "ms"), (", p99", "ms"))):
            numbers = [one[slot] for one in rounds]
            figures.append(Figure.of_rounds(group, f"{place}{name}", numbers, unit))
    ratios = [a[0] / b[0] for a, b in zip(found["gateway"], found["broker"], strict=True)]
    return [*figures, Figure.of_rounds(group, "gateway / broker", ratios, "x", Bar(least=1.0))]


def _read(places: Places, settings: Settings) -> list[Figure]:
    """Return how fast committed transactions are read, by either isolation level."""
    count = max(settings.records // 10 // READ_RECORDS, 1)
    group = f"Transactions of {READ_RECORDS} records, read"
    figures: list[Figure] = []
    for place, address in places.items():
        asked("write", address, "read", 1, count, READ_RECORDS)
        rates: dict[str, list[float]] = {"read_uncommitted": [], "read_committed": []}
        for _ in range(settings.rounds):
            for isolation, rounds in rates.items():
                rounds.extend(asked("read", address, "read", isolation, count * READ_RECORDS))
        for isolation, found in rates.items():
            figures.append(Figure.of_rounds(group, f"{place}, {isolation}", found, "records/s"))
        ratios = [a / b for b, a in zip(*rates.values(), strict=True)]
        bar = Bar(least=0.9) if place == "gateway" else None
        name = f"{place}, committed / uncommitted"
        figures.append(Figure.of_rounds(group, name, ratios, "x", bar))
    return figures


def _waited(places: Places, settings: Settings) -> list[Figure]:
    """Return how long after the end's answer a waiting reader has the records."""
    count = 50 if settings.quick else 300
    group = "A waiting read_committed consumer, after commitTransaction"
    found: dict[str, list[float]] = {place: [] for place in places}
    for _ in range(settings.rounds):
        for place, address in places.items():
            found[place].append(asked("wait", address, "wait", count)[0])
    bars = {"broker": None, "gateway": Bar(most=20)}
    return [
        Figure.of_rounds(group, f"{place}, median", rounds, "ms", bars[place])
        for place, rounds in found.items()
    ]


def asked(*arguments: object) -> list[float]:
    """Run the program; return the numbers of its last line."""
    command = [java(), "-Xmx512M", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", class_path(KAFKA), str(PROGRAM), *map(str, arguments)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if told.returncode:
        raise RuntimeError(f"{arguments}: {told.stdout[-2000:]}{told.stderr[-2000:]}")
    return [float(number) for number in told.stdout.splitlines()[-1].split()]
