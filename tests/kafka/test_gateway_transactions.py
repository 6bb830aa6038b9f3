"""Kafka's own programs run transactions through a gateway: version 2, as clients of 4.1 speak.

Every call starts a JVM, so a test asks for several things.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparklog.admin import NewTopic
from tests.kafka.jars import KAFKA, SHORT_LIVED, class_path, java
from tests.kafka.test_gateway_admin import run
from tests.transactions import Instance
from tests.wire.gateways import RunningGateway, gateway

pytestmark = pytest.mark.kafka

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COPY_TIMEOUT_S = 120
COUNT = 1000


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    configs: dict[str, object] = {"node_id": 1, "group_initial_rebalance_delay_ms": 0}
    with gateway(tmp_path / "log", **configs) as found:
        found.server.gateway.admin.create_topics([NewTopic("in", 1), NewTopic("out", 2)])
        yield found


def copied(running: RunningGateway, *more: str) -> list[dict[str, object]]:
    """What the copier says; it has copied all of partition 0 of `in`, ten records a transaction."""
    command = [java(), *SHORT_LIVED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", class_path(KAFKA), COPIER, "--broker-list", running.address]
    command += ["--input-topic", "in", "--input-partition", "0", "--output-topic", "out"]
    command += ["--transactional-id", "copier", "--consumer-group", "copiers"]
    command += ["--transaction-size", "10", "--max-messages", str(COUNT), *more]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=COPY_TIMEOUT_S, check=False
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-4000:]
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


def test_the_copier_copies_each_record_once(running: RunningGateway, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": running.address})
    for number in range(COUNT):
        producer.produce("in", str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    copied(running, "--enable-random-aborts", "--use-group-metadata", "--group-mode")
    found = Instance(str(tmp_path / "log")).values("out")

    assert sorted(map(int, found[0] + found[1])) == list(range(COUNT))
    state = running.server.gateway.transactions.describe("copier")
    assert state.epoch >= COUNT // 10  # version 2: each end raises it
    offsets = running.server.gateway.admin.list_consumer_group_offsets("copiers")
    assert [one.offset for one in offsets.values() if one] == [COUNT]


def test_kafka_transactions_lists_describes_and_aborts(
    running: RunningGateway, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": "id"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("out", b"x", partition=0)
    assert producer.flush(30) == 0
    head, listed = (line.split() for line in run(running, TRANSACTIONS, "list"))
    told = dict(zip(head, listed, strict=True))
    assert (told["TransactionalId"], told["TransactionState"]) == ("id", "Ongoing")
    described = run(running, TRANSACTIONS, "describe", "--transactional-id", "id")
    assert "out-0" in described[-1].split()
    run(
        running,
        TRANSACTIONS,
        "abort",
        *("--topic", "out", "--partition", "0", "--start-offset", "0"),
    )
    assert not running.server.gateway.transactions.describe("id").is_open
    assert Instance(str(tmp_path / "log")).values("out") == {0: [], 1: []}
