"""Looks at the newest image, which requests share.

A request needs an image that is no older than itself, so it waits for a look that begins after it
came. One look runs at a time, and all requests that come meanwhile share the next one. On an object
store a look is a request over the network: with one look for each of them, requests would queue.
"""

import asyncio
from collections.abc import Awaitable, Callable

from sparklog.metadata.state.image import Image


class Looks:
    """The looks of one gateway. For one event loop."""

    def __init__(self, look: Callable[[], Awaitable[Image]]) -> None:
        """`look` reads the newest image."""
        self._look = look
        self._next: asyncio.Task[Image] | None = None
        """The look that has not begun yet; None if nobody waits for one."""
        self._last: asyncio.Task[Image] | None = None
        """The look that has begun last."""

    async def image(self) -> Image:
        """Return the image of a look that begins after this call. Raises as the look does."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._last))
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)

    async def _after(self, before: "asyncio.Task[Image] | None") -> Image:
        """Look when the look before has ended."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._last, self._next = self._next, None
        return await self._look()


def _seen(look: "asyncio.Task[Image]") -> None:
    """Mark an error as retrieved: the clients of all who waited for it may have gone meanwhile."""
    if not look.cancelled():
        look.exception()
