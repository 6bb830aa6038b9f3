"""Writes tests/compat/data anew: a broker's log directory, and what Kafka's dump tool says of it.

`python -m tests.kafka.make_compat [expected]` (with `expected`, the broker's files stay). Needs a
JDK, for `jshell` writes the message sets of magic 0 and 1.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.compat.cases import BROKER, DATA, EXPECTED, FOLDER, Case, Printed, cases
from tests.kafka.broker import Broker, running_broker
from tests.kafka.client import Client
from tests.kafka.jars import KAFKA, SHORT_LIVED, class_path, java
from tests.kafka.scenarios import create_topic, produce_all, varied_records

TIMEOUT_S = 120
GROUP_RECORDS = 20


def main() -> None:
    """Write the broker's directory unless told otherwise, then what is expected of every case."""
    if sys.argv[1:] != ["expected"]:
        shutil.rmtree(DATA, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch:
            _write_broker(Path(scratch) / "node")
        _write_legacy()
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for case in cases().values():
        _save(case.name, kafka_dump(case))


def _save(name: str, printed: Printed) -> None:
    EXPECTED.mkdir(parents=True, exist_ok=True)
    (EXPECTED / f"{name}.out").write_bytes(printed.out)
    if printed.failed or printed.complaints:
        text = "FAILED\n" if printed.failed else printed.complaints
        (EXPECTED / f"{name}.err").write_text(text, encoding="utf-8")


def kafka_dump(case: Case) -> Printed:
    """What Kafka's dump tool prints of a case."""
    with tempfile.TemporaryDirectory() as folder:
        paths = case.prepared(Path(folder))
        run = kafka_tool([*case.options, "--files", ",".join(map(str, paths))])
        out = run.stdout.replace(folder.encode(), FOLDER.encode())
        complaints = run.stderr.decode().replace(folder, FOLDER)
    return Printed(out, "" if run.returncode else complaints, run.returncode != 0)


def kafka_tool(arguments: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Runs kafka-dump-log.sh's class."""
    command = [java(), "-Xmx512M", *SHORT_LIVED]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dstdout.encoding=UTF-8"]
    command += ["-Dfile.encoding=UTF-8", "-cp", class_path(KAFKA), "kafka.tools.DumpLogSegments"]
    return subprocess.run(
        [*command, *arguments], capture_output=True, timeout=TIMEOUT_S, check=False
    )


def _write_broker(directory: Path) -> None:
    with running_broker(directory) as broker:
        produce_all(broker)
        _commit_offsets(broker)
        broker.stop()
        # What a client writes in the first moments is there; what comes later is not ours.
        for path in sorted(broker.data_dir.glob("**/*")):
            target = BROKER / path.relative_to(broker.data_dir)
            if path.is_file() and ".deleted" not in path.name and path.name != ".lock":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def _commit_offsets(broker: Broker) -> None:
    """Two groups, one of each protocol, that read a topic and commit."""
    create_topic(broker, "grouped")
    Client(broker).send("grouped", varied_records(GROUP_RECORDS))
    for protocol in ("classic", "consumer"):
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"group-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.subscribe(["grouped"])
        for _ in range(GROUP_RECORDS):
            assert consumer.poll(30) is not None
        consumer.commit(asynchronous=False)
        seven = TopicPartition("grouped", 0, 7, metadata="m\u00e9t\u00e9 \u0001")
        consumer.commit(offsets=[seven], asynchronous=False)
        consumer.close()


def _write_legacy() -> None:
    source = Path(__file__).with_name("legacy.jsh")
    command = ["jshell", "--class-path", class_path(KAFKA), f"-R-Dtarget={BROKER}", str(source)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)


if __name__ == "__main__":
    main()
