"""A shard that an instance owns, over appends that land when they are told to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from sparklog.clock import ManualClock
from sparklog.coordinator.commits.offsets import offset_record
from sparklog.coordinator.records import Record
from sparklog.coordinator.requests import CommitRequest, CommittedOffset, FetchRequest
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import SparklogError
from sparklog.group_commit.appends import Append, AppendCommit, Appended
from sparklog.model import TopicDescription, TopicPartition
from sparklog.wire.groups.owned_shard import Claimed, Log, OwnedShard

TOPIC = TopicDescription("__consumer_offsets", "id", 50, {}, 0)
FLIGHTS = TopicPartition("flights", 0)
END = 10


class HeldAppends:
    """Appends whose group begins, and that land, when they are told to."""

    def __init__(self) -> None:
        self.taken: list[Append] = []
        self.grown = 0
        self._waiting: list[Callable[[], Append]] = []
        self._done: list[asyncio.Future[Any]] = []

    def append_when_taken(self, make: Callable[[], Append]) -> "asyncio.Future[Any]":
        self._waiting.append(make)
        self._done.append(asyncio.get_running_loop().create_future())
        return self._done[-1]

    def grew(self) -> None:
        self.grown += 1

    def take(self) -> None:
        """Begin the group of all that waits."""
        self.taken += [make() for make in self._waiting]
        self._waiting.clear()

    async def land(self, outcome: Appended | SparklogError | Exception) -> None:
        """End the first append; the shard takes note."""
        self.take()
        done = self._done.pop(0)
        if isinstance(outcome, Appended | SparklogError):
            done.set_result([outcome])
        else:
            done.set_exception(outcome)
        await asyncio.sleep(0)


class Owner:
    """A shard, its appends, others' records by their first offset, and errors that ended it."""

    def __init__(self, topic: TopicDescription = TOPIC, **limits: int) -> None:
        self.appends = HeldAppends()
        self.clock = ManualClock()
        self.ends: list[SparklogError] = []
        self.others: dict[int, list[Record]] = {}
        self.reads: list[tuple[int, int]] = []
        self.reads_cancelled = 0
        self.may_read = asyncio.Event()
        self.may_read.set()
        shard = Shard(GroupLimits(**limits), lambda: "id")
        appends = cast(AppendCommit, self.appends)

        def ended(_: OwnedShard, error: SparklogError) -> None:
            self.ends.append(error)

        claimed = Claimed(topic, 3, 7, END)
        self.log_end: int | SparklogError = END
        self.owned = OwnedShard(
            claimed, shard, Log(self._read, self._log_end), appends, self.clock, ended, lambda: 0
        )

    async def _log_end(self) -> int:
        if isinstance(self.log_end, SparklogError):
            raise self.log_end
        return self.log_end

    async def _read(self, start: int, end: int) -> list[Record]:
        self.reads.append((start, end))
        try:
            await self.may_read.wait()
        except asyncio.CancelledError:
            self.reads_cancelled += 1
            raise
        return self.others[start]

    def commits(self, offset: int) -> "asyncio.Future[Any]":
        return self.owned.ask(CommitRequest("g", {FLIGHTS: CommittedOffset(offset)}))

    def fetches(self) -> "asyncio.Future[Any]":
        return self.owned.ask(FetchRequest("g"))

    async def offset(self, end: int, topic: TopicPartition = FLIGHTS) -> int:
        """The offset that a fetch returns which has seen the log up to `end`."""
        async with asyncio.timeout(30):
            assert await self.owned.caught_up(end)
        return int((await self.fetches()).offsets[topic].offset)


def offset_of(number: int, topic: TopicPartition = FLIGHTS) -> Record:
    """The record of an offset that somebody else commits."""
    return offset_record("g", topic, CommittedOffset(number))


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in an event loop."""
    asyncio.run(test)


def landed(offset: int) -> Appended:
    """The outcome of an append that has landed."""
    return Appended(offset, -1, 0)
