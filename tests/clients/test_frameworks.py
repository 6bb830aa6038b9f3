"""Programs on top of Kafka's clients: Streams and Connect, killed while they work; MirrorMaker."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import permutations
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient as Client
from confluent_kafka.admin import NewTopic as Topic

from sparklog.admin import AdminClient, NewTopic
from sparklog.testing import TemporaryLogDir, TemporaryTopic
from tests.clients.conftest import OPTIONS
from tests.kafka.broker import running_broker
from tests.kafka.jars import CONNECT, STREAMS, JarSet, class_path, java
from tests.waiting import until
from tests.wire.processes import GatewayProcess, free_port, gateway_process

pytestmark = [pytest.mark.clients, pytest.mark.kafka]

WORDS = [f"word-{number}" for number in range(20)]
MIRRORED = 500


class Program:
    """A Java program that can be killed and started again; its output goes to a file."""

    def __init__(self, jar_set: JarSet, log: Path, *command: str) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        self._command = [java(), "-Xmx400m", quiet, "-cp", class_path(jar_set), *command]
        self._log = log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


@contextmanager
def killed_at_the_end(programs: Sequence[Program]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in programs:
            one.kill()


@pytest.fixture
def log_dir(tmp_path: Path) -> TemporaryLogDir:
    return TemporaryLogDir(tmp_path / "log")


@pytest.fixture
def gateway(log_dir: TemporaryLogDir) -> Iterator[GatewayProcess]:
    with gateway_process(log_dir.path, *OPTIONS) as process:
        yield process


def disturbed(turn: int, programs: Sequence[Program], gateway: GatewayProcess) -> None:
    """Kill and start again: in turns a program and the gateway."""
    victim = gateway if turn % 2 else programs[turn // 2]
    victim.kill()
    victim.start()


def consumer(address: str) -> Consumer:
    """A consumer of the group `readers`, which MirrorMaker carries over."""
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": "readers",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    return Consumer(settings)


def read(address: str, topic: str, partitions: int = 2) -> list[Any]:
    """Partition, key and value of a topic's committed records, by partition and offset."""
    found, ends = [], 0
    reader = consumer(address)
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    while ends < partitions:
        message = reader.poll(10)
        assert message is not None
        if message.error():
            ends += 1
        else:
            found.append((message.partition(), message.key(), message.value()))
    reader.close()
    return sorted(found, key=itemgetter(0))


def has_more(topic: TemporaryTopic) -> None:
    """Wait until a topic has more records than now, committed or not."""
    seen = len(topic.values())
    until(lambda: len(topic.values()) > seen)


# ------------------------------------------------------------------------------------------ Streams


def test_streams_counts_words_exactly_once(
    log_dir: TemporaryLogDir, gateway: GatewayProcess, tmp_path: Path
) -> None:
    AdminClient(log_dir).create_topics([NewTopic("lines", 2), NewTopic("counts", 2)])
    source, states = str(Path(__file__).with_name("Words.java")), ("one", "two")
    programs = [
        Program(STREAMS, tmp_path / f"{name}.log", source, gateway.address, str(tmp_path / name))
        for name in states
    ]
    producer = Producer({"bootstrap.servers": gateway.address, "enable.idempotence": True})
    sent = Counter[str]()
    counted = log_dir["counts"]
    with killed_at_the_end(programs):
        for turn in range(4):
            for number in range(100):
                line = [WORDS[(number * turn + step) % len(WORDS)] for step in range(5)]
                producer.produce("lines", " ".join(line))
                sent.update(line)
            producer.flush()
            has_more(counted)
            disturbed(turn, programs, gateway)
        until(lambda: len(read(gateway.address, "counts")) >= sent.total())
        found = read(gateway.address, "counts")
    counts: dict[bytes, list[int]] = {}
    for _, word, count in found:
        counts.setdefault(word, []).append(int(count))
    assert counts == {word.encode(): [*range(1, sent[word] + 1)] for word in sent}


# ------------------------------------------------------------------------------------------ Connect


def worker(name: str, gateway: GatewayProcess, port: int, folder: Path) -> Program:
    """A worker of a distributed Connect cluster, with its REST server at a port."""
    text = "org.apache.kafka.connect.storage.StringConverter"
    settings = {
        "bootstrap.servers": gateway.address,
        "group.id": "connect",
        "key.converter": text,
        "value.converter": text,
        **{f"{one}.storage.topic": f"connect-{one}" for one in ("config", "offset", "status")},
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "2000",
        "listeners": f"http://127.0.0.1:{port}",
    }
    path = written(folder / f"{name}.properties", settings)
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return Program(CONNECT, folder / f"{name}.log", main, str(path))


def written(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def configured(port: int, kind: str, config: Mapping[str, str]) -> None:
    """Make a file's Source or Sink, once its worker answers."""
    named = {
        "connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector",
        **config,
    }
    where = f"http://127.0.0.1:{port}/connectors/{kind}/config"
    headers = {"Content-Type": "application/json"}

    def is_made() -> bool:
        request = Request(where, json.dumps(named).encode(), headers, method="PUT")
        try:
            with urlopen(request, timeout=30) as answer:
                return bool(answer.status in {200, 201})
        except OSError:  # it does not answer yet, or refuses while its cluster rebalances
            return False

    until(is_made)


def test_connect_copies_a_file_exactly_once(gateway: GatewayProcess, tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.touch()
    ports = free_port(), free_port()
    workers = [worker(f"worker-{port}", gateway, port, tmp_path) for port in ports]
    lines: list[str] = []

    def copied() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    def has_copied(count: int) -> None:
        until(lambda: len(copied()) >= count)

    def committed() -> list[str]:
        return [value.decode() for _, _, value in read(gateway.address, "lines", 1)]

    with killed_at_the_end(workers):
        made = {
            f"topic.creation.default.{one}": "1" for one in ("partitions", "replication.factor")
        }
        configured(ports[0], "Source", {"file": str(source), "topic": "lines", **made})
        configured(ports[0], "Sink", {"file": str(sink), "topics": "lines"})
        for turn in range(4):
            more = [f"line {len(lines) + number}" for number in range(500)]
            lines += more
            with source.open("a") as file:
                file.write("".join(f"{line}\n" for line in more))
            has_copied(turn * 500 + 1)
            disturbed(turn, workers, gateway)
        until(lambda: set(copied()) >= set(lines))
        until(lambda: len(committed()) >= len(lines))  # the sink reads uncommitted records, too
    assert committed() == lines


# -------------------------------------------------------------------------------------- MirrorMaker


def filled(address: str, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(first, first + MIRRORED):
        producer.produce(topic, f"{topic} {number}", str(number % 7))
    producer.flush()


def mirrors(addresses: Mapping[str, str], folder: Path) -> Program:
    """MirrorMaker between two clusters, both ways."""
    internal = ("checkpoints", "heartbeats", "offset-syncs")
    stored = ("offset", "status", "config")
    settings = {
        "clusters": ",".join(addresses),
        **{f"{name}.bootstrap.servers": address for name, address in addresses.items()},
        **{f"{name}.exactly.once.source.support": "enabled" for name in addresses},
        **{f"{one}->{other}.enabled": "true" for one, other in permutations(addresses)},
        "replication.factor": "1",
        **{f"{one}.topic.replication.factor": "1" for one in internal},
        **{f"{one}.storage.replication.factor": "1" for one in stored},
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    path = written(folder / "mirror.properties", settings)
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return Program(CONNECT, folder / "mirror.log", main, str(path))


def test_mirror_maker_copies_both_ways(
    log_dir: TemporaryLogDir, gateway: GatewayProcess, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker") as broker:
        addresses = {"kafka": broker.bootstrap, "lake": gateway.address}
        for name, address in addresses.items():
            client = Client({"bootstrap.servers": address})
            client.create_topics([Topic(f"of-{name}", 2, 1)])[f"of-{name}"].result()
            filled(address, f"of-{name}", 0)
            places = [TopicPartition(f"of-{name}", number, 100) for number in (0, 1)]
            consumer(address).commit(offsets=places, asynchronous=False)
        with killed_at_the_end([mirrors(addresses, tmp_path)]):
            until(lambda: "kafka.of-kafka" in AdminClient(log_dir).list_topics())
            for name, address in addresses.items():
                filled(address, f"of-{name}", MIRRORED)
            copy = log_dir["kafka.of-kafka"]
            until(lambda: len(copy.values()) >= 2 * MIRRORED)
            until(lambda: len(read(broker.bootstrap, "lake.of-lake")) >= 2 * MIRRORED)
            carried = {("kafka.of-kafka", number) for number in (0, 1)}
            groups = AdminClient(log_dir)
            until(lambda: carried <= set(groups.list_consumer_group_offsets("readers")))
        there, back = read(broker.bootstrap, "of-kafka"), read(gateway.address, "of-lake")
        assert read(gateway.address, "kafka.of-kafka") == there
        assert read(broker.bootstrap, "lake.of-lake") == back
