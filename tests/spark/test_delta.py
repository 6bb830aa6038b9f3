"""delta-spark reads what delta-rs committed: manifests and metadata are tables like any other."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.metadata.UNKNOWN import CHECKPOINT_INTERVAL
from tests.kafka.jars import DELTA, is_offline, jars
from tests.logs import append, catalog, new_topic, image

pytestmark = pytest.mark.spark

COMMITS = CHECKPOINT_INTERVAL + 5


@pytest.fixture(scope="module")
def delta_jars() -> None:
    """Skips where SPARKLOG_OFFLINE=1 forbids to fetch them; the session has them otherwise."""
    if is_offline() and not (Path(".cache") / DELTA.name).is_dir():
        pytest.skip("SPARKLOG_OFFLINE=1 and no jars")
    jars(DELTA)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic `t` with a checkpoint, folded files and commits after it; topic `u`."""
    log_dir = new_topic(tmp_path_factory.mktemp("delta") / "log", partitions=2)
    for number in range(COMMITS):
        append(log_dir, number % 2, [number])
    return new_topic(log_dir, "u", 7, {"retention.ms": -1})


@pytest.mark.usefixtures("delta_jars")
class TestDeltaSpark:
    def test_reads_a_manifest(self, spark: SparkSession, log_dir: str) -> None:
        (manifest,) = Path(log_dir).glob("t-*/manifest")
        table = spark.read.format("delta").load(str(manifest)).where("kind = 'segment'")
        found = table.select("partition", "base_offset", "next_offset", "log_path").collect()
        live = image(log_dir).live.select(["partition", "base_offset", "next_offset", "log_path"])

        assert sorted(map(tuple, found)) == sorted(tuple(row.values()) for row in live.to_pylist())
        assert len(found) == COMMITS

    def test_reads_the_cluster_metadata(self, spark: SparkSession, log_dir: str) -> None:
        table = spark.read.format("delta").load(f"{log_dir}/__cluster_metadata")
        topics = table.where("kind = 'topic'").select("name", "topic_id", "partition_count")

        assert {(row.name, row.topic_id, row.partition_count) for row in topics.collect()} == {
            (topic.name, topic.topic_id, topic.num_partitions)
            for topic in catalog(log_dir).topics().values()
        }
