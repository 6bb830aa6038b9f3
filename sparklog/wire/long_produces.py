"""Long Produce requests: they have a thread of their own, and few of them are in memory at once.

A topic or part of six bytes takes up to a kilobyte while its request is worked on. So requests of
some megabytes on many connections would take gigabytes. They are read one after another, and each
one only when the items of those in progress leave room.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

ITEMS_FULL: Final = 200_000
"""With so many topics and parts in progress, no further long request is read."""
Step = TypeVar("Step")


class LongProduces:
    """Those of one gateway. For one event loop."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "produce")
        """Takes their steps: those of other long requests do not wait for them."""
        self.turn = asyncio.Lock()
        """Held by the request that is read, or waits for room. The others wait for it in order."""
        self._items = 0
        self._has_room = asyncio.Event()

    def add(self, count: int) -> None:
        """Count items of a request that is read; a negative `count` frees those of an answered one.

        A request may have more than there is room for; otherwise a large one might wait for ever.
        """
        self._items += count
        if self._items < ITEMS_FULL:
            self._has_room.set()

    async def room(self) -> None:
        """Wait until there are less than ITEMS_FULL items."""
        while self._items >= ITEMS_FULL:
            self._has_room.clear()
            await self._has_room.wait()


class LongProduce:
    """One request; its items count until it is closed."""

    def __init__(self, produces: LongProduces) -> None:
        self._produces = produces
        self._count = 0

    def close(self) -> None:
        """Free the items of the request: it is answered, or has failed."""
        self._produces.add(-self._count)

    async def step(self, step: Callable[[], Step]) -> Step:
        """Take a step, some 0.1 s long, beside the event loop. It reads no files."""
        return await asyncio.get_running_loop().run_in_executor(self._produces.thread, step)

    async def read(self, read: Callable[[], tuple[Step, int]]) -> Step:
        """Return the request that `read` returns with the number of its items. Raises as `read`."""
        async with self._produces.turn:
            await self._produces.room()
            request, self._count = await self.step(read)
            self._produces.add(self._count)
        return request
