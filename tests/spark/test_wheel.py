"""The wheel in an empty environment: each extra does what the README says of it, and no more."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from confluent_kafka import Producer

from tests.wire.processes import free_port

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif("SPARKLOG_OFFLINE" in os.environ, reason="needs a package index"),
]

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
START_S = 300
WHEELS = ("rest", "gateway", "testing", "spark", "registry")
"""Extras whose requirements are wheels."""
EXTRAS = {"rest": ["rest"], "gateway": ["gateway"], "spark": ["jobs", "compact"]}
"""A command of each extra that has one."""
ROUND_TRIP = """
import sys
import sparklog.spark
from sparklog import AdminClient, NewTopic

if __name__ == "__main__":
    log_dir = sys.argv[1]
    AdminClient(log_dir).create_topics([NewTopic("numbers", 2, {"cleanup.policy": "compact"})])
    spark = sparklog.spark.session("wheel")
    df = spark.range(100).selectExpr("string(id % 10) AS key", "string(id) AS value")
    sparklog.spark.produce(df, log_dir, topic="numbers")
    found = spark.read.format("sparklog").option("subscribe", "numbers").load(log_dir)
    print(found.count())
"""
AVRO = """
import json
import sys
import sparklog.spark
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from sparklog import AdminClient, NewTopic

if __name__ == "__main__":
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    delay = {"type": "record", "name": "Delay", "fields": [{"name": "minutes", "type": "int"}]}
    assert registry.register_schema("delays-value", Schema(json.dumps(delay), "AVRO")) == 1
    AdminClient(sys.argv[1]).create_topics([NewTopic("delays", 1)])
    spark = sparklog.spark.session("wheel")
    values = [(b"\\0\\0\\0\\0\\1\\4",), (b"\\0\\0\\0\\0\\x09\\4",)]
    df = spark.createDataFrame(values, "value binary").coalesce(1)
    sparklog.spark.produce(df, sys.argv[1], topic="delays")
    records = sparklog.spark.consume(spark, sys.argv[1], subscribe="delays")
    found = sparklog.spark.decode(records, registry=registry, subject="delays-value").collect()
    minutes = [row.decoded and row.decoded.minutes for row in found]
    print(json.dumps({"minutes": minutes, "errors": [row._error for row in found]}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT], check=True
    )
    (found,) = folder.glob("*.whl")
    return found


class Environment:
    """A virtual environment without sparklog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env" / "bin"
        venv.create(self.bin.parent, with_pip=True)

    def install(self, requirement: str) -> None:
        """Install a requirement, in the versions of constraints.txt."""
        constraints = str(ROOT / "constraints.txt")
        self.run("python", "-m", "pip", "install", "-q", "-c", constraints, requirement)

    def run(self, program: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in a folder of its own; it ends with `code`."""
        ended = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended

    def variables(self) -> dict[str, str]:
        """The variables of this process, but for those that lead back to the checkout."""
        left_out = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARKLOG_LOG_DIR", "NUMBA_DISABLE_JIT")
        return {name: one for name, one in os.environ.items() if name not in left_out}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("wheel"))


class TestWheel:
    def test_has_the_library_and_nothing_else(self, wheel: Path) -> None:
        names = ZipFile(wheel).namelist()
        tops = {name.partition("/")[0] for name in names}

        assert {name for name in tops if not name.endswith(".dist-info")} == {
            "sparklog",
            "pyspark_sparklog",
        }
        assert {"sparklog/py.typed", "sparklog/rest/templates/index.html"} <= set(names)

    def test_does_what_each_extra_says(self, wheel: Path, environment: Environment) -> None:
        """One environment that grows, for each takes half a minute to make."""
        environment.install(str(wheel))
        alone(environment)
        environment.install(f"{wheel}[rest]")
        answers(environment)
        environment.install(f"{wheel}[gateway]")
        serves_clients(environment)
        environment.install(f"{wheel}[testing]")
        environment.run("python", "-c", "import sparklog.testing")
        environment.install(f"{wheel}[spark]")
        runs_spark(environment)
        environment.install(f"{wheel}[delta-spark]")
        environment.run("python", "-c", "from delta import configure_spark_with_delta_pip")
        environment.install(f"{wheel}[registry]")
        decodes_avro(environment)


class TestEditable:
    def test_has_the_library_and_nothing_else(self, tmp_path: Path) -> None:
        environment = Environment(tmp_path)
        environment.run("python", "-m", "pip", "install", "-q", "--no-deps", "-e", str(ROOT))
        names = ["sparklog", "pyspark_sparklog", "api", "bench", "jobs", "schemas", "tests"]
        code = f"import pkgutil; print(*{{m.name for m in pkgutil.iter_modules()}} & {set(names)})"

        assert set(environment.run("python", "-c", code).stdout.split()) == set(names[:2])


def alone(environment: Environment) -> None:
    """The command line works; a command whose extra is missing names it."""
    environment.run("sparklog", "--log-dir", "log", "topic", "create", "t")
    environment.run("sparklog", "--log-dir", "log", "get-offsets", "--topic", "t")
    for extra, command in EXTRAS.items():
        ended = environment.run("sparklog", "--log-dir", "log", *command, code=1)
        assert f"pip install 'sparklog[{extra}]'" in ended.stderr


def answers(environment: Environment) -> None:
    """The service answers."""
    rest = service(environment, "rest", "--port", "0", says=r"http://127\.0\.0\.1:\d+")
    with rest as address, urllib.request.urlopen(f"{address}/topics") as answer:
        assert json.load(answer) == ["t"]


def serves_clients(environment: Environment) -> None:
    """librdkafka, of the environment of the tests, produces; the command line consumes."""
    address = f"127.0.0.1:{free_port()}"
    with service(environment, "gateway", "--listen", address):
        producer = Producer({"bootstrap.servers": address})
        producer.produce("t", b"hello", b"key")
        assert producer.flush(START_S) == 0

    told = environment.run("sparklog", "--log-dir", "log", "consume", "t", "-f", "%k %s\\n").stdout
    assert told == "key hello\n"


def runs_spark(environment: Environment) -> None:
    """Records go in and out, and a job with tasks runs."""
    script = environment.folder / "round_trip.py"
    script.write_text(ROUND_TRIP)
    assert environment.run("python", str(script), "log").stdout.split() == ["100"]

    job = ["jobs", "compact", "--log-dir", "log", "--topic", "numbers", "--force"]
    report = json.loads(environment.run("sparklog", *job).stdout)
    assert (report["topic"], report["problems"]) == ("numbers", [])

    code = "from sparklog.spark.registry import resolved; resolved({}, 's', None)"
    assert (
        "pip install 'sparklog[registry]'" in environment.run("python", "-c", code, code=1).stderr
    )


def decodes_avro(environment: Environment) -> None:
    """Records of the log, in Avro, by the schemas of a registry."""
    script = environment.folder / "avro.py"
    script.write_text(AVRO)
    ended = environment.run("python", str(script), "log")

    assert json.loads(ended.stdout) == {
        "minutes": [2, None],
        "errors": [None, "unknown schema id 9"],
    }


@contextmanager
def service(environment: Environment, *command: str, says: str = "") -> Iterator[str]:
    """A service of the log dir: what it says when it listens, if it says so."""
    log = environment.folder / f"{command[0]}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [environment.bin / "sparklog", *command, "--log-dir", "log"],
            cwd=environment.folder,
            env=environment.variables(),
            stderr=out,
        )
    try:
        deadline = time.monotonic() + START_S
        while (found := re.search(says, log.read_text())) is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found[0]
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_there_are_wheels_for_later_pythons(version: str) -> None:
    """But for PySpark and delta-spark, which are one source distribution for all versions."""
    extras = PROJECT["optional-dependencies"]
    chosen = [one for extra in WHEELS for one in extras[extra]]
    wanted = [*PROJECT["dependencies"], *chosen]
    wheels = [one for one in wanted if not one.startswith(("pyspark", "sparklog"))]
    options = ["--only-binary=:all:", "--python-version", version, "--target", "unused"]

    pip = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed"]
    subprocess.run([*pip, *options, *wheels], check=True)
