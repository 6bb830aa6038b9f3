"""Three gateways, killed, paused and cut off from their log dir at random, on a disk and on S3.

No offset is lost or goes back, no group rebalances, and another gateway takes over.

Each group has one member, which commits 1, 2, 3 … wherever the coordinator is. While a gateway is
paused or cut off, it gets commits of offset 0 from the groups that have gone on elsewhere: they lie
in its sockets when it wakes, or wait in it for the log dir.
"""

import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.alive import DEAD_MS
from sparklog.coordinator.commits.offsets import read_commit
from sparklog.coordinator.offsets_topic import load, newest
from sparklog.coordinator.records import GROUP_RECORDS, OFFSETS_TOPIC, is_offset, read_record
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from sparklog.storage.files import Files
from sparklog.wire.protocol.versions import ApiKey
from tests.s3 import S3LogDir, s3_log_dir, s3_server
from tests.soak.ways import LinkedWay, ProxiedWay, Way
from tests.waiting import until
from tests.wire.gateways import Client
from tests.wire.grouping import GroupMember
from tests.wire.processes import GatewayProcess, gateway_process
from tests.wire.requests import body, part

__all__ = ["s3_log_dir", "s3_server"]

SECONDS: Final = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 4
GATEWAYS, GROUPS, PARTITIONS = 3, 6, 4
PLACE: Final = ("flights", 0)
PAUSES_S: Final = (2.0, 15.0, 30.0, 60.0)
PATIENCE_S: Final = 3.0
"""How long a member waits for an answer before it looks for its coordinator again."""
SESSION: Final = i32Timedelta.parse(timedelta(seconds=45))
ELSEWHERE: Final = {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}

Capture: TypeAlias = pytest.CaptureFixture[str]

pytestmark = pytest.mark.soak


class Teller(threading.Thread):
    """The member of a group: commits numbers, and looks whether they are still there."""

    def __init__(self, name: str, ports: list[int], rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.group = name
        self._ports = ports
        self._rng = rng
        self.member: GroupMember | None = None
        self.port = 0
        """Where the last commit was acknowledged."""
        self.moved_s = 0.0
        """When the first commit was acknowledged there."""
        self._failed = 0
        self.told = 0
        self.acknowledged = 0
        self.problems: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        """Work at one coordinator after another."""
        while not self.is_over.is_set():
            # Killed, paused, cut off, or the connection was closed.
            with suppress(OSError, AssertionError):
                self._work_at(self._coordinator())
            self.is_over.wait(0.05)

    def _coordinator(self) -> int:
        """Ask any gateway, but for one that has just failed."""
        asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=(self.group,), key_type=0)
        chosen = self._rng.choice([port for port in self._ports if port != self._failed])
        self._failed = chosen
        with Client(chosen) as client:
            client.socket.settimeout(2)
            [found] = client.ask(asked).coordinators
        assert found.error_code is ErrorCode.none
        port: int = found.port
        return port

    def _work_at(self, port: int) -> None:
        self._failed = port
        with Client(port) as client:
            if self.member is None:
                self.member = self._joined(client)
            client.socket.settimeout(PATIENCE_S)
            self.member.client = client
            while not self.is_over.is_set() and self._goes_on(self.member, port):
                self.is_over.wait(0.02)

    def _joined(self, client: Client) -> GroupMember:
        """Wait as long as a first try may stay in the group whose coordinator then was another."""
        client.socket.settimeout(60)
        member = GroupMember(client, self.group)
        member.session = SESSION
        assert member.join(b"subscription").error_code is ErrorCode.none
        answer = member.sync({member.member_id: b"everything"})
        assert answer.error_code is ErrorCode.none
        return member

    def _goes_on(self, member: GroupMember, port: int) -> bool:
        """Commit, read and heartbeat once; return whether the coordinator is still here."""
        self.told = self.acknowledged + 1
        codes = {*member.commit({PLACE: self.told})}
        if codes == {ErrorCode.none}:
            if port != self.port:
                self.moved_s = time.monotonic()
            self.acknowledged, self.port = self.told, port
        elif not codes <= ELSEWHERE:
            self.problems.append(f"commit {self.told}: {codes}")
        alive = member.heartbeat()
        if alive not in {ErrorCode.none, *ELSEWHERE}:
            self.problems.append(f"heartbeat behind {self.acknowledged}: {alive}")
        if codes | {alive} != {ErrorCode.none}:
            return False
        found = self._read(member)
        if found not in {None, self.acknowledged}:
            self.problems.append(f"read {found} behind {self.acknowledged}")
        return True

    def _read(self, member: GroupMember) -> int | None:
        """The committed offset, -1 for none; None if the coordinator is elsewhere."""
        fields = {"group_id": self.group, "member_id": None, "member_epoch": -1, "topics": None}
        wanted = part(ApiKey.OFFSET_FETCH, 9, "OffsetFetchRequestGroup", **fields)
        asked = body(ApiKey.OFFSET_FETCH, 9, groups=(wanted,), require_stable=False)
        [answer] = member.client.ask(asked).groups
        if answer.error_code in ELSEWHERE:
            return None
        offsets = [one.committed_offset for topic in answer.topics for one in topic.partitions]
        return offsets[0] if offsets else -1


class World:
    """Three gateways, each with a way of its own to the log dir, and the tellers."""

    def __init__(
        self, admin: AdminClient, ways: Sequence[Way], rng: random.Random, stack: ExitStack
    ) -> None:
        admin.create_topics([NewTopic(PLACE[0], 1)])
        options = ["--offsets-topic-num-partitions", str(PARTITIONS)]
        options += ["--group-initial-rebalance-delay-ms", "0"]
        self._rng = rng
        self._ways = {
            stack.enter_context(gateway_process(way.uri, *options, environ=way.environ)): way
            for way in ways
        }
        ports = [one.port for one in self._ways]
        self.tellers = [
            Teller(f"group-{number}", ports, random.Random(rng.random()))
            for number in range(GROUPS)
        ]
        for one in self.tellers:
            one.start()
        self.acts: Counter[str] = Counter()
        self.taken_s: dict[str, list[float]] = {}
        """Seconds from an act to the first commit that a group's next owner has acknowledged."""
        self.zombies: Counter[ErrorCode | None] = Counter()
        """What gateways said to a commit of a group that had gone on elsewhere; None: nothing."""

    def go_on(self) -> None:
        """Return when every group has committed again."""
        before = [one.acknowledged for one in self.tellers]
        until(
            lambda: all(
                one.acknowledged > then + 1 for one, then in zip(self.tellers, before, strict=True)
            )
        )

    def act(self) -> None:
        """Do something to a gateway that coordinates a group; return when all groups go on."""
        ports = {one.port for one in self.tellers}
        victim = self._rng.choice([one for one in self._ways if one.port in ports])
        name = self._rng.choice(["killed", "paused", "cut off"])
        self.acts[name] += 1
        if name == "killed":
            self._kill(victim)
        elif name == "paused":
            wake = partial(victim.signal, signal.SIGCONT)
            self._hold(victim, name, partial(victim.signal, signal.SIGSTOP), wake)
        else:
            self._hold(victim, name, self._ways[victim].cut, self._ways[victim].mend)
        self.go_on()

    def _kill(self, victim: GatewayProcess) -> None:
        """Kill a gateway, let the others take over, or not, and start it again."""
        owned, begun_s = self._owned(victim), time.monotonic()
        victim.kill()
        if self._rng.random() < 0.5:
            self._take_over(victim, owned, "killed", begun_s)
        victim.start()

    def _hold(
        self,
        victim: GatewayProcess,
        name: str,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """Hold a gateway up for a while; commits of groups that have gone on wait for it."""
        waiting: list[Client] = []
        owned, begun_s = self._owned(victim), time.monotonic()
        begin()
        try:
            seconds = self._rng.choice(PAUSES_S)
            if seconds > DEAD_MS / 1000:
                self._take_over(victim, owned, name, begun_s)
                waiting = [self._left(one, victim) for one in owned]
            time.sleep(seconds)
        finally:
            end()
        for client in waiting:
            self.zombies[_answered(client)] += 1

    def _owned(self, victim: GatewayProcess) -> list[Teller]:
        return [one for one in self.tellers if one.port == victim.port]

    def _take_over(
        self, victim: GatewayProcess, owned: Sequence[Teller], name: str, begun_s: float
    ) -> None:
        """Return when groups have another owner, and note how long that took."""
        until(lambda: all(one.port != victim.port for one in owned))
        self.taken_s.setdefault(name, []).extend(one.moved_s - begun_s for one in owned)
        self.go_on()

    def _left(self, teller: Teller, victim: GatewayProcess) -> Client:
        """Leave a commit of 0 in a socket of a gateway that is held up."""
        assert teller.member is not None
        client = Client(victim.port)
        stale = GroupMember(client, teller.group)
        stale.member_id, stale.generation = teller.member.member_id, teller.member.generation
        client.send(stale.commit_request({PLACE: 0}))
        return client

    def end(self) -> None:
        """End the tellers."""
        for one in self.tellers:
            one.is_over.set()
        for one in self.tellers:
            one.join()

    def __str__(self) -> str:
        commits = sum(one.acknowledged for one in self.tellers)
        acts = ", ".join(f"{count} {name}" for name, count in sorted(self.acts.items()))
        told = ", ".join(f"{count} {code}" for code, count in self.zombies.items())
        owners = ", ".join(
            f"{name} {min(found):.1f} to {max(found):.1f} s ({len(found)} groups)"
            for name, found in sorted(self.taken_s.items())
        )
        return f"{acts}; {commits} commits; new owners: {owners}; told zombies: {told}"


def _answered(client: Client) -> ErrorCode | None:
    """The code that a commit gets; None where the connection is closed instead."""
    with client, suppress(AssertionError, ConnectionError):
        client.socket.settimeout(180)  # it has many entries to read before
        answer = client.receive(ApiKey.OFFSET_COMMIT, 9)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code
    return None


class _Seen:
    """What the log says: the commits that are below the one before, and the generations."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.falls: list[str] = []
        self.generations: dict[str, int] = {}

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record."""
        if value is None:
            return
        if not is_offset(key):
            record = read_record(GROUP_RECORDS, key, value)
            assert record.value is not None
            self.generations[record.key["group"]] = record.value["generation"]
            return
        group, _, found = read_commit(key, value)
        offset = -1 if found is None else found.offset
        if offset < self._last.get(group, 0):  # one whose answer was lost comes twice
            self.falls.append(f"{group}: {self._last[group]}, then {offset}")
        self._last[group] = offset


def _seen(files: Files) -> _Seen:
    catalog, seen = Catalog(files), _Seen()
    topic = catalog.topic(OFFSETS_TOPIC)
    for number in range(topic.num_partitions):
        load(newest(catalog, topic), number, seen.replay)
    return seen


def _torment(
    admin: AdminClient, files: Files, ways: Sequence[Way], seed: int, capsys: Capture
) -> None:
    rng, end = random.Random(seed), time.monotonic() + SECONDS
    with ExitStack() as stack:
        world = World(admin, ways, rng, stack)
        try:
            world.go_on()
            while time.monotonic() < end:
                world.act()
        finally:
            world.end()
            with capsys.disabled():
                print(f"\nseed {seed}: {world}")
        seen = _seen(files)
    members = {one.group: one.member for one in world.tellers}
    assert [one.problems for one in world.tellers] == [[]] * GROUPS
    assert {*world.zombies} <= {None, *ELSEWHERE}
    assert seen.falls == []
    assert seen.generations == {name: one and one.generation for name, one in members.items()}


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("SPARKLOG_SOAK_SEED", secrets.randbelow(1_000_000)))


def test_no_offset_is_lost_or_goes_back_on_a_disk(
    tmp_path: Path, seed: int, capsys: Capture
) -> None:
    log_dir = tmp_path / "log"
    log_dir.mkdir()
    draws = random.Random(-seed)
    ways = [LinkedWay(tmp_path / f"way-{number}", log_dir, draws) for number in range(GATEWAYS)]
    _torment(AdminClient(log_dir), open_files(str(log_dir)), ways, seed, capsys)
    for way in ways:
        assert not (way.empty / CLUSTER_METADATA).exists()


def test_no_offset_is_lost_or_goes_back_on_an_object_store(
    s3_log_dir: S3LogDir, seed: int, capsys: Capture
) -> None:
    ways = [ProxiedWay(s3_log_dir, random.Random(seed)) for _ in range(GATEWAYS)]
    with ExitStack() as stack:
        for way in ways:
            stack.enter_context(way.proxy)
        _torment(AdminClient(*s3_log_dir), open_files(*s3_log_dir), ways, seed, capsys)
