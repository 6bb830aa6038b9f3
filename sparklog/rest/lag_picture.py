"""The lag of a group over the last hour as a picture: the coordinates of its lines, for SVG.

600 wide: an hour, now to the right        100 high: from 0 up to the largest lag
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from sparklog.admin.lag_history import LagPoint

WIDTH: Final = 600
HEIGHT: Final = 100


def picture(points: Sequence[LagPoint]) -> dict[str, Any] | None:
    """Return lines ("x,y x,y …"), the largest lag, first and last time; None if no lag is known.

    A line ends where the lag is unknown. A point without known neighbours is a line of one point.
    """
    known = [one.lag for one in points if one.lag is not None]
    if not known:
        return None
    most = max(known)
    placed = [
        None if one.lag is None else f"{at * WIDTH / (len(points) - 1):g},{_y(one.lag, most):g}"
        for at, one in enumerate(points)
    ]
    lines = [
        " ".join(one for one in some if one is not None)
        for is_known, some in groupby(placed, lambda one: one is not None)
        if is_known
    ]
    ends = {"first_ms": points[0].time_ms, "last_ms": points[-1].time_ms, "now": known[-1]}
    return {"lines": lines, "most": most, "width": WIDTH, "height": HEIGHT, **ends}


def _y(lag: int, most: int) -> float:
    return round(HEIGHT - lag * HEIGHT / max(most, 1), 2)
