"""A broker gets a log with leader epochs above its own: it knows where the last one ends."""

from pathlib import Path

import pytest

from sparklog.record.scan import scan_batches
from sparklog.wire.versions import ApiKey
from tests.broker_files import batch, write_segment
from tests.command_line import CommandLine
from tests.kafka.broker import running_broker
from tests.kafka.client import Client as Producer
from tests.kafka.scenarios import varied_records
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
