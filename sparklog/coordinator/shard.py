"""A shard: the groups and the committed offsets of one partition of __consumer_offsets.

    replay    takes a record of the partition, in the order of the log; after the last: `loaded`
    handle    takes a request; returns answers, and records to append; an answer may come later
    tick      runs the timers that are due; returns answers and records, too

The caller may send a call's answers when its records, and those of earlier calls, are durable. If
they cannot be appended, the caller drops the shard, and loads a new one from the log.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from sparklog.coordinator.any_group import AnyGroup, has_members, is_empty, listed
from sparklog.coordinator.batches import fits
from sparklog.coordinator.classic.group import Group
from sparklog.coordinator.classic.group_record import (
    described,
    group_record,
    group_tombstone,
    restore,
)
from sparklog.coordinator.commits.offsets import (
    Offsets,
    commit_problem,
    dated,
    expired,
    fetched,
    kept_topics,
    offset_record,
    offset_records,
    read_commit,
)
from sparklog.coordinator.consumer.consumer_group import ConsumerGroup
from sparklog.coordinator.consumer.consumer_requests import described_consumers, refusal
from sparklog.coordinator.records import (
    CONSUMER_EPOCH,
    GROUP_METADATA,
    GROUP_RECORDS,
    CoordinatorRecord,
    is_offset,
    read_record,
)
from sparklog.coordinator.requests import (
    JOIN_EPOCH,
    NONE,
    CommitAnswer,
    CommitRequest,
    CommittedOffset,
    ConsumerAnswer,
    ConsumerDescribeRequest,
    ConsumerHeartbeat,
    DeleteGroupRequest,
    DescribeRequest,
    Effects,
    FetchRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    Now,
    OffsetDeleteRequest,
    Request,
    SyncAnswer,
    SyncRequest,
    Token,
)
from sparklog.coordinator.states import GroupLimits, Timer
from sparklog.coordinator.timers import Timers
from sparklog.errors import ErrorCode, UnknownRecordTypeError
from sparklog.model import TopicPartition

_EXPIRY: Final = Timer("", "expiry")
EXPIRED_MAX: Final = 1_000
"""The most offsets that expire in one step: a batch must not become too large."""
NEXT_STEP_MS: Final = 1


class Shard:
    """One partition's groups. `new_id` returns a unique text."""

    def __init__(self, limits: GroupLimits, new_id: Callable[[], str]) -> None:
        self._limits = limits
        self._new_id = new_id
        self._groups: dict[str, AnyGroup] = {}
        self._offsets: dict[str, Offsets] = {}  # of each group that has any
        self._timers: Timers[Timer] = Timers()
        self._out = Effects()
        self._unseen: list[str] = []
        """The groups whose offsets the expiry has yet to look at."""

    # ------------------------------------------------------------------------------------- loading

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record of the log; ignore records of unknown types.

        Raises CorruptRecordError.
        """
        if is_offset(key):
            group_id, place, offset = read_commit(key, value)
            if offset is not None:
                self._group(group_id)
                self._put(group_id, {place: offset})
            else:
                self._drop(group_id, place)
                self._forget_unused(group_id)
            return
        try:
            record = read_record(GROUP_RECORDS, key, value)
        except UnknownRecordTypeError:
            return
        if record.type == GROUP_METADATA:
            group_id = record.key["group"]
            self._groups.pop(group_id, None)
            if record.value is not None:
                restore(self._classic(group_id), record.value)
            elif group_id in self._offsets:
                self._group(group_id)
        else:
            self._replay_consumers(record)

    def _replay_consumers(self, record: CoordinatorRecord) -> None:
        group_id = record.key["groupId"]
        group = self._groups.get(group_id)
        if record.type == CONSUMER_EPOCH and record.value is None:
            self._groups.pop(group_id, None)
            if group_id in self._offsets:
                self._group(group_id)
            return
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self._consumers(group_id)
        group.replay(record)

    def loaded(self, now: Now) -> None:
        """Begin the sessions of all members: all records were replayed."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                group.loaded(now)
                continue
            for member in group.members:
                group.renew_session(member.member_id, now)
        check_ms = self._limits.offsets_retention_check_interval_ms
        self._timers.set(_EXPIRY, now.timer_ms + check_ms)

    # ------------------------------------------------------------------------------------ requests

    @property
    def next_ms(self) -> int | None:
        """When the next timer is due, in ms of the timers' clock; None if there is no timer."""
        return self._timers.next_ms

    def expires(self, now: Now) -> bool:
        """Whether `tick` removes expired offsets: only then; it needs all records of the log."""
        return self._timers.is_due(_EXPIRY, now.timer_ms)

    def tick(self, now: Now) -> Effects:
        """Run the timers that are due."""
        self._out = Effects()
        self._fire(now, may_expire=True)
        return self._out

    def expire(self, now: Now) -> Effects:
        """Remove expired offsets, a step of them at a time: until there are no more records."""
        out = self._out = Effects()
        self._expire(now)
        return out

    def handle(self, request: Request, token: Token, now: Now) -> Effects:
        """Take a request. Its answer is among the effects of this call, or of a later one."""
        out = self._out = Effects()
        match request:
            case JoinRequest():
                self._join(request, token, now)
            case SyncRequest() | HeartbeatRequest() | LeaveRequest():
                self._of_member(request, token, now)
            case CommitRequest():
                out.answer(token, self._commit(request, now))
            case FetchRequest(group_id):
                offsets = self._offsets.get(group_id, {})
                out.answer(token, fetched(self._groups.get(group_id), offsets, request))
            case ConsumerHeartbeat():
                out.answer(token, self._consumer_heartbeat(request, now))
            case ConsumerDescribeRequest(group_id):
                out.answer(token, described_consumers(self._groups.get(group_id)))
            case OffsetDeleteRequest():
                out.answer(token, self._delete_offsets(request))
            case DeleteGroupRequest(group_id):
                out.answer(token, self._delete_group(group_id))
            case DescribeRequest(group_id, is_held):
                out.answer(token, described(self._groups.get(group_id), is_held=is_held))
            case _:
                out.answer(token, listed(self._groups, request.held))
        self._fire(now, may_expire=False)
        return out

    def _fire(self, now: Now, *, may_expire: bool) -> None:
        may_fire = may_expire or not self.expires(now)
        for timer in self._timers.due(now.timer_ms) if may_fire else ():
            if timer == _EXPIRY:
                check_ms = self._limits.offsets_retention_check_interval_ms
                wait_ms = check_ms if self._expire(now) else NEXT_STEP_MS
                self._timers.set(_EXPIRY, now.timer_ms + wait_ms)
            elif timer.group_id in self._groups:
                self._groups[timer.group_id].fire(timer, now, self._out)
                self._forget_unused(timer.group_id)

    def _join(self, request: JoinRequest, token: Token, now: Now) -> None:
        member_id, problem = request.member_id, NONE
        if not request.group_id:
            problem = ErrorCode.INVALID_GROUP_ID
        elif not self._limits.allows_session(request.session_timeout_ms):
            problem = ErrorCode.INVALID_SESSION_TIMEOUT
        elif member_id and request.group_id not in self._groups:
            problem = ErrorCode.UNKNOWN_MEMBER_ID
        if problem:
            self._out.answer(token, JoinAnswer(problem, member_id))
            return
        known = self._groups.get(request.group_id)
        if isinstance(known, ConsumerGroup):
            if known.members:
                problem = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                self._out.answer(token, JoinAnswer(problem, member_id))
                return
            self._out.records += known.tombstones()
        group = known if isinstance(known, Group) else self._classic(request.group_id)
        group.join(request, token, now, self._out)
        self._forget_unused(request.group_id)

    def _consumer_heartbeat(self, request: ConsumerHeartbeat, now: Now) -> ConsumerAnswer:
        group_id = request.group_id
        group = self._groups.get(group_id)
        if problem := refusal(request):
            return ConsumerAnswer(*problem)
        if not isinstance(group, ConsumerGroup):
            if request.epoch != JOIN_EPOCH or not (group is None or is_empty(group)):
                why = "not found" if group is None else "is not a consumer group"
                message = f"Group {group_id} {why}."
                return ConsumerAnswer(ErrorCode.GROUP_ID_NOT_FOUND, message)
            if group is not None and not group.is_unused:
                self._out.records.append(group_tombstone(group_id))
            group = self._consumers(group_id)
        answer = group.heartbeat(request, now, self._out)
        self._forget_unused(group_id)
        return answer

    def _of_member(
        self, request: SyncRequest | HeartbeatRequest | LeaveRequest, token: Token, now: Now
    ) -> None:
        """Take a request to a classic group; LeaveGroup also to a consumer group."""
        out, known = self._out, self._groups.get(request.group_id)
        if isinstance(known, ConsumerGroup) and isinstance(request, LeaveRequest):
            out.answer(token, known.remove(request, out))
            return
        group = known if isinstance(known, Group) else None
        problem = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        match request:
            case SyncRequest():
                if group is None:
                    out.answer(token, SyncAnswer(problem))
                else:
                    group.sync(request, token, now, out)
            case HeartbeatRequest():
                out.answer(token, problem if group is None else group.heartbeat(request, now))
            case _:
                if group is None:
                    out.answer(token, LeaveAnswer.of_strangers(request))
                else:
                    group.leave(request, token, now, out)
                    self._forget_unused(request.group_id)

    # ------------------------------------------------------------------------------------- offsets

    def _commit(self, request: CommitRequest, now: Now) -> CommitAnswer:
        limits = self._limits
        most = limits.batch_bytes_max
        problem = commit_problem(self._groups.get(request.group_id), request, most)
        taken = {} if problem else dated(request, now.commit_ms, limits.offset_metadata_max_bytes)
        records = offset_records(request.group_id, taken)
        if not fits(records, most):
            problem = ErrorCode.UNKNOWN_SERVER_ERROR
        if problem:
            return CommitAnswer(problem, dict.fromkeys(request.offsets, problem))
        group = self._group(request.group_id)
        if isinstance(group, Group) and request.member_id in group.members:
            group.renew_session(request.member_id, now)
        codes: dict[TopicPartition, int] = dict.fromkeys(request.offsets, NONE)
        if len(taken) < len(codes):
            codes |= dict.fromkeys(codes.keys() - taken.keys(), ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if records and not request.is_transactional:
            self._put(request.group_id, taken)
            self._out.records += records
        self._forget_unused(request.group_id)
        return CommitAnswer(NONE, codes)

    def _delete_offsets(self, request: OffsetDeleteRequest) -> CommitAnswer:
        group = self._groups.get(request.group_id)
        if group is None:
            return CommitAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
        kept = kept_topics(group, {place.topic for place in request.partitions})
        if kept is None:
            return CommitAnswer(ErrorCode.NON_EMPTY_GROUP)
        codes: dict[TopicPartition, int] = {}
        for place in request.partitions:
            is_read = place.topic in kept
            codes[place] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else NONE
            if not is_read:
                self._remove_offset(request.group_id, place)
        self._forget_unused(request.group_id)
        return CommitAnswer(NONE, codes)

    def _remove_offset(self, group_id: str, place: TopicPartition) -> None:
        if place in self._offsets.get(group_id, {}):
            self._drop(group_id, place)
            self._out.records.append(offset_record(group_id, place, None))

    def _put(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Keep committed offsets. Only this and `_drop` change them: a GroupLog overrides both."""
        self._offsets.setdefault(group_id, {}).update(offsets)

    def _drop(self, group_id: str, place: TopicPartition) -> None:
        offsets = self._offsets.get(group_id, {})
        offsets.pop(place, None)
        if not offsets:
            self._offsets.pop(group_id, None)

    def _expire(self, now: Now) -> bool:
        """Remove expired offsets, and groups that have neither offsets nor members.

        One step removes EXPIRED_MAX of them. Return True after the last step.
        """
        records, retention_ms = self._out.records, self._limits.offsets_retention_ms
        most = len(records) + EXPIRED_MAX
        unseen = self._unseen = self._unseen or list(self._groups)
        while unseen and len(records) < most:
            group = self._groups.get(unseen.pop())
            if group is None:
                continue
            offsets = self._offsets.get(group.group_id, {})
            gone = expired(group, offsets, retention_ms, now.wall_ms)
            for place in list(islice(gone, most - len(records))):
                self._remove_offset(group.group_id, place)
            if len(records) == most:
                unseen.append(group.group_id)  # it may have more
            elif not offsets and is_empty(group):
                self._remove_group(group)
        return not unseen

    # -------------------------------------------------------------------------------------- groups

    def _group(self, group_id: str) -> AnyGroup:
        """Return a group; a new classic one if it does not exist."""
        return self._groups.get(group_id) or self._classic(group_id)

    def _classic(self, group_id: str) -> Group:
        """Put a new group of the classic protocol in place of any old one; return it."""
        group = Group(group_id, self._limits, self._timers, self._save, self._new_id)
        self._groups[group_id] = group
        return group

    def _consumers(self, group_id: str) -> ConsumerGroup:
        """Put a new group of the consumer protocol in place of any old one; return it."""
        group = self._groups[group_id] = ConsumerGroup(group_id, self._limits, self._timers)
        return group

    def _save(self, group: Group, assignments: Mapping[str, bytes] | None) -> bool:
        record = group_record(group, assignments)
        if not fits([record], self._limits.batch_bytes_max):
            return False
        self._out.records.append(record)
        return True

    def _forget_unused(self, group_id: str) -> None:
        """Forget a group that has no record in the log and is not in use."""
        group = self._groups.get(group_id)
        if group is not None and group.is_unused and group_id not in self._offsets:
            del self._groups[group_id]

    def _delete_group(self, group_id: str) -> int:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND if group_id else ErrorCode.INVALID_GROUP_ID
        if has_members(group):
            return ErrorCode.NON_EMPTY_GROUP
        for place in list(self._offsets.get(group_id, ())):
            self._remove_offset(group_id, place)
        self._remove_group(group)
        return NONE

    def _remove_group(self, group: AnyGroup) -> None:
        """Remove a group that has neither offsets nor members."""
        self._groups.pop(group.group_id)
        if isinstance(group, ConsumerGroup):
            self._out.records += group.tombstones()
        else:
            group.end_timers()
            self._out.records.append(group_tombstone(group.group_id))
