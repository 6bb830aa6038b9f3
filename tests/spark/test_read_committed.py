"""isolation.level in Spark: what consumers of a broker see of transactions, in every kind of read.

The broker wrote a transaction that was committed (offsets 0 to 9, its marker 10), one that was
aborted (11 to 20, 21), one that was committed (22 to 31, 32), and plain records.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparklog.admin import AdminClient
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.spark import consume
from tests.compat.cases import BROKER
from tests.logs import catalog, new_topic, rows
from tests.transactions import Client, new_log_dir

pytestmark = pytest.mark.spark

TOPIC = "transactional"
ABORTED = [*range(11, 21)]
COMMITTED = [*range(10), *range(22, 32), *range(33, 43)]
EVERYTHING = [*range(10), *ABORTED, *range(22, 32), *range(33, 43)]

LEVELS = pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, EVERYTHING),
        ({"isolation.level": "read_uncommitted"}, EVERYTHING),
        ({"isolation.level": "read_committed"}, COMMITTED),
        ({"kafka.isolation.level": "read_committed"}, COMMITTED),
        ({"isolation.level": "read_committed", "minPartitions": "9"}, COMMITTED),
    ],
)
RANGES = pytest.mark.parametrize(
    ("start", "end", "expected"), [(15, 19, []), (8, 24, [8, 9, 22, 23]), (10, 11, [])]
)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The broker's topic, imported."""
    path = str(tmp_path_factory.mktemp("committed") / "log")
    options = ImportOptions(topics=[TOPIC])
    (report,) = import_log_dirs(AdminClient(path), catalog(path), [str(BROKER)], options)
    assert report.problem is None
    return path


def offsets(df: DataFrame) -> list[int]:
    return sorted(row.offset for row in df.select("offset").collect())


def between(start: int, end: int) -> dict[str, str]:
    """The options of a committed read of [start, end)."""
    return {
        "isolation.level": "read_committed",
        "startingOffsets": f'{{"{TOPIC}": {{"0": {start}}}}}',
        "endingOffsets": f'{{"{TOPIC}": {{"0": {end}}}}}',
    }


class TestConsume:
    @LEVELS
    def test_sees_what_it_asks_for(
        self, spark: SparkSession, log_dir: str, options: dict[str, Any], expected: list[int]
    ) -> None:
        assert offsets(consume(spark, log_dir, subscribe=TOPIC, **options)) == expected

    @RANGES
    def test_sees_of_a_range_what_is_committed(
        self, spark: SparkSession, log_dir: str, start: int, end: int, expected: list[int]
    ) -> None:
        df = consume(spark, log_dir, subscribe=TOPIC, **between(start, end))

        assert offsets(df) == expected


class TestBatch:
    @LEVELS
    def test_sees_what_it_asks_for(
        self, spark: SparkSession, log_dir: str, options: dict[str, Any], expected: list[int]
    ) -> None:
        reader = spark.read.format("sparklog").option("subscribe", TOPIC).options(**options)

        assert offsets(reader.load(log_dir)) == expected

    @RANGES
    def test_sees_of_a_range_what_is_committed(
        self, spark: SparkSession, log_dir: str, start: int, end: int, expected: list[int]
    ) -> None:
        reader = spark.read.format("sparklog").option("subscribe", TOPIC)

        assert offsets(reader.options(**between(start, end)).load(log_dir)) == expected


class TestStream:
    @LEVELS
    def test_sees_what_it_asks_for(
        self,
        spark: SparkSession,
        log_dir: str,
        tmp_path: Path,
        options: dict[str, Any],
        expected: list[int],
    ) -> None:
        """Micro-batches begin and end within transactions, and the stream is started twice."""
        copy = new_topic(tmp_path / "copy", TOPIC, 1)
        for _ in range(2):
            source = spark.readStream.format("sparklog").options(
                subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=17, **options
            )
            sink = source.load(log_dir).writeStream.format("sparklog")
            sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
            sink = sink.option("allowOffsetGaps", "true").trigger(availableNow=True)
            sink.start(copy).awaitTermination()

        assert [row.offset for row in rows(copy, TOPIC)[0]] == expected

    def test_that_waits_for_a_transaction_says_so_in_its_progress(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "open")
        client = Client(new_log_dir(path, "t"), "etl-1")
        client.init()
        client.produce("x")
        source = spark.readStream.format("sparklog").options(subscribe="t")
        source = source.options(startingOffsets="earliest", **{"isolation.level": "read_committed"})
        sink = source.load(path).writeStream.format("noop")
        sink = sink.option("checkpointLocation", str(tmp_path / "waiting"))
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.lastProgress
        assert progress is not None
        latest = json.loads(progress["sources"][0]["latestOffset"])

        assert latest["t"] == {"0": 0, "1": 0}
        assert latest["$waiting"]["t-0"]["transactional_id"] == "etl-1"
        assert latest["$waiting"]["t-0"]["log_end_offset"] == 1
