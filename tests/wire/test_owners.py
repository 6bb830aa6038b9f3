"""One coordinator after another: what the next one sees of the one before."""

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.offsets_topic import claim, load, newest, offsets_topic
from sparklog.coordinator.requests import CommittedOffset, FetchRequest, Now
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import FencedLeaderEpochError
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicPartition
from sparklog.storage import open_files
from tests.wire.gateways import Client, gateway
from tests.wire.grouping import GroupMember, alone

FLIGHTS = TopicPartition("flights", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    AdminClient(tmp_path / "log").create_topics([NewTopic("flights", 1)])
    return tmp_path / "log"


class Owner:
    """A coordinator of partition 0, with its own view of the log dir."""

    def __init__(self, log_dir: Path) -> None:
        self.catalog = Catalog(open_files(str(log_dir)), flush=False)
        self.topic = offsets_topic(self.catalog, self.catalog.clock, 1)
        self.epoch = claim(self.catalog, self.topic, 0)
        self.shard = Shard(GroupLimits(), str)
        load(newest(self.catalog, self.topic), 0, self.shard.replay)

    def appends(self, offset: int) -> object:
        """The outcome of a commit."""
        record = offset_record("readers", FLIGHTS, CommittedOffset(offset))
        slot = Slot(Append(self.topic.topic_id, 0, batch_of([record], 0), self.epoch))
        AppendWriter(self.catalog, flush=False).write([slot])
        return slot.outcome

    def knows(self) -> dict[TopicPartition, CommittedOffset | None]:
        found = self.shard.handle(FetchRequest("readers"), None, Now(0, 0)).answers[0][1]
        offsets: dict[TopicPartition, CommittedOffset | None] = found.offsets
        return offsets


def test_an_append_that_was_first_is_seen_and_one_behind_the_claim_is_refused(
    log_dir: Path,
) -> None:
    first = Owner(log_dir)
    assert isinstance(first.appends(3), Appended)
    second = Owner(log_dir)
    assert isinstance(first.appends(4), FencedLeaderEpochError)
    assert second.knows() == {FLIGHTS: CommittedOffset(3)}
    assert isinstance(second.appends(5), Appended)
    assert Owner(log_dir).knows() == {FLIGHTS: CommittedOffset(5)}


def test_when_all_have_gone_the_first_one_up_goes_on(log_dir: Path) -> None:
    with gateway(log_dir, group_initial_rebalance_delay_ms=0) as one, Client(one.port) as client:
        before = alone(client)
        assert before.commit({FLIGHTS: 3}) == [ErrorCode.none]
    with gateway(log_dir) as one, Client(one.port) as client:
        member = GroupMember(client)
        member.member_id, member.generation = before.member_id, before.generation
        assert member.heartbeat() is ErrorCode.none
        assert member.committed(FLIGHTS) == {FLIGHTS: 3}
        assert member.commit({FLIGHTS: 4}) == [ErrorCode.none]
