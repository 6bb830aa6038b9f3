"""Burrow's rules one after another, by its wiki ("Consumer Lag Evaluation Rules") and evaluator."""

from collections.abc import Sequence

Commit = tuple[int, int, int | None]
"""An offset, its time in ms, the lag then."""


def state(commits: Sequence[Commit], ends: Sequence[int], lag: int, now_ms: int) -> str:
    """The state of a partition with at least one commit."""
    if lag == 0:
        return "OK"
    first, last = commits[0], commits[-1]
    silent_ms, window_ms = now_ms - last[1], last[1] - first[1]
    if silent_ms > window_ms and not reached(last[0], ends):
        return "STOP"
    if is_rewound([offset for offset, _, _ in commits]):
        return "REWIND"
    lags = [then for _, _, then in commits if then is not None]
    if 0 in lags:
        return "OK"
    if len({offset for offset, _, _ in commits}) == 1:
        return "STALL"
    for at in range(1, len(lags)):
        if lags[at] < lags[at - 1]:
            return "OK"
    return "WARN"


def is_rewound(offsets: Sequence[int]) -> bool:
    """Whether one is less than the one before it, and none from there on is as large again."""
    for at in range(1, len(offsets)):
        if offsets[at] < offsets[at - 1]:
            return not [one for one in offsets[at:] if one >= offsets[at - 1]]
    return False


def reached(offset: int, ends: Sequence[int]) -> bool:
    """Whether an offset was that of one of these log ends, or more."""
    return any(offset >= end for end in ends)


def group(states: Sequence[str | None]) -> str | None:
    """The state of a group: the worst of its partitions, and ERR for all that are bad."""
    order = ["OK", "WARN", "STOP", "STALL", "REWIND"]
    worst = max((order.index(one) for one in states if one is not None), default=None)
    return None if worst is None else "ERR" if worst > 1 else order[worst]
