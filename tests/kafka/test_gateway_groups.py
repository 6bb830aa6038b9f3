"""kafka-consumer-groups at a gateway, and `sparklog groups` on its log dir: they say the same.

Every call of the tool starts a JVM, so a test asks for several things.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.metadata.state.edit import PartitionState, TopicEdit
from sparklog.wire.instances import leaders_of
from tests.command_line import CommandLine
from tests.kafka.test_gateway_admin import run
from tests.logs import append, catalog
from tests.wire.gateways import Client, RunningGateway, gateway
from tests.wire.grouping import alone

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
QUICK = {"group_initial_rebalance_delay_ms": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """With the topic `flights`: five records in the first of two partitions."""
    found = str(tmp_path / "log")
    AdminClient(found).create_topics([NewTopic("flights", 2, config={"retention.ms": "-1"})])
    append(found, 0, range(5), topic="flights")
    return found


@pytest.fixture
def running(log_dir: str) -> Iterator[RunningGateway]:
    with gateway(log_dir, **QUICK) as found:
        yield found


def ours(log_dir: str, *arguments: str) -> list[list[str]]:
    """The words of the lines that `sparklog groups` prints; stderr may tell of lag states."""
    outcome = CommandLine(log_dir)("groups", *arguments)
    assert outcome.code == 0, outcome.err
    return [line.split() for line in outcome.lines if line]


def test_what_is_described_is_the_same(running: RunningGateway, log_dir: str) -> None:
    admin = AdminClient(log_dir)
    admin.alter_consumer_group_offsets("idle", {("flights", 0): 2, ("flights", 1): 0})
    theirs = [line.split() for line in run(running, TOOL, "--describe", "--group", "idle")]
    told = [line[:9] for line in ours(log_dir, "describe", "idle")]
    assert theirs[0] == told[0]
    assert sorted(theirs[1:]) == sorted(told[1:])
    with Client(running.port) as client:
        alone(client).commit({("flights", 0): 3})
        listed = run(running, TOOL, "--list")
        assert sorted(listed) == ["idle", "readers"]
        assert sorted(listed) == CommandLine(log_dir).done("groups", "list").lines


def test_what_one_resets_the_other_sees(running: RunningGateway, log_dir: str) -> None:
    reset = ["--reset-offsets", "--group", "jobs", "--topic", "flights", "--to-earliest"]
    theirs = [line.split() for line in run(running, TOOL, *reset, "--execute")]
    told = ours(log_dir, "reset-offsets", "jobs", "--topic", "flights", "--to-earliest")
    assert sorted(theirs) == sorted(told)
    ours(log_dir, "reset-offsets", "jobs", "--topic", "flights", "--to-latest", "--execute")
    csv = run(running, TOOL, *reset[:-1], "--to-current", "--export")
    assert sorted(csv) == ["flights,0,5", "flights,1,0"]
    deleted = run(running, TOOL, "--delete", "--group", "jobs")
    assert "jobs" in deleted[-1]
    assert ours(log_dir, "list") == []


def test_a_group_goes_on_where_partitions_have_different_leader_epochs(
    running: RunningGateway, log_dir: str
) -> None:
    """As those of an imported topic. A client trusts no metadata older than the epochs it knows."""
    found = catalog(log_dir)
    states = {0: PartitionState(leader_epoch=2), 1: PartitionState(leader_epoch=7)}
    edit = TopicEdit(partitions=states)
    found.commit(found.topic("flights"), lambda _: edit, operation="TEST")
    for values in (["a", "b"], ["c"]):
        append(log_dir, 0, values, topic="flights")
        quick = ["--topic", "flights", "--group", "g", "--from-beginning", "--timeout-ms", "20000"]
        some = ["--max-messages", "7" if len(values) > 1 else "1"]
        read = run(running, CONSUMER, *quick, *some)
        assert read[-len(values) :] == values


def test_a_consumer_reads_from_the_instance_of_its_rack(log_dir: str) -> None:
    [topic] = AdminClient(log_dir).describe_topics(["flights"])
    with (
        gateway(log_dir, node_id=1, rack="a", **QUICK) as first,
        gateway(log_dir, node_id=2, rack="b", **QUICK),
    ):
        rack = "b" if leaders_of(topic.topic_id, (1, 2)).of(0) == 1 else "a"
        quick = ["--topic", "flights", "--partition", "0", "--offset", "earliest"]
        some = ["--max-messages", "5", "--timeout-ms", "60000"]
        read = run(first, CONSUMER, *quick, *some, "--consumer-property", f"client.rack={rack}")
    assert read[-5:] == ["0", "1", "2", "3", "4"]
