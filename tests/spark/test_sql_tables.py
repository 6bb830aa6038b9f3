"""SQL tables `USING sparklog`: their rows, and whose options a write has."""

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.logs import all_values, append, new_topic, rows, values

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(spark: SparkSession) -> SparkSession:
    """A session with Spark's own catalog: Delta's takes no tables of Python data sources."""
    session = spark.newSession()
    session.conf.unset("spark.sql.catalog.spark_catalog")
    return session


@pytest.fixture
def table(sql: SparkSession, log_dir: str) -> Iterator[str]:
    """Reads and writes topic `t`."""
    sql.sql(
        f"CREATE TABLE flights USING sparklog OPTIONS (path '{log_dir}', subscribe 't', topic 't')"
    )
    yield "flights"
    sql.sql("DROP TABLE flights")


def test_inserts_and_selects(sql: SparkSession, table: str, log_dir: str) -> None:
    sql.sql(f"INSERT INTO {table} (key, value) VALUES (X'61', X'31'), (X'62', X'32')")
    more = "SELECT cast(cast(id as string) as binary), 3 FROM range(5)"
    sql.sql(f"INSERT INTO {table} (value, partition) {more}")
    query = f"SELECT count(*), sum(cast(cast(value as string) as int)) FROM {table}"

    assert sql.sql(query).first() == (7, 13)
    assert values(log_dir)[3][-5:] == ["0", "1", "2", "3", "4"]


def test_sees_what_is_new_in_every_query(sql: SparkSession, table: str, log_dir: str) -> None:
    for count in (1, 2):
        append(log_dir, 0, ["x"])

        assert sql.table(table).count() == count


def test_rows_of_a_table_go_where_their_writer_says(
    sql: SparkSession, table: str, log_dir: str
) -> None:
    """A frame that is derived from a table has its metadata, and none of its options."""
    new_topic(log_dir, "copy")
    sql.sql(f"INSERT INTO {table} (value) VALUES (encode('v', 'utf-8'))")
    derived = sql.table(table).withColumn("topic", f.lit("copy"))
    derived.write.format("sparklog").mode("append").save(log_dir)

    assert all_values(log_dir, "t") == ["v"]
    assert all_values(log_dir, "copy") == ["v"]


@pytest.mark.parametrize(
    ("columns", "options"), [(["value"], {}), (["key", "value"], {}), (["*"], {"topic": "t"})]
)
def test_rows_of_a_table_are_not_written_back_by_chance(
    sql: SparkSession,
    table: str,
    log_dir: str,
    columns: list[str],
    options: dict[str, str],
) -> None:
    derived = sql.table(table).select(*columns)

    with pytest.raises(AnalysisException, match="no log dir: give it to"):
        derived.write.format("sparklog").options(**options).mode("append").save()
    assert rows(log_dir) == {}


@pytest.fixture
def other(sql: SparkSession, log_dir: str) -> Iterator[str]:
    """Reads and writes topic `u`."""
    new_topic(log_dir, "u")
    sql.sql(
        f"CREATE TABLE other USING sparklog OPTIONS (path '{log_dir}', subscribe 'u', "
        f"topic 'u', columns 'key,value,topic') TBLPROPERTIES ('team' = 'lake')"
    )
    yield "other"
    sql.sql("DROP TABLE other")


def test_rows_of_a_table_go_into_the_table_of_the_insert(
    sql: SparkSession, table: str, other: str, log_dir: str
) -> None:
    """Spark hands the columns of `third` over unchanged, with the options in them."""
    sql.sql(
        f"CREATE TABLE third USING sparklog OPTIONS (path '{log_dir}', subscribe 't', "
        f"topic 't', columns 'key,value,topic')"
    )
    append(log_dir, 0, ["a"])
    sql.sql(f"INSERT INTO {other} SELECT * FROM third")
    sql.sql(f"INSERT INTO {other} TABLE third")
    sql.table("third").writeTo(other).append()
    sql.table("third").write.insertInto(other)
    sql.sql("DROP TABLE third")

    assert all_values(log_dir, "t") == ["a"]
    assert all_values(log_dir, "u") == ["a"] * 4


def test_rows_of_any_frame_with_the_tables_columns_go_there(
    sql: SparkSession, other: str, log_dir: str
) -> None:
    columns = "cast(null as binary) key, cast('v' as binary) value, 'x' topic"
    sql.sql(f"INSERT INTO {other} SELECT {columns}")
    sql.sql(f"SELECT {columns}").writeTo(other).append()

    assert all_values(log_dir, "u") == ["v", "v"]


def test_a_table_without_topic_takes_no_rows(sql: SparkSession, table: str, log_dir: str) -> None:
    """Nothing would tell its rows from those of another table."""
    options = f"path '{log_dir}', subscribe 't', topic 't', columns 'key,value'"
    sql.sql(f"CREATE TABLE bare USING sparklog OPTIONS ({options})")

    with pytest.raises(AnalysisException, match="takes rows only if topic is one of its col"):
        sql.sql("INSERT INTO bare SELECT key, value FROM bare")
    sql.sql("DROP TABLE bare")


def test_a_read_may_add_options(sql: SparkSession, table: str, log_dir: str) -> None:
    append(log_dir, 0, ["a", "b", "c"])
    offsets = '{"t": {"0": 1, "1": -2, "2": -2, "3": -2}}'

    assert sql.read.option("startingOffsets", offsets).table(table).count() == 2
    assert sql.table(table).count() == 3


def test_a_table_takes_no_storage_settings(sql: SparkSession, log_dir: str) -> None:
    """They would stand in the catalog, and in the schema of all that comes from the table."""
    options = f"path '{log_dir}', subscribe 't', storage.AWS_SECRET_ACCESS_KEY 'hunter2'"

    with pytest.raises(AnalysisException, match="storage.aws_secret_access_key is not allowed"):
        sql.sql(f"CREATE TABLE secret USING sparklog OPTIONS ({options})")
    assert not sql.catalog.tableExists("secret")


def test_drops_the_table_and_keeps_the_log(sql: SparkSession, table: str, log_dir: str) -> None:
    sql.sql(f"INSERT INTO {table} (value) VALUES (encode('kept', 'utf-8'))")
    sql.sql(f"DROP TABLE {table}")
    sql.sql(f"CREATE TABLE {table} USING sparklog OPTIONS (path '{log_dir}', subscribe 't')")

    assert all_values(log_dir) == ["kept"]
