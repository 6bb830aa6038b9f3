"""Requests of both protocols to one group, right and wrong, in any order, as time passes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    ConsumerHeartbeat,
    DeleteGroupRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    MemberIdentity,
    Protocol,
    Request,
    SyncRequest,
)
from tests.group_language import FLIGHTS, GROUP, Groups

WAITS_MS = st.sampled_from([0, 1, 5, 200, 1_500, 4_000])
IDS_MAX = 12
MEMBERS = st.sampled_from(["", *(f"-{number}" for number in range(1, IDS_MAX)), "A-1", "A-2"])
INSTANCES = st.sampled_from([None, None, "A", "B"])
GENERATIONS = st.integers(-1, 4)
ASSIGNMENTS = {f"-{number}": b"a" for number in range(1, IDS_MAX)}


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One request of a client that may be a member, a former member, or none."""
    member, instance, generation = draw(MEMBERS), draw(INSTANCES), draw(GENERATIONS)
    kind = draw(st.sampled_from(["join"] * 3 + ["sync"] * 2 + ["heartbeat", "leave", "other"]))
    if kind == "join":
        names = draw(st.sampled_from(["x", "xy"]))
        return JoinRequest(
            GROUP,
            member,
            instance,
            protocols=tuple(Protocol(name, b"") for name in names),
            session_timeout_ms=draw(st.sampled_from([2_000, 6_000])),
            rebalance_timeout_ms=draw(st.sampled_from([1_000, 5_000])),
            needs_member_id=draw(st.booleans()),
            skips_assignment=draw(st.booleans()),
        )
    if kind == "sync":
        return SyncRequest(GROUP, generation, member, instance, assignments=ASSIGNMENTS)
    if kind == "heartbeat":
        return HeartbeatRequest(GROUP, generation, member, instance)
    if kind == "leave":
        return LeaveRequest(GROUP, (MemberIdentity(member, instance),))
    others: list[st.SearchStrategy[Request]] = [
        st.just(CommitRequest(GROUP, {FLIGHTS: CommittedOffset(5)}, generation, member, instance)),
        st.just(DeleteGroupRequest(GROUP)),
        st.builds(
            ConsumerHeartbeat,
            st.just(GROUP),
            st.sampled_from(["m1", "m2"]),
            st.integers(-2, 2),
            st.just(instance),
            rebalance_timeout_ms=st.just(1_000),
            topic_names=st.just(("flights",)),
            owned=st.just(frozenset[Any]()),
        ),
    ]
    return draw(st.one_of(others))


@given(
    steps=st.lists(st.tuples(WAITS_MS, requests()), max_size=60),
    max_size=st.sampled_from([1, 2, 100]),
)
def test_every_request_is_taken_and_the_log_can_be_read(
    steps: list[tuple[int, Request]], max_size: int
) -> None:
    groups = Groups(
        initial_rebalance_delay_ms=5,
        min_session_timeout_ms=1,
        max_size=max_size,
        consumer_max_size=2,
        consumer_session_timeout_ms=3_000,
    )
    tokens = []
    for wait_ms, request in steps:
        groups.passes(wait_ms)
        tokens.append(groups.asks(request))
    groups.passes(1_000_000)
    assert all(token in groups.answers for token in tokens)
    groups.restarts()
    groups.passes(1_000_000)
