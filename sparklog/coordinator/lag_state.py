"""The state of a partition that a group reads, and of the group, by Burrow's rules.

The rules need no bound on the lag: they look at the trend of commits and lag in a window of
commits.

    OK       the lag is 0, or was 0 in the window, or has shrunk in the window
    WARN     commits continue, and the lag never shrinks: the group is slower than the producers
    STOP     the last commit is longer ago than the window is long, and in the last 100 seconds the
             log end offset was always above the committed offset
    STALL    commits continue, always with the same offset
    REWIND   the committed offset went back, and has not reached its former value again

    a group  ERR if a partition has STOP, STALL or REWIND; else WARN if one has WARN; else OK

The rules, and their order, are those of Burrow's `calculatePartitionStatus` (evaluator/caching.go).
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple


class LagState(StrEnum):
    """The state of a partition, or of a group: a group has OK, WARN or ERR."""

    OK = "OK"
    WARN = "WARN"
    ERR = "ERR"
    STOP = "STOP"
    STALL = "STALL"
    REWIND = "REWIND"


_BAD: Final = frozenset({LagState.STOP, LagState.STALL, LagState.REWIND})
LEAST: Final = 2
"""The fewest commits for a state: one commit does not show how often the group commits."""


class SeenCommit(NamedTuple):
    """A commit of the window; `lag` is the lag at its time, None if that is unknown."""

    offset: int
    committed_ms: int
    lag: int | None


def partition_state(
    commits: Sequence[SeenCommit], ends: Iterable[int], lag: int | None, now_ms: int
) -> LagState | None:
    """Return the state of a partition from the commits of its window, oldest first.

    `ends` are the log end offsets of the last 100 s, `lag` is the present lag. Returns None if
    the lag is unknown, or if there is a lag and fewer than LEAST commits.
    """
    if lag is None:
        return None
    if lag == 0:
        return LagState.OK
    if len(commits) < LEAST:
        return None
    last = commits[-1]
    if _has_stopped(commits, now_ms) and not any(end <= last.offset for end in ends):
        return LagState.STOP
    if _is_rewound(commits):
        return LagState.REWIND
    lags = [one.lag for one in commits if one.lag is not None]
    if 0 in lags:
        return LagState.OK
    if all(one.offset == last.offset for one in commits):
        return LagState.STALL
    return LagState.OK if any(b < a for a, b in pairwise(lags)) else LagState.WARN


def group_state(states: Iterable[LagState | None]) -> LagState | None:
    """Return the state of a group from the states of its partitions; None if all are unknown."""
    known = {one for one in states if one is not None}
    if not known:
        return None
    if known & _BAD:
        return LagState.ERR
    return LagState.WARN if LagState.WARN in known else LagState.OK


def _has_stopped(commits: Sequence[SeenCommit], now_ms: int) -> bool:
    """Whether the time since the last commit is longer than from the first commit to the last."""
    first_ms, last_ms = commits[0].committed_ms, commits[-1].committed_ms
    return now_ms - last_ms > last_ms - first_ms


def _is_rewound(commits: Sequence[SeenCommit]) -> bool:
    """Whether the offset went back, and has not reached its former value again."""
    offsets = [one.offset for one in commits]
    back = next((at for at, (a, b) in enumerate(pairwise(offsets)) if b < a), None)
    return back is not None and max(offsets[back + 1 :]) < offsets[back]
