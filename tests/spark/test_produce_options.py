"""Options of a produce: each does what its row says, whatever way it is spelt."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from sparklog.errors import InvalidOptionError, SparklogWarning
from sparklog.model import Codec
from sparklog.spark import produce
from tests.logs import OWN_FILES, all_values, live_rows, log_files, new_topic, rows, values
from tests.spark.frames import numbers, one, own_files

pytestmark = pytest.mark.spark


def codecs(log_dir: str, topic: str = "t") -> set[int]:
    """The codecs of a topic's segments."""
    return set(live_rows(log_dir, topic).column("codec").to_pylist())


class TestCompression:
    @pytest.mark.parametrize("codec", Codec)
    def test_may_be_any_of_kafkas(self, spark: SparkSession, log_dir: str, codec: Codec) -> None:
        name = codec.name.lower()
        produce(numbers(spark, 500), log_dir, "t", compression_type=name)

        assert codecs(log_dir) == {codec}
        assert all_values(log_dir) == sorted(map(str, range(500)))

    @pytest.mark.parametrize(
        ("own", "expected"),
        [("gzip", Codec.GZIP), ("uncompressed", Codec.NONE), ("producer", Codec.ZSTD)],
    )
    def test_of_the_topic_beats_the_calls(
        self, spark: SparkSession, log_dir: str, own: str, expected: Codec
    ) -> None:
        new_topic(log_dir, "own", config={"compression.type": own})
        produce(numbers(spark), log_dir, "own", **{"compression.type": "zstd"})

        assert codecs(log_dir, "own") == {expected}


class TestSizes:
    def test_of_batches(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 1000, "0 partition", tasks=1)
        produce(df, log_dir, "t")
        produce(df, log_dir, "t", batch_size=1)

        assert live_rows(log_dir).column("batch_count").to_pylist() == [1, 1000]
        assert values(log_dir)[0] == [str(number) for number in range(1000)] * 2

    def test_of_segments(self, spark: SparkSession, log_dir: str) -> None:
        df = numbers(spark, 1000, "0 partition", tasks=2)
        produce(df, log_dir, "t", **{"segment.bytes": "2000", "batch.size": 500})
        sizes = live_rows(log_dir).column("log_bytes").to_pylist()

        assert len(sizes) > 4
        assert max(sizes) <= 2000
        assert values(log_dir)[0] == [str(number) for number in range(1000)]

    def test_of_batches_are_bounded_by_the_segments(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        produce(numbers(spark, 1000, "0 partition"), log_dir, "t", segment_bytes=2000)

        assert len(rows(log_dir)[0]) == 1000


class TestFlush:
    @pytest.mark.parametrize("flush", ["fsync", "none"])
    def test_is_the_same_log(self, spark: SparkSession, log_dir: str, flush: str) -> None:
        assert produce(numbers(spark), log_dir, "t", flush=flush).count == 100
        assert len(all_values(log_dir)) == 100


class TestClustered:
    @pytest.fixture
    def wide(self, log_dir: str) -> str:
        new_topic(log_dir, "wide", 600, OWN_FILES)
        own_files(log_dir)
        return log_dir

    @pytest.mark.parametrize(("how", "expected"), [("auto", 600), ("true", 600), ("false", 1800)])
    def test_makes_a_file_a_partition(
        self, spark: SparkSession, wide: str, how: str, expected: int
    ) -> None:
        df = numbers(spark, 1800, "cast(id % 600 as int) partition", tasks=3)
        result = produce(df, wide, "wide", clustered=how, flush="none")

        assert len(log_files(wide)) == expected
        assert result.count == 1800
        assert len(result.ranges) == 600

    def test_is_not_done_for_few_files(self, spark: SparkSession, wide: str) -> None:
        produce(numbers(spark, 1000, tasks=8), wide, "t", partitioner="round-robin")

        assert len(log_files(wide)) == 4 * 8

    def test_counts_the_topics_that_are_there(self, spark: SparkSession, wide: str) -> None:
        df = numbers(spark, 30, "'t' topic", "cast(id % 4 as int) partition", tasks=3)
        produce(df, wide)
        assert len(log_files(wide)) == 4 * 3

        produce(df.selectExpr("value", "'wide' topic", "partition"), wide)
        assert len(log_files(wide)) == 4 * 3 + 4

    def test_takes_several_topics(self, spark: SparkSession, wide: str) -> None:
        df = numbers(spark, 100, "if(id % 2 = 0, 't', 'wide') topic", "value key", tasks=4)
        result = produce(df, wide, clustered="true", partitioner="round-robin")

        assert result.count == 100
        assert all_values(wide) == sorted(map(str, range(0, 100, 2)))
        assert all_values(wide, "wide") == sorted(map(str, range(1, 100, 2)))


class TestTransaction:
    WRITE: ClassVar[dict[str, Any]] = {"txnAppId": "app", "txnVersion": 7}

    def test_lands_once(self, spark: SparkSession, log_dir: str) -> None:
        first = produce(numbers(spark), log_dir, "t", **self.WRITE)
        again = produce(numbers(spark), log_dir, "t", **self.WRITE)

        assert again.ranges == first.ranges
        assert not first.replayed
        assert again.replayed == {"t"}
        assert len(all_values(log_dir)) == 100

    def test_writes_no_file_again(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark), log_dir, "t", **self.WRITE)
        before = set(Path(log_dir).rglob("*.log"))
        produce(numbers(spark), log_dir, "t", **self.WRITE)

        assert set(Path(log_dir).rglob("*.log")) == before

    def test_of_a_higher_version_is_another(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark), log_dir, "t", **self.WRITE)
        produce(numbers(spark), log_dir, "t", txnAppId="app", txnVersion="8")
        produce(numbers(spark), log_dir, "t", txnAppId="other", txnVersion=0)

        assert len(all_values(log_dir)) == 300

    def test_of_a_lower_version_is_skipped(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark), log_dir, "t", **self.WRITE)
        with pytest.warns(SparklogWarning, match="version 6 of 'app' is skipped: version 7 "):
            result = produce(numbers(spark), log_dir, "t", txnAppId="app", txnVersion=6)

        assert result.ranges == {}
        assert result.forgotten == {"t"}
        assert len(all_values(log_dir)) == 100

    def test_without_rows_is_remembered_too(self, spark: SparkSession, log_dir: str) -> None:
        produce(numbers(spark, 0), log_dir, "t", **self.WRITE)

        assert produce(numbers(spark), log_dir, "t", **self.WRITE).replayed == {"t"}
        assert rows(log_dir) == {}

    def test_is_kept_by_topic(self, spark: SparkSession, log_dir: str) -> None:
        new_topic(log_dir, "u")
        produce(numbers(spark, 100, "'t' topic"), log_dir, **self.WRITE)
        both = numbers(spark, 100, "if(id < 100, 't', 'u') topic").union(
            numbers(spark, 10, "'u' topic")
        )
        result = produce(both, log_dir, **self.WRITE)

        assert result.replayed == {"t"}
        assert (len(all_values(log_dir)), len(all_values(log_dir, "u"))) == (100, 10)
        assert result.count == 110

    @pytest.mark.parametrize("name", ["txnAppId", "txnVersion"])
    def test_takes_both_options(self, spark: SparkSession, log_dir: str, name: str) -> None:
        with pytest.raises(InvalidOptionError, match="txnAppId and txnVersion go together"):
            produce(one(spark), log_dir, "t", **{name: 1})


class TestRefusal:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"compresion.type": "gzip"},
                "unknown option compresion.type; did you mean compression",
            ),
            ({"linger_ms": 5}, "unknown option linger_ms"),
            ({"kafka.key.serializer": "x"}, "kafka.key.serializer is not supported: cast"),
            ({"compression.type": "brotli"}, "takes none, gzip, snappy, lz4 or zstd"),
            ({"batch.size": -1}, "option batch.size='-1' is not allowed: it takes an integer from"),
            ({"flush": "yes"}, "option flush='yes'"),
            ({"clustered": "maybe"}, "option clustered='maybe'"),
            ({"partitioner": "sticky"}, "option partitioner='sticky' is not allowed"),
            ({"storage.AWS_REGIN": "x"}, "unknown storage option"),
        ],
    )
    def test_names_option_and_what_is_allowed(
        self, spark: SparkSession, log_dir: str, options: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidOptionError, match=message):
            produce(one(spark), log_dir, "t", **options)
