"""Kafka 4.1.1's own programs: those that its system tests drive, and those of its shell scripts."""

import json
import subprocess

import pytest

from tests.clients.conftest import Served, numbers
from tests.kafka.jars import KAFKA, class_path, java

pytestmark = [pytest.mark.clients, pytest.mark.kafka]

TOOLS = "org.apache.kafka.tools"
TIMEOUT_S = 120


def run(tool: str, *arguments: str, given: str = "") -> str:
    """What a program prints."""
    quick = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = [java(), *quick, "-cp", class_path(KAFKA), f"{TOOLS}.{tool}", *arguments]
    found = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def told(lines: str, name: str) -> list[dict[str, object]]:
    """The events of a verifiable program that have a name."""
    events = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return [one for one in events if one["name"] == name]


def test_verifiable_producer_and_consumer(served: Served) -> None:
    topic, count = served.new_topic(), 5000
    where = ["--bootstrap-server", served.address, "--topic", topic]
    sent = told(run("VerifiableProducer", *where, "--max-messages", str(count)), "tool_data")
    assert sent[0]["acked"] == count
    assert served.values(topic) == sorted(map(str, range(count)))
    member = ["--group-id", served.new_name(), "--max-messages", str(count)]
    lines = run("VerifiableConsumer", *where, *member, "--reset-policy", "earliest")
    consumed = [int(str(one["count"])) for one in told(lines, "records_consumed")]
    assert sum(consumed) == count
    assert all(one["success"] for one in told(lines, "offsets_committed"))


def test_console_producer_and_consumer(served: Served) -> None:
    topic, sent = served.new_topic(partitions=1), numbers(0, 300)
    where = ["--bootstrap-server", served.address, "--topic", topic]
    run("ConsoleProducer", *where, given="\n".join(sent))
    assert served.values(topic) == sent
    read = ["--from-beginning", "--max-messages", "300", "--timeout-ms", "60000"]
    lines = run("consumer.ConsoleConsumer", *where, *read)
    assert sorted(lines.split()) == sent
    some = ["--partition", "0", "--offset", "0", "--max-messages", "5"]
    assert len(run("consumer.ConsoleConsumer", *where, *some).split()) == 5


def test_producer_and_consumer_performance(served: Served) -> None:
    topic, count = served.new_topic(), 200_000
    sending = ["--topic", topic, "--num-records", str(count), "--record-size", "100"]
    options = ["--throughput", "-1", "--producer-props", f"bootstrap.servers={served.address}"]
    lines = run("ProducerPerformance", *sending, *options).splitlines()
    print(lines[-1])
    assert lines[-1].startswith(f"{count} records sent")
    where = ["--bootstrap-server", served.address, "--topic", topic, "--messages", str(count)]
    *_, figures = run("ConsumerPerformance", *where, "--timeout", "60000").splitlines()
    print(figures)
    assert int(figures.split(",")[4]) >= count


def test_end_to_end_latency(served: Served) -> None:
    topic = served.new_topic(partitions=1)
    count, acks, size = "500", "1", "100"
    lines = run("EndToEndLatency", served.address, topic, count, acks, size).splitlines()
    print(lines[-1])
    assert lines[-1].startswith("Percentiles:")


def test_client_compatibility(served: Served) -> None:
    where = ["--bootstrap-server", served.address, "--topic", served.new_topic()]
    supported = [
        f"--{name}-supported"
        for name in ("offsets-for-times", "cluster-id", "idempotent-producer", "describe-acls")
    ]
    expected = ["true"] * len(supported)
    asked = [text for pair in zip(supported, expected, strict=True) for text in pair]
    more = ["--num-cluster-nodes", "1", "--expect-record-too-large-exception", "false"]
    more += ["--create-topics-supported", "true", "--describe-configs-supported", "true"]
    lines = run("ClientCompatibilityTest", *where, *asked, *more)
    assert "SUCCESS" in lines
