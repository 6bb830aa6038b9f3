"""Three gateways, killed and paused at random: no offset is lost or goes back, no group rebalances.

Each group has one member, which commits 1, 2, 3 … wherever the coordinator is. While a gateway is
paused, it gets commits of offset 0 from the groups that have gone on elsewhere: they lie in its
sockets when it wakes.
"""

import os
import random
import secrets
import signal
import threading
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from sparklog.admin import AdminClient, NewTopic
from sparklog.coordinator.offsets import read_commit
from sparklog.coordinator.offsets_topic import load
from sparklog.coordinator.records import OFFSETS_TOPIC, is_offset
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from sparklog.wire.versions import ApiKey
from tests.wire.gateways import Client
from tests.wire.grouping import GroupMember, alone
from tests.wire.processes import GatewayProcess, gateway_process, until
from tests.wire.requests import body, part

SECONDS: Final = float(os.environ.get("SPARKLOG_SOAK_SECONDS", "600")) / 4
GATEWAYS, GROUPS, PARTITIONS = 3, 6, 4
PLACE: Final = ("flights", 0)
PAUSES_S: Final = (2.0, 15.0, 30.0, 60.0)
SESSION: Final = i32Timedelta.parse(timedelta(seconds=45))
ELSEWHERE: Final = {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}

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
        self.told = 0
        self.acknowledged = 0
        self.problems: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        """Work at one coordinator after another."""
        while not self.is_over.is_set():
            with suppress(OSError, AssertionError):  # killed, paused, or the connection was closed
                self._work_at(self._coordinator())
            self.is_over.wait(0.05)

    def _coordinator(self) -> int:
        asked = body(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=(self.group,), key_type=0)
        with Client(self._rng.choice(self._ports)) as client:
            client.socket.settimeout(2)
            port: int = client.ask(asked).coordinators[0].port
        return port

    def _work_at(self, port: int) -> None:
        with Client(port) as client:
            client.socket.settimeout(3)
            if self.member is None:
                GroupMember.session = SESSION
                self.member = alone(client, self.group)
            self.member.client = client
            while not self.is_over.is_set() and self._goes_on(self.member, port):
                self.is_over.wait(0.02)

    def _goes_on(self, member: GroupMember, port: int) -> bool:
        """Commit, read and heartbeat once; return whether the coordinator is still here."""
        self.told = self.acknowledged + 1
        codes = {*member.commit({PLACE: self.told})}
        if codes == {ErrorCode.none}:
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
    """Three gateways and the tellers."""

    def __init__(self, log_dir: Path, rng: random.Random, stack: ExitStack) -> None:
        AdminClient(log_dir).create_topics([NewTopic(PLACE[0], 1)])
        options = ["--offsets-topic-num-partitions", str(PARTITIONS)]
        options += ["--group-initial-rebalance-delay-ms", "0"]
        self._log_dir = log_dir
        self._rng = rng
        self.gateways = [
            stack.enter_context(gateway_process(log_dir, *options)) for _ in range(GATEWAYS)
        ]
        ports = [one.port for one in self.gateways]
        self.tellers = [
            Teller(f"group-{number}", ports, random.Random(rng.random()))
            for number in range(GROUPS)
        ]
        for one in self.tellers:
            one.start()
        self.kills = self.pauses = self.refused = 0

    def go_on(self) -> None:
        """Return when every group has committed again."""
        before = [one.acknowledged for one in self.tellers]
        until(
            lambda: all(
                one.acknowledged > then + 1 for one, then in zip(self.tellers, before, strict=True)
            )
        )

    def an_owner(self) -> GatewayProcess:
        """A gateway that coordinates a group."""
        ports = {one.port for one in self.tellers}
        return self._rng.choice([one for one in self.gateways if one.port in ports])

    def kill(self, victim: GatewayProcess) -> None:
        """Kill a gateway, let the others take over, and start it again."""
        victim.kill()
        if self._rng.random() < 0.5:
            self.go_on()
        victim.start()
        self.kills += 1

    def pause(self, victim: GatewayProcess) -> None:
        """Stop a gateway for a while; commits of groups that have gone on wait for it."""
        victim.signal(signal.SIGSTOP)
        waiting: list[Client] = []
        try:
            seconds = self._rng.choice(PAUSES_S)
            if seconds > 10:
                owned = [one for one in self.tellers if one.port == victim.port]
                self.go_on()
                waiting = [self._left(one, victim) for one in owned]
            time.sleep(seconds)
        finally:
            victim.signal(signal.SIGCONT)
        for client in waiting:
            self._see_refused(client)
        self.pauses += 1

    def _left(self, teller: Teller, victim: GatewayProcess) -> Client:
        """Leave a commit of 0 in a socket of a gateway that is paused."""
        assert teller.member is not None
        client = Client(victim.port)
        stale = GroupMember(client, teller.group)
        stale.member_id, stale.generation = teller.member.member_id, teller.member.generation
        client.send(stale.commit_request({PLACE: 0}))
        return client

    def _see_refused(self, client: Client) -> None:
        with client, suppress(AssertionError):  # a gateway that stood still closes its connections
            answer = client.receive(ApiKey.OFFSET_COMMIT, 9)
            assert answer.topics[0].partitions[0].error_code in ELSEWHERE
        self.refused += 1

    def end(self) -> None:
        """End the tellers."""
        for one in self.tellers:
            one.is_over.set()
        for one in self.tellers:
            one.join()

    def falls(self) -> list[str]:
        """The commits in the log that are not above the one before of their group."""
        catalog = Catalog(open_files(str(self._log_dir)))
        topic, seen = catalog.topic(OFFSETS_TOPIC), _Seen()
        for number in range(topic.num_partitions):
            load(catalog, topic, number, seen)
        return seen.falls


class _Seen:
    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.falls: list[str] = []

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record."""
        if is_offset(key) and value is not None:
            group, _, found = read_commit(key, value)
            offset = -1 if found is None else found.offset
            if offset < self._last.get(group, 0):  # one whose answer was lost comes twice
                self.falls.append(f"{group}: {self._last[group]}, then {offset}")
            self._last[group] = offset


def test_no_offset_is_lost_or_goes_back_and_groups_keep_their_generation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("SPARKLOG_SOAK_SEED", secrets.randbelow(1_000_000)))
    rng, end = random.Random(seed), time.monotonic() + SECONDS
    with ExitStack() as stack:
        world = World(tmp_path / "log", rng, stack)
        try:
            world.go_on()
            while time.monotonic() < end:
                rng.choice([world.kill, world.pause])(world.an_owner())
                world.go_on()
        finally:
            world.end()
        commits = sum(one.acknowledged for one in world.tellers)
        with capsys.disabled():
            print(
                f"\nseed {seed}: {world.kills} kills, {world.pauses} pauses, {commits} commits, "
                f"{world.refused} of a zombie refused"
            )
        assert [one.problems for one in world.tellers] == [[]] * GROUPS
        assert [one.member and one.member.generation for one in world.tellers] == [1] * GROUPS
        assert world.falls() == []
