"""Kafka's own consumer in a group of the consumer protocol (KIP-848), and the records of it."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparklog.admin import NewTopic
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC
from tests.command_line import CommandLine
from tests.kafka.make_compat import kafka_tool
from tests.kafka.test_gateway_admin import run
from tests.wire.gateways import gateway

pytestmark = pytest.mark.kafka

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
COUNT = 100


def test_the_console_consumer_reads_in_a_group_whose_records_kafka_reads(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", offsets_topic_num_partitions=4) as running:
        running.server.gateway.admin.create_topics([NewTopic("flights", 4)])
        producer = Producer({"bootstrap.servers": running.address})
        for number in range(COUNT):
            producer.produce("flights", str(number).encode(), partition=number % 4)
        assert producer.flush(30) == 0
        properties = ["--consumer-property", "group.protocol=consumer"]
        properties += ["--consumer-property", "group.remote.assignor=range"]
        options = ["--topic", "flights", "--group", "readers", "--from-beginning"]
        lines = run(running, CONSUMER, *options, *properties, "--max-messages", str(COUNT))
        assert sorted(map(int, lines)) == list(range(COUNT))
        [listed] = run(running, GROUPS, "--list", "--type")[1:]
        assert listed.split() == ["readers", "Consumer"]
        described = run(running, GROUPS, "--describe", "--group", "readers")
        rows = [line.split()[:6] for line in described if line.startswith("readers")]
        end = str(COUNT // 4)
        assert sorted(rows) == [["readers", "flights", str(n), end, end, "0"] for n in range(4)]
    command = CommandLine(str(tmp_path / "log"))
    command.done("export", "--topic", OFFSETS_TOPIC, "--to", tmp_path / "export")
    number = partition_of("readers", 4)
    [segment] = (tmp_path / "export" / f"{OFFSETS_TOPIC}-{number}").glob("*.log")
    arguments = ["--offsets-decoder", "--files", str(segment)]
    theirs = kafka_tool(arguments).stdout
    assert command("dump-log", *arguments).out == theirs
    for name in ("epoch", "subscribedTopicNames", "assignmentEpoch", "assignedPartitions"):
        assert f'"{name}":'.encode() in theirs
