"""The state machine of a group of the consumer protocol (KIP-848): each heartbeat is a step.

    1  note the member's subscription; if topics or members have changed: group epoch + 1
    2  if the group epoch is above the target's epoch: an assignor makes new targets for all members
    3  move the member one step towards its own target (`reconciled`)

A member that leaves, or sends no heartbeat during its session, is removed; other members get its
partitions at their heartbeats. Rules and codes are those of Kafka 4.1.1 (GroupMetadataManager,
ConsumerGroup).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from sparklog.coordinator import records as kinds
from sparklog.coordinator.assignors import ASSIGNORS, NOTHING, Partitions, Reader
from sparklog.coordinator.batches import fits
from sparklog.coordinator.consumer import consumer_records as records
from sparklog.coordinator.consumer.consumer_member import ConsumerMember, MemberState, reconciled
from sparklog.coordinator.consumer.subscriptions import Subscriptions, Topics
from sparklog.coordinator.records import CoordinatorRecord, Record
from sparklog.coordinator.requests import (
    JOIN_EPOCH,
    NONE,
    STATIC_LEAVE_EPOCH,
    ConsumerAnswer,
    ConsumerHeartbeat,
    Effects,
    LeaveAnswer,
    LeaveRequest,
    Now,
)
from sparklog.coordinator.states import MEMBER, REVOCATION, ConsumerState, GroupLimits, Timer
from sparklog.coordinator.timers import Timers
from sparklog.errors import ErrorCode

DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))
_MUST_REJOIN: Final = "The member must abandon all its partitions and rejoin."


class ConsumerGroup:
    """One group. After a replay, `loaded` begins the sessions of its members."""

    protocol_type = "consumer"

    def __init__(self, group_id: str, limits: GroupLimits, timers: Timers[Timer]) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self._metadata_hash = 0
        """Of the topics that members read, as of the epoch."""
        self._topics: Topics | None = None
        """The topics that there were at the last heartbeat; None without members."""
        self._static_ids: dict[str, str] = {}
        """The member ids of static members, by instance id."""
        self._subscriptions = Subscriptions()
        self._must_check_targets = False
        """True until the assignor has checked targets that another instance has made."""
        self._limits = limits
        self._timers = timers

    @property
    def state(self) -> ConsumerState:
        """The state; it follows from the epochs and the members."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        is_done = all(one.is_reconciled_to(self.target_epoch) for one in self.members.values())
        return ConsumerState.STABLE if is_done else ConsumerState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members name; the default if none does.

        A name that does not exist here does not count: a broker may have had such an assignor.
        """
        names = [one.assignor or "" for one in self.members.values()]
        votes = Counter(name for name in names if name in ASSIGNORS)
        return max(sorted(votes), key=lambda name: votes[name], default=DEFAULT_ASSIGNOR)

    @property
    def is_unused(self) -> bool:
        """Whether the log has no record of the group."""
        return not self.epoch and not self.members

    def tombstones(self) -> list[Record]:
        """Return the tombstones of this group, which has no members."""
        return records.group_tombstones(self.group_id, self.targets)

    def topics_among(self, topics: Collection[str]) -> Collection[str]:
        """Return those of some topics that members subscribe to."""
        return self._subscriptions.of(self.members.values(), topics).intersection(topics)

    # ----------------------------------------------------------------------------------- heartbeat

    def heartbeat(self, request: ConsumerHeartbeat, now: Now, out: Effects) -> ConsumerAnswer:
        """Take a ConsumerGroupHeartbeat that `consumer_requests.refusal` has accepted."""
        if problem := self._problem(request):
            return ConsumerAnswer(*problem)
        if request.epoch < JOIN_EPOCH:
            return self._leave(request, out)
        if problem := self._size_problem(request):
            return ConsumerAnswer(*problem)
        before = self._joined(request, out)
        member = before.told(request)
        if member != before:
            out.records.append(records.member_record(self.group_id, member))
        self._put(member)
        self._begin_session(member, now)
        self._take_topics(request, before, member, out)
        if self.epoch > self.target_epoch and (message := self._assign(request, out)):
            return ConsumerAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        member = self._reconcile(member, request, now, out)
        tells = request.is_full or member.assigned != before.assigned
        return ConsumerAnswer(
            NONE,
            None,
            member.member_id,
            member.epoch,
            self._limits.consumer_heartbeat_interval_ms,
            member.assigned if tells else None,
        )

    def _problem(self, request: ConsumerHeartbeat) -> tuple[int, str] | None:
        """Return the code and the message of a refused heartbeat; None if it is accepted."""
        member_id, instance_id = request.member_id, request.instance_id
        most, joins = self._limits.consumer_max_size, request.epoch == JOIN_EPOCH
        if len(self.members) >= most and member_id not in self.members:
            message = f"The consumer group has reached its maximum capacity of {most} members."
            return ErrorCode.GROUP_MAX_SIZE_REACHED, message
        if instance_id is None:
            member = self.members.get(member_id)
            if member is None:
                message = f"Member {member_id} is not a member of group {self.group_id}."
                return None if joins else (ErrorCode.UNKNOWN_MEMBER_ID, message)
            return _epoch_problem(member, request)
        member = self.members.get(self._static_ids.get(instance_id, ""))
        if member is None:
            message = f"Instance id {instance_id} is unknown."
            return None if joins else (ErrorCode.UNKNOWN_MEMBER_ID, message)
        name = f"Static member {member_id} with instance id {instance_id}"
        if joins:
            message = f"{name} cannot join the group because the instance id is owned by "
            is_left = member.epoch == STATIC_LEAVE_EPOCH
            message += f"{member.member_id} member."
            return None if is_left else (ErrorCode.UNRELEASED_INSTANCE_ID, message)
        if member.member_id != member_id:
            message = f"{name} was fenced by member {member.member_id}."
            return ErrorCode.FENCED_INSTANCE_ID, message
        return _epoch_problem(member, request)

    def _size_problem(self, request: ConsumerHeartbeat) -> tuple[int, str] | None:
        """Return the code and the message if a subscription is too large.

        The member's record may fill half a batch: with it the group's targets may change.
        """
        known = self._known(request) or ConsumerMember(member_id=request.member_id)
        member = known.told(request)
        most = self._limits.batch_bytes_max // 2
        if member == known:
            return None
        # Of far too many names no record is made: it would take long.
        names_bytes = sum(map(len, member.topic_names))
        if names_bytes <= most and fits([records.member_record(self.group_id, member)], most):
            return None
        message = f"The subscription of a member is too large: its record may have {most} bytes."
        return ErrorCode.UNKNOWN_SERVER_ERROR, message

    def _known(self, request: ConsumerHeartbeat) -> ConsumerMember | None:
        """Return the member that sends a request, a static member by its instance id."""
        member_id = request.member_id
        if request.instance_id is not None:
            member_id = self._static_ids.get(request.instance_id, member_id)
        return self.members.get(member_id)

    def _joined(self, request: ConsumerHeartbeat, out: Effects) -> ConsumerMember:
        """Return the member that sends a request; a static member replaces its former member id."""
        known = self._known(request)
        if known is None:
            return ConsumerMember(member_id=request.member_id)
        if known.member_id == request.member_id:
            return known
        member = replace(known, member_id=request.member_id, epoch=0, previous_epoch=0)
        target = self.targets.get(known.member_id, NOTHING)
        self._subscriptions.move(known.member_id, member.member_id)
        self._remove(known, out)
        self.targets[member.member_id] = target
        out.records += [
            records.member_record(self.group_id, member),
            records.target_record(self.group_id, member.member_id, target),
            records.current_record(self.group_id, member),
        ]
        return member

    def _take_topics(
        self,
        request: ConsumerHeartbeat,
        before: ConsumerMember,
        member: ConsumerMember,
        out: Effects,
    ) -> None:
        """Raise the group epoch if members read other topics now, or if topics have changed."""
        gained = self._subscriptions.take(member, request.topics, request.may_read)
        if member == before and gained is None and request.topics is self._topics:
            return
        self._topics = request.topics
        reads = self._subscriptions.topic_ids(member, self._topics)
        target = self.targets.get(member.member_id, NOTHING)
        reads_else = bool(gained) or not {topic_id for topic_id, _ in target} <= reads
        reads_else |= member.topic_names != before.topic_names
        reads_else |= member.topic_regex != before.topic_regex
        if self._must_check_targets and self._subscriptions.has_matched(self.members.values()):
            self._must_check_targets = False
            reads_else = reads_else or bool(self._new_targets(request.topics))
        found = self._subscriptions.hash_of(self.members.values(), self._topics)
        if reads_else or found != self._metadata_hash or self.epoch == 0:
            self._raise_epoch(out)

    def _raise_epoch(self, out: Effects) -> None:
        if self._topics is not None:
            values = self.members.values()
            self._metadata_hash = self._subscriptions.hash_of(values, self._topics)
        self.epoch += 1
        out.records.append(records.epoch_record(self.group_id, self.epoch, self._metadata_hash))

    def _assign(self, request: ConsumerHeartbeat, out: Effects) -> str | None:
        """Make the target assignment of this epoch, and append records of its changes to `out`.

        Returns a message if a target is too large: then all targets stay. A target's record may
        fill a fifth of a batch, as the member's records of its subscription and of its assignment
        may be in the same batch.
        """
        changed = self._new_targets(request.topics)
        written = [records.target_record(self.group_id, *one) for one in changed.items()]
        most = self._limits.batch_bytes_max // 5
        if not all(fits([one], most) for one in written):
            return f"A member would get too many partitions: their record may have {most} bytes."
        self.targets |= changed
        self.target_epoch = self.epoch
        out.records += [*written, records.target_epoch_record(self.group_id, self.target_epoch)]
        return None

    def _new_targets(self, topics: Topics) -> dict[str, Partitions]:
        """Return the targets that the assignor changes, by member id; none if all can stay."""
        topic_ids, targets = self._subscriptions.topic_ids, self.targets
        readers = {
            name: Reader(topic_ids(one, topics), targets.get(name, NOTHING), one.instance_id)
            for name, one in self.members.items()
        }
        read = frozenset[str]().union(*(one.topic_ids for one in readers.values()))
        some = [topic for topic in topics.values() if topic.topic_id in read]
        counts = {topic.topic_id: topic.num_partitions for topic in some}
        found = ASSIGNORS[self.assignor](readers, counts)
        return {name: one for name, one in found.items() if targets.get(name) != one}

    def _reconcile(
        self, member: ConsumerMember, request: ConsumerHeartbeat, now: Now, out: Effects
    ) -> ConsumerMember:
        """Move a member one step towards its target; return the moved member."""
        if member.is_reconciled_to(self.target_epoch):
            return member
        others = [one for one in self.members.values() if one.member_id != member.member_id]
        taken = NOTHING.union(*(one.assigned | one.revoking for one in others))
        target = self.targets.get(member.member_id, NOTHING)
        moved = reconciled(
            member, self.target_epoch, target, request.owned, lambda place: place not in taken
        )
        if moved == member:
            return member
        self._put(moved)
        out.records.append(records.current_record(self.group_id, moved))
        self._limit_revocation(moved, now)
        return moved

    def _limit_revocation(self, member: ConsumerMember, now: Now) -> None:
        """Start or stop the timer (rebalance timeout) of a member that must give partitions up."""
        timer = Timer(self.group_id, REVOCATION, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers.set(timer, now.timer_ms + member.rebalance_timeout_ms)
        else:
            self._timers.cancel(timer)

    # ------------------------------------------------------------------------------ leave and end

    def _leave(self, request: ConsumerHeartbeat, out: Effects) -> ConsumerAnswer:
        member = self.members[request.member_id]
        if request.epoch == STATIC_LEAVE_EPOCH:
            away = replace(member, epoch=STATIC_LEAVE_EPOCH, revoking=NOTHING)
            self._put(away)
            self._timers.cancel(Timer(self.group_id, REVOCATION, member.member_id))
            out.records.append(records.current_record(self.group_id, away))
        else:
            self._fence(member, out)
        return ConsumerAnswer(NONE, None, request.member_id, request.epoch)

    def remove(self, request: LeaveRequest, out: Effects) -> LeaveAnswer:
        """Remove members by member id or instance id: an administrator's LeaveGroup."""
        codes: list[int] = []
        for one in request.members:
            instance_id = one.instance_id or ""
            member_id = one.member_id or self._static_ids.get(instance_id, "")
            member = self.members.get(member_id)
            if member is None:
                codes.append(ErrorCode.UNKNOWN_MEMBER_ID)
            elif one.instance_id is not None and member.instance_id != instance_id:
                codes.append(ErrorCode.FENCED_INSTANCE_ID)
            else:
                self._fence(member, out)
                codes.append(NONE)
        return LeaveAnswer(NONE, tuple(codes))

    def fire(self, timer: Timer, _now: Now, out: Effects) -> None:
        """Fence a member whose session, or whose time for giving partitions up, is over."""
        self._fence(self.members[timer.member_id], out)

    def _fence(self, member: ConsumerMember, out: Effects) -> None:
        self._remove(member, out)
        self._raise_epoch(out)

    def _remove(self, member: ConsumerMember, out: Effects) -> None:
        self._forget(member.member_id)
        out.records += records.member_tombstones(self.group_id, member.member_id)
        for kind in (MEMBER, REVOCATION):
            self._timers.cancel(Timer(self.group_id, kind, member.member_id))

    def _put(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id

    # -------------------------------------------------------------------------------------- replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Take a record of the group. Raises CorruptRecordError."""
        member_id, value = record.key.get("memberId", ""), record.value
        if value is None:
            if record.type == kinds.CONSUMER_MEMBER:
                self._forget(member_id)
            return
        match record.type:
            case kinds.CONSUMER_EPOCH:
                self.epoch, self._metadata_hash = value["epoch"], value.get("metadataHash", 0)
            case kinds.CONSUMER_TARGET:
                self.target_epoch = value["assignmentEpoch"]
            case kinds.CONSUMER_TARGET_MEMBER:
                self.targets[member_id] = records.partitions_of(value["topicPartitions"])
            case kinds.CONSUMER_MEMBER:
                self._set(member_id, records.subscription_of(value))
            case _:
                self._set(member_id, records.assignment_of(value))

    def _set(self, member_id: str, fields: Mapping[str, Any]) -> None:
        member = self.members.get(member_id) or ConsumerMember(member_id=member_id)
        self._put(replace(member, **fields))

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        self._subscriptions.forget(member_id)
        if member is not None and self._static_ids.get(member.instance_id or "") == member_id:
            del self._static_ids[member.instance_id or ""]
        if not self.members:
            self._topics = None  # an empty group must not keep the topics of long ago in memory

    def loaded(self, now: Now) -> None:
        """Begin the sessions of all members: all records were replayed."""
        self._must_check_targets = any(one.topic_regex for one in self.members.values())
        for member in self.members.values():
            self._begin_session(member, now)
            self._limit_revocation(member, now)

    def _begin_session(self, member: ConsumerMember, now: Now) -> None:
        session_ms = self._limits.consumer_session_timeout_ms
        timer = Timer(self.group_id, MEMBER, member.member_id)
        self._timers.set(timer, now.timer_ms + session_ms)


def _epoch_problem(member: ConsumerMember, request: ConsumerHeartbeat) -> tuple[int, str] | None:
    """Return the code and the message if a heartbeat's epoch is refused; else None.

    A member may send its previous epoch if it owns only partitions that are assigned to it: the
    answer with the new epoch may have been lost.
    """
    epoch, owned = request.epoch, request.owned
    if epoch < JOIN_EPOCH or epoch == member.epoch:
        return None
    is_late = epoch == member.previous_epoch and owned is not None and owned <= member.assigned
    if epoch < member.epoch and is_late:
        return None
    is_what = "greater" if epoch > member.epoch else "smaller"
    message = (
        f"The consumer group member has a {is_what} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). {_MUST_REJOIN}"
    )
    return ErrorCode.FENCED_MEMBER_EPOCH, message
