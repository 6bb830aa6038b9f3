"""The states of groups, their timers, and the broker configs that limit them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

MEMBER: Final = "member"
"""The kind of the timer that ends a member's session, or drops a pending member id."""
JOIN: Final = "join"
"""The kind of the timer that ends the wait for the JoinGroups of a rebalance."""
SYNC: Final = "sync"
"""The kind of the timer that removes the members without a SyncGroup of this generation."""
REVOCATION: Final = "revocation"
"""The kind of the timer that removes a member of a consumer group that does not give partitions up.
"""


class State(StrEnum):
    """The states of a classic group, as DescribeGroups spells them.

    Dead: there is no such group.
    """

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerState(StrEnum):
    """The states of a consumer group, as ConsumerGroupDescribe spells them (KIP-848)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Timer(NamedTuple):
    """A timer of a group, or of one of its members."""

    group_id: str
    kind: str
    member_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLimits:
    """The broker configs group.* and offset.*, with Kafka's defaults.

    A field `consumer_…` is group.consumer.….
    """

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 30 * 60 * 1000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    batch_bytes_max: int = 2**31 - 1
    """max.message.bytes of __consumer_offsets: a request that would write more is refused."""

    def allows_session(self, timeout_ms: int) -> bool:
        """Whether a member of a classic group may have this session timeout."""
        return self.min_session_timeout_ms <= timeout_ms <= self.max_session_timeout_ms
