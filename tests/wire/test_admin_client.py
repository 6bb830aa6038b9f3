"""librdkafka's AdminClient against the gateway: every call that it has an answer for."""

from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from sparklog.errors import ErrorCode
from tests.edits import append, segment
from tests.wire.gateways import RunningGateway

FLIGHTS = ConfigResource(ResourceType.TOPIC, "flights")


@pytest.fixture
def kafka(running: RunningGateway) -> AdminClient:
    found = AdminClient({"bootstrap.servers": running.address, "log_level": 2})
    wanted = NewTopic("flights", 3, 3, config={"retention.ms": "5"})
    found.create_topics([wanted])["flights"].result(30)
    return found


def test_creates_grows_and_deletes_topics(kafka: AdminClient) -> None:
    kafka.create_partitions([NewPartitions("flights", 5)])["flights"].result(30)
    found = kafka.list_topics(timeout=30).topics
    assert {name: len(topic.partitions) for name, topic in found.items()} == {"flights": 5}
    kafka.delete_topics(["flights"])["flights"].result(30)
    assert kafka.list_topics(timeout=30).topics == {}


def test_is_told_why_a_topic_cannot_be_created(kafka: AdminClient) -> None:
    future = kafka.create_topics([NewTopic("flights", 1)])["flights"]
    with pytest.raises(KafkaException, match="already exists") as refused:
        future.result(30)
    assert refused.value.args[0].code() == ErrorCode.TOPIC_ALREADY_EXISTS


def test_describes_and_alters_configs(kafka: AdminClient) -> None:
    change = ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND
    )
    resource = ConfigResource(ResourceType.TOPIC, "flights", incremental_configs=[change])
    kafka.incremental_alter_configs([resource])[resource].result(30)
    found = kafka.describe_configs([FLIGHTS])[FLIGHTS].result(30)
    assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("delete,compact", "5")
    assert list(found["segment.bytes"].synonyms) == ["log.segment.bytes"]


def test_replaces_configs(kafka: AdminClient) -> None:
    resource = ConfigResource(ResourceType.TOPIC, "flights", set_config={"segment.ms": "7"})
    with pytest.warns(DeprecationWarning, match="incremental"):
        kafka.alter_configs([resource])[resource].result(30)
    found = kafka.describe_configs([FLIGHTS])[FLIGHTS].result(30)
    assert (found["segment.ms"].value, found["retention.ms"].value) == ("7", "604800000")


def test_describes_the_configs_of_a_broker(kafka: AdminClient) -> None:
    broker = ConfigResource(ResourceType.BROKER, "0")
    found = kafka.describe_configs([broker])[broker].result(30)
    assert (found["num.partitions"].value, found["num.partitions"].is_read_only) == ("1", True)


def test_describes_topics(kafka: AdminClient) -> None:
    wanted = TopicCollection(["flights"])
    found = kafka.describe_topics(wanted, include_authorized_operations=True)["flights"].result(30)
    assert [one.id for one in found.partitions] == [0, 1, 2]
    assert {one.leader.id for one in found.partitions} == {0}
    assert AclOperation.ALTER in set(found.authorized_operations)


def test_deletes_records(kafka: AdminClient, running: RunningGateway) -> None:
    admin = running.server.gateway.admin
    append(admin._catalog, admin.describe_topics()[0], segment(0, 10))
    wanted = TopicPartition("flights", 0, 4)
    assert kafka.delete_records([wanted])[wanted].result(30).low_watermark == 4


def test_describes_the_cluster(kafka: AdminClient, running: RunningGateway) -> None:
    found = kafka.describe_cluster(include_authorized_operations=True).result(30)
    assert found.cluster_id == running.server.gateway.cluster_id
    assert [node.port for node in found.nodes] == [running.port]
    assert AclOperation.CREATE in set(found.authorized_operations)


def test_there_are_no_acls(kafka: AdminClient) -> None:
    """The answer is SECURITY_DISABLED, which librdkafka takes for an empty list."""
    names: list[Any] = [ResourceType.ANY, None, ResourcePatternType.ANY, None, None]
    what: list[Any] = [AclOperation.ANY, AclPermissionType.ANY]
    every = AclBindingFilter(*names, *what)
    assert kafka.describe_acls(every).result(30) == []
