"""The same records in a Kafka broker and in a log: the same reads return the same rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.kafka.broker import Broker, running_broker
from tests.logs import new_topic
from tests.spark.frames import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0 = 1_700_000_000_000
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestampType")


class Pair:
    """A broker and a log dir that got the same DataFrame."""

    def __init__(self, spark: SparkSession, broker: Broker, log_dir: str) -> None:
        self.spark, self.log_dir = spark, log_dir
        self.sides = {
            "kafka": {"kafka.bootstrap.servers": broker.bootstrap},
            "sparklog": {"path": log_dir},
        }

    def write(self, df: DataFrame, **options: str) -> None:
        for name, where in self.sides.items():
            df.write.format(name).options(**where, **options).mode("append").save()

    def read(self, side: str, **options: Any) -> DataFrame:
        return self.spark.read.format(side).options(**self.sides[side], **options).load()

    def rows(self, side: str, **options: Any) -> list[tuple[Any, ...]]:
        df = self.read(side, **options)
        names = [*COLUMNS, *(["headers"] if "headers" in df.columns else [])]
        return sorted(map(tuple, df.select(*names).collect()), key=lambda row: row[2:5])


@pytest.fixture(scope="module")
def pair(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Topic `t`: 3 partitions of 40 records, some without key, some without value, with headers."""
    folder = tmp_path_factory.mktemp("side")
    with running_broker(folder / "broker") as broker:
        for name, partitions in (("t", 3), ("other", 1), ("empty", 2)):
            broker.create_topic(name, partitions)
            new_topic(folder / "log", name, partitions)
        pair = Pair(spark, broker, str(folder / "log"))
        header = (
            "named_struct('key', concat('h', id % 3), 'value', cast(cast(id as string) as binary))"
        )
        df = numbers(
            spark,
            120,
            "if(id % 5 = 0, null, cast(id % 7 as string)) key",
            "cast(id % 3 as int) partition",
            f"if(id % 2 = 0, array({header}, {header}), null) headers",
            tasks=1,
        ).selectExpr("key", "if(key = '3', null, value) value", "partition", "headers")
        pair.write(df, topic="t")
        pair.write(numbers(spark, 7, tasks=1), topic="other")
        yield pair


READS: dict[str, dict[str, Any]] = {
    "all": {"subscribe": "t"},
    "several topics": {"subscribe": "t, other,empty"},
    "a pattern": {"subscribePattern": "o.h|t"},
    "some partitions": {"assign": '{"t": [2, 0], "other": [0]}'},
    "headers": {"subscribe": "t", "includeHeaders": "true"},
    "a range": {
        "subscribe": "t",
        "startingOffsets": '{"t": {"0": 7, "1": -2, "2": 39}}',
        "endingOffsets": '{"t": {"0": 9, "1": -1, "2": 40}}',
    },
    "nothing": {
        "subscribe": "t",
        "startingOffsets": '{"t": {"0": 7, "1": 3, "2": 40}}',
        "endingOffsets": '{"t": {"0": 7, "1": 3, "2": 40}}',
    },
    "from a time": {"subscribe": "t", "startingTimestamp": T0},
    "to a time": {"subscribe": "t", "endingTimestamp": T0},
    "to a time that is not yet": {"subscribe": "t", "endingTimestamp": 4 * 10**12},
    "from times": {
        "subscribe": "t",
        "startingOffsetsByTimestamp": f'{{"t": {{"0": {T0}, "1": 0, "2": {T0}}}}}',
    },
    "after the end, latest": {
        "subscribe": "t",
        "startingTimestamp": 4 * 10**12,
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "many pieces": {"subscribe": "t", "minPartitions": 10},
}


class TestReads:
    @pytest.mark.parametrize("name", READS)
    def test_return_the_same_rows(self, pair: Pair, name: str) -> None:
        assert pair.rows("sparklog", **READS[name]) == pair.rows("kafka", **READS[name])

    def test_return_rows_at_all(self, pair: Pair) -> None:
        assert len(pair.rows("sparklog", subscribe="t")) == 120

    @pytest.mark.parametrize("headers", ["true", "false"])
    def test_have_the_same_columns(self, pair: Pair, headers: str) -> None:
        options = {"subscribe": "t", "includeHeaders": headers}
        ours, theirs = (pair.read(side, **options).schema for side in ("sparklog", "kafka"))

        assert ours == theirs

    @pytest.mark.parametrize("options", [{"minPartitions": 10}, {"minPartitions": 2}, {}])
    def test_are_cut_into_as_many_pieces(self, pair: Pair, options: dict[str, int]) -> None:
        ours, theirs = (
            pair.read(side, subscribe="t", **options).rdd.getNumPartitions()
            for side in ("sparklog", "kafka")
        )

        assert ours == theirs


class TestRefusals:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"subscribe": "t", "assign": '{"t": [0]}'},
            {"subscribe": " , "},
            {"subscribePattern": ""},
            {"assign": "0"},
            {"assign": '{"t": 0}'},
            {"subscribe": "t", "startingOffsets": "latest"},
            {"subscribe": "t", "startingOffsets": '{"t": {"0": -1, "1": -2, "2": -2}}'},
            {"subscribe": "t", "endingOffsets": "earliest"},
            {"subscribe": "t", "endingOffsets": '{"t": {"0": -2, "1": -1, "2": -1}}'},
            {"subscribe": "t", "startingTimestamp": "now"},
            {"subscribe": "t", "startingTimestamp": 4 * 10**12},
            {"subscribe": "t", "minPartitions": 0},
            {"subscribe": "t", "maxRecordsPerPartition": 0},
            {"subscribe": "t", "includeHeaders": "perhaps"},
            {"subscribe": "t", "kafka.auto.offset.reset": "latest"},
            {"subscribe": "t", "startingOffsetsByTimestampStrategy": "guess"},
        ],
    )
    def test_are_the_same(self, pair: Pair, options: dict[str, Any]) -> None:
        for side in ("sparklog", "kafka"):
            with pytest.raises(Exception, match=r"\S"):
                pair.read(side, **options).count()
