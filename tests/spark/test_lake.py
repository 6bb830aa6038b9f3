"""decode, latest, upsert_table; and the examples of docs/lake.md."""

import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession

from sparklog.errors import InvalidOptionError, SchemaError, UsageError
from sparklog.spark import consume, decode, latest, upsert_table
from sparklog.spark.upsert import Merge
from tests.logs import append, new_topic
from tests.spark.newest_log import Newest, NewestLog

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
SCHEMA = "a int, b string"
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def of_values(spark: SparkSession, *values: bytes | None) -> DataFrame:
    """Rows as the Kafka connector has them."""
    rows = [(b"k", value, "t", 0, offset, None) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, KAFKA).coalesce(1)


class TestJson:
    def test_is_a_struct_or_an_error(self, spark: SparkSession) -> None:
        cases = {
            b'{"a": 1, "b": "x", "c": 0}': ((1, "x"), None, False),
            b"{}": ((None, None), None, False),
            b'\0\0\0\0\7{"a": 3}': ((3, None), 7, False),
            b"null": (None, None, False),
            None: (None, None, False),
            b'{"a": "x"}': (None, None, True),
            b'{"a": 99999999999}': (None, None, True),
            b'[{"a": 1}]': (None, None, True),
            b"{": (None, None, True),
            b"": (None, None, True),
            b"\xff{": (None, None, True),
        }
        seen = Observation()
        df = decode(of_values(spark, *cases), schema=SCHEMA, observation=seen)
        found = df.collect()

        assert df.columns == [*KAFKA_NAMES, "decoded", "_schema_id", "_error"]
        assert [
            (row.decoded and tuple(row.decoded), row._schema_id, row._error is not None)
            for row in found
        ] == [*cases.values()]
        assert seen.get == {"records": 11, "errors": 6, "unknown_ids": 0}

    def test_takes_every_schema_id_and_every_sample(self, spark: SparkSession) -> None:
        deep = b'{"a":' + b"[" * 100_000
        df = of_values(spark, b"\0\xff\xff\xff\xff{}", b'\0\x7f\xff\xff\xff{"a": 1}', deep)

        assert [row._schema_id for row in decode(df).collect()] == [-1, 2**31 - 1, None]

    def test_has_the_type_of_a_sample(self, spark: SparkSession) -> None:
        df = of_values(spark, b"{", b'{"a": 1}', b'{"a": 2.5, "b": ["x"]}')

        kinds = [field.dataType.simpleString() for field in decode(df).schema]
        assert kinds[-3:] == ["struct<a:double,b:array<string>>", "int", "string"]

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"column": "values"}, "column values is there 0 times"),
            ({"column": "offset"}, "column offset is bigint: it must be binary or string"),
            ({"into": "key"}, "column key is there already"),
            ({"schema": "int"}, "schema int is no struct"),
            ({"schema": "id int, b int, ID int"}, "fields id, ID have the same name to Spark"),
            ({}, "no JSON object among the first 1 values"),
            ({"subject": "t-value"}, "subject 't-value' needs a registry"),
            ({"registry": {"url": "mock://"}}, "a registry needs a subject"),
        ],
    )
    def test_says_what_it_cannot_do(
        self, spark: SparkSession, given: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises((SchemaError, UsageError), match=problem):
            decode(of_values(spark, b"no"), **given)

    @pytest.mark.parametrize("setting", ["true", "True", " true"])
    def test_tells_names_apart_as_spark_does(self, spark: SparkSession, setting: str) -> None:
        exact = spark.newSession()
        exact.conf.set("spark.sql.caseSensitive", setting)
        df = of_values(exact, b'{"id": 1, "ID": 2}')

        assert [tuple(row.decoded) for row in decode(df, schema="id int, ID int").collect()] == [
            (1, 2)
        ]
        with pytest.raises(SchemaError, match="fields id, id have .* with one of each$"):
            decode(df, schema="id int, id int")


KAFKA_NAMES = [field.split()[0] for field in KAFKA.split(", ")]


class TestStreams:
    def test_are_decoded_and_counted(self, spark: SparkSession, tmp_path: Path) -> None:
        """Values are JSON, keys are Avro; one of each is broken, one key has an unknown schema."""
        client = SchemaRegistryClient.new_client({"url": "mock://"})
        assert client.register_schema("t-key", Schema('"int"', "AVRO")) == 1
        log_dir = new_topic(tmp_path / "log", "t", 1)
        keys = ["\0\0\0\0\1\2", "\0\0\0\0\7\2", "x"]
        append(log_dir, 0, ['{"a": 1}', "{", None], keys=keys)
        stream = spark.readStream.format("sparklog").option("subscribe", "t")
        df = stream.option("startingOffsets", "earliest").load(log_dir)

        with pytest.raises(UsageError, match="a stream is not sampled"):
            decode(df)
        values = decode(df, schema=consume(spark, log_dir, subscribe="t"))
        both = decode(
            values.withColumnsRenamed({"_schema_id": "value_id", "_error": "value_error"}),
            "key",
            registry=client,
            subject="t-key",
            into="number",
            observation="keys",
        )
        writer = both.writeStream.format("memory").queryName("decoded_both")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

        found = spark.table("decoded_both").orderBy("offset").collect()
        assert [(row.decoded and row.decoded.a, row.number, row._schema_id) for row in found] == [
            (1, 1, 1),
            (None, None, 7),
            (None, None, None),
        ]
        counts = query.recentProgress[0]["observedMetrics"]
        assert counts["sparklog.decode"].asDict() == {"records": 3, "errors": 1, "unknown_ids": 0}
        assert counts["keys"].asDict() == {"records": 3, "errors": 2, "unknown_ids": 1}


def newest_of(df: DataFrame) -> Newest:
    rows = df.select("partition", "key", "offset", "value").collect()
    found = {(row.partition, row.key.decode()): (row.offset, row.value.decode()) for row in rows}
    assert len(found) == len(rows)
    return found


class Keyed(NewestLog):
    """A topic, the dictionary of what is newest in it, and its table in a session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(folder)
        self.spark = spark

    def run(self, checkpoint: str = "checkpoint", **options: Any) -> None:
        """Let the stream read to the end."""
        writer = upsert_table(self.spark, self.log_dir, "t", self.table, **options)
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def crash(
        self,
        monkeypatch: pytest.MonkeyPatch,
        moment: str,
        checkpoint: str = "checkpoint",
        **options: Any,
    ) -> None:
        """Let the stream fail before or after its first MERGE."""
        merge = Merge.__call__

        def deadly(self: Merge, batch: DataFrame, batch_id: int) -> None:
            if moment == "after":
                merge(self, batch, batch_id)
            raise RuntimeError("crashed on purpose")

        with monkeypatch.context() as patched:
            patched.setattr(Merge, "__call__", deadly)
            with pytest.raises(StreamingQueryException, match="crashed on purpose"):
                self.run(checkpoint, **options)

    def kill(self) -> None:
        """Let the stream run in a driver that is killed (-9) after its MERGE."""
        command = [sys.executable, "-m", "tests.spark.killed_upsert", self.log_dir]
        command += [self.table, str(self.folder / "checkpoint"), "merged"]
        driver = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
        assert driver.returncode == -signal.SIGKILL, driver.stderr

    def rows(self) -> Newest:
        return newest_of(self.spark.sql(f"SELECT * FROM {self.table}"))


@pytest.fixture
def keyed(spark: SparkSession, tmp_path: Path) -> Keyed:
    return Keyed(spark, tmp_path)


class TestLatest:
    def test_has_the_newest_record_of_each_key(self, keyed: Keyed) -> None:
        chance = random.Random(19)
        for _ in range(5):
            keyed.put_randomly(chance)
        append(keyed.log_dir, 0, ["without a key"])

        found = latest(keyed.spark, keyed.log_dir, "t")
        assert newest_of(found) == keyed.expected
        assert found.columns == consume(keyed.spark, keyed.log_dir, subscribe="t").columns

    def test_has_the_columns_that_are_asked_for(self, keyed: Keyed) -> None:
        keyed.put_randomly(random.Random(19))
        whole = latest(keyed.spark, keyed.log_dir, "t").select("timestamp", "key")
        found = latest(keyed.spark, keyed.log_dir, "t", Columns="timestamp,key")

        assert found.columns == ["timestamp", "key"]
        assert sorted(found.collect()) == sorted(whole.collect())
        assert latest(keyed.spark, keyed.log_dir, "t", columns=None).columns[:2] == ["key", "value"]
        with pytest.raises(InvalidOptionError, match="at least one column, and none twice"):
            latest(keyed.spark, keyed.log_dir, "t", columns="key,key")


class TestUpsertTable:
    @pytest.mark.slow
    def test_is_the_newest_of_each_key_whatever_happens(
        self, keyed: Keyed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Random updates and tombstones; crashes before and after a MERGE, a kill; restarts."""
        chance = random.Random(2026)
        for happens in ("before", "after", "killed"):
            keyed.put_randomly(chance)
            if happens == "killed":
                keyed.kill()
            else:
                keyed.crash(monkeypatch, happens)
            keyed.put_randomly(chance)
            keyed.run(maxOffsetsPerTrigger=12)

            assert keyed.rows() == keyed.expected

    def test_brings_no_key_back_when_a_batch_is_run_again(
        self, keyed: Keyed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keyed.put(0, ("a", "1"), ("b", "2"))
        keyed.crash(monkeypatch, "after")
        keyed.spark.sql(f"DELETE FROM {keyed.table} WHERE key = X'61'")
        keyed.run()

        assert keyed.rows() == {(0, "b"): (1, "2")}

    def test_lets_no_older_offset_win(self, keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another query begins anew, and merges the old record alone."""
        keyed.put(0, ("a", "old"), ("a", "new"))
        keyed.run()
        keyed.crash(monkeypatch, "after", "another checkpoint", maxOffsetsPerTrigger=1)

        assert keyed.rows() == {(0, "a"): (1, "new")}

    def test_tells_its_changes(self, keyed: Keyed) -> None:
        keyed.put(0, ("a", "1"), ("b", "2"))
        keyed.run()
        keyed.put(0, ("a", None), ("b", "3"))
        keyed.run()
        path = str(keyed.folder / "table")
        feed = keyed.spark.read.format("delta").option("readChangeFeed", "true")
        changes = feed.option("startingVersion", 2).load(path)

        assert sorted((row.key.decode(), row._change_type) for row in changes.collect()) == [
            ("a", "delete"),
            ("b", "update_postimage"),
            ("b", "update_preimage"),
        ]
        (detail,) = keyed.spark.sql(f"DESCRIBE DETAIL {keyed.table}").collect()
        assert detail.properties["delta.enableDeletionVectors"] == "true"

    def test_takes_no_table_with_other_columns(self, keyed: Keyed) -> None:
        keyed.spark.sql(f"CREATE TABLE {keyed.table} (key BINARY) USING delta")

        with pytest.raises(UsageError, match="has other columns than a table of newest records"):
            keyed.run()


def test_the_document_is_right(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
    for name in ("log", "checkpoint"):
        page = page.replace(f'"{name}"', f'"{tmp_path / name}"')
    monkeypatch.setattr("builtins.print", lambda *_: None)
    names: dict[str, Any] = {"spark": spark}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/lake.md", "exec"), names)
    told = re.search(r"# (\{'records'.*\})", page)

    assert told is not None
    assert str(names["counts"].get) == told[1]
    assert {tuple(row) for row in names["delays"].collect()} == {("EWR", 13), ("JFK", -1)}
    assert names["sampled"].isStreaming
    assert [row.decoded and row.decoded.minutes for row in names["delays_avro"].collect()] == [
        2,
        None,
    ]
    assert {row.value for row in names["broken"].collect()} == {rows_value(names, 1)}
    assert {row.key for row in names["now"].collect()} == {b"UA1545", b"AA1141"}
    assert names["origins"].where("_error IS NULL").count() == 1
    spark.sql("DROP TABLE flights_now")


def rows_value(names: dict[str, Any], number: int) -> bytes:
    """The value of a row that the document produces."""
    value: str = names["rows"][number][1]
    return value.encode()
