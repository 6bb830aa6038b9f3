"""Requests of clients to one instance in an event loop: sent alone, or joined to one batch."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from sparklog.group_commit.append_slots import Append, Slot
from sparklog.group_commit.appends import AppendCommit, AppendLimits
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state.image import Image
from sparklog.transactions.end_group import EndGroup
from tests.client_batches import client_batch
from tests.waiting import turns_until

A, B = client_batch("a"), client_batch("b")


class World:
    """An instance in an event loop, and the requests to the topic t."""

    def __init__(self, found: Catalog, **limits: Any) -> None:
        self.commit = AppendCommit(found, AppendLimits(**{"flush": False, **limits}), EndGroup)
        self.topic_id = found.topic("t").topic_id
        self.images: list[Image] = []
        self.commit.on_commit = self.images.append

    def send(
        self, *batches: bytes, partition: int = 0, client: Hashable = None, **options: Any
    ) -> asyncio.Future[Any]:
        """One request with these batches for one partition."""
        slots = [Slot(Append(self.topic_id, partition, one), **options) for one in batches]
        return self.commit.append(slots, client=client)

    async def join(self, count: int, *, slowly: bool = False) -> int:
        """Have so many requests join a batch, at once or in turns of the loop; return how many did.

        None can join any more when the batch is made.
        """

        def made() -> Append:
            joined.append(True)
            return Append(self.topic_id, 0, A)

        joined: list[bool] = []
        answer = self.commit.append_when_taken(made)
        for number in range(1, count):
            if slowly:
                await asyncio.sleep(0)
            if joined:
                return number
            self.commit.grew()
        await answer
        return count

    async def begun(self) -> None:
        """Wait until the groups of all requests have begun."""
        await turns_until(lambda: not self.commit._waiting)

    @property
    def commits(self) -> int:
        """How many commits have landed."""
        return self.commit.counts.commits


def run(found: Catalog, work: Callable[[World], Awaitable[Any]], **limits: Any) -> Any:
    """Return the result of the work, after the last commit."""

    async def main() -> Any:
        world = World(found, **limits)
        try:
            return await work(world)
        finally:
            await world.commit.close()

    return asyncio.run(main())


def broken(*_: object) -> None:
    """Fails whatever it gets."""
    raise ZeroDivisionError
