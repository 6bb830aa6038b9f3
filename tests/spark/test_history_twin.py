"""Goal: `auto` has the rows of `log`, whatever has happened to a topic, and while things happen.

Method: a log dir lives by chance, as those of tests.soak.table do: gaps, transactions, compaction,
retention, imported logs, tables of many small files. Reads of random ranges of all topics together
are planned; then records are produced, merged and copied, files of the table are merged; then they
run.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparklog.metadata.catalog import Catalog
from sparklog.spark import consume
from sparklog.storage import open_files
from tests.soak.table_lives import Life, build, make_topics, produce, small, work, write

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TURNS = 8
READS = 3


class Log:
    """A log dir that lives by chance."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.log_dir = str(folder / "log")
        self.draw = random.Random(seed)
        self.catalog = Catalog(open_files(self.log_dir), flush=False)
        self.topics = make_topics(self.log_dir, self.catalog)
        self._life = Life(self.log_dir, "test", str(seed), None, False, folder / "journal")

    def live(self) -> None:
        """Let all sorts of things happen."""
        for _ in range(TURNS):
            self.draw.choice((write, write, work, build))(self._life, self.catalog, self.draw)

    def go_on(self) -> None:
        """Let things happen that take no record out of the log."""
        produce(self.catalog, self.draw, "later", has_gaps=self.draw.random() < 0.5)
        build(self._life, self.catalog, self.draw)

    def check(self) -> None:
        """No job had a problem."""
        journal = self._life.journal
        assert not journal.exists(), journal.read_text()

    def options(self) -> dict[str, Any]:
        """A read of random ranges of all topics."""
        isolation = self.draw.choice(("read_committed", "read_uncommitted"))
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for name in self.topics:
            logs = self.catalog.topic_image(self.catalog.topic(name)).partitions
            for number, log in logs.items():
                low, high = log.log_start_offset, log.end_offset(isolation)
                start, end = sorted(self.draw.randint(low, high) for _ in range(2))
                starts.setdefault(name, {})[str(number)] = start
                ends.setdefault(name, {})[str(number)] = end
        return {
            "subscribe": ",".join(starts),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            "isolation.level": isolation,
            "includeHeaders": "true",
        }


def rows(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


@pytest.mark.parametrize("seed", range(2))
def test_auto_has_the_rows_of_the_log(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    with small():
        log = Log(tmp_path, seed)
        for _ in range(READS):
            log.live()
            options = log.options()
            auto = consume(spark, log.log_dir, history="auto", **options)
            expected = rows(consume(spark, log.log_dir, **options))
            log.go_on()

            assert rows(auto) == expected
        log.check()
