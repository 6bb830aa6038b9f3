"""A log in an object store: produce and consume with settings given as options."""

import pytest
from pyspark.sql import SparkSession

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import StorageError
from sparklog.spark import consume, produce, register
from tests.logs import rows
from tests.s3 import S3LogDir, s3_log_dir, s3_server
from tests.spark.frames import numbers

__all__ = ["s3_log_dir", "s3_server"]

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def storage(s3_log_dir: S3LogDir) -> dict[str, str]:
    """Topic `t` of four partitions, and the options that lead to it."""
    AdminClient(s3_log_dir.uri, s3_log_dir.options).create_topics([NewTopic("t", 4)])
    return {f"storage.{name}": value for name, value in s3_log_dir.options.items()}


class TestObjectStore:
    def test_holds_what_was_produced(
        self, spark: SparkSession, s3_log_dir: S3LogDir, storage: dict[str, str]
    ) -> None:
        small = {"segment.bytes": 500, "batch.size": 100}
        result = produce(numbers(spark, 200, "value key"), s3_log_dir.uri, "t", **small, **storage)
        df = consume(spark, s3_log_dir.uri, subscribe="t", **storage)

        assert result.count == df.count() == 200
        assert sum(map(len, rows(s3_log_dir.uri, options=s3_log_dir.options).values())) == 200
        assert sorted(int(row.value.decode()) for row in df.collect()) == list(range(200))

    def test_may_be_read_by_name(
        self, spark: SparkSession, s3_log_dir: S3LogDir, storage: dict[str, str]
    ) -> None:
        produce(numbers(spark, 10), s3_log_dir.uri, "t", **storage)
        register(spark)
        reader = spark.read.format("sparklog").options(subscribe="t", **storage)

        assert reader.load(s3_log_dir.uri).count() == 10

    def test_that_cannot_be_reached_is_an_error_without_secrets(
        self, spark: SparkSession, s3_log_dir: S3LogDir, storage: dict[str, str]
    ) -> None:
        nowhere = storage | {"storage.AWS_ENDPOINT_URL": "http://127.0.0.1:1"}

        with pytest.raises(StorageError) as caught:
            produce(numbers(spark, 10), s3_log_dir.uri, "t", **nowhere)
        assert storage["storage.AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
