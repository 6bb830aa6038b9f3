"""A standalone Spark on loopback: a master and two workers, of the PySpark package itself."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.kafka.jars import SHORT_LIVED, java

HOST = "127.0.0.1"
WORKERS = 2
START_SECONDS = 60
DRIVER_SECONDS = 600
ROOT = Path(__file__).parents[2]

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True)
class Standalone:
    """A running cluster. `folder` holds what master, workers, executors and drivers print."""

    master: str
    folder: Path
    workers: "list[subprocess.Popen[bytes]]"

    @property
    def executor_logs(self) -> list[Path]:
        """What executors of all applications so far have printed, Python workers included."""
        return sorted(self.folder.glob("worker*/app-*/*/std*"))


def spark_home() -> Path:
    """The PySpark package, which is a Spark of its own."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    return Path(pyspark.origin).parent


def clean_environment() -> dict[str, str]:
    """This process's, on loopback, finding tests, and without settings of a storage."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": HOST,
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def running(folder: Path) -> Iterator[Standalone]:
    """Start the cluster; whatever happens, its processes are gone afterwards."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        place = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        log = _start(processes, folder / "master.log", [_MASTER, *place])
        master = _found(log, processes[-1], r"Starting Spark master at (spark://\S+)")
        for number in range(WORKERS):
            # Hosts of their own, because Spark speculates on another host only.
            host = ["--host", f"127.0.0.{1 + number}", *place[2:]]
            size = ["--cores", "1", "--memory", "1G", "--work-dir", str(folder / f"worker{number}")]
            log = _start(processes, folder / f"worker{number}.log", [_WORKER, *host, *size, master])
            _found(log, processes[-1], r"(Successfully registered) with master")
        yield Standalone(master, folder, processes[1:])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _start(processes: list["subprocess.Popen[bytes]"], log: Path, command: list[str]) -> Path:
    # What spark-class would run, without a shell in between that outlives it.
    with log.open("wb") as output:
        processes.append(
            subprocess.Popen(
                [java(), *SHORT_LIVED, "-cp", f"{spark_home()}/jars/*", "-Xmx256m", *command],
                stdout=output,
                stderr=output,
                env=clean_environment(),
            )
        )
    return log


def _found(log: Path, process: "subprocess.Popen[bytes]", pattern: str) -> str:
    """Wait until a process has printed `pattern`; return its group."""
    deadline = time.monotonic() + START_SECONDS
    while (match := re.search(pattern, log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"did not start: {log.read_text(errors='replace')}")
        time.sleep(0.1)
    return match[1]


def run_driver(
    cluster: Standalone,
    *arguments: str,
    module: str = "tests.cluster.driver",
    environ: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a driver on the cluster, with `environ` in its environment only."""
    return subprocess.run(
        [sys.executable, "-m", module, cluster.master, *arguments],
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS,
        check=False,
        cwd=ROOT,
        env=clean_environment() | dict(environ or {}),
    )
