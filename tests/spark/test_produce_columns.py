"""Columns of a produce: what stands in the DataFrame stands in the log, byte for byte."""

import time

import pytest
from pyspark.sql import SparkSession

from sparklog.errors import InvalidTimestampError, SchemaError, SparklogWarning
from sparklog.spark import produce
from tests.logs import Row, new_topic, rows
from tests.spark.frames import numbers, one

pytestmark = pytest.mark.spark

NOON_MS = 1_372_939_200_123
"""2013-07-04 12:00:00.123 UTC, which is 08:00:00.123 in New York."""
HOUR_MS = 3600 * 1000
CLUSTERED = pytest.mark.parametrize("how", ["true", "false"])


def first(log_dir: str, topic: str = "t") -> Row:
    """The only record."""
    ((row,),) = rows(log_dir, topic).values()
    return row


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class TestKeyAndValue:
    @CLUSTERED
    def test_may_be_text_or_bytes_or_null(
        self, spark: SparkSession, log_dir: str, how: str
    ) -> None:
        cases = {
            b"k": "'k'",
            b"\x00\xff": "X'00FF'",
            b"": "''",
            "ü".encode(): "'ü'",
            None: "cast(null as string)",
        }
        for expression in cases.values():
            df = one(spark, f"{expression} key", "0 partition", value=expression)
            produce(df, log_dir, "t", clustered=how)

        found = [(row.key, row.value) for row in rows(log_dir)[0]]
        assert found == [(expected, expected) for expected in cases]

    def test_without_key_column_are_null_keys(self, spark: SparkSession, log_dir: str) -> None:
        produce(one(spark), log_dir, "t")

        assert first(log_dir).key is None

    def test_may_come_in_large_arrow_types(self, spark: SparkSession, log_dir: str) -> None:
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
        try:
            headers = "array(struct('h' as key, X'01' as value)) headers"
            produce(one(spark, "X'00' key", headers), log_dir, "t", clustered="true")
        finally:
            spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")

        assert first(log_dir)[1:3] == (b"\x00", b"v")
        assert first(log_dir).headers == [("h", b"\x01")]

    def test_of_other_columns_are_ignored(self, spark: SparkSession, log_dir: str) -> None:
        with pytest.warns(SparklogWarning, match="column keys is ignored; did you mean key"):
            produce(one(spark, "1.5 weight", "map(1, 2) extra", "'k' keys"), log_dir, "t")

        assert first(log_dir)[1:3] == (None, b"v")

    def test_are_checked_before_anything_is_written(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        for columns, message in {
            ("id",): "required column value not found",
            ("id value",): "column value is bigint",
            ("'v' valu",): "did you mean valu",
            ("'v' value", "'w' value"): "column value is there 2 times",
            ("'v' value", "'k' Key"): "column Key must be spelt key",
        }.items():
            with pytest.raises(SchemaError, match=message):
                produce(spark.range(3).selectExpr(*columns), log_dir, "t")


class TestHeaders:
    @CLUSTERED
    def test_keep_their_order_and_nulls(self, spark: SparkSession, log_dir: str, how: str) -> None:
        pairs = [
            "'b' as key, X'02' as value",
            "'a' as key, null as value",
            "'b' as key, X'' as value",
        ]
        several = f"array({', '.join(f'struct({pair})' for pair in pairs)})"
        kind = "array<struct<key:string,value:binary>>"
        choices = f"case id when 0 then {several} when 1 then array() end"
        df = numbers(spark, 3, f"cast({choices} as {kind}) headers", "0 partition", tasks=1)
        produce(df, log_dir, "t", clustered=how)

        assert [row.headers for row in rows(log_dir)[0]] == [
            [("b", b"\x02"), ("a", None), ("b", b"")],
            None,
            None,
        ]


class TestTimestamp:
    @CLUSTERED
    @pytest.mark.parametrize(
        "expression",
        [
            "timestamp'2013-07-04 08:00:00.123999'",
            "timestamp'2013-07-04 12:00:00.123Z'",
            "timestamp_ntz'2013-07-04 12:00:00.123'",
            f"bigint('{NOON_MS}')",
        ],
    )
    def test_may_be_of_three_types(
        self, spark: SparkSession, log_dir: str, expression: str, how: str
    ) -> None:
        produce(one(spark, f"{expression} timestamp"), log_dir, "t", clustered=how)

        assert first(log_dir).timestamp == NOON_MS

    @pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "bigint"])
    def test_that_is_null_or_absent_is_the_time_of_the_produce(
        self, spark: SparkSession, log_dir: str, kind: str
    ) -> None:
        before = now_ms()
        produce(one(spark, "0 partition", f"cast(null as {kind}) timestamp"), log_dir, "t")
        produce(one(spark, "0 partition"), log_dir, "t")

        for row in rows(log_dir)[0]:
            assert before <= row.timestamp <= now_ms()
            assert row.timestamp_type == 0

    @pytest.mark.parametrize(
        "expression",
        ["timestamp'1969-12-31 23:59:59.999Z'", "bigint('-1')", f"bigint('{-(2**63)}')"],
    )
    def test_may_not_be_negative(self, spark: SparkSession, log_dir: str, expression: str) -> None:
        with pytest.raises(InvalidTimestampError, match="timestamp -.* in row 0 is negative"):
            produce(one(spark, f"{expression} timestamp"), log_dir, "t")
        assert rows(log_dir) == {}

    @CLUSTERED
    def test_may_not_lie_in_the_future(self, spark: SparkSession, log_dir: str, how: str) -> None:
        near = one(spark, f"{now_ms() + HOUR_MS - 60_000} timestamp")
        produce(near, log_dir, "t", clustered=how)
        far = one(spark, f"{now_ms() + HOUR_MS + 60_000} timestamp")

        with pytest.raises(InvalidTimestampError, match="allowed by message.timestamp.after.max"):
            produce(far, log_dir, "t", clustered=how)
        with pytest.raises(InvalidTimestampError, match="9223372036854775807"):
            produce(one(spark, f"{2**63 - 1} timestamp"), log_dir, "t", clustered=how)

    def test_may_be_bounded_by_the_topic(self, spark: SparkSession, log_dir: str) -> None:
        config = {"message.timestamp.before.max.ms": HOUR_MS}
        new_topic(log_dir, "strict", config=config)
        config = {"message.timestamp.after.max.ms": 2**63 - 1}
        new_topic(log_dir, "lax", config=config)

        with pytest.raises(
            InvalidTimestampError, match="by message.timestamp.before.max.ms=3600000"
        ):
            produce(one(spark, f"bigint('{NOON_MS}') timestamp"), log_dir, "strict")
        produce(one(spark, f"{2**63 - 1} timestamp"), log_dir, "lax")
        assert first(log_dir, "lax").timestamp == 2**63 - 1

    def test_is_the_produces_where_the_topic_says_so(
        self, spark: SparkSession, log_dir: str
    ) -> None:
        new_topic(log_dir, "append", 1, {"message.timestamp.type": "LogAppendTime"})
        before = now_ms()
        produce(numbers(spark, 10, f"{2**62} timestamp"), log_dir, "append")
        found = rows(log_dir, "append")[0]

        assert len({row.timestamp for row in found}) == 1
        assert before <= found[0].timestamp <= now_ms()
        assert {row.timestamp_type for row in found} == {1}
