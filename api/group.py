"""Group commit: requests to one topic that arrive within linger.ms share one commit.

    request ──▶ waiting ──(linger.ms, or batch.size)──▶ group ──▶ one commit

Each topic has one group under way; what arrives meanwhile is the next. A group lingers from its
first request on, but at least from the answers to the group before: whoever got one and has more
to send goes with those who waited, where two halves in turn would make twice the commits. Meanwhile
the manifest is read again, as far as the last commit changed it. A request is acknowledged when the
commit is durable, with the offsets of its records. Nothing of a request that waits is dropped when
its client goes away.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from api.errors import THROTTLED, ApiError
from api.group_write import GroupWriter, Written
from api.metrics import Metrics
from api.records import Rows
from api.settings import Settings
from sparklog.clock import Clock
from sparklog.errors import SparklogError
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog
from sparklog.storage.files import Files

COMMIT_THREADS = 8
"""Topics that commit at the same time."""


@dataclass(eq=False, slots=True)
class Waiting:
    """One request that waits for its commit."""

    rows: Rows
    key: str | None
    size_bytes: int
    since: float
    answer: "asyncio.Future[Written]"


class Groups:
    """The groups of every topic."""

    def __init__(self, files: Files, clock: Clock, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._writer = GroupWriter(
            Catalog(files, clock),
            WriteOptions(compression_type=settings.compression_type),
            metrics.conflicts.inc,
        )
        self._threads = ThreadPoolExecutor(COMMIT_THREADS, "commit")
        self._topics: dict[str, _TopicGroups] = {}

    async def produce(self, topic: str, rows: Rows, key: str | None) -> Written:
        """Return what the records got, once they are durable.

        With a `key` they are written once in 24 hours, whatever instance is asked. Raises ApiError
        (429) when too much waits already, and what the library raises.
        """
        groups = self._topics.get(topic)
        if groups is None:
            groups = self._topics[topic] = _TopicGroups(topic, self)
        return await groups.produce(rows, key)

    def forget(self, topic: str) -> None:
        """Drop the groups of a topic for which nothing waits."""
        del self._topics[topic]

    async def write(self, topic: str, group: Sequence[Waiting]) -> list[Written | SparklogError]:
        """Write a group on a thread, and count what became of it."""
        requests = [(waiting.rows, waiting.key) for waiting in group]
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._threads, self._writer.write, topic, requests)
        landed = [one for one in answers if not isinstance(one, SparklogError) and not one.replayed]
        self._metrics.commits.inc(bool(landed))
        self._metrics.records.inc(sum(len(one.partition) for one in landed))
        return answers

    async def catch_up(self, topic: str) -> None:
        """Read, on a thread, what the last group committed."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._writer.catch_up, topic)

    @property
    def limits(self) -> Settings:
        """linger_ms, batch_size, max_pending_bytes."""
        return self._settings

    async def close(self) -> None:
        """Commit everything that waits."""
        await asyncio.gather(*(groups.finish() for groups in list(self._topics.values())))
        self._threads.shutdown(wait=True)


class _TopicGroups:
    """The groups of one topic, one after another."""

    def __init__(self, topic: str, groups: Groups) -> None:
        self._topic = topic
        self._groups = groups
        self._limits = groups.limits
        self._waiting: list[Waiting] = []
        self._keys: dict[str, asyncio.Future[Written]] = {}
        self._bytes = 0
        self._bytes_waiting = 0
        self._full = asyncio.Event()
        self._is_ending = False
        self._answered = 0.0
        self._task: asyncio.Task[None] | None = None

    async def produce(self, rows: Rows, key: str | None) -> Written:
        """Wait for the commit."""
        before = None if key is None else self._keys.get(key)
        if before is not None:
            # The same key is under way: once it has landed this one is a replay, and if it failed
            # this one is the first. These groups may have been forgotten by then.
            await asyncio.wait([before])
            return await self._groups.produce(self._topic, rows, key)
        size = rows.size_bytes
        if self._bytes and self._bytes + size > self._limits.max_pending_bytes:
            raise ApiError(THROTTLED, "too much waits to be committed", {"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Written] = loop.create_future()
        waiting = Waiting(rows, key, size, loop.time(), answer)
        self._waiting.append(waiting)
        self._bytes += size
        self._bytes_waiting += size
        if key is not None:
            self._keys[key] = answer
        self._note_full()
        if self._task is None:
            self._task = loop.create_task(self._run())
        return await asyncio.shield(answer)

    async def _run(self) -> None:
        while self._waiting:
            await self._linger()
            group = self._taken()
            try:
                answers: Sequence[Written | Exception]
                answers = await self._groups.write(self._topic, group)
            except Exception as error:  # noqa: BLE001 - told to those who wait, then to the log
                answers = [error for _ in group]
            for waiting, answer in zip(group, answers, strict=True):
                self._settle(waiting, answer)
            self._answered = asyncio.get_running_loop().time()
            await self._groups.catch_up(self._topic)
        self._groups.forget(self._topic)

    async def _linger(self) -> None:
        """Wait until linger.ms are over, or the group is full."""
        loop = asyncio.get_running_loop()
        self._note_full()
        since = max(self._waiting[0].since, self._answered)
        left_s = since + self._limits.linger_ms / 1000 - loop.time()
        timer = loop.call_later(max(left_s, 0), self._full.set)
        await self._full.wait()
        timer.cancel()
        self._full.clear()

    def _taken(self) -> list[Waiting]:
        """Take the group: whole requests up to batch.size, at least one, a key but once."""
        group: list[Waiting] = []
        size, keys = 0, set[str]()
        for waiting in self._waiting:
            if group and (size >= self._limits.batch_size or waiting.key in keys):
                break
            group.append(waiting)
            size += waiting.size_bytes
            keys.update([waiting.key] if waiting.key is not None else [])
        del self._waiting[: len(group)]
        self._bytes_waiting -= size
        return group

    def _settle(self, waiting: Waiting, answer: Written | Exception) -> None:
        self._bytes -= waiting.size_bytes
        if waiting.key is not None and self._keys.get(waiting.key) is waiting.answer:
            del self._keys[waiting.key]
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
            waiting.answer.exception()  # seen, even when its client has gone away
        else:
            waiting.answer.set_result(answer)

    def _note_full(self) -> None:
        if self._is_ending or self._bytes_waiting >= self._limits.batch_size:
            self._full.set()

    async def finish(self) -> None:
        """Commit what waits, at once."""
        self._is_ending = True
        self._note_full()
        await asyncio.gather(*([] if self._task is None else [self._task]))
