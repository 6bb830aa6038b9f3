"""The time before a user's work begins: imports, the command line, a new driver."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench import ours
from bench.figures import Bar, Figure
from bench.first_produce import LOAD
from bench.settings import Settings
from sparklog.wire.protocol.versions import ApiKey
from tests.kafka.broker import running_broker
from tests.wire.gateways import Client, request
from tests.wire.processes import gateway_process

RUNS = 11
ROOT = Path(__file__).parents[1]
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
IMPORTS = (
    ("import sparklog", IMPORT.format("sparklog"), Bar(most=50)),
    # Modules that a program with PySpark has loaded already do not count.
    (
        "import sparklog.spark, beyond PySpark",
        "import pyspark.sql, pyspark.sql.datasource; " + IMPORT.format("sparklog.spark"),
        Bar(most=150),
    ),
)


def run(settings: Settings) -> list[Figure]:
    """Imports and commands without a JVM; the first produce of a new driver."""
    log_dir = settings.directory / "startup"
    ours.create(log_dir, LOAD)
    return [*_commands(log_dir), *_gateway(settings.directory), *_first_produces(settings)]


def _commands(log_dir: Path) -> Iterator[Figure]:
    group = "startup: no JVM in any of them"
    sparklog = str(Path(sys.executable).parent / "sparklog")
    offsets = [sparklog, "get-offsets", "--log-dir", str(log_dir), "--topic", ours.TOPIC]
    for name, code, most in IMPORTS:
        seconds = [float(_run([sys.executable, "-c", code])) for _ in range(RUNS)]
        yield Figure(group, name, median(seconds) * 1000, "ms", most)
    for name, command, bar in (
        ("python -c pass", [sys.executable, "-c", "pass"], None),
        ("sparklog --help", [sparklog, "--help"], Bar(most=150)),
        ("sparklog get-offsets", offsets, Bar(most=500)),
    ):
        each = [_milliseconds(command) for _ in range(RUNS)]
        yield Figure(group, name, median(each), "ms", bar)


def _gateway(directory: Path) -> Iterator[Figure]:
    """From the start of a gateway's process to its first answer, of a new log dir."""
    group = "startup: the gateway's first answer"
    floor = [sys.executable, "-c", "import uvloop, pyarrow"]
    each = [_milliseconds(floor) for _ in range(RUNS)]
    yield Figure(group, "floor: import uvloop, pyarrow", median(each), "ms")
    each = [_first_answer(directory / f"gateway-{number}") for number in range(RUNS)]
    yield Figure(
        group, "sparklog gateway, to Metadata answered", median(each), "ms", Bar(most=1500)
    )


def _first_answer(log_dir: Path) -> float:
    asked = request(
        ApiKey.METADATA,
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    start = time.perf_counter()
    with gateway_process(log_dir) as process, Client(process.port) as client:
        client.ask(asked)
        return (time.perf_counter() - start) * 1000


def _first_produces(settings: Settings) -> Iterator[Figure]:
    """The first produce of a driver, each in a process of its own; nothing is to be compiled."""
    group = "startup: first produce of a new driver"
    rounds = 1 if settings.quick else 3
    each: dict[str, list[float]] = {"sparklog": [], "connector": []}
    with running_broker(settings.directory / "first-broker") as broker:
        for number in range(rounds):
            log_dir, topic = settings.directory / f"first-{number}", f"first-{number}"
            ours.create(log_dir, LOAD)
            broker.create_topic(topic, LOAD.partitions)
            for peer, address in (("sparklog", str(log_dir)), ("connector", broker.bootstrap)):
                command = [sys.executable, "-m", "bench.first_produce", peer, address, topic]
                each[peer].append(float(_run(command)))
    for peer, seconds in each.items():
        yield Figure.of_rounds(group, peer, seconds, "s")
    pairs = zip(each["sparklog"], each["connector"], strict=True)
    ratios = [mine / theirs for mine, theirs in pairs]
    yield Figure.of_rounds(group, "sparklog / connector", ratios, "x", Bar(most=1.5))


def _milliseconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    _run(command)
    return (time.perf_counter() - start) * 1000


def _run(command: Sequence[str]) -> str:
    """The last line that a command prints."""
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr[-2000:]}")
    return run.stdout.strip().rpartition("\n")[2]
