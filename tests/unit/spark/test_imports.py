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
        code = READER.replace("reader = source.reader(source.schema())", "source.schema()")

        assert loaded(code, log_dir).isdisjoint({*HEAVY, "numpy", "pyarrow", "obstore"})


class TestPlanning:
    @pytest.mark.parametrize("code", [READER + "pickle.dumps(reader.partitions())", STREAM, WRITER])
    def test_loads_neither_pandas_nor_the_kernels(self, code: str, log_dir: str) -> None:
        assert loaded(code, log_dir).isdisjoint(HEAVY)


class TestDaemon:
    def test_has_what_a_task_needs_and_no_pandas(self) -> None:
        found = loaded("import sparklog.spark.daemon")

        assert {"sparklog.record.decode", "sparklog.record.encode", "pyspark.worker"} <= found
        assert "pandas" not in found


class TestReading:
    def test_loads_no_pandas(self, log_dir: str) -> None:
        code = READER + "[list(reader.read(one)) for one in reader.partitions()]"
        found = loaded(code, log_dir)

        assert "sparklog.record.decode" in found
        assert "pandas" not in found
