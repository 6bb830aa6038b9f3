"""The members of a classic group, by member id and (static members) instance id; pending ids.

A pending id was given to a client that has not joined with it yet (KIP-394). A static member
(KIP-345) keeps its place if its client joins again with the same instance id. It never has a
pending id. The protocols of members change by `support` alone: supporters are counted, so that a
join need not look at all protocols of all members.
"""

from collections import Counter
from collections.abc import Iterator

from sparklog.coordinator.classic.member import Member
from sparklog.coordinator.requests import NONE, Protocol
from sparklog.errors import ErrorCode


class Members:
    """The members of one group. The first member to join leads it."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        """How many members support a protocol, by its name; none has 0."""
        self.pending: set[str] = set()
        self.leader: str | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        """Return a member; None if the id is unknown."""
        return self._by_id.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """Return the present member id of an instance id; None if the instance id is unknown."""
        return self._static_ids.get(instance_id)

    def problem(self, member_id: str, instance_id: str | None) -> int:
        """Return UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID; 0 for a member."""
        if instance_id is None:
            return NONE if member_id in self._by_id else ErrorCode.UNKNOWN_MEMBER_ID
        known = self._static_ids.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if known == member_id else ErrorCode.FENCED_INSTANCE_ID

    def add(self, member: Member) -> None:
        """Add a member; its id is no longer pending."""
        former = self._by_id.get(member.member_id)
        if former is not None:  # a damaged record may have two members with one id: the last counts
            self._count(former, -1)
        self._by_id[member.member_id] = member
        self._count(member, 1)
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member; if it leads, another member becomes the leader."""
        del self._by_id[member.member_id]
        self._count(member, -1)
        # Records of old logs may have two members with one instance id: the last has it.
        instance_id = member.instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member.member_id:
            del self._static_ids[instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._by_id), None)

    def replace(self, instance_id: str, member_id: str) -> None:
        """Give a static member another member id; it keeps its place, and stays leader if it is."""
        member = self._by_id[self._static_ids[instance_id]]
        was_leader, known = self.leader == member.member_id, dict(self._by_id)
        member.member_id, old_id = member_id, member.member_id
        self._by_id = {(member_id if key == old_id else key): one for key, one in known.items()}
        self._static_ids[instance_id] = member_id
        if was_leader:
            self.leader = member_id

    def support(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """Replace the protocols of a member."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def _count(self, member: Member, change: int) -> None:
        """Count a member that comes (1) or goes (-1) as a supporter of its protocols."""
        for name in {one.name for one in member.protocols}:
            count = self._supporters.get(name, 0) + change
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    @property
    def joining(self) -> int:
        """How many members wait for the end of the rebalance."""
        return sum(one.joining is not None for one in self._by_id.values())

    @property
    def have_all_joined(self) -> bool:
        """Whether all members wait for the rebalance, and no id is pending."""
        return not self.pending and self.joining == len(self._by_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members; 0 without members."""
        return max((one.rebalance_timeout_ms for one in self._by_id.values()), default=0)

    @property
    def candidates(self) -> frozenset[str]:
        """The protocols that every member supports."""
        first, count = next(iter(self._by_id.values()), None), len(self._by_id)
        names = () if first is None else (one.name for one in first.protocols)
        return frozenset(name for name in names if self._supporters[name] == count)

    def selected(self) -> str:
        """Return the protocol with the most votes; a member votes for its first common protocol."""
        candidates = self.candidates
        votes = Counter(one.vote(candidates) for one in self._by_id.values())
        return max(sorted(votes), key=lambda name: votes[name])

    def elect_leader(self) -> bool:
        """Choose a leader among the members that have joined; return False if none has."""
        leader = self._by_id.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((one for one in self._by_id.values() if one.joining is not None), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None
