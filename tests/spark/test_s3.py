"""A log in an object store: produce and consume with settings given as options; its table."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import StorageError, UsageError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.spark import consume, produce, register, stream_history
from tests.logs import catalog, rows
from tests.s3 import S3LogDir, s3_log_dir, s3_server
from tests.spark.frames import numbers
from tests.tables import WITH_TABLE, build, counted

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


Read = Callable[..., DataFrame]


class TestHistory:
    @pytest.fixture
    def read(
        self, spark: SparkSession, s3_log_dir: S3LogDir, storage: dict[str, str]
    ) -> Iterator[Read]:
        """Reads a topic of ten records in its table and five behind it; Spark has credentials."""
        place, options = s3_log_dir
        AdminClient(place, options).create_topics([NewTopic("old", 2, WITH_TABLE)])
        produce(numbers(spark, 10, "value key"), place, "old", **storage)
        reports = build(JobContext(catalog(place, options), LocalFleet()))
        assert counted(reports, "records") == [10]
        produce(numbers(spark, 5, "value key"), place, "old", **storage)
        settings = hadoop_settings(options)
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield lambda **given: consume(spark, place, subscribe="old", **given, **storage)
        for name in settings:
            spark.conf.unset(name)

    @pytest.mark.parametrize("files_max", [32, 0])
    def test_is_that_of_the_log(
        self, read: Read, files_max: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Below 32 files Spark reads them itself, beyond by delta-spark."""
        monkeypatch.setattr("sparklog.spark.lake.table_part.FILES_MAX", files_max)
        options = {"includeHeaders": "true"}

        auto, log = (read(history=one, **options).collect() for one in ("auto", "log"))
        assert len(log) == 15
        assert sorted(map(str, auto)) == sorted(map(str, log))

    def test_may_be_read_alone(self, read: Read) -> None:
        assert read(history="table").count() == 10

    @pytest.mark.usefixtures("read")
    def test_may_begin_a_stream_whose_checkpoint_is_there(
        self, spark: SparkSession, s3_log_dir: S3LogDir, storage: dict[str, str], tmp_path: Path
    ) -> None:
        """Spark spells the checkpoint s3a://, and sparklog puts a file into it."""
        sink = str(tmp_path / "sink")

        def write(rows: DataFrame) -> DataStreamWriter:
            writer = rows.writeStream.format("delta").option("path", sink)
            return writer.trigger(availableNow=True)

        place = s3_log_dir.uri
        checkpoint = f"{place}-checkpoint".replace("s3://", "s3a://")
        stream_history(spark, place, "old", write, checkpoint, **storage).awaitTermination()

        assert spark.read.format("delta").load(sink).count() == 15

    def test_needs_hadoops_jar(self, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "sparklog.spark.requirements._has_class", lambda _, name: "s3a" not in name
        )

        with pytest.raises(UsageError, match="start it with org.apache.hadoop:hadoop-aws:3.5.0"):
            read(history="auto")


def hadoop_settings(options: dict[str, str]) -> dict[str, str]:
    """What docs/table.md says that Spark needs; `spark.hadoop.` before each where it is started."""
    return {
        "fs.s3a.endpoint": options["AWS_ENDPOINT_URL"],
        "fs.s3a.endpoint.region": options["AWS_REGION"],
        "fs.s3a.access.key": options["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": options["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.path.style.access": "true",
    }
