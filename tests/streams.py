"""A stream as Spark drives it, without Spark: it plans, reads, and begins again."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from sparklog.config.options import SOURCE_OPTIONS, parse_options
from sparklog.spark.reading.stream_reader import StreamReader
from tests.logs import append, catalog, new_topic

Json = dict[str, Any]
T0 = 1_700_000_000_000


def two_partitions(path: Path) -> str:
    """Topic `t` with two partitions of 10 records."""
    log_dir = new_topic(path, partitions=2)
    for partition in range(2):
        append(log_dir, partition, range(10), timestamps=[T0 + ms for ms in range(10)])
    return log_dir


class Stream:
    """A query: what Spark keeps between calls, and what has been read."""

    def __init__(self, log_dir: str, clock: Any = None, **options: Any) -> None:
        self.log_dir, self.clock = log_dir, clock
        self.options = {"subscribe": "t", "startingOffsets": "earliest", **options}
        self.at: str | None = None
        self.read: dict[str, list[int]] = {}
        self.restart()

    def restart(self) -> "Stream":
        """The driver is started again: only the checkpoint is left."""
        given = {name: value for name, value in self.options.items() if value is not None}
        parsed = parse_options(SOURCE_OPTIONS, given)[0]
        self.reader = StreamReader(catalog(self.log_dir).files, parsed, self.clock)
        return self

    @property
    def start(self) -> Json:
        found: Json = self.reader.initialOffset() if self.at is None else json.loads(self.at)
        return found

    def plan(self, limit: ReadLimit | None = None) -> str:
        """Where the next micro-batch ends, as text."""
        asked = limit or self.reader.getDefaultReadLimit()
        return json.dumps(self.reader.latestOffset(self.start, asked))

    def run(self, end: str) -> dict[str, list[int]]:
        """Run the micro-batch up to `end`; return the offsets read by partition."""
        found: dict[str, list[int]] = {}
        for partition in self.reader.partitions(self.start, json.loads(end)):
            for name, offset in self.rows(partition):
                found.setdefault(name, []).append(offset)
        return found

    def rows(self, partition: InputPartition) -> list[tuple[str, int]]:
        return [
            (f"{topic}-{number}", offset)
            for batch in self.reader.read(partition)
            for topic, number, offset in zip(
                *(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")),
                strict=True,
            )
        ]

    def step(self, limit: ReadLimit | None = None) -> dict[str, list[int]] | None:
        """One trigger; None when there was nothing to do."""
        end = self.plan(limit)
        if end == json.dumps(self.start):
            return None
        found = self.run(end)
        self.at = end
        return found


def span(start: int, end: int) -> list[int]:
    """Offsets from `start` to before `end`."""
    return list(range(start, end))
