"""A broker, sparklog, another broker: several topics and partitions, and what happens on the way.

The first broker goes on after its directory was imported by hard links: it appends, rolls, cleans,
deletes what is old and makes its indexes anew. sparklog must not notice, and can import again.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, TopicPartition

from sparklog.metadata.catalog import Catalog
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from tests.kafka.broker import Broker
from tests.kafka.client import Client, Found, Record, read_topic
from tests.kafka.ours import read_log
from tests.kafka.scenarios import CODECS, T0, varied_records

DAY_MS = 86_400_000
DAYS = 3
RECORDS = 60
PARTITIONS = {"orders": 5, "ledger": 2, "profiles": 1}
"""Topics of the first broker. Every partition of `orders` has another codec."""
KEPT = {"magic0-none": 1, "magic0-gzip": 1, "magic1-none": 1, "magic1-snappy": 1}
"""Topics of formats that no broker writes any more: those of tests/compat."""
DELETED = 40
TIMES = (0, T0 - 30, T0, T0 + 77, T0 + DAY_MS, T0 + DAY_MS + 300, T0 + 2 * DAY_MS, T0 + 10**12)
QUICK = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "0",
}
ROLLING = {"retention.ms": "-1", "segment.ms": "3600000"}
"""A day between two records closes a segment."""
WAIT_S = 30

Place = tuple[str, int]
View = dict[Place, tuple[Found, Found]]
"""Of each partition what sparklog shows, committed and all of it."""


def places(topics: dict[str, int]) -> Iterator[Place]:
    """Every partition of topics."""
    for name, count in topics.items():
        for partition in range(count):
            yield name, partition


def of_day(day: int, count: int = RECORDS) -> list[Record]:
    """Records of every shape, as of a day."""
    records = varied_records(count)
    return [replace(one, timestamp=one.timestamp + day * DAY_MS) for one in records]


@dataclass
class Producers:
    """Transactions that go on while the broker is away."""

    ends: Client
    stays: Client


def write(broker: Broker) -> Producers:
    """What the broker has when it is imported for the first time."""
    for name, count in PARTITIONS.items():
        broker.create_topic(name, count, ROLLING)
    for partition, codec in enumerate(CODECS):
        client = Client(broker, {"compression.type": codec, "batch.num.messages": 25})
        for day in range(DAYS):
            client.send("orders", of_day(day), partition)
    delete_before(broker, "orders", 2, DELETED)
    compact(broker)
    commit_offsets(broker)
    return write_ledger(broker)


def write_ledger(broker: Broker) -> Producers:
    """A transaction a day: committed, aborted, committed; then two that stay open."""
    for partition in range(PARTITIONS["ledger"]):
        client = Client(broker, {"transactional.id": f"days-{partition}"})
        for day, end in enumerate((client.commit, client.abort, client.commit)):
            client.begin()
            client.send("ledger", of_day(day, 10), partition)
            end()
    settings = {"transaction.timeout.ms": 800_000}
    opened = [Client(broker, {**settings, "transactional.id": name}) for name in ("ends", "stays")]
    for partition, client in enumerate(opened):
        client.begin()
        client.send("ledger", of_day(DAYS, 10), partition)
    Client(broker).send("ledger", of_day(DAYS, 5), 1)
    return Producers(*opened)


def compact(broker: Broker) -> None:
    """Let the broker's cleaner have all but the newest segment of `profiles`."""
    broker.set_topic_config("profiles", "cleanup.policy", "compact")
    broker.set_topic_config("profiles", "min.cleanable.dirty.ratio", "0.01")
    client = Client(broker, {"compression.type": "zstd"})
    first = len(read_topic(broker, "profiles"))
    for day in range(DAYS):
        keyed = [replace(one, key=one.key or b"none") for one in of_day(first + day)]
        end = client.send("profiles", keyed)[0]
    broker.await_cleaner("profiles", end)


def commit_offsets(broker: Broker) -> None:
    """A group that has read a part of each partition of `orders`."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "billing"}
    consumer = Consumer(settings)
    offsets = [TopicPartition("orders", number, 10 * number, metadata="m") for number in range(5)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def delete_before(broker: Broker, topic: str, partition: int, offset: int) -> None:
    """DeleteRecords: the log begins at an offset."""
    admin = broker.admin  # must live until it has the answer
    (answer,) = admin.delete_records([TopicPartition(topic, partition, offset)]).values()
    answer.result(timeout=WAIT_S)


def go_on(broker: Broker, producers: Producers) -> None:
    """What the broker does after it was imported."""
    client = Client(broker, {"compression.type": "gzip"})
    for partition in range(PARTITIONS["orders"]):
        for day in (DAYS, DAYS + 1):
            client.send("orders", of_day(day), partition)
    producers.ends.commit()
    Client(broker).send("ledger", of_day(DAYS + 1, 5), 0)
    compact(broker)
    delete_before(broker, "orders", 0, RECORDS + 1)
    await_true(lambda: broker.segments("orders")[0].base_offset >= RECORDS)


def await_true(condition: Callable[[], bool]) -> None:
    """Returns when it holds. Raises RuntimeError if it does not in time."""
    until = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"not so after {WAIT_S} s")
        time.sleep(0.1)


def view(catalog: Catalog, topics: dict[str, int]) -> View:
    """What sparklog shows of topics."""
    return {
        (name, number): (
            read_log(catalog, name, number, READ_COMMITTED),
            read_log(catalog, name, number, READ_UNCOMMITTED),
        )
        for name, number in places(topics)
    }


def served(broker: Broker, topics: dict[str, int]) -> dict[Place, Found]:
    """What a broker serves of topics to a reader of committed records."""
    return {place: read_topic(broker, *place) for place in places(topics)}


def latest(found: Found) -> dict[bytes | None, tuple[int, Record]]:
    """The last record of each key, with its offset."""
    return {record.key: (offset, record) for offset, record in found}
