"""Producer ids, each given once: an instance takes blocks of them from the metadata log."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator

from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.cluster import producer_id_block
from sparklog.metadata.state.cluster import RANDOM_ID_BYTES, random_producer_id
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image

Block = Callable[[], range]
"""Takes a block; it may wait for a commit."""


class ProducerIds:
    """The ids of one instance. For one event loop."""

    def __init__(self, catalog: Catalog, run: Callable[[Block], Awaitable[range]]) -> None:
        """`run` runs a function that may read and write files, outside the event loop."""
        self._catalog = catalog
        self._run = run
        self._left: Iterator[int] = iter(())
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """Return an id that was never given before. Raises as `MetadataLog.commit`."""
        async with self._lock:
            found = next(self._left, None)
            if found is None:
                self._left = iter(await self._run(self._block))
                found = next(self._left)
            return found

    def _block(self) -> range:
        start = random_producer_id(os.urandom(RANDOM_ID_BYTES))
        taken: list[range] = []

        def plan(image: Image) -> Edit:
            edit, block = producer_id_block(image, start)
            taken.append(block)
            return edit

        self._catalog.log.commit(plan)
        return taken[-1]
