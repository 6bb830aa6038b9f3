"""The requests to a shard, and its answers. Names and meanings are those of Kafka's protocol."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

from sparklog.coordinator.assignors import NOTHING, Partitions
from sparklog.coordinator.records import Record
from sparklog.errors import ErrorCode
from sparklog.model import TopicDescription, TopicPartition

NONE = 0
NO_GENERATION = -1
NO_MEMBER = ""
NO_OFFSET = -1
NO_EPOCH = -1
JOIN_EPOCH = 0
"""The epoch with which a member joins; with a lower one it leaves."""
STATIC_LEAVE_EPOCH = -2
"""The epoch with which a static member leaves: its partitions stay with it until its session
ends."""

Token = Any
"""Any value that the sender of a request chooses; the answer to the request has the same token."""


class Now(NamedTuple):
    """The time: `timer_ms` by a clock that nobody sets; `wall_ms` since 1970, for records.

    `entry_ms` is the time of the newest known entry of the metadata log. No offset is committed
    before it: the clocks of machines differ, and a commit in a topic is later than the topic.
    """

    timer_ms: int
    wall_ms: int
    entry_ms: int = 0

    @property
    def commit_ms(self) -> int:
        """The time of a commit of offsets."""
        return max(self.wall_ms, self.entry_ms)


class Protocol(NamedTuple):
    """A protocol that a member supports (a consumer's assignor), and its metadata for it."""

    name: str
    metadata: bytes


PROTOCOLS_MAX: Final = 1_000
"""The most protocols of a member of a classic group; clients have less than ten. All joins of a
group look at the protocols of all its members."""


class JoinRequest(NamedTuple):
    """JoinGroup. `needs_member_id`: a new member first gets an id (KIP-394, from version 4).

    `skips_assignment`: the answer may tell a leader to assign nothing (KIP-814, from version 9).
    """

    group_id: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str = "consumer"
    protocols: tuple[Protocol, ...] = ()
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    needs_member_id: bool = True
    skips_assignment: bool = True


class JoinedMember(NamedTuple):
    """A member as its leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """The answer to JoinGroup; only the leader gets `members`."""

    error_code: int
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncRequest(NamedTuple):
    """SyncGroup; the leader sends the assignments.

    Protocol type and name are None below version 5.
    """

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = {}


class SyncAnswer(NamedTuple):
    """The answer to SyncGroup."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    """Heartbeat. The answer is an error code."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class MemberIdentity(NamedTuple):
    """A member that leaves; an administrator may give only its instance id."""

    member_id: str
    instance_id: str | None = None


class LeaveRequest(NamedTuple):
    """LeaveGroup."""

    group_id: str
    members: tuple[MemberIdentity, ...]


class LeaveAnswer(NamedTuple):
    """The answer to LeaveGroup: the error code of the request, and one for each member."""

    error_code: int
    members: tuple[int, ...] = ()

    @classmethod
    def of_strangers(cls, request: LeaveRequest) -> "LeaveAnswer":
        """Return the answer if the group does not exist (GroupCoordinatorService.leaveGroup)."""
        if not request.group_id:
            return cls(ErrorCode.INVALID_GROUP_ID)
        return cls(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(request.members))


class CommittedOffset(NamedTuple):
    """An offset as it is committed; `expires_ms` is None unless the client gave a retention."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int | None = None


made_offset: Final[Callable[[Iterable[Any]], CommittedOffset]] = partial(
    tuple.__new__, CommittedOffset
)
"""Makes a CommittedOffset from all its fields, in a third of the time of the constructor."""


class CommitRequest(NamedTuple):
    """OffsetCommit. `retention_ms` is -1 unless the client gave one (versions 2 to 4).

    The shard sets the times of `offsets`; with `is_dated` they have the time of the commit already,
    and no metadata. With `is_transactional` (TxnOffsetCommit) the request is only checked, and
    nothing is committed.
    """

    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    retention_ms: int = -1
    version: int = 9
    is_transactional: bool = False
    is_dated: bool = False

    @property
    def names_nobody(self) -> bool:
        """Whether the request names neither a member nor a generation."""
        is_known = self.member_id != NO_MEMBER or self.instance_id is not None
        return self.generation == NO_GENERATION and not is_known


class CommitAnswer(NamedTuple):
    """The answer to OffsetCommit and OffsetDelete: error codes of the request and by partition."""

    error_code: int
    partitions: Mapping[TopicPartition, int] = {}


class FetchRequest(NamedTuple):
    """OffsetFetch of one group. The answer is an OffsetsAnswer.

    `partitions` None asks for all offsets. A member of a consumer group gives its id and epoch
    (from version 9).
    """

    group_id: str
    partitions: Sequence[TopicPartition] | None = None
    member_id: str | None = None
    member_epoch: int = NO_EPOCH


class OffsetsAnswer(NamedTuple):
    """The answer to OffsetFetch: offsets by partition, None where nothing is committed."""

    error_code: int
    offsets: Mapping[TopicPartition, CommittedOffset | None] = {}


class OffsetDeleteRequest(NamedTuple):
    """OffsetDelete (KIP-496)."""

    group_id: str
    partitions: Sequence[TopicPartition]


class DeleteGroupRequest(NamedTuple):
    """DeleteGroups for one group. The answer is an error code."""

    group_id: str


class DescribeRequest(NamedTuple):
    """DescribeGroups for one group. The answer is a DescribedGroup or None.

    `is_held`: an open transaction holds offsets for the group.
    """

    group_id: str
    is_held: bool = False


class DescribedMember(NamedTuple):
    """A member in the answer to DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """The answer to DescribeGroups; None instead if there is no such classic group."""

    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]


class ConsumerHeartbeat(NamedTuple):
    """ConsumerGroupHeartbeat (KIP-848). None, and a timeout of -1, mean "not changed".

    `owned` are the partitions that the member has. `topics` are all topics by name; `may_read`
    tells which of them the member's regular expression may match.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    topics: Mapping[str, TopicDescription] = {}
    may_read: Callable[[str], bool] = bool  # every name

    @property
    def is_full(self) -> bool:
        """Whether all fields are given, as when a member joins, or when an answer was lost."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        says_all = subscribes and self.rebalance_timeout_ms != -1 and self.owned is not None
        return self.epoch == JOIN_EPOCH or says_all


class ConsumerAnswer(NamedTuple):
    """The answer to ConsumerGroupHeartbeat; `assignment` None: it has not changed."""

    error_code: int
    message: str | None = None
    member_id: str = NO_MEMBER
    epoch: int = 0
    interval_ms: int = 0
    assignment: Partitions | None = None


class ConsumerDescribeRequest(NamedTuple):
    """ConsumerGroupDescribe for one group. The answer is DescribedConsumers or None."""

    group_id: str


class DescribedConsumer(NamedTuple):
    """A member in the answer to ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assigned: Partitions = NOTHING
    target: Partitions = NOTHING


class DescribedConsumers(NamedTuple):
    """The answer to ConsumerGroupDescribe; None if there is no such consumer group."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


class ListRequest(NamedTuple):
    """ListGroups for one shard. The answer is a list of ListedGroup.

    `held` are the groups for which open transactions hold offsets.
    """

    held: AbstractSet[str] = frozenset()


class ListedGroup(NamedTuple):
    """A group in the answer to ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


Request = (
    JoinRequest
    | SyncRequest
    | HeartbeatRequest
    | LeaveRequest
    | CommitRequest
    | FetchRequest
    | OffsetDeleteRequest
    | DeleteGroupRequest
    | DescribeRequest
    | ListRequest
    | ConsumerHeartbeat
    | ConsumerDescribeRequest
)


class Effects:
    """The effects of a request or a timer: answers by token, and records to append, in order."""

    def __init__(self) -> None:
        self.answers: list[tuple[Token, Any]] = []
        self.records: list[Record] = []

    def answer(self, token: Token, answer: Any) -> None:
        """Add the answer to a request."""
        self.answers.append((token, answer))
