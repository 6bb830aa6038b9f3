"""Tidying: an instance merges the ends of the logs that it leads, and takes part in no other job.

So a log dir that gateways write, and no scheduler looks after, keeps few rows.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparklog.errors import SparklogError
from sparklog.fleet import LocalFleet
from sparklog.maintenance.job import JobContext
from sparklog.maintenance.tail import merge_tails
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.image import Image
from sparklog.wire.instances import Instances, leader_of

INTERVAL_S: Final = 1.0
"""How long it rests between two looks."""
log: Final = logging.getLogger("sparklog.gateway")


class Tidying:
    """Merges tails on a thread of its own, while the event loop runs."""

    def __init__(self, catalog: Catalog, instances: Instances) -> None:
        self._catalog = catalog
        self._instances = instances
        self._thread = ThreadPoolExecutor(1, "tidy")
        self.merged = 0
        """Segments that were merged away since the start."""

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End, behind the merge that is under way."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(INTERVAL_S)
            await asyncio.shield(loop.run_in_executor(self._thread, self.tidy))

    def tidy(self) -> None:
        """Merge the tails that are due. An error is told to the log alone."""
        try:
            self._merge(self._catalog.image())
        except SparklogError as error:
            log.warning("tails were not merged: %s", error)

    def _merge(self, image: Image) -> None:
        alive, own = self._instances.alive, self._instances.own.node_id
        led = [
            topic
            for topic in image.names.values()
            if leader_of(topic.topic_id, alive).node_id == own
        ]
        context = JobContext(self._catalog, LocalFleet())
        for outcome in merge_tails(context, image, led):
            self.merged += outcome.counts["segments"]
            for problem in outcome.problems:
                log.warning("a tail was not merged: %s", problem)
