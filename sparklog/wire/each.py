"""Work on many items of a request: side by side, and in turn with other clients.

One after another, groups would wait for each other's claims and commits: on an object store for a
second each. All at once, they would hold up the other clients. Claims have threads of their own
(`Gateway.claiming`), so what other clients look up does not wait behind them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, TypeVar

AT_ONCE: Final = 64
"""So many items are worked on side by side: for some milliseconds, if nothing has to be read."""

Item = TypeVar("Item", bound=Hashable)
Found = TypeVar("Found")


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[Found]]) -> list[Found]:
    """Return the results of `work` for all items, in their order. Raises its first error.

    An item that comes twice has one result: a short request must not have an answer without bound.
    """
    distinct = [*dict.fromkeys(items)]
    found: list[Found] = []
    for start in range(0, len(distinct), AT_ONCE):
        found += await asyncio.gather(*map(work, distinct[start : start + AT_ONCE]))
    return found
