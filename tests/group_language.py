"""A small language for groups: members ask one shard, time passes, and answers are looked at.

groups = Groups()
ada = groups.member("ada")
ada.joins(); groups.passes(3_000); ada.syncs({"ada": b"all"})
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    DeleteGroupRequest,
    DescribedGroup,
    DescribeRequest,
    Effects,
    FetchRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    ListRequest,
    MemberIdentity,
    Now,
    OffsetDeleteRequest,
    Protocol,
    Request,
    SyncRequest,
)
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.model import TopicPartition

START_MS = 1_700_000_000_000
DELAY_MS = 3_000
SESSION_MS = 45_000
GROUP = "readers"
FLIGHTS = TopicPartition("flights", 0)
TRAINS = TopicPartition("trains", 0)
RANGE = Protocol("range", b"range of ")


class Groups:
    """A shard, its log, and a clock that moves when told to."""

    def __init__(self, **limits: int) -> None:
        self.limits = GroupLimits(**limits)
        self.timer_ms = 0
        self.log: list[Record] = []
        self.answers: dict[int, Any] = {}
        self._tokens = count(1)
        self._ids: Iterator[int] = count(1)
        self.shard = self._loaded()

    def _loaded(self) -> Shard:
        shard = Shard(self.limits, lambda: str(next(self._ids)))
        for record in self.log:
            shard.replay(*record)
        shard.loaded(self.now)
        return shard

    @property
    def now(self) -> Now:
        return Now(self.timer_ms, START_MS + self.timer_ms)

    def restarts(self) -> None:
        """Another instance reads the log. Who waited is not answered."""
        self.shard = self._loaded()

    def asks(self, request: Request) -> int:
        """Ask; the token of the answer."""
        token = next(self._tokens)
        self._take(self.shard.handle(request, token, self.now))
        return token

    def told(self, request: Request) -> Any:
        """Ask something that is answered at once."""
        return self.answers[self.asks(request)]

    def passes(self, ms: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.timer_ms + ms
        while (next_ms := self.shard.next_ms) is not None and next_ms <= end_ms:
            self.timer_ms = next_ms
            self._take(self.shard.tick(self.now))
        self.timer_ms = end_ms

    def _take(self, effects: Effects) -> None:
        for token, answer in effects.answers:
            assert token not in self.answers, "answered twice"
            self.answers[token] = answer
        self.log += effects.records

    def member(self, name: str, **fields: Any) -> "Client":
        return Client(self, name, **fields)

    # ---------------------------------------------------------------------- what anybody may ask

    def described(self, group: str = GROUP) -> DescribedGroup | None:
        found: DescribedGroup | None = self.told(DescribeRequest(group))
        return found

    @property
    def state(self) -> str:
        found = self.described()
        return "Dead" if found is None else found.state

    def names(self) -> list[str]:
        return [one.group_id for one in self.told(ListRequest())]

    def deletes(self, group: str = GROUP) -> int:
        code: int = self.told(DeleteGroupRequest(group))
        return code

    def deletes_offsets(self, *places: TopicPartition) -> Any:
        return self.told(OffsetDeleteRequest(GROUP, places))

    def commits(self, offset: int, place: TopicPartition = FLIGHTS, **fields: Any) -> Any:
        """The codes of a commit of a client that is no member."""
        offsets = {place: CommittedOffset(offset, metadata=fields.pop("metadata", ""))}
        return self.told(CommitRequest(GROUP, offsets, **fields))

    def committed(self, group: str = GROUP) -> dict[TopicPartition, int]:
        found = self.told(FetchRequest(group)).offsets
        return {place: one.offset for place, one in found.items()}


class Client:
    """A client of the group."""

    def __init__(self, groups: Groups, name: str, **fields: Any) -> None:
        self.groups = groups
        self.name = name
        self.fields: dict[str, Any] = {"group_id": GROUP, "protocols": (RANGE,), **fields}
        self.member_id = ""
        self.generation = -1
        self._joined = 0

    @property
    def instance_id(self) -> str | None:
        found: str | None = self.fields.get("instance_id")
        return found

    def asks_to_join(self, **fields: Any) -> int:
        """Send JoinGroup once; the token of its answer."""
        told = {"client_id": self.name, "member_id": self.member_id, **self.fields, **fields}
        self._joined = self.groups.asks(JoinRequest(**told))
        return self._joined

    def joins(self, **fields: Any) -> int:
        """Join, with the id that it is told first; the token of the answer."""
        token = self.asks_to_join(**fields)
        answer = self.groups.answers.get(token)
        if answer is not None and answer.error_code == 79:
            self.member_id = answer.member_id
            token = self.asks_to_join(**fields)
        return token

    @property
    def answer(self) -> JoinAnswer | None:
        """The answer to the last JoinGroup; None while it waits. Its id and generation are used."""
        answer: JoinAnswer | None = self.groups.answers.get(self._joined)
        if answer is not None and not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation
        return answer

    @property
    def leads(self) -> bool:
        answer = self.answer
        return answer is not None and answer.leader == answer.member_id

    def syncs(self, assignments: Mapping[str, bytes] | None = None, **fields: Any) -> int:
        """Send SyncGroup; the token of its answer."""
        told: dict[str, Any] = {
            "group_id": GROUP,
            "generation": self.generation,
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "assignments": assignments or {},
        }
        return self.groups.asks(SyncRequest(**{**told, **fields}))

    def is_told_to(self, token: int) -> Any:
        return self.groups.answers.get(token)

    def heartbeats(self, **fields: Any) -> int:
        told = {"group_id": GROUP, "generation": self.generation, "member_id": self.member_id}
        told["instance_id"] = self.instance_id
        code: int = self.groups.told(HeartbeatRequest(**{**told, **fields}))
        return code

    def leaves(self) -> tuple[int, ...]:
        identity = MemberIdentity(self.member_id, self.instance_id)
        answer = self.groups.told(LeaveRequest(GROUP, (identity,)))
        codes: tuple[int, ...] = answer.members
        return codes

    def commits(self, offset: int, place: TopicPartition = FLIGHTS, **fields: Any) -> int:
        told = {"generation": self.generation, "member_id": self.member_id}
        told["instance_id"] = self.instance_id
        code: int = self.groups.commits(offset, place, **{**told, **fields}).partitions[place]
        return code


def stable(groups: Groups, *names: str, **fields: Any) -> list[Client]:
    """Members of a stable group; the first one leads, each has its name as assignment."""
    clients = [groups.member(name, **fields) for name in names]
    for one in clients:
        one.joins()
    groups.passes(groups.limits.initial_rebalance_delay_ms * (len(names) + 1))
    assert all(one.answer and not one.answer.error_code for one in clients)
    leader, *others = sorted(clients, key=lambda one: not one.leads)
    leader.syncs({one.member_id: one.name.encode() for one in clients})
    for one in others:
        one.syncs()
    return clients


def code_of(client: Client) -> int | None:
    """The code of the answer to the last JoinGroup; None while it waits."""
    answer = client.answer
    return None if answer is None else answer.error_code
