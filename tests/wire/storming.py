"""Members of a classic group that join, read, commit and leave, as often as they are told.

The leader deals partitions out in turn. Everything that must hold is noted where it is seen: who
owns a partition in a generation, which generations a member was in, which records were processed.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.model import TopicDescription
from tests.logs import append_to, catalog, columns
from tests.waiting import until
from tests.wire.fetching import Part, fetched, offsets
from tests.wire.gateways import Client
from tests.wire.grouping import GroupMember
from tests.wire.processes import gateway_process

SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff" * 4
"""Of no topics: a broker reads what consumers say."""
REST_S = 0.1
"""Between two heartbeats."""
LEAST, MOST = 30, 50
"""Members of a storm."""
RECORDS = 30
"""In each partition, where nothing else is said."""
GENERATIONS, MORE_S = 4, 60
"""The least that a storm has, and how much longer it may take for them."""
AT_ONCE = 3
"""So many records are processed between two commits."""

Work = Callable[[GroupMember, Sequence[int]], bool]
"""Reads partitions once; returns whether the member may go on."""


class Group:
    """What the members of one group have seen."""

    def __init__(self, name: str, partitions: int, expected: int = 0) -> None:
        self.name = name
        self.partitions = partitions
        self.expected = expected
        """So many records are there to process."""
        self.owners: dict[tuple[int, int], set[str]] = {}
        """By generation and partition."""
        self.generations: dict[str, list[int]] = {}
        """By member, one after another."""
        self.sizes: dict[int, set[str]] = {}
        """The members of a generation that have their assignment."""
        self.processed: set[tuple[int, int]] = set()
        """Partitions and offsets."""

    @property
    def doubled(self) -> list[tuple[int, int]]:
        """The partitions that two members owned in one generation."""
        return [place for place, found in self.owners.items() if len(found) > 1]

    @property
    def fallen(self) -> list[str]:
        """The members whose generations did not grow."""
        return [
            member
            for member, found in self.generations.items()
            if found != sorted(set(found))  # each is greater than the one before
        ]

    def note(self, member: GroupMember, partitions: Sequence[int]) -> bool:
        """Take note of an assignment; return whether there is one: all get a partition."""
        if not partitions:
            return False
        self.generations.setdefault(member.member_id, []).append(member.generation)
        self.sizes.setdefault(member.generation, set()).add(member.member_id)
        for one in partitions:
            self.owners.setdefault((member.generation, one), set()).add(member.member_id)
        return True


class Storming(threading.Thread):
    """A member on a thread of its own, until it is told to leave."""

    def __init__(self, group: Group, port: int, work: Work, start: threading.Barrier) -> None:
        super().__init__(daemon=True)
        self._group = group
        self._port = port
        self._work = work
        self._begin = start
        self.leaves = threading.Event()

    def run(self) -> None:
        """Join, and work until something changes, again and again; leave."""
        with Client(self._port) as client:
            member = GroupMember(client, self._group.name)
            self._begin.wait()
            while not self.leaves.is_set():
                self._stay(member)
            member.leave()

    def _stay(self, member: GroupMember) -> None:
        """Be a member of one generation, from its join to its end."""
        partitions = self._assigned(member)
        is_in = self._group.note(member, partitions)
        while is_in and not self.leaves.is_set():
            is_in = self._work(member, partitions) and member.heartbeat() is ErrorCode.none
            self.leaves.wait(REST_S)
        self.leaves.wait(0 if partitions else REST_S)

    def _assigned(self, member: GroupMember) -> list[int]:
        """The partitions of the member in a new generation; none when it has to try again."""
        joined = member.join(SUBSCRIPTION)
        is_unknown = joined.error_code is ErrorCode.unknown_member_id
        member.member_id = "" if is_unknown else member.member_id
        dealt = self._dealt(joined.members) if joined.leader == member.member_id else None
        synced = member.sync(dealt)
        found: list[int] = json.loads(synced.assignment or b"[]")
        return found

    def _dealt(self, members: Sequence[Any]) -> dict[str, bytes]:
        names = sorted(one.member_id for one in members)
        every = range(self._group.partitions)
        return {
            name: json.dumps([*every[at :: len(names)]]).encode() for at, name in enumerate(names)
        }


def rests(_: GroupMember, __: Sequence[int]) -> bool:
    """Do nothing but be there."""
    return True


def reads(group: Group, topic: TopicDescription) -> Work:
    """Process records of the partitions where the group left off, and commit them."""

    def work(member: GroupMember, partitions: Sequence[int]) -> bool:
        is_in = True
        committed = member.committed(*((topic.name, one) for one in partitions))
        for (name, number), offset in committed.items():
            start = max(offset, 0)
            [answer] = fetched(member.client, topic, Part(number, start))
            found = [one for one in offsets(answer) if one >= start][:AT_ONCE]
            group.processed.update((number, one) for one in found)
            ends = {(name, number): found[-1] + 1} if found else {}
            is_in = is_in and set(member.commit(ends)) <= {ErrorCode.none}
        return is_in

    return work


def joined_at_once(group: Group, port: int, count: int, most_s: float) -> float:
    """Let members join at one moment; return the seconds until all are assigned. They leave then.

    Raises TimeoutError.
    """
    start = threading.Barrier(count + 1)
    members = [Storming(group, port, rests, start) for _ in range(count)]
    for one in members:
        one.start()
    start.wait()
    begun = time.perf_counter()
    until(lambda: count in [len(found) for found in list(group.sizes.values())], most_s)
    seconds = time.perf_counter() - begun
    for one in members:
        one.leaves.set()
    for one in members:
        one.join()
    return seconds


def few_of(group: Group) -> bool:
    """Whether fewer than GENERATIONS were seen."""
    return len(group.sizes) < GENERATIONS


def storm(group: Group, port: int, work: Work, seconds: float, rng: random.Random) -> None:
    """Let members join and leave at random, 30 to 50 of them at a time, and then rest.

    It takes `seconds`, and on a slow machine up to a minute more: until there were GENERATIONS.
    Returns when every record was processed: `group.expected` of them. All have left then.
    """
    members: list[Storming] = []
    left: list[Storming] = []
    end = time.monotonic() + seconds
    while not members or time.monotonic() < end + (MORE_S if few_of(group) else 0):
        wanted = rng.randint(LEAST, MOST)
        while len(members) < wanted:
            members.append(Storming(group, port, work, threading.Barrier(1)))
            members[-1].start()
        while len(members) > wanted:
            left.append(members.pop(rng.randrange(len(members))))
            left[-1].leaves.set()
        time.sleep(rng.random())
    try:
        until(lambda: len(group.processed) >= group.expected, most_s=300)
    finally:
        for one in members:
            one.leaves.set()
        for one in (*left, *members):
            one.join()


def stormed(log_dir: Path, seconds: float, rng: random.Random, records: int = RECORDS) -> Group:
    """A storm over a topic and at a gateway of its own; return what was seen."""
    [topic] = AdminClient(log_dir).create_topics([NewTopic("t", MOST)])
    places = [number for number in range(MOST) for _ in range(records)]
    append_to(catalog(log_dir), places, columns(places))
    group = Group("storm", MOST, MOST * records)
    with gateway_process(log_dir, "--group-initial-rebalance-delay-ms", "0") as process:
        storm(group, process.port, reads(group, topic), seconds, rng)
    return group
