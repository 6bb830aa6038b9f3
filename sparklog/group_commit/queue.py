"""Requests that wait for their commit, one group after another.

    request ──▶ waiting ──(linger.ms, or batch.size)──▶ group ──▶ one commit of all its topics

One group is committed at a time; requests that arrive meanwhile form the next one. linger.ms counts
from the group's first request, or from the answers to the group before it if those come later. So a
client that sends its next request after an answer joins the requests that wait already. Otherwise
two halves of the clients would take turns, with twice as many commits. A waiting request is
committed even if its client goes away.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sparklog.errors import ThrottlingQuotaExceededError
from sparklog.group_commit.rows import Request, Rows
from sparklog.group_commit.share import Counts, Outcome, Written
from sparklog.group_commit.writer import GroupWriter
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitLimits:
    """When a group is committed, how, and how much may wait for it. The names are Kafka's."""

    linger_ms: int = 5
    """How long a group waits after its first request, or after the answers to the group before,
    if those came later."""
    batch_size: int = MIB
    """Bytes of one topic's records (`Rows.size_bytes`) at which a group no longer waits."""
    max_pending_bytes: int = 64 * MIB
    """Bytes that may wait for their commit in one topic; more is refused."""
    compression_type: str = "none"
    """The codec for topics with compression.type=producer."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One request that waits for its commit."""

    topic: str
    request: Request
    size_bytes: int
    since: float
    answer: "asyncio.Future[Written]"

    @property
    def identity(self) -> tuple[str, str | None]:
        """Its topic and its Idempotency-Key."""
        return self.topic, self.request.key


class GroupCommit:
    """The groups of one instance. For one event loop."""

    def __init__(self, catalog: Catalog, limits: CommitLimits) -> None:
        self._limits = limits
        self.counts = Counts()
        options = WriteOptions(compression_type=limits.compression_type)
        self._writer = GroupWriter(catalog, options, self.counts)
        self._thread = ThreadPoolExecutor(1, "commit")
        self._waiting: list[_Waiting] = []
        self._keys: dict[tuple[str, str | None], asyncio.Future[Written]] = {}
        self._bytes = Counter[str]()
        """The bytes of all requests that were not answered yet, by topic."""
        self._bytes_waiting = Counter[str]()
        self._full = asyncio.Event()
        self._is_ending = False
        self._answered = 0.0
        self._task: asyncio.Task[None] | None = None

    async def produce(self, topic: str, rows: Rows, key: str | None) -> Written:
        """Return the offsets of the records, once they are durable.

        With a `key`, a repetition within 24 hours, on any instance, writes nothing and gets the
        same offsets. Raises ThrottlingQuotaExceededError if more than max_pending_bytes of the
        topic would wait (a request that is alone is always taken), InvalidRecordError for a key
        that came with other records, and the errors of a write.
        """
        while key is not None and (before := self._keys.get((topic, key))) is not None:
            # A request with this key is under way. If it lands, this one is a replay; if it fails,
            # this one is the first.
            await asyncio.wait([before])
        size = rows.size_bytes
        if self._bytes[topic] and self._bytes[topic] + size > self._limits.max_pending_bytes:
            raise ThrottlingQuotaExceededError(
                f"too much of topic {topic!r} waits to be committed: "
                f"at most {self._limits.max_pending_bytes} bytes may",
                topic=topic,
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Written] = loop.create_future()
        waiting = _Waiting(topic, Request(rows, key), size, loop.time(), answer)
        self._waiting.append(waiting)
        self._bytes[topic] += size
        self._bytes_waiting[topic] += size
        if key is not None:
            self._keys[waiting.identity] = answer
        self._note_full(topic)
        if self._task is None:
            self._task = loop.create_task(self._run())
        return await asyncio.shield(answer)

    async def _run(self) -> None:
        while self._waiting:
            await self._linger()
            group = self._taken()
            answers: Sequence[Outcome | Exception]
            try:
                answers = await self._written(group)
            except Exception as error:  # noqa: BLE001 - raised in the waiting requests, then logged
                answers = [error] * len(group)
            for waiting, answer in zip(group, answers, strict=True):
                self._settle(waiting, answer)
            self._answered = asyncio.get_running_loop().time()
        self._task = None

    async def _linger(self) -> None:
        """Wait until linger.ms have passed, or the group is full."""
        loop = asyncio.get_running_loop()
        for topic in self._bytes_waiting:
            self._note_full(topic)
        since = max(self._waiting[0].since, self._answered)
        left_s = since + self._limits.linger_ms / 1000 - loop.time()
        timer = loop.call_later(max(left_s, 0), self._full.set)
        await self._full.wait()
        timer.cancel()
        self._full.clear()

    def _taken(self) -> list[_Waiting]:
        """Take the next group: whole requests up to batch.size of each topic, at least one."""
        group, rest = list[_Waiting](), list[_Waiting]()
        sizes = Counter[str]()
        for waiting in self._waiting:
            if waiting.topic in sizes and sizes[waiting.topic] >= self._limits.batch_size:
                rest.append(waiting)
                continue
            group.append(waiting)
            sizes[waiting.topic] += waiting.size_bytes
        self._waiting = rest
        self._bytes_waiting -= sizes
        return group

    async def _written(self, group: Sequence[_Waiting]) -> list[Outcome]:
        """Write a group on the thread, and count its commit and its records."""
        topics: dict[str, list[Request]] = {}
        for waiting in group:
            topics.setdefault(waiting.topic, []).append(waiting.request)
        loop = asyncio.get_running_loop()
        outcomes = await loop.run_in_executor(self._thread, self._writer.write, topics)
        of_topic = {topic: iter(found) for topic, found in outcomes.items()}
        answers = [next(of_topic[waiting.topic]) for waiting in group]
        landed = [one for one in answers if isinstance(one, Written) and not one.replayed]
        self.counts.commits += bool(landed)
        self.counts.records += sum(len(one.partition) for one in landed)
        return answers

    def _settle(self, waiting: _Waiting, answer: Outcome | Exception) -> None:
        self._bytes[waiting.topic] -= waiting.size_bytes
        if not self._bytes[waiting.topic]:
            del self._bytes[waiting.topic]
        if self._keys.get(waiting.identity) is waiting.answer:
            del self._keys[waiting.identity]
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
            waiting.answer.exception()  # marked as retrieved, even if its client has gone
        else:
            waiting.answer.set_result(answer)

    def _note_full(self, topic: str) -> None:
        if self._is_ending or self._bytes_waiting[topic] >= self._limits.batch_size:
            self._full.set()

    async def close(self) -> None:
        """Commit all waiting requests without delay; return when they are answered."""
        self._is_ending = True
        self._full.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown(wait=True)
        self._writer.close()
