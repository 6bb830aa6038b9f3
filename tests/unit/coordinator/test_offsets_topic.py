"""__consumer_offsets: made once, and claimed by one coordinator at a time."""

import pytest

from sparklog.coordinator.offsets_topic import claim, load, newest, offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicDescription
from tests.logs import catalog as catalog_of


@pytest.fixture
def catalog(log_dir: str) -> Catalog:
    return catalog_of(log_dir)


@pytest.fixture
def topic(catalog: Catalog) -> TopicDescription:
    return offsets_topic(catalog, catalog.clock, 3)


def test_it_is_made_once(catalog: Catalog, topic: TopicDescription) -> None:
    assert (topic.name, topic.num_partitions) == (OFFSETS_TOPIC, 3)
    assert offsets_topic(catalog, catalog.clock, 50) == topic


def test_a_claim_raises_the_leader_epoch_of_its_partition(
    catalog: Catalog, topic: TopicDescription
) -> None:
    assert [claim(catalog, topic, 1), claim(catalog, topic, 1)] == [1, 2]
    image = catalog.topic_image(topic)
    assert [image.partition(number).leader_epoch for number in range(3)] == [0, 2, 0]


def test_of_two_claims_at_once_one_wins(
    catalog: Catalog, topic: TopicDescription, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = catalog.topic_image(topic)
    assert claim(catalog, topic, 1) == 1
    monkeypatch.setattr(catalog, "topic_image", lambda _: seen)
    assert claim(catalog, topic, 1) is None


def test_an_empty_partition_has_no_groups(catalog: Catalog, topic: TopicDescription) -> None:
    assert load(newest(catalog, topic), 0, Shard(GroupLimits(), str).replay) == 0
