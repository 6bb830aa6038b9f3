"""Kafka's own tools administer a gateway: what they print, and what is in the log dir then.

Every call starts a JVM, so a test asks for several things.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from tests.edits import append, segment
from tests.kafka.jars import KAFKA, SHORT_LIVED, class_path, java
from tests.wire.gateways import RunningGateway, gateway

pytestmark = pytest.mark.kafka

TOOL_TIMEOUT_S = 120
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    with gateway(tmp_path / "log", node_id=1) as found:
        yield found


@pytest.fixture
def admin(running: RunningGateway) -> AdminClient:
    return running.server.gateway.admin


def run(running: RunningGateway, tool: str, *arguments: str, code: int = 0) -> list[str]:
    """The lines that a tool prints. It ends with an exit code."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = [java(), *SHORT_LIVED, quiet, "-cp", class_path(KAFKA), tool]
    command += ["--bootstrap-server", running.address, *arguments]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    assert found.returncode == code, found.stdout + found.stderr
    return [line.strip() for line in found.stdout.splitlines() if line.strip()]


def test_kafka_topics_creates_lists_describes_alters_and_deletes(
    running: RunningGateway, admin: AdminClient
) -> None:
    wanted = ["--topic", "flights", "--partitions", "2", "--replication-factor", "3"]
    created = run(running, TOPICS, "--create", *wanted, "--config", "retention.ms=5")
    assert created == ["Created topic flights."]
    refused = run(running, TOPICS, "--create", "--topic", "flights", code=1)
    assert "already exists" in refused[0]
    assert run(running, TOPICS, "--list") == ["flights"]
    head, *partitions = run(running, TOPICS, "--describe", "--topic", "flights")
    assert head.split("\t")[2:] == [
        "PartitionCount: 2",
        "ReplicationFactor: 1",
        "Configs: retention.ms=5",
    ]
    expected = "Topic: flights Partition: {} Leader: 1 Replicas: 1 Isr: 1 Elr: LastKnownElr:"
    assert [" ".join(line.split()) for line in partitions] == [
        expected.format(number) for number in range(2)
    ]
    run(running, TOPICS, "--alter", "--topic", "flights", "--partitions", "5")
    assert admin.describe_topics()[0].num_partitions == 5
    run(running, TOPICS, "--delete", "--topic", "flights")
    assert admin.list_topics() == []


def test_kafka_configs_describes_and_alters(running: RunningGateway, admin: AdminClient) -> None:
    admin.create_topics([NewTopic("flights", 1, {"retention.ms": "5"})])
    topic = ["--entity-type", "topics", "--entity-name", "flights"]
    change = ["--add-config", "cleanup.policy=[compact,delete]", "--delete-config", "retention.ms"]
    run(running, CONFIGS, "--alter", *topic, *change)
    assert admin.describe_topics()[0].configs == {"cleanup.policy": "compact,delete"}
    dynamic = "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete"
    synonyms = f"{{{dynamic}, DEFAULT_CONFIG:log.cleanup.policy=delete}}"
    assert run(running, CONFIGS, "--describe", *topic) == [
        "Dynamic configs for topic flights are:",
        f"cleanup.policy=compact,delete sensitive=false synonyms={synonyms}",
    ]
    broker = ["--entity-type", "brokers", "--entity-name", "1"]
    assert "num.partitions=1 sensitive=false synonyms={DEFAULT_CONFIG:num.partitions=1}" in run(
        running, CONFIGS, "--describe", *broker, "--all"
    )
    run(running, CONFIGS, "--alter", *broker, "--add-config", "num.partitions=3", code=1)


def test_kafka_log_dirs_and_kafka_delete_records(
    running: RunningGateway, admin: AdminClient, tmp_path: Path
) -> None:
    [topic] = admin.create_topics([NewTopic("flights", 1)])
    append(admin._catalog, topic, segment(0, 10))
    told = json.loads(run(running, LOG_DIRS, "--describe")[-1])
    [broker] = told["brokers"]
    [found] = broker["logDirs"]
    size = {"partition": "flights-0", "size": 100, "offsetLag": 0, "isFuture": False}
    assert (broker["broker"], found["partitions"]) == (1, [size])
    wanted = {"partitions": [{"topic": "flights", "partition": 0, "offset": 4}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    lines = run(running, DELETE_RECORDS, "--offset-json-file", str(file))
    assert lines[-1] == "partition: flights-0\tlow_watermark: 4"


def test_kafka_leader_election_and_kafka_reassign_partitions(
    running: RunningGateway, admin: AdminClient, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("flights", 2)])
    wanted = ["--election-type", "preferred", "--topic", "flights", "--partition", "1"]
    told = run(running, ELECTION, *wanted)
    assert told == ["Valid replica already elected for partitions flights-1"]

    file = tmp_path / "moves.json"
    moves = [{"topic": "flights", "partition": 0, "replicas": [1]}]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    given = ["--reassignment-json-file", str(file)]
    told = run(running, REASSIGN, "--execute", *given)
    assert told[-1] == "Successfully started partition reassignment for flights-0"
    told = run(running, REASSIGN, "--verify", "--preserve-throttles", *given)
    assert told[-1] == "Reassignment of partition flights-0 is completed."
    assert run(running, REASSIGN, "--list") == ["No partition reassignments found."]


def test_kafka_metadata_quorum_tells_the_end_of_the_metadata_log(
    running: RunningGateway, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("flights", 1)])
    lines = run(running, QUORUM, "describe", "--status")
    told = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    assert (told["LeaderId"], told["LeaderEpoch"]) == ("1", "0")
    assert int(told["HighWatermark"]) >= admin._catalog.image().version + 1 > 0
    assert told["MaxFollowerLag"] == "0"
    [voter] = json.loads(told["CurrentVoters"])
    assert (voter["id"], told["CurrentObservers"]) == (1, "[]")
