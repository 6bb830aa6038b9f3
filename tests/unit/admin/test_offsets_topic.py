"""The topic __consumer_offsets: only coordinators write to it, and it keeps its partitions."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import InvalidPartitionsError, InvalidTopicError
from sparklog.log_writer import WriteOptions, plan_write
from sparklog.model import TopicPartition

FLIGHTS = TopicPartition("flights", 0)


@pytest.fixture
def admin(tmp_path: Path) -> AdminClient:
    """Of a log dir with a group that has committed an offset."""
    found = AdminClient(tmp_path / "log")
    found.create_topics([NewTopic("flights", 1)])
    found.alter_consumer_group_offsets("readers", {FLIGHTS: 3})
    return found


def test_takes_no_records(admin: AdminClient) -> None:
    with pytest.raises(InvalidTopicError, match="only coordinators write to it"):
        plan_write(admin._catalog, OFFSETS_TOPIC, WriteOptions())


def test_has_as_many_partitions_as_it_had(admin: AdminClient) -> None:
    with pytest.raises(InvalidPartitionsError, match="keeps its 50 partitions"):
        admin.create_partitions({OFFSETS_TOPIC: 60})
    assert admin.list_consumer_group_offsets("readers").keys() == {FLIGHTS}
