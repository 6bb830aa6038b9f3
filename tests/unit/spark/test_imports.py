"""Which modules a process of Spark's loads: each loads what it runs, for there are many of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.logs import append, new_topic

HEAVY = ("pandas", "numba", "sparklog.record.decode", "sparklog.record.encode")
READER = """
from sparklog.spark.datasource import SparklogDataSource
source = SparklogDataSource({"path": sys.argv[1], "subscribe": "t"})
reader = source.reader(source.schema())
"""
STREAM = """
from sparklog.spark.datasource import SparklogDataSource
options = {"path": sys.argv[1], "subscribe": "t", "startingoffsets": "earliest"}
source = SparklogDataSource(options)
reader = source.streamReader(source.schema())
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
pickle.dumps(reader.partitions(start, end))
"""
WRITER = """
from sparklog.spark.datasource import SparklogDataSource
from sparklog.spark.schema import output_schema
source = SparklogDataSource({"path": sys.argv[1], "topic": "t"})
writer = pickle.loads(pickle.dumps(source.writer(output_schema(["value"]), False)))
writer.commit([])
"""
SOURCE = "from sparklog.spark.datasource import SparklogDataSource"
SCHEMA = READER.replace("reader = source.reader(source.schema())", "source.schema()")
PARTITIONS = "pickle.dumps(reader.partitions())"
PLANNED = """
import pathlib
from sparklog.spark.datasource import SparklogDataSource
from sparklog.spark.schema import output_schema
source = SparklogDataSource({"path": sys.argv[1], "topic": "t"})
writer = source.writer(output_schema(["value"]), False)
pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps(writer))
"""
COMMITTED = """
import pathlib
pickle.loads(pathlib.Path(sys.argv[2]).read_bytes()).commit([])
"""
DAEMON = "from sparklog.spark import daemon; daemon.load(sys.argv[1])"
OURS = ("sparklog", "pyspark", "pyarrow", "numpy")
COMMITS = """
from sparklog.clock import SystemClock
from sparklog.metadata.state.edit import Edit, TopicEdit
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.state.image import at_log_end
from sparklog.metadata.log import MetadataLog
from sparklog.storage.open import open_files
from tests.edits import segment
log = MetadataLog(open_files(sys.argv[1]), SystemClock(), flush=False)
(topic,) = log.image().topics
def plan(image):
    placed = at_log_end(image.topics[topic], [segment()])
    return Edit(operation="PRODUCE", topics={topic: TopicEdit(segments=placed)})
for _ in range(2):
    for _ in range(70):
        log.commit(plan, [topic], housekeeping=False)
    fold(log)
image = MetadataLog(open_files(sys.argv[1]), SystemClock()).image([topic])
image.topics[topic].partition(0).live.table
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """A log dir with a topic that has records."""
    log_dir = new_topic(tmp_path)
    append(log_dir, 0, ["a", "b"])
    return log_dir


def loaded(code: str, *arguments: str) -> set[str]:
    """The modules that a new interpreter has when it has run some code."""
    whole = f"import sys, pickle\n{code}\nprint(*sys.modules)"
    command = [sys.executable, "-c", whole, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


class TestImport:
    @pytest.mark.parametrize("module", ["sparklog.spark", "pyspark_sparklog"])
    def test_of_the_package_is_light(self, module: str) -> None:
        assert loaded(f"import {module}").isdisjoint({*HEAVY, "numpy", "pyarrow", "obstore"})

    def test_of_the_source_that_is_asked_for_its_schema_is_light(self, log_dir: str) -> None:
        assert loaded(SCHEMA, log_dir).isdisjoint({*HEAVY, "numpy", "pyarrow", "obstore"})


class TestPlanning:
    @pytest.mark.parametrize("code", [READER + PARTITIONS, STREAM, WRITER])
    def test_loads_neither_pandas_nor_the_kernels(self, code: str, log_dir: str) -> None:
        assert loaded(code, log_dir).isdisjoint(HEAVY)


class TestCommitting:
    def test_and_folding_and_opening_load_no_pandas(self, tmp_path: Path) -> None:
        assert loaded(COMMITS, new_topic(tmp_path)).isdisjoint({"pandas", "numba"})


class TestDaemon:
    def test_has_what_a_task_needs_and_no_pandas(self) -> None:
        found = loaded(DAEMON, "pyspark.worker")

        assert {"sparklog.record.decode", "sparklog.record.encode", "pyspark.worker"} <= found
        assert "pandas" not in found

    @pytest.mark.parametrize(
        ("workers", "code"),
        [
            ("pyspark.sql.worker.lookup_data_sources", SOURCE),
            ("pyspark.sql.worker.create_data_source", SCHEMA),
            ("pyspark.sql.worker.plan_data_source_read", READER + PARTITIONS),
            ("pyspark.sql.streaming.python_streaming_source_runner", STREAM),
            ("pyspark.sql.worker.write_into_data_source", PLANNED),
            ("pyspark.sql.worker.commit_data_source_write", COMMITTED),
            ("pyspark.sql.worker.python_streaming_sink_runner", COMMITTED),
        ],
    )
    def test_has_what_a_step_of_the_source_needs(
        self, workers: str, code: str, log_dir: str, tmp_path: Path
    ) -> None:
        writer = tmp_path / "writer"
        loaded(PLANNED, log_dir, str(writer))
        before = loaded(DAEMON, workers)

        after = loaded(
            f"{DAEMON}\nsys.argv[1:] = sys.argv[2:]\n{code}", workers, log_dir, str(writer)
        )

        assert {name for name in after - before if name.startswith(OURS)} == set()
        assert after.isdisjoint(HEAVY)


class TestReading:
    def test_loads_no_pandas(self, log_dir: str) -> None:
        code = READER + "[list(reader.read(one)) for one in reader.partitions()]"
        found = loaded(code, log_dir)

        assert "sparklog.record.decode" in found
        assert "pandas" not in found
