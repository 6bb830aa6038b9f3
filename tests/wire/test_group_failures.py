"""Two gateways, and the one that has the group is killed or stopped: the other one goes on with it.

A gateway is declared dead after ten seconds without a sign of life, so these tests take as long.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import AdminClient, NewTopic
from sparklog.wire.protocol.versions import ApiKey
from tests.waiting import until
from tests.wire.gateways import Client
from tests.wire.grouping import GroupMember, alone
from tests.wire.processes import GatewayProcess, gateway_process
from tests.wire.requests import body

pytestmark = pytest.mark.slow

FLIGHTS = ("flights", 0)


class Pair:
    """Two gateways of a log dir: the owner of the group `readers`, and the other one."""

    def __init__(self, first: GatewayProcess, second: GatewayProcess, stack: ExitStack) -> None:
        self._stack = stack
        self._both = first, second
        self.agree()
        port = self.owner_port(first)
        self.other, self.owner = sorted(self._both, key=lambda one: one.port == port)

    def agree(self) -> None:
        """Wait until both name the same owner."""
        until(lambda: len({self.owner_port(one) for one in self._both}) == 1)

    def owner_port(self, process: GatewayProcess) -> int:
        """Where a gateway says that the group's coordinator is."""
        fields = {"coordinator_keys": ("readers",), "key_type": 0}
        with Client(process.port) as client:
            found = client.ask(body(ApiKey.FIND_COORDINATOR, 6, **fields)).coordinators[0]
        port: int = found.port
        return port

    def connect(self, process: GatewayProcess) -> Client:
        return self._stack.enter_context(Client(process.port))

    def member(self) -> GroupMember:
        """A member at the owner, which has committed 3."""
        member = alone(self.connect(self.owner))
        assert member.commit({FLIGHTS: 3}) == [ErrorCode.none]
        return member

    def goes_over(self) -> None:
        """Wait until the other gateway is the group's coordinator."""
        until(lambda: self.owner_port(self.other) == self.other.port)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    log_dir = tmp_path / "log"
    AdminClient(log_dir).create_topics([NewTopic("flights", 1)])
    quick = ("--offsets-topic-num-partitions", "1", "--group-initial-rebalance-delay-ms", "0")
    with ExitStack() as stack:
        first, second = (stack.enter_context(gateway_process(log_dir, *quick)) for _ in "12")
        yield Pair(first, second, stack)


def at(member: GroupMember, client: Client) -> GroupMember:
    """The same member at another gateway."""
    found = GroupMember(client)
    found.member_id, found.generation = member.member_id, member.generation
    return found


def test_a_killed_owners_group_goes_on_in_its_generation(pair: Pair) -> None:
    member = pair.member()
    pair.owner.kill()
    pair.goes_over()
    moved = at(member, pair.connect(pair.other))
    until(lambda: moved.heartbeat() is ErrorCode.none)
    assert moved.committed(FLIGHTS) == {FLIGHTS: 3}
    assert moved.commit({FLIGHTS: 5}) == [ErrorCode.none]


def test_a_stopped_owner_that_wakes_moves_nothing(pair: Pair) -> None:
    member = pair.member()
    pair.owner.signal(signal.SIGSTOP)
    pair.goes_over()
    moved = at(member, pair.connect(pair.other))
    until(lambda: moved.heartbeat() is ErrorCode.none)
    assert moved.commit({FLIGHTS: 5}) == [ErrorCode.none]
    member.client.send(member.commit_request({FLIGHTS: 4}))
    pair.owner.signal(signal.SIGCONT)
    assert member.commit_answer() == [ErrorCode.not_coordinator]
    pair.agree()
    again = at(member, pair.connect(pair.owner))
    until(lambda: again.heartbeat() is ErrorCode.none)
    assert again.committed(FLIGHTS) == {FLIGHTS: 5}
