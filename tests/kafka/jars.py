"""Fetches the JVM's side of the tests: Kafka, Delta and Spark's Kafka connector.

The jars come through Ivy, which PySpark ships, and stay in `.cache/<set>/libs` (SPARKLOG_CACHE
names another folder than `.cache`). A set is complete when its `libs` folder exists: it is filled
under another name and renamed, and a lock lets one process at a time fetch.

`python -m tests.kafka.jars` fetches every set and prints where it is.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

FETCH_TRIES = 3
FETCH_TIMEOUT_S = 300
SHORT_LIVED = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options of a JVM that ends before its optimizing compiler would have paid. The JVM does not
verify the classes of its jars, a seventh of a broker's start."""

# What PySpark has among its own jars must not come a second time, in another version.
SPARK_HAS = (
    ("org.apache.hadoop", "*"),
    ("org.scala-lang", "*"),
    ("org.scala-lang.modules", "*"),
    ("org.slf4j", "*"),
    ("org.lz4", "*"),
    ("at.yawk.lz4", "*"),
    ("org.xerial.snappy", "*"),
    ("com.github.luben", "*"),
    ("com.fasterxml.jackson.core", "*"),
    ("com.google.code.findbugs", "*"),
    ("commons-pool", "*"),
    ("io.airlift", "*"),
    ("org.apache.logging.log4j", "*"),
    ("org.apache.parquet", "*"),
    ("org.apache.spark", "spark-tags_2.13"),
    ("org.roaringbitmap", "*"),
)


class JarsUnavailableError(RuntimeError):
    """The jars are not in the cache and cannot be fetched."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Maven coordinates (`organisation:name:version`) that are resolved together.

    `excludes` are pairs (organisation, name) to leave out; `overrides` coordinates whose version
    replaces the one that some dependency asks for.
    """

    name: str
    roots: tuple[str, ...]
    excludes: tuple[tuple[str, str], ...] = ()
    overrides: tuple[str, ...] = ()


_LOGGER = "org.slf4j:slf4j-simple:1.7.36"
KAFKA = JarSet(
    "kafka-4.1.1-tools",
    ("org.apache.kafka:kafka_2.13:4.1.1", "org.apache.kafka:kafka-tools:4.1.1", _LOGGER),
)
DELTA = JarSet("delta-spark-4.4.0", ("io.delta:delta-spark_4.2_2.13:4.4.0",), SPARK_HAS)
# The connector's own token provider 4.2.0 is not to be had; 4.0.0 has the same classes.
CONNECTOR = JarSet(
    "spark-kafka-4.2.0",
    ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",),
    SPARK_HAS,
    ("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",),
)
# Users take hadoop-aws with all of Amazon's SDK in one jar of 600 MB; the parts that it needs here
# come to 15 MB.
_AWS = "software.amazon.awssdk"
_AWS_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client")
HADOOP_AWS = JarSet(
    "hadoop-aws-3.5.0",
    ("org.apache.hadoop:hadoop-aws:3.5.0", *(f"{_AWS}:{part}:2.35.4" for part in _AWS_PARTS)),
    (
        (_AWS, "bundle"),
        ("software.amazon.encryption.s3", "*"),
        *(("org.apache.hadoop", f"hadoop-{one}") for one in ("client-api", "client-runtime")),
        ("org.apache.hadoop", "hadoop-common"),
        ("io.netty", "*"),
        *SPARK_HAS[1:],
    ),
)
STREAMS = JarSet("kafka-streams-4.1.1", ("org.apache.kafka:kafka-streams:4.1.1", _LOGGER))
_CONNECT = ("runtime", "mirror", "file", "json")
CONNECT = JarSet(
    "kafka-connect-4.1.1",
    (*(f"org.apache.kafka:connect-{part}:4.1.1" for part in _CONNECT), _LOGGER),
)
JAR_SETS = (KAFKA, DELTA, CONNECTOR, HADOOP_AWS, STREAMS, CONNECT)


def cache_dir() -> Path:
    """The folder of everything fetched: SPARKLOG_CACHE, else `.cache` beside `tests`."""
    named = os.environ.get("SPARKLOG_CACHE")
    return Path(named) if named else Path(__file__).parents[2] / ".cache"


def is_offline() -> bool:
    """Whether SPARKLOG_OFFLINE=1 forbids fetching: tests that miss a jar then skip, not fail."""
    return os.environ.get("SPARKLOG_OFFLINE") == "1"


def java() -> str:
    """The `java` to run: the one in JAVA_HOME, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise JarsUnavailableError("no java: install Java 17, or let JAVA_HOME name it")
    return found


def jars(jar_set: JarSet) -> list[Path]:
    """The set's jars, sorted; fetches them first when the cache has none.

    Raises JarsUnavailableError when they can be neither found nor fetched.
    """
    libs = cache_dir() / jar_set.name / "libs"
    if not libs.is_dir():
        if is_offline():
            raise JarsUnavailableError(
                f"{libs} is missing, and SPARKLOG_OFFLINE=1 forbids to fetch"
            )
        with _locked(cache_dir() / "fetch.lock"):
            if not libs.is_dir():
                _fetch(jar_set, libs)
    return sorted(libs.glob("*.jar"))


def class_path(jar_set: JarSet) -> str:
    """The set as one `-cp` argument."""
    return os.pathsep.join(str(jar) for jar in jars(jar_set))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(jar_set: JarSet, libs: Path) -> None:
    libs.parent.mkdir(parents=True, exist_ok=True)
    problem = ""
    for _ in range(FETCH_TRIES):
        with tempfile.TemporaryDirectory(dir=libs.parent) as scratch:
            problem = _run_ivy(jar_set, Path(scratch))
            if not problem:
                (Path(scratch) / "libs").rename(libs)
                return
    raise JarsUnavailableError(
        f"cannot fetch {' and '.join(jar_set.roots)} through Ivy:\n{problem}"
    )


def _run_ivy(jar_set: JarSet, scratch: Path) -> str:
    """Fill `scratch/libs`; return what went wrong, or an empty text."""
    module = scratch / "ivy.xml"
    module.write_text(_ivy_module(jar_set))
    command = [java(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    command += ["-cache", str(cache_dir() / "ivy"), "-ivy", str(module), "-confs", "default"]
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", f"{scratch}/libs/[artifact]-[revision].[ext]"]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {FETCH_TIMEOUT_S} s"
    complete = run.returncode == 0 and (scratch / "libs").is_dir()
    return "" if complete else (run.stdout + run.stderr)[-2000:]


def _ivy_module(jar_set: JarSet) -> str:
    dependency = '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'
    exclude = '<exclude org="{}" module="{}"/>'
    override = '<override org="{}" module="{}" rev="{}"/>'
    roots = [dependency.format(*root.split(":")) for root in jar_set.roots]
    excludes = [exclude.format(*names) for names in jar_set.excludes]
    overrides = [override.format(*other.split(":")) for other in jar_set.overrides]
    return "\n".join(
        [
            '<ivy-module version="2.0">',
            f'<info organisation="sparklog" module="{jar_set.name}"/>',
            '<configurations><conf name="default"/></configurations>',
            "<dependencies>",
            *roots,
            *excludes,
            *overrides,
            "</dependencies>",
            "</ivy-module>",
        ]
    )


def _ivy_jar() -> Path:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JarsUnavailableError("pyspark is not installed, and Ivy is fetched from its jars")
    return next((Path(pyspark.origin).parent / "jars").glob("ivy-*.jar"))


def main() -> None:
    """Fetch every set, so that later runs need no network."""
    for jar_set in JAR_SETS:
        found = jars(jar_set)
        print(f"{jar_set.name}: {len(found)} jars in {found[0].parent}")


if __name__ == "__main__":
    main()
