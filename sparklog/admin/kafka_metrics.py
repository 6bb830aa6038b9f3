"""Topics and consumer groups for Prometheus, with the names and labels of kafka_exporter.

Dashboards and alerts made for kafka_exporter work with them. The log dir is the cluster: each
partition has one replica, that of the storage, which is in sync. The replicas that Metadata names
for consumers in racks are no copies, and do not count.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparklog.admin.groups import ConsumerGroupDescription, GroupAdmin
from sparklog.admin.lags import Lags
from sparklog.coordinator.lag import PartitionLag, total_of
from sparklog.coordinator.lag_state import LagState, group_state
from sparklog.errors import LogDirError
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription

STORAGE: Final = {0: "storage"}
"""The only broker if there is no gateway: its id and its address."""

STATES: Final = {state: number for number, state in enumerate(LagState, 1)}
"""The numbers of Burrow's own metrics (protocol.StatusConstant)."""

Sees = Callable[[str], bool]
LeaderOf = Callable[[TopicDescription, int], int]
Found = Mapping[str, tuple[ConsumerGroupDescription, list[PartitionLag]]]
_PARTITION: Final = ["topic", "partition"]
_COMMITTED: Final = ["consumergroup", "topic", "partition"]


def _everything(_: str) -> bool:
    return True


def _storage(_: TopicDescription, __: int) -> int:
    return 0


class KafkaMetrics:
    """The metrics of topics and groups. For any number of threads; reads the newest image."""

    def __init__(self, catalog: Catalog, lags: Lags | None = None) -> None:
        self._catalog = catalog
        self._lags = lags or Lags(catalog, GroupAdmin(catalog))

    def text(
        self,
        *,
        sees_topic: Sees = _everything,
        sees_group: Sees = _everything,
        brokers: Mapping[int, str] = STORAGE,
        leader_of: LeaderOf = _storage,
    ) -> bytes:
        """Return the metrics in Prometheus' text format.

        They are of the topics and groups for which `sees_topic` and `sees_group` return True.
        `brokers` are addresses by id, `leader_of` returns the id of the broker that leads a
        partition. Raises CorruptRecordError, MissingFileError.
        """
        topics: list[TopicImage] = []
        lags: Found = {}
        with suppress(LogDirError):  # before the first topic
            topics = self._topics(sees_topic)
            lags = self._lags.of(None, in_time=True)
        groups = {
            group_id: (described, [one for one in found if sees_topic(one.partition.topic)])
            for group_id, (described, found) in lags.items()
            if sees_group(group_id)
        }
        families = [*_of_brokers(brokers), *_of_topics(topics, leader_of), *_of_groups(groups)]
        return generate_latest(_Families(families))

    def _topics(self, sees: Sees) -> list[TopicImage]:
        known = [one for one in self._catalog.topics().values() if sees(one.name)]
        image = self._catalog.image(*known)
        found = (image.existing(one.topic_id) for one in known)
        return [one for one in found if one is not None]


class _Families(Collector):
    """Makes a collector of metrics that are collected already: `generate_latest` takes one."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._families


def _of_brokers(brokers: Mapping[int, str]) -> Iterator[Metric]:
    yield GaugeMetricFamily("kafka_brokers", "Gateways, or the storage", len(brokers))
    info = GaugeMetricFamily(
        "kafka_broker_info", "A gateway, or the storage", labels=["id", "address"]
    )
    for number, address in brokers.items():
        info.add_metric([str(number), address], 1)
    yield info


def _of_topics(topics: Iterable[TopicImage], leader_of: LeaderOf) -> Iterator[Metric]:
    counts = GaugeMetricFamily("kafka_topic_partitions", "Partitions of a topic", labels=["topic"])
    of_partition = {
        name: GaugeMetricFamily(f"kafka_topic_partition_{name}", about, labels=_PARTITION)
        for name, about in {
            "current_offset": "Log end offset",
            "oldest_offset": "Log start offset",
            "leader": "Broker that leads the partition",
            "leader_is_preferred": "Whether the leader is the preferred one: always",
            "replicas": "Replicas: one, the storage's",
            "in_sync_replica": "Replicas in sync: one, the storage's",
            "under_replicated_partition": "Whether replicas are missing: never",
        }.items()
    }
    for topic in topics:
        described = topic.description
        counts.add_metric([described.name], described.num_partitions)
        for number in range(described.num_partitions):
            log = topic.partition(number)
            leader = leader_of(described, number)
            values = (log.log_end_offset, log.log_start_offset, leader, 1, 1, 1, 0)
            for family, value in zip(of_partition.values(), values, strict=True):
                family.add_metric([described.name, str(number)], value)
    yield counts
    yield from of_partition.values()


def _of_groups(groups: Found) -> Iterator[Metric]:
    members = GaugeMetricFamily(
        "kafka_consumergroup_members", "Members of a group", labels=["consumergroup"]
    )
    current = GaugeMetricFamily(
        "kafka_consumergroup_current_offset", "Committed offset", labels=_COMMITTED
    )
    current_sum = GaugeMetricFamily(
        "kafka_consumergroup_current_offset_sum",
        "Sum of committed offsets",
        labels=_COMMITTED[:2],
    )
    lag = GaugeMetricFamily("kafka_consumergroup_lag", "Lag in records", labels=_COMMITTED)
    lag_sum = GaugeMetricFamily(
        "kafka_consumergroup_lag_sum", "Sum of lags in records", labels=_COMMITTED[:2]
    )
    seconds = GaugeMetricFamily(
        "sparklog_group_lag_seconds", "Age of the next record to read", labels=_COMMITTED
    )
    state, of_group = _of_states()
    for group_id, (described, lags) in groups.items():
        _add(of_group, [group_id], _number(group_state(one.state for one in lags)))
        members.add_metric([group_id], len(described.members))
        for topic, found in groupby(lags, key=lambda one: one.partition.topic):
            partitions = list(found)
            for one in partitions:
                labels = [group_id, topic, str(one.partition.partition)]
                _add(current, labels, one.current_offset)
                _add(lag, labels, one.lag)
                _add(seconds, labels, one.lag_seconds)
                _add(state, labels, _number(one.state))
            current_sum.add_metric(
                [group_id, topic], total_of(p.current_offset for p in partitions)
            )
            lag_sum.add_metric([group_id, topic], total_of(p.lag for p in partitions))
    yield from (members, current, current_sum, lag, lag_sum, seconds, state, of_group)


def _of_states() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    """Return the metric of the states of partitions, and that of groups."""
    numbers = ", ".join(f"{number} {one}" for one, number in STATES.items())
    return (
        GaugeMetricFamily(
            "sparklog_group_partition_state", f"As Burrow's: {numbers}", labels=_COMMITTED
        ),
        GaugeMetricFamily(
            "sparklog_group_state", "The group's: 1 OK, 2 WARN, 3 ERR", labels=_COMMITTED[:1]
        ),
    )


def _number(state: LagState | None) -> int | None:
    return None if state is None else STATES[state]


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    """Add a value to a family, unless it is unknown (None)."""
    if value is not None:
        family.add_metric(labels, value)
