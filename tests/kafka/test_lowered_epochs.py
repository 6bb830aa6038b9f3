"""A broker gets a log with leader epochs above its own: it knows where the last one ends."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sparklog.admin import AdminClient
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.requests import CommittedOffset
from sparklog.metadata.catalog import Catalog
from sparklog.record.scan import scan_batches
from sparklog.storage import open_files
from sparklog.wire.protocol.versions import ApiKey
from tests.broker_files import batch, write_segment
from tests.command_line import CommandLine
from tests.kafka.broker import running_broker
from tests.kafka.client import Client as Producer
from tests.kafka.scenarios import varied_records
from tests.kafka.test_consumer_groups import CONSUMER
from tests.kafka.test_gateway_admin import run
from tests.wire.gateways import Client
from tests.wire.requests import body, part

pytestmark = pytest.mark.kafka

KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSION = 4


def end_of(bootstrap: str, epoch: int) -> tuple[int, int]:
    """The epoch that a broker finds for one, and where it ends."""
    epochs = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    asked = part(KEY, VERSION, "OffsetForLeaderPartition", **epochs)
    topic = part(KEY, VERSION, "OffsetForLeaderTopic", topic="t", partitions=(asked,))
    with Client(int(bootstrap.rsplit(":", 1)[1])) as client:
        answer = client.ask(body(KEY, VERSION, replica_id=-1, topics=(topic,)))
    found = answer.topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


def test_the_end_of_the_last_epoch_is_known(tmp_path: Path) -> None:
    (source := tmp_path / "old" / "t-0").mkdir(parents=True)
    batches = batch(0), batch(2, epoch=3), batch(4, epoch=7)
    size = write_segment(source, 0, *batches).stat().st_size
    sparklog = CommandLine(str(tmp_path / "log"))
    sparklog.done("import", source.parent)
    with running_broker(tmp_path / "node") as broker:
        broker.create_topic("t", 1, {"retention.ms": "-1"})
        broker.stop()
        sparklog.done("export", "--into", broker.data_dir)
        broker.start()
        Producer(broker).send("t", varied_records(4))

        log = broker.partition_dir("t") / f"{0:020d}.log"
        epochs = scan_batches(log.read_bytes()[:size]).batches.leader_epoch.tolist()
        assert [end_of(broker.bootstrap, epoch) for epoch in epochs] == [(0, 6)] * 3


def test_a_java_consumer_goes_on_at_an_offset_of_a_higher_epoch(tmp_path: Path) -> None:
    (source := tmp_path / "old" / "t-0").mkdir(parents=True)
    write_segment(source, 0, batch(0), batch(2, epoch=7))
    sparklog, place = CommandLine(str(tmp_path / "log")), ("t", 0)
    sparklog.done("import", source.parent)
    catalog = Catalog(open_files(sparklog.log_dir))
    offsets_topic(catalog, catalog.clock, 1)
    AdminClient(sparklog.log_dir).alter_consumer_group_offsets("g", {place: CommittedOffset(3, 7)})
    with running_broker(tmp_path / "node") as broker:
        broker.create_topic("t", 1, {"retention.ms": "-1"})
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "first"})
        consumer.commit(offsets=[TopicPartition(*place, 0)], asynchronous=False)
        consumer.close()
        broker.stop()
        sparklog.done("export", "--into", broker.data_dir, "--topic", "t")
        sparklog.done("export", "--into", broker.data_dir, "--topic", OFFSETS_TOPIC, "--replace")
        broker.start()
        running: Any = SimpleNamespace(address=broker.bootstrap)
        options = "--topic", "t", "--group", "g", "--max-messages", "1", "--timeout-ms", "20000"
        assert run(running, CONSUMER, *options) == ["v" * 40]
