"""What the history tells of an administrator's commits: who made them, and what they changed."""

from collections.abc import Mapping

import pytest

from sparklog.admin import AdminClient, AlterConfigOp, NewTopic, OpType
from sparklog.author import acting_for, who
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.history.read import history
from sparklog.metadata.state.told import TOLD_MAX, listed
from sparklog.model import TopicDescription, TopicPartition
from tests.edits import append, segment

SHARED_MAX = "sparklog.shared.segment.max.bytes"


@pytest.fixture
def filled(topic: TopicDescription, catalog: Catalog) -> TopicDescription:
    """Topic `flights`; partition 0 ends at 10."""
    append(catalog, topic, segment(records=10))
    return topic


def newest(catalog: Catalog) -> Mapping[str, str]:
    """The parameters of the newest commit."""
    return next(history(catalog.log, limit=1)).parameters


@pytest.mark.usefixtures("filled")
class TestChange:
    def test_of_configs_has_keys_and_values(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.incremental_alter_configs({"flights": [AlterConfigOp("retention.ms", 5)]})
        first = newest(catalog)["configs"]
        gone = AlterConfigOp("retention.ms", op=OpType.DELETE)
        admin.each.incremental_alter_configs({"flights": [gone, AlterConfigOp(SHARED_MAX, 0)]})

        assert first == "flights: retention.ms=5"
        assert newest(catalog)["configs"] == f"flights: {SHARED_MAX}=0 retention.ms=(default)"

    def test_makes_and_grows_topics(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.each.create_topics([NewTopic("a", 2, {"retention.ms": 7}), NewTopic("b")])
        made = newest(catalog)
        admin.create_partitions({"a": 3})

        assert (made["topics"], made["partitions"]) == ("a, b", "a=2, b=1")
        assert made["configs"] == "a: retention.ms=7"
        assert newest(catalog) == {"topics": "a", "partitions": "a=3", "who": who()}

    def test_that_deletes_a_topic_has_its_name(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.each.delete_topics([admin.describe_topics(["flights"])[0].topic_id])

        assert newest(catalog) == {"topics": "flights", "who": who()}

    def test_that_deletes_records_has_the_offsets(
        self, admin: AdminClient, catalog: Catalog
    ) -> None:
        admin.delete_records({("flights", 0): 4})
        first = newest(catalog)["logStartOffsets"]
        admin.each.delete_records({TopicPartition("flights", 0): -1})

        assert (first, newest(catalog)["logStartOffsets"]) == ("flights-0:4", "flights-0:10")

    def test_of_a_group_has_its_offsets(self, admin: AdminClient, catalog: Catalog) -> None:
        admin.alter_consumer_group_offsets("jobs", {("flights", 0): 3})
        put = newest(catalog)
        admin.delete_consumer_group_offsets("jobs", [("flights", 0)])
        dropped = newest(catalog)
        admin.alter_consumer_group_offsets("jobs", {("flights", 0): 3})
        admin.delete_consumer_groups(["jobs"])

        assert (put["groups"], put["offsets"]) == ("jobs", "flights-0:3")
        assert (dropped["groups"], dropped["deletedOffsets"]) == ("jobs", "flights-0")
        assert (newest(catalog)["groups"], newest(catalog)["why"]) == ("jobs", "deleted")


def test_a_client_of_a_service_is_told(
    admin: AdminClient, topic: TopicDescription, catalog: Catalog
) -> None:
    with acting_for("alice"):
        admin.delete_topics([topic.name])

    assert newest(catalog) == {"topics": "flights", "who": who(), "principal": "alice"}


def test_a_list_ends_after_a_hundred() -> None:
    told = listed(str(number) for number in range(TOLD_MAX + 5))

    assert told.endswith(f", {TOLD_MAX - 1}, and 5 more")
