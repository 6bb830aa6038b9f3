"""A broker as the judge of topic configs: its defaults, and which values it takes."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.config_values import KAFKA_BOUNDS, KAFKA_DEFAULTS
from tests.kafka.broker import running_broker

pytestmark = pytest.mark.kafka

TOPIC = "configured"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminClient]:
    """A client of a running broker that has one topic."""
    with running_broker(tmp_path_factory.mktemp("config-broker") / "node") as broker:
        broker.create_topic(TOPIC)
        # Silent, or its threads complain on standard error when the broker goes first.
        yield AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def takes(admin: AdminClient, name: str, value: object) -> bool:
    """Whether the broker would set `name` to `value`; it changes nothing."""
    entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    answer = admin.incremental_alter_configs([resource], validate_only=True)[resource]
    try:
        answer.result(timeout=30)
    except KafkaException:
        return False
    return True


class TestTopicConfig:
    def test_has_the_brokers_keys_and_defaults(self, admin: AdminClient) -> None:
        resource = ConfigResource(ResourceType.TOPIC, TOPIC)
        described = admin.describe_configs([resource])[resource].result(timeout=30)

        assert {name: entry.value for name, entry in described.items()} == KAFKA_DEFAULTS

    @pytest.mark.parametrize(("name", "allowed", "refused"), KAFKA_BOUNDS)
    def test_takes_what_the_broker_takes(
        self,
        admin: AdminClient,
        name: str,
        allowed: tuple[object, ...],
        refused: tuple[object, ...],
    ) -> None:
        assert [value for value in allowed if not takes(admin, name, value)] == []
        assert [value for value in refused if takes(admin, name, value)] == []
