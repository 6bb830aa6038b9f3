"""The state machine of one group of the classic protocol.

    Empty ─join─▶ PreparingRebalance ─all have joined, or the time is over─▶ CompletingRebalance
      ▲                  ▲    ▲                                                     │ the leader's
      └──── no members ──┘    └── a join, a leave, a session that ends ── Stable ◀──┘ SyncGroup

Rules and codes are those of Kafka 4.1.1 (GroupMetadataManager, ClassicGroup). The token of a
request that must wait stays in its member.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sparklog.coordinator.classic.group_checks import generation_problem, join_problem, sync_problem
from sparklog.coordinator.classic.member import Member
from sparklog.coordinator.classic.members import Members
from sparklog.coordinator.requests import (
    NONE,
    Effects,
    HeartbeatRequest,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MemberIdentity,
    Now,
    SyncAnswer,
    SyncRequest,
    Token,
)
from sparklog.coordinator.states import JOIN, MEMBER, SYNC, GroupLimits, State, Timer
from sparklog.coordinator.timers import Timers
from sparklog.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may wait for its first answer; before, it cannot send heartbeats."""
WAIT_AGAIN_MS: Final = 1_000
"""The least that a rebalance waits again for static members. A rebalance timeout may be 0."""


class Group:
    """One group. `new_id` returns a unique text.

    `save` appends the group's record to the effects, with new assignments by member id if they are
    given. It returns False, and appends nothing, if the record is larger than a batch may be.
    """

    def __init__(
        self,
        group_id: str,
        limits: GroupLimits,
        timers: Timers[Timer],
        save: Callable[["Group", Mapping[str, bytes] | None], bool],
        new_id: Callable[[], str],
    ) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_ms = 0  # when it was entered, wall clock; 0 before the first change
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        self._limits = limits
        self._timers = timers
        self._save = save
        self._new_id = new_id
        self._unsynced: set[str] = set()
        """The members that have no SyncGroup of this generation yet, by id."""
        self._is_initial = False
        """True while the first rebalance of an empty group waits for more members."""
        self._has_grown = False
        """True if a member has joined during the present initial delay: another one follows."""
        self._initial_delay_ms = 0
        """The length of the present initial delay."""
        self._initial_left_ms = 0
        """The time that is left for further initial delays."""

    # --------------------------------------------------------------------------------------- join

    def join(self, request: JoinRequest, token: Token, now: Now, out: Effects) -> None:
        """Take a JoinGroup (its session timeout is checked already); answer it now or later."""
        if problem := join_problem(self, request, self._limits):
            out.answer(token, JoinAnswer(problem, request.member_id))
            if problem == ErrorCode.GROUP_MAX_SIZE_REACHED:
                self._remove(request.member_id, now, out)
        elif request.member_id in self.members.pending:
            self._add(request, request.member_id, token, now, out)
        elif request.member_id:
            self._join_again(request, token, now, out)
        elif request.instance_id is not None:
            self._join_static(request, token, now, out)
        elif request.needs_member_id:
            member_id = f"{request.client_id}-{self._new_id()}"
            self.members.pending.add(member_id)
            self._session(member_id, request.session_timeout_ms, now)
            out.answer(token, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(request, f"{request.client_id}-{self._new_id()}", token, now, out)

    def _add(
        self, request: JoinRequest, member_id: str, token: Token, now: Now, out: Effects
    ) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
            joining=token,
        )
        if not len(self.members):
            self.protocol_type = request.protocol_type
        self._has_grown = self._is_initial
        self.members.add(member)
        self._session(member_id, NEW_MEMBER_TIMEOUT_MS, now)
        self._rebalance(now, out)

    def _join_again(self, request: JoinRequest, token: Token, now: Now, out: Effects) -> None:
        member = self.members[request.member_id]
        is_same = member.protocols == request.protocols
        leads = self.members.leader == member.member_id
        if is_same and (
            self.state is State.COMPLETING or (self.state is State.STABLE and not leads)
        ):
            self._session(member.member_id, member.session_timeout_ms, now)
            out.answer(token, self._join_answer(member))
        else:
            self._update(member, request, token, out)
            self._rebalance(now, out)

    def _join_static(self, request: JoinRequest, token: Token, now: Now, out: Effects) -> None:
        """Join a client with an instance id and no member id: a new member, or a known one."""
        instance_id = request.instance_id or ""
        member_id = f"{instance_id}-{self._new_id()}"
        known = self.members.static_id(instance_id)
        if known is None:
            self._add(request, member_id, token, now, out)
            return
        member = self.members[known]
        self._release(member, ErrorCode.FENCED_INSTANCE_ID, out)
        self._timers.cancel(Timer(self.group_id, MEMBER, known))
        leader = self.members.leader
        self.members.replace(instance_id, member_id)
        if known in self._unsynced:
            self._unsynced ^= {known, member_id}
        member.client_id, member.client_host = request.client_id, request.client_host
        self._update(member, request, token, out)
        self._session(member_id, member.session_timeout_ms, now)
        is_same = self.state is State.STABLE and self.members.selected() == self.protocol
        if not (is_same and self._save(self, None)):
            self._rebalance(now, out)
            return
        member.joining = None
        answer = self._join_answer(member)
        if not request.skips_assignment:
            # The old leader id: so the client assigns nothing. No member waits for that.
            answer = answer._replace(leader=leader or "", members=())
        else:
            answer = answer._replace(skip_assignment=leader == known)
        out.answer(token, answer)

    def _update(self, member: Member, request: JoinRequest, token: Token, out: Effects) -> None:
        self._release(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
        self.members.support(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.joining = token

    def _join_answer(self, member: Member) -> JoinAnswer:
        protocol, leader = self.protocol or "", self.members.leader or ""
        told: tuple[JoinedMember, ...] = ()
        if leader == member.member_id:
            told = tuple(
                JoinedMember(one.member_id, one.instance_id, one.metadata(protocol))
                for one in self.members
            )
        member_id, kind = member.member_id, self.protocol_type
        return JoinAnswer(NONE, member_id, self.generation, kind, protocol, leader, members=told)

    # ---------------------------------------------------------------------------------- rebalance

    def _rebalance(
        self, now: Now, out: Effects, code: int = ErrorCode.REBALANCE_IN_PROGRESS
    ) -> None:
        """Begin a rebalance if none is under way; complete the join if all members have joined.

        Members that wait for their assignments get the error `code`.
        """
        if self.state is State.PREPARING:
            if not self._is_initial and self.members.have_all_joined:
                self._complete_join(now, out)
            return
        if self.state is State.COMPLETING:
            for one in self.members:
                if one.syncing is not None:  # its session may have ended while it waited
                    self._session(one.member_id, one.session_timeout_ms, now)
                self._answer_sync(one, SyncAnswer(code), out)
                one.assignment = b""
        self._timers.cancel(Timer(self.group_id, SYNC))
        self._unsynced.clear()
        self._is_initial, self._has_grown = self.state is State.EMPTY, False
        self._enter(State.PREPARING, now)
        timeout_ms = self.members.rebalance_timeout_ms
        if self._is_initial:
            delay_ms = min(self._limits.initial_rebalance_delay_ms, timeout_ms)
            self._initial_delay_ms, self._initial_left_ms = delay_ms, timeout_ms - delay_ms
            self._timers.set(Timer(self.group_id, JOIN), now.timer_ms + delay_ms)
        elif self.members.have_all_joined:
            self._complete_join(now, out)
        else:
            self._timers.set(Timer(self.group_id, JOIN), now.timer_ms + timeout_ms)

    def _join_is_over(self, now: Now, out: Effects) -> None:
        """Complete the join, or extend an initial delay in which new members came."""
        if self._is_initial and self._has_grown and self._initial_left_ms:
            self._has_grown = False
            delay_ms = min(self._limits.initial_rebalance_delay_ms, self._initial_left_ms)
            self._initial_left_ms = max(self._initial_left_ms - self._initial_delay_ms, 0)
            self._initial_delay_ms = delay_ms
            self._timers.set(Timer(self.group_id, JOIN), now.timer_ms + delay_ms)
        else:
            self._complete_join(now, out)

    def _complete_join(self, now: Now, out: Effects) -> None:
        join = Timer(self.group_id, JOIN)
        self._timers.cancel(join)
        for one in self.members:
            if one.joining is None and one.instance_id is None:
                self._drop(one, out)
        if len(self.members) and not self.members.elect_leader():
            # Only static members are left, and none has joined: their sessions decide.
            wait_ms = max(self.members.rebalance_timeout_ms, WAIT_AGAIN_MS)
            self._timers.set(join, now.timer_ms + wait_ms)
            return
        self._is_initial = False
        self.generation += 1
        if not len(self.members):
            self.protocol = None
            self._enter(State.EMPTY, now)
            self._save(self, None)
            return
        self.protocol = self.members.selected()
        self._enter(State.COMPLETING, now)
        for one in self.members:
            answer, token = self._join_answer(one), one.joining
            one.joining, one.is_new = None, False
            if token is not None:
                out.answer(token, answer)
            self._session(one.member_id, one.session_timeout_ms, now)
            self._unsynced.add(one.member_id)
        timeout_ms = self.members.rebalance_timeout_ms
        self._timers.set(Timer(self.group_id, SYNC), now.timer_ms + timeout_ms)

    # --------------------------------------------------------------------------------------- sync

    def sync(self, request: SyncRequest, token: Token, now: Now, out: Effects) -> None:
        """Take a SyncGroup; answer it now or later.

        If the leader's assignments cannot be saved, all members get an error and join again
        (GroupMetadataManager.resetAndPropagateAssignmentWithError).
        """
        if problem := sync_problem(self, request):
            out.answer(token, SyncAnswer(problem))
            return
        member = self.members[request.member_id]
        self._unsynced.discard(member.member_id)
        if self.state is State.STABLE:
            self._session(member.member_id, member.session_timeout_ms, now)
            out.answer(token, self._sync_answer(member))
            return
        self._answer_sync(member, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS), out)
        member.syncing = token
        if member.member_id != self.members.leader:
            return
        if not self._save(self, request.assignments):
            self._rebalance(now, out, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._enter(State.STABLE, now)
        for one in self.members:
            one.assignment = request.assignments.get(one.member_id, b"")
            self._answer_sync(one, self._sync_answer(one), out)
            self._session(one.member_id, one.session_timeout_ms, now)

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(NONE, self.protocol_type, self.protocol, member.assignment)

    # ---------------------------------------------------------------- heartbeat, leave, and timers

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> int:
        """Take a Heartbeat; return the error code of the answer."""
        if problem := generation_problem(self, request):
            return problem
        self.renew_session(request.member_id, now)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else NONE

    def renew_session(self, member_id: str, now: Now) -> None:
        """Begin a member's session again: it has sent a request."""
        self._session(member_id, self.members[member_id].session_timeout_ms, now)

    def leave(self, request: LeaveRequest, token: Token, now: Now, out: Effects) -> None:
        """Take a LeaveGroup; answer it."""
        before = len(self.members)
        codes = tuple(self._leave(one, out) for one in request.members)
        self._after_leaving(len(self.members) < before, now, out)
        out.answer(token, LeaveAnswer(NONE, codes))

    def _leave(self, who: MemberIdentity, out: Effects) -> int:
        if who.member_id in self.members.pending:
            self._forget(who.member_id)
            return NONE
        member_id = who.member_id or self.members.static_id(who.instance_id or "") or ""
        problem = self.members.problem(member_id, who.instance_id)
        if not problem:
            self._drop(self.members[member_id], out)
        return problem

    def _after_leaving(self, has_shrunk: bool, now: Now, out: Effects) -> None:
        """Rebalance after members have left, or complete a join that waited only for them."""
        if self.state is State.PREPARING or (has_shrunk and self.state is not State.EMPTY):
            self._rebalance(now, out)

    def fire(self, timer: Timer, now: Now, out: Effects) -> None:
        """Do the work of a timer that is due."""
        if timer.kind == JOIN:
            self._join_is_over(now, out)
        elif timer.kind == SYNC:
            before = len(self.members)
            for member_id in sorted(self._unsynced):
                self._drop(self.members[member_id], out)
            self._after_leaving(len(self.members) < before, now, out)
        else:
            member = self.members.get(timer.member_id)
            if member is None or not member.waits:
                self._remove(timer.member_id, now, out)

    def _remove(self, member_id: str, now: Now, out: Effects) -> None:
        """Remove a member or a pending id, if the group has it."""
        member = self.members.get(member_id)
        if member is None:
            self._forget(member_id)
        else:
            self._drop(member, out)
        self._after_leaving(member is not None, now, out)

    @property
    def is_unused(self) -> bool:
        """Whether the group was never used: no generation, no member, no pending id."""
        is_empty = self.state is State.EMPTY and self.generation == 0
        return is_empty and not self.members.pending

    def end_timers(self) -> None:
        """Cancel the timers of pending ids, when a group without members is deleted."""
        for member_id in self.members.pending:
            self._timers.cancel(Timer(self.group_id, MEMBER, member_id))

    def _enter(self, state: State, now: Now) -> None:
        self.state, self.state_ms = state, now.wall_ms

    def _session(self, member_id: str, timeout_ms: int, now: Now) -> None:
        self._timers.set(Timer(self.group_id, MEMBER, member_id), now.timer_ms + timeout_ms)

    def _forget(self, member_id: str) -> None:
        if member_id in self.members.pending:
            self.members.pending.discard(member_id)
            self._timers.cancel(Timer(self.group_id, MEMBER, member_id))

    def _drop(self, member: Member, out: Effects) -> None:
        self._release(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
        self._timers.cancel(Timer(self.group_id, MEMBER, member.member_id))
        self._unsynced.discard(member.member_id)
        self.members.remove(member)

    def _release(self, member: Member, code: int, out: Effects) -> None:
        """Answer a member's waiting requests with an error."""
        if member.joining is not None:
            out.answer(member.joining, JoinAnswer(code, member.member_id))
            member.joining = None
        self._answer_sync(member, SyncAnswer(code), out)

    def _answer_sync(self, member: Member, answer: SyncAnswer, out: Effects) -> None:
        if member.syncing is not None:
            out.answer(member.syncing, answer)
            member.syncing = None
