"""A member of a classic group (Kafka's ClassicGroupMember)."""

from dataclasses import dataclass

from sparklog.coordinator.requests import Protocol, Token


@dataclass(eq=False, slots=True)
class Member:
    """One member. A token stands for a waiting request; None when no request waits."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = True
    """Whether it has had no answer yet: until then it cannot send heartbeats."""
    joining: Token = None
    syncing: Token = None

    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for a protocol; b"" if it does not support the protocol."""
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first protocol of its list that all members support."""
        return next(one.name for one in self.protocols if one.name in candidates)

    @property
    def waits(self) -> bool:
        """Whether it waits in a rebalance, and so need not send heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)
