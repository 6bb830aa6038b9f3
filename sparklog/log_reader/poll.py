"""Long polls: all fetches that wait for records of a topic share one watch of its metadata."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Protocol

from sparklog.errors import SparklogError
from sparklog.log_reader import TopicReader
from sparklog.model import READ_UNCOMMITTED


class Readers(Protocol):
    """Gives readers of the newest version."""

    async def reader(self, topic: str) -> TopicReader:
        """Return a reader of the newest version."""
        ...


class Poll:
    """Wakes fetches when a topic has changed; looks only while a fetch waits."""

    def __init__(self, readers: Readers, interval_s: float) -> None:
        self._readers = readers
        self._interval_s = interval_s
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, TopicReader] = {}
        """By topic, the newest reader that its watch has seen."""
        self._is_closed = False

    async def wait_for_more(
        self,
        reader: TopicReader,
        partition: int,
        offset: int,
        timeout_s: float,
        isolation: str = READ_UNCOMMITTED,
    ) -> TopicReader:
        """Return a reader in which the partition ends above `offset`; after `timeout_s` the newest.

        A partition ends at its log end offset or, for `isolation` "read_committed", at its last
        stable offset. Returns at once if the service is shutting down. Raises UnknownTopicError if
        the topic is deleted.
        """
        topic = reader.topic.name
        deadline = asyncio.get_running_loop().time() + timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not self._is_closed:
                    if reader.partition(partition).end_offset(isolation) > offset:
                        break
                    # A watch tells a change once: a later fetch takes its newest reader.
                    known = self._known.get(topic, reader)
                    if known.image.version <= reader.image.version:
                        await self._change(topic)
                        known = await self._readers.reader(topic)
                    reader = known
        return reader

    async def _change(self, topic: str) -> None:
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting[topic]
        waiting.add(future)
        if topic not in self._tasks:
            self._tasks[topic] = asyncio.create_task(self._watch(topic))
        try:
            await future
        finally:
            waiting.discard(future)

    async def _watch(self, topic: str) -> None:
        """Ask for the newest reader every `interval_s`, until no fetch waits."""
        waiting = self._waiting[topic]
        try:
            while waiting and not self._is_closed:
                reader = await self._readers.reader(topic)
                if reader is not self._known.get(topic):
                    self._known[topic] = reader
                    _wake(waiting)
                await asyncio.sleep(self._interval_s)
        except SparklogError:
            pass  # each waiting fetch asks again, and gets the error itself
        finally:
            del self._tasks[topic], self._waiting[topic]
            self._known.pop(topic, None)
            _wake(waiting)

    def close(self) -> None:
        """Wake all fetches; from now on none waits."""
        self._is_closed = True
        for waiting in self._waiting.values():
            _wake(waiting)


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
