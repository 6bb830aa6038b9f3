"""The state of a running instance: threads, followed topics, group commit, administrator."""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter
from typing import Final, NamedTuple, TypeVar

from sparklog.admin import AdminClient
from sparklog.admin.groups import GroupAdmin
from sparklog.admin.kafka_metrics import KafkaMetrics
from sparklog.admin.lags import Lags
from sparklog.author import acting_for
from sparklog.clock import Clock
from sparklog.errors import (
    CommitOutcomeUnknownError,
    OffsetOutOfRangeError,
    SparklogError,
    StorageError,
    ThrottlingQuotaExceededError,
)
from sparklog.group_commit.queue import GroupCommit
from sparklog.group_commit.rows import Rows
from sparklog.group_commit.share import Written
from sparklog.log_reader import TopicReader
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.log_reader.poll import Poll
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.upkeep.housekeeping import keep_house_late
from sparklog.model import TopicDescription
from sparklog.rest.errors import OUT_OF_TIME, ApiError, refusal_of
from sparklog.rest.metrics import Metrics
from sparklog.rest.settings import Settings
from sparklog.service.housekeeper import LOOK_S, Housekeeper
from sparklog.service.ready import Readiness
from sparklog.storage import open_files
from sparklog.tokens import Token, Tokens, name_of

QUICK_S: Final = 0.003
"""If a lookup takes longer (s), later ones in its partition run on a thread."""

LET_GO_S: Final = 60
"""How often (s) the files that lookups have opened are closed: an open file that was deleted keeps
its disk space."""

HOUSEKEEPER: Final = "sparklog.rest.folding"
"""The module that the housekeeper's process runs."""

FEW: Final = 16
"""The most lookups of one request that run on the event loop."""

Answer = TypeVar("Answer")


class AsOf(NamedTuple):
    """The past commit that a request reads: a version, or the newest version at a time."""

    version: int | None = None
    timestamp_ms: int | None = None


class Service:
    """One instance. It reads nothing of the log dir before the first request."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.tokens = Tokens(settings.tokens_file)
        files = open_files(settings.log_dir, remembers=True)
        catalog = Catalog(files, clock, after_commit=keep_house_late)
        self._catalog = catalog
        command = [HOUSEKEEPER, settings.log_dir, settings.log_level]
        self.housekeeper = Housekeeper(command, clock)
        self.topics = FollowedTopics(catalog, clock, settings.poll_interval_ms)
        self.admin = AdminClient(settings.log_dir, clock=clock, after_commit=keep_house_late)
        self.group_commit = GroupCommit(catalog, settings.commit_limits)
        self.lags = Lags(catalog, GroupAdmin(catalog))
        self.kafka_metrics = KafkaMetrics(catalog, self.lags)
        self.metrics = Metrics(self.topics.age_ms, self.group_commit.counts)
        self.poll = Poll(self, settings.poll_interval_ms / 1000)
        self.readiness = Readiness(self.topics.topics, lambda error: refusal_of(error).message)
        self._ending: asyncio.Future[None] | None = None
        """The end of the housekeeper, as soon as the service begins to end."""
        self._quick: set[tuple[str, int]] = set()
        self._lookups = ThreadPoolExecutor(settings.lookup_threads, "lookup")
        self._bulk = ThreadPoolExecutor(settings.bulk_threads, "bulk")
        self._admin = ThreadPoolExecutor(1, "admin")

    async def _asked(self, pool: ThreadPoolExecutor, question: Callable[[], Answer]) -> Answer:
        """Run a question on a thread, in the context of its request.

        storage_timeout_ms counts from the wait for a thread on. After it raises StorageError if the
        question has begun, and it goes on; ThrottlingQuotaExceededError if it still waits for a
        thread, and then it never begins.
        """
        timeout_ms = self.settings.storage_timeout_ms
        asked = pool.submit(copy_context().run, question)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            if asked.cancel():
                raise ThrottlingQuotaExceededError(
                    f"no thread was free within {timeout_ms} ms: the service is busy"
                ) from None
            raise StorageError(
                f"no answer within {timeout_ms} ms of waiting for a thread and then for the storage"
            ) from None

    async def read_files(self, question: Callable[[], Answer]) -> Answer:
        """Run a short question that may read files, on a thread. Raises as `_asked`."""
        return await self._asked(self._lookups, question)

    async def produce(self, topic: str, rows: Rows, key: str | None) -> Written:
        """Return the offsets of the records, once they are durable.

        Raises as `GroupCommit.produce`, and CommitOutcomeUnknownError after storage_timeout_ms: the
        records may still be written.
        """
        timeout_ms = self.settings.storage_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.group_commit.produce(topic, rows, key)
        except TimeoutError:
            raise CommitOutcomeUnknownError(
                f"topic {topic!r}: not committed within {timeout_ms} ms; it may be yet"
            ) from None

    async def find(
        self, topic: str, partition: int, question: Callable[[TopicReader], Answer | None]
    ) -> Answer | None:
        """Run a lookup in one partition, over an object store in a version that may be old.

        If that finds nothing (it returns None, or raises OffsetOutOfRangeError), the lookup runs
        again in the newest version. Raises as `reader`, and OffsetOutOfRangeError.
        """
        reader = self.topics.reader_at_hand(topic) or await self.reader(topic)
        is_final = self.topics.files.is_local
        try:
            found = await self.look_up_one(reader, partition, lambda: question(reader))
            is_final = is_final or found is not None
        except OffsetOutOfRangeError:
            if is_final:
                raise
        if is_final:
            return found
        newest = await self.reader(topic, is_newest=True)
        return await self.look_up_one(newest, partition, lambda: question(newest))

    async def look_up_one(
        self, reader: TopicReader, partition: int, question: Callable[[], Answer]
    ) -> Answer:
        """Run a lookup in one partition, as `look_up`."""
        place = reader.topic.topic_id, partition
        if place in self._quick:
            return self._timed(reader, [place], question)
        return await self.look_up(reader, (partition,), question)

    async def look_up(
        self, reader: TopicReader, partitions: Collection[int], question: Callable[[], Answer]
    ) -> Answer:
        """Run lookups: on the event loop if they concern few partitions with quick lookups.

        A thread costs more than a lookup by an index. The first lookup in a partition runs on a
        thread. If it takes long (no index, a cold disk, an object store), later ones do, too.
        """
        if len(partitions) > FEW:
            return await self.bulk(question)
        count = reader.topic.num_partitions
        places = [(reader.topic.topic_id, number) for number in partitions if number < count]
        if self._quick.issuperset(places):
            return self._timed(reader, places, question)
        return await self.read_files(lambda: self._timed(reader, places, question))

    def _timed(
        self, reader: TopicReader, places: list[tuple[str, int]], question: Callable[[], Answer]
    ) -> Answer:
        started = perf_counter()
        try:
            return question()
        finally:
            if perf_counter() - started > QUICK_S or not reader.files.is_local:
                self._quick.difference_update(places)
            else:
                self._quick.update(places)

    def deadline(self) -> Callable[[], None]:
        """Return a function that raises ApiError (503) if a request's lookups take too long.

        Call it before each lookup: without an index one lookup may read a whole segment, and the
        service does not notice meanwhile that the client has disconnected.
        """
        timeout_ms = self.settings.lookup_timeout_ms
        end_ms = self.clock.boot_ms() + timeout_ms

        def check() -> None:
            if self.clock.boot_ms() > end_ms:
                raise ApiError(
                    OUT_OF_TIME, f"not looked up within {timeout_ms} ms: ask for fewer at once"
                )

        return check

    async def bulk(self, question: Callable[[], Answer]) -> Answer:
        """Run a question that reads or parses megabytes, on a thread. Raises as `read_files`."""
        return await self._asked(self._bulk, question)

    async def administer(self, client: Token, question: Callable[[], Answer]) -> Answer:
        """Run a question to `admin` on its only thread, after earlier ones; as `read_files`.

        Its commits name the client.
        """
        with acting_for(name_of(client)):
            return await self._asked(self._admin, question)

    async def reader(self, topic: str, *, is_newest: bool = False) -> TopicReader:
        """Return a reader of the newest version. Raises UnknownTopicError.

        Over an object store the version may be `poll_interval_ms` old, except with `is_newest`.
        Answers that name a log end, or say that something does not exist, need `is_newest`.
        """
        at_hand = self.topics.reader_at_hand(topic, is_newest=is_newest)
        return (
            await self.read_files(lambda: self.topics.reader(topic)) if at_hand is None else at_hand
        )

    async def topic(self, name: str) -> TopicDescription:
        """Return a topic as of the newest version. Raises UnknownTopicError."""
        return await self.read_files(lambda: self.topics.topic(name))

    async def check_topic(self, topic: str) -> None:
        """Raise UnknownTopicError for a topic that does not exist, before the body is read.

        A topic that was deleted lately may pass: the commit refuses it.
        """
        if not self.topics.has_seen(topic):
            await self.topic(topic)

    async def past_reader(self, topic: str, wanted: AsOf) -> TopicReader:
        """Return a reader of a topic as one commit left it.

        Raises UnknownTopicError, VersionOutOfRangeError for a commit that is unknown or no longer
        known, OffsetOutOfRangeError if some of its records are gone from the log.
        """
        return await self.bulk(
            lambda: self.topics.past_reader(topic, wanted.version, wanted.timestamp_ms)
        )

    async def let_go(self) -> None:
        """Close the segments that lookups have opened, every LET_GO_S; never returns."""
        while True:
            await asyncio.sleep(LET_GO_S)
            self.topics.let_go()
            self._quick.clear()

    async def keep_house(self) -> None:
        """Call the housekeeper's `look` every LOOK_S, until the service begins to end."""
        with suppress(SparklogError):  # the growth of the log counts from this version on
            await self.bulk(self._catalog.image)
        while self._ending is None:
            self.housekeeper.look(self._catalog.last_version)
            await asyncio.sleep(LOOK_S)

    def begin_to_end(self) -> asyncio.Future[None]:
        """Answer waiting fetches, and begin to end the housekeeper; return when it has ended."""
        self.poll.close()
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.run_in_executor(None, self.housekeeper.close)
        return self._ending

    async def close(self) -> None:
        """Make all group commits, answer their requests, and end threads and housekeeper."""
        ending = self.begin_to_end()
        await self.group_commit.close()
        await ending
        self.readiness.close()
        for pool in (self._lookups, self._bulk, self._admin):
            pool.shutdown(wait=True)
        self.topics.let_go()
