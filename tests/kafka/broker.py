"""A Kafka 4.1.1 broker for the length of a `with`: one KRaft node on free ports of loopback.

It writes segments for the tests to read, reads segments that sparklog wrote, and is the peer that
`bench` measures against. It never outlives its parent: the process is told to end with it.
"""

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.kafka.dump import SegmentFiles, segment_files
from tests.kafka.jars import KAFKA, class_path, java

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60

# Small where the defaults are for clusters, quick where they wait for one.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


class Broker:
    """One node with its files in `directory`; started and stopped any number of times.

    It logs warnings, and what `informants` (packages or classes) have to tell besides.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        informants: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self._informants = informants
        self.data_dir = directory / "data"
        broker_port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker_port}"
        self._settings = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_dir),
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def admin(self) -> AdminClient:
        """A new client of the running broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def start(self) -> None:
        """Returns when the broker answers; formats its directory the first time.

        Raises RuntimeError, with the end of its log, when it does not come up.
        """
        properties = self.directory / "server.properties"
        if not properties.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{k}={v}\n" for k, v in self._settings.items()))
            self._format(properties)
        options = ["-Xmx1G", "-Xms256M"]
        options += [f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in self._informants]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*_leash(), *_kafka("kafka.Kafka", *options), str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await_answer()

    def stop(self) -> None:
        """A clean shutdown: everything flushed, indexes trimmed to their entries."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the broker; no-op when it does not run."""
        self._end(signal.SIGKILL)

    def create_topic(
        self, name: str, num_partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic and returns when its partitions have a leader."""
        admin = self.admin
        topic = NewTopic(name, num_partitions, 1, config=dict(config or {}))
        admin.create_topics([topic])[name].result(timeout=30)
        for _ in range(100):
            found = admin.list_topics(name, timeout=10).topics[name].partitions
            if len(found) == num_partitions and all(p.leader == 1 for p in found.values()):
                return
            time.sleep(0.1)
        raise RuntimeError(f"topic {name} has no leader after 10 s")

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; its files go within a minute."""
        admin = self.admin  # must live until it has the answer
        admin.delete_topics([name])[name].result(timeout=30)

    def set_topic_config(self, topic: str, key: str, value: str) -> None:
        """Sets one of a topic's configs."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.admin  # must live until it has the answer
        admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def cleaner_offset(self, topic: str) -> int | None:
        """How far partition 0 is compacted; None before the first time."""
        checkpoint = self.data_dir / "cleaner-offset-checkpoint"
        text = checkpoint.read_text() if checkpoint.exists() else ""
        lines = [line.split() for line in text.splitlines()]
        return next((int(line[2]) for line in lines if line[:2] == [topic, "0"]), None)

    def await_cleaner(self, topic: str, offset: int, timeout_s: float = 30) -> None:
        """Returns when partition 0 is compacted up to an offset. Raises RuntimeError if late."""
        until = time.monotonic() + timeout_s
        while self.cleaner_offset(topic) != offset:
            if time.monotonic() > until:
                raise RuntimeError(f"{topic} is not compacted up to {offset} after {timeout_s} s")
            time.sleep(0.1)

    @property
    def log_text(self) -> str:
        """What the node has logged so far."""
        return self._log_file.read_text(errors="replace")

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """Where the broker keeps a partition's files."""
        return self.data_dir / f"{topic}-{partition}"

    def segments(self, topic: str, partition: int = 0) -> list[SegmentFiles]:
        """The partition's segments in offset order.

        While the broker runs, the last one's indexes are zero-filled to their full size: stop it
        before reading those.
        """
        logs = sorted(self.partition_dir(topic, partition).glob("*.log"))
        return [segment_files(log) for log in logs]

    @property
    def _log_file(self) -> Path:
        return self.directory / "server.log"

    def _format(self, properties: Path) -> None:
        cluster_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        command = [*_kafka("kafka.tools.StorageTool"), "format"]
        command += ["--cluster-id", cluster_id, "--config", str(properties)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if run.returncode != 0:
            raise RuntimeError(f"cannot format {self.data_dir}:\n{run.stdout}{run.stderr}")

    def _await_answer(self) -> None:
        process = self._process
        assert process is not None
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until and process.poll() is None:
            if _accepts(self.bootstrap) and self._answers():
                return
            time.sleep(0.1)
        self.kill()
        tail = self.log_text[-2000:]
        raise RuntimeError(f"the broker did not come up (exit code {process.returncode}):\n{tail}")

    def _answers(self) -> bool:
        try:
            return len(self.admin.list_topics(timeout=5).brokers) == 1
        except KafkaException:
            return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)


@contextmanager
def running_broker(
    directory: Path, settings: Mapping[str, str] | None = None, informants: Sequence[str] = ()
) -> Iterator[Broker]:
    """A started broker with its files in `directory`, killed and removed at the end."""
    broker = Broker(directory, settings, informants)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


def log_end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The log end offset of every partition, as the broker answers it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watermarks"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        marks = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for number in partitions
        }
    finally:
        consumer.close()
    return {number: mark[1] for number, mark in marks.items()}


def _kafka(main_class: str, *options: str) -> list[str]:
    log = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    # As kafka-run-class.sh does: tests set it, the benchmarks do not.
    given = os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS", "").split()
    return [java(), *options, *given, *log, "-cp", class_path(KAFKA), main_class]


def _leash() -> list[str]:
    """A prefix that lets the kernel end the process when the one that started it has gone."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _accepts(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
