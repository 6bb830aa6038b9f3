"""/metrics/kafka: kafka_exporter's families and labels, and the numbers in them."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparklog.admin import AdminClient, NewTopic
from sparklog.admin.kafka_metrics import STATES, KafkaMetrics
from sparklog.clock import ManualClock
from sparklog.coordinator.group_log import GroupLog
from sparklog.coordinator.requests import ListedGroup
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.logs import FOREVER, append

NOW_MS = 1_700_000_000_000
PARTITION = {"topic", "partition"}
COMMITTED = {"consumergroup", "topic", "partition"}
FAMILIES = {
    # kafka_exporter's README, "Metrics"
    "kafka_brokers": set(),
    "kafka_broker_info": {"id", "address"},
    "kafka_topic_partitions": {"topic"},
    "kafka_topic_partition_current_offset": PARTITION,
    "kafka_topic_partition_oldest_offset": PARTITION,
    "kafka_topic_partition_in_sync_replica": PARTITION,
    "kafka_topic_partition_leader": PARTITION,
    "kafka_topic_partition_leader_is_preferred": PARTITION,
    "kafka_topic_partition_replicas": PARTITION,
    "kafka_topic_partition_under_replicated_partition": PARTITION,
    "kafka_consumergroup_members": {"consumergroup"},
    "kafka_consumergroup_current_offset": COMMITTED,
    "kafka_consumergroup_current_offset_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_lag": COMMITTED,
    "kafka_consumergroup_lag_sum": {"consumergroup", "topic"},
    # ours
    "sparklog_group_lag_seconds": COMMITTED,
    "sparklog_group_partition_state": COMMITTED,
    "sparklog_group_state": {"consumergroup"},
}

Labels = tuple[tuple[str, str], ...]


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """With `t`, which has three records in its first partition, and the group `readers`."""
    found = str(tmp_path / "log")
    admin = AdminClient(found)
    admin.create_topics([NewTopic("t", 2, config=FOREVER)])
    append(found, 0, "abc", timestamps=[NOW_MS - 3_000, NOW_MS - 2_000, NOW_MS - 1_000])
    admin.alter_consumer_group_offsets("readers", {("t", 0): 1, ("t", 1): 0})
    return found


@pytest.fixture
def metrics(log_dir: str) -> KafkaMetrics:
    return KafkaMetrics(Catalog(open_files(log_dir), ManualClock(NOW_MS)))


def samples(text: bytes) -> dict[str, dict[Labels, float]]:
    """The values of each family by their labels."""
    return {
        family.name: {tuple(sorted(one.labels.items())): one.value for one in family.samples}
        for family in text_string_to_metric_families(text.decode())
    }


def of(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))


def test_families_and_labels_are_kafka_exporters(metrics: KafkaMetrics) -> None:
    found = samples(metrics.text())
    labels = {name: {key for one in values for key, _ in one} for name, values in found.items()}
    assert labels == FAMILIES
    assert all(found.values())


def test_topics(metrics: KafkaMetrics) -> None:
    found = samples(metrics.text())
    assert found["kafka_topic_partitions"][of(topic="t")] == 2
    first = of(topic="t", partition="0")
    assert found["kafka_topic_partition_current_offset"][first] == 3
    assert found["kafka_topic_partition_oldest_offset"][first] == 0
    assert found["kafka_topic_partition_under_replicated_partition"][first] == 0


def test_groups(metrics: KafkaMetrics) -> None:
    found = samples(metrics.text())
    first = of(consumergroup="readers", topic="t", partition="0")
    total = of(consumergroup="readers", topic="t")
    assert found["kafka_consumergroup_members"] == {of(consumergroup="readers"): 0}
    assert found["kafka_consumergroup_current_offset"][first] == 1
    assert found["kafka_consumergroup_current_offset_sum"] == {total: 1}
    assert found["kafka_consumergroup_lag"][first] == 2
    assert found["kafka_consumergroup_lag_sum"] == {total: 2}
    assert found["sparklog_group_lag_seconds"][first] == 2


def test_states_are_burrows_numbers(metrics: KafkaMetrics, log_dir: str) -> None:
    AdminClient(log_dir, clock=ManualClock(NOW_MS - 10)).alter_consumer_group_offsets(
        "silent", {("t", 0): 1}
    )
    found = samples(metrics.text())
    assert found["sparklog_group_state"] == {of(consumergroup="readers"): 1}
    assert found["sparklog_group_partition_state"] == {
        of(consumergroup="readers", topic="t", partition="1"): 1
    }
    assert {str(state): number for state, number in STATES.items()} == {
        "OK": 1,
        "WARN": 2,
        "ERR": 3,
        "STOP": 4,
        "STALL": 5,
        "REWIND": 6,
    }


def test_what_is_not_known_is_left_out(metrics: KafkaMetrics, log_dir: str) -> None:
    AdminClient(log_dir).delete_topics(["t"])
    found = samples(metrics.text())
    assert len(found["kafka_consumergroup_current_offset"]) == 2
    assert found["kafka_consumergroup_lag"] == {}


def test_brokers_and_leaders(metrics: KafkaMetrics) -> None:
    text = metrics.text(brokers={3: "host:9092"}, leader_of=lambda _, partition: 3 + partition)
    found = samples(text)
    assert found["kafka_brokers"] == {(): 1}
    assert found["kafka_broker_info"] == {of(id="3", address="host:9092"): 1}
    leaders = found["kafka_topic_partition_leader"]
    assert [leaders[of(topic="t", partition=one)] for one in "01"] == [3, 4]


def test_only_what_may_be_seen(metrics: KafkaMetrics) -> None:
    found = samples(metrics.text(sees_topic=lambda name: name != "t"))
    assert of(topic="t") not in found["kafka_topic_partitions"]
    assert found["kafka_consumergroup_lag"] == {}
    found = samples(metrics.text(sees_group=lambda _: False))
    assert found["kafka_consumergroup_members"] == {}


def test_a_group_that_is_deleted_meanwhile_is_left_out(
    metrics: KafkaMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ListedGroup("gone", "Empty", "", "classic")
    monkeypatch.setattr(GroupLog, "groups", lambda _: [gone])
    assert samples(metrics.text())["kafka_consumergroup_members"] == {}


def test_before_there_is_a_log_dir(tmp_path: Path) -> None:
    metrics = KafkaMetrics(Catalog(open_files(str(tmp_path))))
    assert samples(metrics.text())["kafka_topic_partitions"] == {}
