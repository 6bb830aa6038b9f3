"""Consumer groups for an administrator, without a gateway: read from the log and changed there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sparklog.coordinator.classic.consumer_protocol import CONSUMER, partitions_of
from sparklog.coordinator.commits.offset_checks import check_offsets
from sparklog.coordinator.commits.stale_offsets import without_stale, younger_topics
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    ConsumerDescribeRequest,
    DeleteGroupRequest,
    DescribedConsumers,
    DescribedGroup,
    DescribedMember,
    DescribeRequest,
    FetchRequest,
    OffsetDeleteRequest,
    OffsetsAnswer,
    Request,
)
from sparklog.errors import (
    CorruptRecordError,
    GroupIdNotFoundError,
)
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.transactions import without_offsets
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.coordinator.group_log import GroupLog
    from sparklog.coordinator.lag_window import CommitWindow

CLASSIC: Final = "classic"


@dataclass(frozen=True, slots=True)
class ConsumerGroupListing:
    """A group, classic or consumer. `is_simple`: its offsets were committed without members."""

    group_id: str
    state: str
    is_simple: bool
    type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group and the partitions that it reads; none while the group rebalances."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group with its members, as of its last rebalance."""

    group_id: str
    state: str
    is_simple: bool
    partition_assignor: str
    members: tuple[MemberDescription, ...]
    type: str = CLASSIC


class GroupAdmin:
    """The groups of a log dir."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def _log(self) -> "GroupLog":
        # Loaded on first use: the kernels take a while.
        from sparklog.coordinator.group_log import GroupLog

        return GroupLog(self._catalog)

    @property
    def window(self) -> "CommitWindow":
        """The last commits of the groups, as far as they were read."""
        return self._log.window

    def commits_since(
        self, group_id: str, since_ms: int
    ) -> list[tuple[TopicPartition, CommittedOffset]]:
        """Return the commits of a group since a time, in the order of the log."""
        return self._log.commits_since(group_id, since_ms)

    def listed(self) -> list[ConsumerGroupListing]:
        """Return all groups, by name."""
        return [
            ConsumerGroupListing(one.group_id, one.state, not one.protocol_type, one.kind)
            for one in self._log.groups()
        ]

    def described(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescription]:
        """Return groups, of one moment. Raises GroupIdNotFoundError."""
        names = [*group_ids]
        found = self._described(names)
        return [_existing(name, found) for name in names]

    def read(
        self, group_ids: Iterable[str] | None
    ) -> dict[str, tuple[ConsumerGroupDescription, Mapping[TopicPartition, CommittedOffset]]]:
        """Return groups and their committed offsets, by group id, of one moment; None: all groups.

        Raises GroupIdNotFoundError for a named group.
        """
        names = [one.group_id for one in self._log.groups()] if group_ids is None else [*group_ids]
        described = self._described(names)
        offsets = self._log.ask_all((one, FetchRequest(one)) for one in names)
        return {
            name: (_existing(name, described), self._committed(answer))
            for name, answer in zip(names, offsets, strict=True)
            if group_ids is not None or name in described
        }

    def _committed(self, answer: OffsetsAnswer) -> Mapping[TopicPartition, CommittedOffset]:
        """Return the offsets of an answer, without those of an earlier topic of the same name."""
        offsets = answer.offsets
        # The image that the answer was read from: over an object store a newer one is a request.
        if offsets and (younger := younger_topics(self._catalog.log.last_image, offsets)):
            offsets = without_stale(self._catalog.image(*younger), younger, offsets)
        return {place: one for place, one in offsets.items() if one is not None}

    def _described(self, names: Sequence[str]) -> dict[str, ConsumerGroupDescription]:
        """Return groups by id, of one moment, without those that do not exist."""
        answers = self._log.ask_all(
            (name, kind(name))
            for name in names
            for kind in (DescribeRequest, ConsumerDescribeRequest)
        )
        topics: dict[str, str] = {}
        if any(answers[1::2]):
            topics = {topic.topic_id: name for name, topic in self._catalog.topics().items()}
        found = {}
        for name, classic, consumers in zip(names, answers[::2], answers[1::2], strict=True):
            if classic is not None:
                found[name] = _of_members(name, classic)
            elif consumers is not None:
                found[name] = _of_consumers(name, consumers, topics)
        return found

    def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group; none if it does not exist."""
        found = self._committed(self._log.ask(group_id, FetchRequest(group_id)))
        return dict(sorted(found.items()))

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets of a group without members, all or none.

        Raises as `check_offsets`, and GroupNotEmptyError, CommitConflictError.
        """
        check_offsets(self._catalog, group_id, offsets)
        if offsets:
            self._log.change(group_id, CommitRequest(group_id, offsets))

    def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets.

        Raises GroupIdNotFoundError, GroupNotEmptyError, CommitConflictError.
        """
        self._delete(DeleteGroupRequest(group_id), group_id)

    def delete_offsets(self, group_id: str, places: Sequence[TopicPartition]) -> None:
        """Delete offsets of a group without members; missing ones are no error.

        Raises GroupIdNotFoundError, GroupNotEmptyError, CommitConflictError.
        """
        self._delete(OffsetDeleteRequest(group_id, places), group_id, places)

    def _delete(
        self, request: Request, group_id: str, places: Collection[TopicPartition] | None = None
    ) -> None:
        """Delete offsets of a group from the log and from open transactions; None: all its offsets.

        A group exists as soon as a transaction has offsets for it.
        """
        held = self._catalog.image().transactional_ids.pending(group_id)
        if not held:
            self.described([group_id])
        self._log.change(group_id, request)
        dropped = held if places is None else held.intersection(places)
        if dropped:
            self._catalog.log.commit(lambda image: without_offsets(image, group_id, dropped))
            self._log.change(group_id, request)  # a transaction may have ended between the two


def _existing(name: str, found: Mapping[str, ConsumerGroupDescription]) -> ConsumerGroupDescription:
    if name not in found:
        raise GroupIdNotFoundError(f"there is no group {name!r}")
    return found[name]


def _of_members(group_id: str, found: DescribedGroup) -> ConsumerGroupDescription:
    """Return a group of the classic protocol."""
    is_consumer = found.protocol_type == CONSUMER
    return ConsumerGroupDescription(
        group_id,
        found.state,
        not found.protocol_type,
        found.protocol_name,
        tuple(_member(one, is_consumer=is_consumer) for one in found.members),
    )


def _of_consumers(
    group_id: str, found: DescribedConsumers, topics: Mapping[str, str]
) -> ConsumerGroupDescription:
    """Return a group of the consumer protocol (KIP-848); `topics` has the names by id."""
    members = [
        MemberDescription(
            one.member_id,
            one.instance_id,
            one.client_id,
            one.client_host,
            tuple(
                sorted(
                    TopicPartition(topics[topic_id], number)
                    for topic_id, number in one.assigned
                    if topic_id in topics
                )
            ),
        )
        for one in found.members
    ]
    return ConsumerGroupDescription(
        group_id, found.state, False, found.assignor, tuple(members), "consumer"
    )


def _member(member: DescribedMember, *, is_consumer: bool) -> MemberDescription:
    try:
        partitions = partitions_of(member.assignment) if is_consumer else []
    except CorruptRecordError:
        partitions = []  # the group's leader wrote another format
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(partitions),
    )
