"""The state of a partition that a group reads, and of the group, as Burrow tells them.

No bound on the lag is needed: what counts is how commits and lag go on over a window of commits.

    OK       caught up, or was so in the window, or the lag shrinks somewhere in it
    WARN     commits go on, and the lag never shrinks: the group is slower than the producers
    STOP     no commit for longer than the window is, and the log end was not reached lately
    STALL    commits go on, always of the same offset
    REWIND   an offset was committed that lies before another one, which is not reached again

    a group  ERR with a partition in STOP, STALL or REWIND; else WARN with one in WARN; else OK

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
"""So many commits make a window: of one alone nobody can say how often they come."""


class SeenCommit(NamedTuple):
    """A commit of the window; `lag` is that of its moment, None where it is not known."""

    offset: int
    committed_ms: int
    lag: int | None


def partition_state(
    commits: Sequence[SeenCommit], ends: Iterable[int], lag: int | None, now_ms: int
) -> LagState | None:
    """Return the state of a partition from the commits of its window, oldest first.

    `ends` are the log's ends of the last minutes, `lag` is today's. None where the lag is not
    known, or there is one and no window.
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
    """Return the state of a group from those of its partitions; None where none is known."""
    known = {one for one in states if one is not None}
    if not known:
        return None
    if known & _BAD:
        return LagState.ERR
    return LagState.WARN if LagState.WARN in known else LagState.OK


def _has_stopped(commits: Sequence[SeenCommit], now_ms: int) -> bool:
    """Whether nothing was committed for longer than from the first commit to the last."""
    first_ms, last_ms = commits[0].committed_ms, commits[-1].committed_ms
    return now_ms - last_ms > last_ms - first_ms


def _is_rewound(commits: Sequence[SeenCommit]) -> bool:
    """Whether offsets went back, and have not come to where they were then."""
    offsets = [one.offset for one in commits]
    back = next((at for at, (a, b) in enumerate(pairwise(offsets)) if b < a), None)
    return back is not None and max(offsets[back + 1 :]) < offsets[back]
