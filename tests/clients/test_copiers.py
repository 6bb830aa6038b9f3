"""Kafka's TransactionalMessageCopier as its system tests run it: in a chain, killed, restarted."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import confluent_kafka
import pytest

from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.clients.conftest import Served, numbers
from tests.kafka.jars import KAFKA, class_path, java
from tests.transactions import Instance
from tests.waiting import until

pytestmark = [pytest.mark.clients, pytest.mark.kafka]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COUNT = 2_000
KILLS = 2
TIMEOUT_S = 120


def test_a_chain_of_copiers_copies_each_record_once(served: Served) -> None:
    """Each copier aborts at random, and is killed twice while it copies."""
    topics = [served.new_topic(partitions=1) for _ in range(4)]
    producer = confluent_kafka.Producer({"bootstrap.servers": served.address})
    for value in numbers(0, COUNT):
        producer.produce(topics[0], value)
    assert producer.flush(30) == 0
    with ThreadPoolExecutor(len(topics)) as pool:
        kills = list(pool.map(lambda pair: copy(served, *pair), pairwise(topics)))

    assert kills == [KILLS] * 3
    assert sorted(committed(served, topics[-1])) == numbers(0, COUNT)


def copy(served: Served, source: str, target: str) -> int:
    """Start copiers, one after the other, until all records are copied; return how many died."""
    kills = 0
    while left := COUNT - len(committed(served, target)):
        with started(served, source, target, left) as copier:
            if kills < KILLS and is_copying(copier, served, target):
                copier.kill()
                kills += 1
            copier.wait(TIMEOUT_S)
    return kills


def committed(served: Served, topic: str) -> list[str]:
    """The values that a reader of committed records sees."""
    return Instance(str(served.log_dir)).values(topic)[0]


def is_copying(copier: "subprocess.Popen[bytes]", served: Served, target: str) -> bool:
    """Wait until it has copied something; False if it has ended with that."""
    found = Catalog(open_files(str(served.log_dir)))
    before = end_of(found, target)
    until(lambda: copier.poll() is not None or end_of(found, target) > before, TIMEOUT_S)
    return copier.poll() is None


def end_of(catalog: Catalog, topic: str) -> int:
    """The log end offset, markers included."""
    return catalog.partition(catalog.topic(topic), 0).log_end_offset


def started(served: Served, source: str, target: str, most: int) -> "subprocess.Popen[bytes]":
    """A copier of ten records a transaction, which ends when it has copied so many."""
    command = [java(), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", class_path(KAFKA), COPIER, "--broker-list", served.address]
    command += ["--input-topic", source, "--input-partition", "0", "--output-topic", target]
    command += ["--transactional-id", f"copier-{source}", "--consumer-group", f"group-{source}"]
    command += ["--transaction-size", "10", "--max-messages", str(most)]
    command += ["--transaction-timeout", "5000"]  # of one that was killed: the next waits
    command += ["--enable-random-aborts", "--use-group-metadata"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
