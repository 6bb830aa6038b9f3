"""A small language for groups of the consumer protocol: members heartbeat, topics come and go.

group = Consumers(flights=4)
ada = group.member("ada")
ada.joins(); ada.beats()
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from sparklog.coordinator.assignors import Partitions
from sparklog.coordinator.requests import (
    ConsumerAnswer,
    ConsumerDescribeRequest,
    ConsumerHeartbeat,
    DescribedConsumers,
)
from sparklog.model import TopicDescription
from tests.group_language import GROUP, Groups

REBALANCE_MS = 60_000
SESSION_MS = 45_000


def topic_id(name: str) -> str:
    """The id of a topic: its name, in the form that ids have."""
    return urlsafe_b64encode(name.ljust(16).encode()).decode().rstrip("=")


class Consumers(Groups):
    """A shard with one group, and the topics that there are: partitions by name."""

    def __init__(self, limits: dict[str, int] | None = None, **topics: int) -> None:
        super().__init__(**(limits or {}))
        self.topics: dict[str, TopicDescription] = {}
        self.has(**topics)

    def has(self, **topics: int) -> None:
        """Make topics, or give them other numbers of partitions."""
        for name, count in topics.items():
            made = TopicDescription(name, topic_id(name), count, {}, 0)
            self.topics = {**self.topics, name: made}

    def reader(self, name: str, **fields: Any) -> "Reader":
        return Reader(self, name, **fields)

    def readers(self, *names: str, **fields: Any) -> list["Reader"]:
        """Members that have joined, and have heartbeated until nothing changes any more."""
        found = [self.reader(name, **fields) for name in names]
        for one in found:
            one.joins()
        settle(*found)
        return found

    @property
    def group(self) -> DescribedConsumers:
        found = self.told(ConsumerDescribeRequest(GROUP))
        assert found is not None
        described: DescribedConsumers = found
        return described


class Reader:
    """A client: it does what it is told, and says what it has."""

    def __init__(self, group: Consumers, name: str, **fields: Any) -> None:
        self.group = group
        self.name = name
        self.epoch = 0
        self.owned: Partitions = frozenset()
        self.fields: dict[str, Any] = {"instance_id": None, **fields}
        if "topic_regex" not in fields:
            self.fields.setdefault("topic_names", ("flights",))

    def asks(self, **fields: Any) -> ConsumerAnswer:
        """Send a heartbeat; the client takes nothing from the answer."""
        told = {"owned": self.owned, "instance_id": self.fields["instance_id"], **fields}
        request = ConsumerHeartbeat(GROUP, self.name, self.epoch, topics=self.group.topics)
        answer: ConsumerAnswer = self.group.told(request._replace(**told))
        return answer

    def beats(self, **fields: Any) -> ConsumerAnswer:
        """Send a heartbeat, and do what the answer says."""
        answer = self.asks(**fields)
        if not answer.error_code:
            self.epoch = answer.epoch
            self.owned = self.owned if answer.assignment is None else answer.assignment
        return answer

    def joins(self, **fields: Any) -> ConsumerAnswer:
        """Send everything, with epoch 0 and nothing in hand."""
        self.epoch, self.owned = 0, frozenset()
        return self.beats(**{"rebalance_timeout_ms": REBALANCE_MS, **self.fields, **fields})

    def leaves(self, epoch: int = -1) -> ConsumerAnswer:
        return self.asks(epoch=epoch)

    @property
    def places(self) -> set[tuple[str, int]]:
        """The partitions that it has, with the names of their topics."""
        return {(_name(one), number) for one, number in self.owned}

    @property
    def numbers(self) -> list[int]:
        """The partitions that it has, of all topics."""
        return sorted(number for _, number in self.owned)


def _name(found: str) -> str:
    return urlsafe_b64decode(found + "==").decode().rstrip()


def settle(*readers: Reader) -> None:
    """Everybody heartbeats until nobody is told anything new."""
    seen = []
    for _ in range(8):
        for one in readers:
            assert not one.beats().error_code
        seen.append([(one.epoch, one.owned) for one in readers])
    assert seen[-1] == seen[-2], "the group does not settle"


def renamed(reader: Reader, name: str) -> Reader:
    """The same client after a restart: another member id."""
    return Reader(reader.group, name, **reader.fields)
