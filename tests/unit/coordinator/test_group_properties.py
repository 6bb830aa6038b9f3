"""Members that join, sync, commit, leave, fall silent, and instances that restart, in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sparklog.model import TopicPartition
from tests.group_language import Client, Groups

NAMES = st.sampled_from("abcd")
WAITS_MS = st.sampled_from([1, 1_500, 3_000, 7_000, 20_000])
TIMEOUTS = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 10_000}


class GroupModel(RuleBasedStateMachine):
    """What clients see of a group, and committed offsets in a dict beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups()
        self.clients: dict[str, Client] = {}
        self.tokens: list[int] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.generation = 0
        self.synced: dict[tuple[int, str], bytes] = {}

    def client(self, name: str) -> Client:
        if name not in self.clients:
            fields = {"instance_id": "static"} if name == "d" else {}
            self.clients[name] = self.groups.member(name, **TIMEOUTS, **fields)
        return self.clients[name]

    @rule(name=NAMES)
    def joins(self, name: str) -> None:
        self.tokens.append(self.client(name).joins())

    @rule(name=NAMES)
    def forgets_its_id_and_joins(self, name: str) -> None:
        self.client(name).member_id = ""
        self.joins(name)

    @rule(name=NAMES)
    def syncs(self, name: str) -> None:
        client = self.client(name)
        if client.answer is not None:
            told = {one.member_id: one.member_id.encode() for one in client.answer.members}
            self.tokens.append(client.syncs(told))

    @rule(name=NAMES)
    def heartbeats(self, name: str) -> None:
        self.client(name).heartbeats()

    @rule(name=NAMES)
    def leaves(self, name: str) -> None:
        self.client(name).leaves()

    @rule(name=NAMES, offset=st.integers(0, 100), partition=st.integers(0, 2))
    def commits(self, name: str, offset: int, partition: int) -> None:
        place = TopicPartition("flights", partition)
        if self.client(name).commits(offset, place) == 0:
            self.offsets[place] = offset

    @rule(ms=WAITS_MS)
    def time_passes(self, ms: int) -> None:
        self.groups.passes(ms)

    @rule()
    def another_instance_takes_over(self) -> None:
        before = self.groups.described()
        self.groups.restarts()
        self.tokens.clear()
        after = self.groups.described()
        assert before is None or before.state != "Stable" or after == before

    @invariant()
    def offsets_are_what_was_acknowledged(self) -> None:
        assert self.groups.committed() == self.offsets

    @invariant()
    def members_of_a_stable_group_have_what_their_leader_assigned(self) -> None:
        found = self.groups.described()
        members = found.members if found is not None and found.state == "Stable" else ()
        ids = {one.member_id.encode() for one in members}
        # A static member that came again has what was assigned to its former id.
        assert all(
            one.assignment in (b"", one.member_id.encode()) or one.assignment not in ids
            for one in members
        )

    def teardown(self) -> None:
        """Everybody falls silent: everything is answered, and the group ends."""
        self.groups.passes(6 * 300_000)
        assert all(token in self.groups.answers for token in self.tokens)
        assert self.groups.state in ("Empty", "Dead")


TestGroupModel = GroupModel.TestCase
