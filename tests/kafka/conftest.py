"""One broker for all tests: it writes, is stopped, and its files are read."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kafka.broker import Broker, running_broker
from tests.kafka.jars import KAFKA, JarsUnavailableError, is_offline, jars
from tests.kafka.scenarios import Given, create_topic, partition_keys, produce_all


@dataclass(frozen=True, slots=True)
class Written:
    """A stopped broker, and what its topics were given."""

    broker: Broker
    given: dict[str, Given]
    partition_by_key: dict[bytes, int]


@pytest.fixture(scope="session", autouse=True)
def kafka_jars() -> None:
    """Fails without Kafka's jars, but skips where SPARKLOG_OFFLINE=1 forbids to fetch them."""
    try:
        jars(KAFKA)
    except JarsUnavailableError as error:
        if is_offline():
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def written(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """Everything the scenarios made a broker write; it is stopped, so its files are complete."""
    with running_broker(tmp_path_factory.mktemp("broker") / "node") as broker:
        given, partition_by_key = produce_all(broker), partition_keys(broker)
        create_topic(broker, "mounted")
        create_topic(broker, "mounted-indexed")
        broker.stop()
        yield Written(broker, given, partition_by_key)
