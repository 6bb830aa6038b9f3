"""A gateway's transactions, exported: a broker serves them, Kafka's tool prints them, as we do."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparklog.admin import NewTopic
from sparklog.interop.exports.export_log import ExportOptions, export_into
from sparklog.metadata.catalog import Catalog
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from sparklog.storage import open_files
from tests.command_line import CommandLine
from tests.kafka.broker import running_broker
from tests.kafka.client import Found, read_from
from tests.kafka.make_compat import kafka_tool
from tests.wire.gateways import gateway

pytestmark = pytest.mark.kafka

PARTITIONS = (0, 1)
TIMEOUT_S = 30
LEVELS = (READ_COMMITTED, READ_UNCOMMITTED)

Read = dict[tuple[int, str], Found]
"""Records by partition and isolation level."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The records as the gateway and the broker serve them, and the broker's files."""

    ours: Read
    theirs: Read
    files: list[Path]


def produce(address: str) -> None:
    """Commits and aborts in turns; in partition 1 one stays open, and a record lies behind it."""
    producer = transactional(address, "id")
    for number in range(6):
        producer.begin_transaction()
        for partition in PARTITIONS:
            for record in range(3):
                producer.produce("t", f"{number}-{record}".encode(), partition=partition)
        end = producer.abort_transaction if number % 2 else producer.commit_transaction
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    still_open = transactional(address, "open")
    still_open.begin_transaction()
    still_open.produce("t", b"open", partition=1)
    plain = Producer({"bootstrap.servers": address})
    assert still_open.flush(TIMEOUT_S) == 0
    plain.produce("t", b"behind", partition=1)
    assert plain.flush(TIMEOUT_S) == 0


def transactional(address: str, name: str) -> Producer:
    """A producer of a transactional id, initialized."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    return producer


def read_all(address: str) -> Read:
    return {
        (number, level): read_from(address, "t", number, level)
        for number in PARTITIONS
        for level in LEVELS
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    log_dir = tmp_path_factory.mktemp("ours") / "log"
    forever = {"retention.ms": "-1"}
    with gateway(log_dir, node_id=1) as running:
        running.server.gateway.admin.create_topics([NewTopic("t", len(PARTITIONS), forever)])
        produce(running.address)
        ours = read_all(running.address)
        with running_broker(tmp_path_factory.mktemp("theirs") / "node") as broker:
            broker.create_topic("t", len(PARTITIONS), config=forever)
            broker.stop()
            catalog = Catalog(open_files(str(log_dir)))
            export_into(catalog, str(broker.data_dir), ExportOptions(topics=["t"]))
            broker.start()
            theirs = read_all(broker.bootstrap)
            broker.stop()
            yield Exported(ours, theirs, sorted(broker.data_dir.glob("t-*/0*")))


@pytest.mark.parametrize("level", LEVELS)
def test_a_broker_serves_the_same(exported: Exported, level: str) -> None:
    assert len(exported.ours[0, level]) == (9 if level == READ_COMMITTED else 18)
    assert exported.theirs[0, level] == exported.ours[0, level]


def test_one_that_is_open_is_exported_as_aborted(exported: Exported) -> None:
    """So the broker serves the record behind it, which waits here."""
    ours, theirs = (one[1, READ_COMMITTED] for one in (exported.ours, exported.theirs))

    assert theirs[:-1] == ours
    assert theirs[-1][1].value == b"behind"
    assert exported.theirs[1, READ_UNCOMMITTED] == exported.ours[1, READ_UNCOMMITTED]


def test_both_programs_print_the_same(exported: Exported) -> None:
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = [one for one in exported.files if one.suffix in kinds]
    arguments = ["--print-data-log", "--files", ",".join(map(str, files))]

    assert {".log", ".txnindex"} <= {one.suffix for one in files}
    ours, theirs = CommandLine()("dump-log", *arguments), kafka_tool(arguments)
    assert ours.out == theirs.stdout
    assert b"endTxnMarker: ABORT" in theirs.stdout
