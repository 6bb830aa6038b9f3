"""The state of a running gateway, which its handlers share."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from sparklog.admin import AdminClient, NewTopic
from sparklog.admin.each import Outcome
from sparklog.admin.kafka_metrics import KafkaMetrics
from sparklog.clock import Clock
from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.coordinator.records import OFFSETS_TOPIC
from sparklog.errors import LogDirError, SparklogError, TopicExistsError
from sparklog.group_commit.appends import AppendCommit, AppendLimits
from sparklog.log_reader.followed_topics import FollowedTopics
from sparklog.log_reader.ranges import BatchRanges
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.topics import unknown_topic
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.housekeeping import keep_house_late
from sparklog.model import TopicDescription
from sparklog.service.housekeeper import Housekeeper
from sparklog.service.logs import Seldom
from sparklog.storage import open_files
from sparklog.storage.log_dir import open_log_dir
from sparklog.tokens import Tokens
from sparklog.transactions.end_group import EndGroup
from sparklog.transactions.steps import Transactions
from sparklog.wire.groups.coordinators import Coordinators
from sparklog.wire.instances import Instances, instance_of, leaders_of
from sparklog.wire.limits import Limits
from sparklog.wire.long_produces import LongProduces
from sparklog.wire.looks import Looks
from sparklog.wire.membership import Membership, try_to_leave
from sparklog.wire.metrics import Metrics
from sparklog.wire.producer_ids import ProducerIds
from sparklog.wire.protocol.frames import LargeFrames, new_buffer
from sparklog.wire.sending import Sent
from sparklog.wire.settings import Settings
from sparklog.wire.standstill import Standstill
from sparklog.wire.throttle import Throttle
from sparklog.wire.topic_bytes import TopicBytes
from sparklog.wire.transaction_ends import TransactionEnds
from sparklog.wire.watch import Watch

if TYPE_CHECKING:
    from sparklog.wire.serving.connection import Connection

Answer = TypeVar("Answer")
LOOKUPS_LOCAL: Final = 2
LOOKUPS_REMOTE: Final = 16
"""Threads for lookups: those of an object store wait for the network nearly all the time."""
CLAIMS_LOCAL: Final = 2
CLAIMS_REMOTE: Final = 8
"""Threads for claims of partitions of __consumer_offsets. After a start there are up to 50 at once:
lookups of other clients do not wait behind them."""
LONG_AT_ONCE: Final = 2
"""Threads for long answers, which only compute, and as many for long requests: a member of a group
must not wait behind answers to administrators."""
STEPS_AT_ONCE: Final = 8
"""Threads for steps of transactions; steps that wait at the same time share an entry."""
HOUSEKEEPER: Final = "sparklog.wire.tidying"
"""The module that the housekeeper's process runs."""
log: Final = logging.getLogger("sparklog.gateway")


class Gateway:
    """One instance, for one event loop. Creates the log dir if there is none."""

    is_ending = False
    """True as soon as the gateway takes no new requests."""
    is_loaded = False
    """True as soon as the kernels of produce requests are loaded."""

    def __init__(self, settings: Settings, clock: Clock, endpoints: tuple[Endpoint, ...]) -> None:
        """Open or make the log dir, and register this instance as a broker with these addresses.

        Raises LogDirError if the directory is no log dir, DuplicateBrokerRegistrationError for a
        node id that another gateway has.
        """
        self.settings = settings
        self.clock, self.seldom = clock, Seldom(clock)
        self.admin = AdminClient(settings.log_dir, clock=clock, after_commit=keep_house_late)
        self.admin.create_log_dir()
        files = open_files(settings.log_dir, remembers=True)
        self.catalog = Catalog(files, clock, flush=settings.syncs, after_commit=keep_house_late)
        self.cluster_id = open_log_dir(self.catalog.files).cluster_id
        self.topics = FollowedTopics(self.catalog, clock, settings.poll_interval_ms)
        self.appends = AppendCommit(self.catalog, _append_limits(settings), EndGroup)
        self.transactions = Transactions(self.catalog, settings.transaction_max_timeout_ms)
        self.producer_ids = ProducerIds(self.catalog, self.lookup)
        self.membership = Membership(self.catalog.log, clock, str(uuid4()))
        own = self.membership.join(endpoints, settings.rack, settings.node_id, _load_kernels)
        self.instances = Instances(instance_of(own))
        self.housekeeper = Housekeeper(_housekeeping(settings, own), clock)
        self.throttle = Throttle()
        self.transaction_ends = TransactionEnds(self)
        self.standstill = Standstill(clock)
        self.tokens = Tokens(settings.tokens_file)
        self.limits = Limits(settings)
        self.metrics = Metrics(self)
        self._kafka_metrics = KafkaMetrics(self.catalog)
        self.ranges = BatchRanges(self.catalog.files)
        self.watch = Watch(self.topics, self.newest_image, settings.poll_interval_ms / 1000)
        self.sent, self.topic_bytes = Sent(), TopicBytes()
        self.buffer, self.large_frames = new_buffer(), LargeFrames()
        self.appends.on_commit = self._committed
        self.coordinators = Coordinators(self)
        self.connections: set[Connection] = set()
        self._all_left, self.producing = asyncio.Event(), set[asyncio.Future[Any]]()
        self._looks = Looks(lambda: self.lookup(self._newest))
        self._lookups = ThreadPoolExecutor(
            LOOKUPS_LOCAL if files.is_local else LOOKUPS_REMOTE, "lookup"
        )
        self._claims = ThreadPoolExecutor(
            CLAIMS_LOCAL if files.is_local else CLAIMS_REMOTE, "claim"
        )
        self._long, self._beside = (
            ThreadPoolExecutor(LONG_AT_ONCE, name) for name in ("answer", "beside")
        )
        self.long_produces = LongProduces()
        self._scrapes, self._heart, self._admin, self._aborts = (
            ThreadPoolExecutor(1, name) for name in ("scrape", "heartbeat", "admin", "abort")
        )
        self._steps = ThreadPoolExecutor(STEPS_AT_ONCE, "transaction")

    def start(self) -> None:
        """Begin the heartbeats, and load the kernels in the background if they are not loaded."""
        self._beating = asyncio.ensure_future(self._beat())
        self._loading = asyncio.get_running_loop().run_in_executor(self._lookups, _load_kernels)
        self._loading.add_done_callback(self._has_loaded)

    def _has_loaded(self, _: asyncio.Future[None]) -> None:
        self.is_loaded = True

    async def loaded(self) -> None:
        """Return when the kernels are loaded. Call it after `start`."""
        await self._loading

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                brokers = await loop.run_in_executor(self._heart, self.membership.beat)
                self._become_own()
                self.instances.saw(brokers)
            except SparklogError as error:
                self.seldom.warn("beat", log, "no sign of life was given: %s", error)
            except Exception:  # a bug must not end the heartbeats
                log.exception("no sign of life was given")
            await asyncio.sleep(self.membership.rest_ms / 1000)

    def _become_own(self) -> None:
        """Go on with the membership's node id, which may be new; the housekeeper, too."""
        own = self.membership.own
        self.instances.become(instance_of(own))
        self.housekeeper.work_on(_housekeeping(self.settings, own))

    async def image(self, *topics: TopicDescription) -> Image:
        """Return the newest image with these topics opened.

        If the log dir is in an object store, the image may be poll_interval_ms old.
        """
        image = self.image_at_hand()
        if image is not None and are_open(image, topics):
            return image
        return await self.newest_image(*topics)

    def image_at_hand(self) -> Image | None:
        """Return the newest image without waiting; None when there may be a newer one."""
        image = self.topics.image_at_hand()
        if image is not None:
            self.instances.saw(image.brokers)
        return image

    async def newest_image(self, *topics: TopicDescription) -> Image:
        """Return the newest image with these topics opened; unlike `image`, never an old one.

        A topic that is not in the image does not exist.
        """
        image = self.topics.image_at_hand(is_newest=True)
        if image is None:
            image = await self._looks.image()
        if not are_open(image, topics):
            image = await self.lookup(lambda: self._newest(*topics))
        self.instances.saw(image.brokers)
        return image

    async def opened(self, image: Image, topics: Sequence[TopicDescription]) -> Image:
        """Return the image if it has opened these topics, else the newest one that has."""
        return image if are_open(image, topics) else await self.newest_image(*topics)

    def _newest(self, *topics: TopicDescription) -> Image:
        image = self.topics.image(*topics)
        if image is None:
            raise LogDirError(f"{self.settings.log_dir}: the log dir is gone")
        return image

    def _committed(self, image: Image) -> None:
        self.topics.note(image)
        self.watch.saw(image)

    async def lookup(self, question: Callable[[], Answer]) -> Answer:
        """Run a function that may read files beside the event loop. It should not take long."""
        return await asyncio.get_running_loop().run_in_executor(self._lookups, question)

    async def claiming(self, claim: Callable[[], Answer]) -> Answer:
        """Run a function that reads and claims a partition of __consumer_offsets."""
        return await asyncio.get_running_loop().run_in_executor(self._claims, claim)

    async def at_length(self, question: Callable[[], Answer]) -> Answer:
        """Run a function that may compute for seconds, beside the event loop and the lookups.

        So the other clients do not wait for an answer about thousands of topics or partitions. The
        function reads no files: while the storage hung, it would hold up the other long answers.
        """
        return await asyncio.get_running_loop().run_in_executor(self._long, question)

    async def beside(self, step: Callable[[], Answer]) -> Answer:
        """Run a step of a long request of any client, some 0.1 s long, beside the event loop.

        As with `at_length`, it reads no files. Produce has a thread of its own (`long_produces`).
        """
        return await asyncio.get_running_loop().run_in_executor(self._beside, step)

    async def administer(self, question: Callable[[], Answer]) -> Answer:
        """Run a function that uses `admin`. Such functions run one after another."""
        return await asyncio.get_running_loop().run_in_executor(self._admin, question)

    async def transact(self, step: Callable[[], Answer], *, by_hand: bool = False) -> Answer:
        """Take a step of a transaction; concurrent steps share their commits.

        Aborts `by_hand` search the log, maybe for minutes: they run one after another.
        """

        def taken() -> tuple[Answer, Image]:
            answer, image = step(), self.catalog.log.image()
            self.catalog.log.sync(image.version)
            return answer, image

        pool = self._aborts if by_hand else self._steps
        answer, image = await asyncio.get_running_loop().run_in_executor(pool, taken)
        self._committed(image)
        return answer

    async def kafka_metrics(self) -> bytes:
        """Return metrics of topics and groups with kafka_exporter's names.

        They are read beside all other work, one request for them after another.
        """
        brokers = {one.node_id: f"{one.host}:{one.port}" for one in self.instances.alive}
        ids = tuple(brokers)
        return await asyncio.get_running_loop().run_in_executor(
            self._scrapes,
            lambda: self._kafka_metrics.text(
                brokers=brokers, leader_of=lambda topic, n: leaders_of(topic.topic_id, ids).of(n)
            ),
        )

    async def offsets_topic(self) -> TopicDescription:
        """Return __consumer_offsets; create it if it does not exist."""
        count = self.settings.offsets_topic_num_partitions
        return await self.administer(lambda: offsets_topic(self.catalog, self.clock, count))

    async def auto_created(
        self, names: Collection[str]
    ) -> Mapping[str, TopicDescription | SparklogError]:
        """Return topics; create those that do not exist, with num.partitions, in one commit.

        __consumer_offsets has its own configs, and a commit of its own. Returns the error of a
        topic that was not created. Raises errors that concern no single topic, as EachTopic does.
        """
        wanted = [
            NewTopic(one, self.settings.num_partitions) for one in names if one != OFFSETS_TOPIC
        ]

        def create() -> dict[str, Outcome]:
            made = self.admin.each.create_topics(wanted)
            found = {new.name: one for new, one in zip(wanted, made, strict=True)}
            lost = [name for name, one in found.items() if isinstance(one, TopicExistsError)]
            known = self.catalog.topics() if lost else {}  # another client was first
            return found | {name: known.get(name, unknown_topic(name)) for name in lost}

        outcomes: dict[str, TopicDescription | SparklogError] = {**await self.administer(create)}
        if OFFSETS_TOPIC in names:
            try:
                outcomes[OFFSETS_TOPIC] = await self.offsets_topic()
            except SparklogError as error:
                outcomes[OFFSETS_TOPIC] = error
        return outcomes

    async def leave(self) -> None:
        """Give the node id back; an error is only logged."""
        await asyncio.get_running_loop().run_in_executor(self._heart, try_to_leave, self.membership)

    async def close(self) -> None:
        """Finish all accepted requests: commit and answer them.

        The gateway first gives its node id back: clients that look for a leader then find other
        instances. It closes a connection when the client has read its answers. It waits for slow
        clients.
        """
        self._beating.cancel()
        loop = asyncio.get_running_loop()
        await self.leave()
        self.is_ending = True
        for connection in list(self.connections):
            connection.finish()
        self.watch.close()
        self.coordinators.close()
        await self._produced()
        await self.appends.close()
        while self.connections:
            self._all_left.clear()
            await self._all_left.wait()
        await self.transaction_ends.close()
        for pool in (self._scrapes, self._aborts):  # nobody waits for these any more
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in (
            self._lookups,
            self._claims,
            self._long,
            self._beside,
            self.long_produces.thread,
            self._scrapes,
            self._admin,
            self._heart,
            self._steps,
            self._aborts,
        ):
            await loop.run_in_executor(None, pool.shutdown)
        self.let_go()

    async def _produced(self) -> None:
        """Wait until the produce requests that are read, or look up topics, are being appended."""
        if self.producing:
            await asyncio.wait(self.producing)

    def forget(self, connection: "Connection") -> None:
        """Note that a connection is closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._all_left.set()

    def cut_off(self, why: str) -> None:
        """Close all connections at once."""
        for connection in list(self.connections):
            connection.cut_off("shutdown", why)

    def cut_off_after_standstill(self) -> bool:
        """Close all connections if this process stood still; return whether it did."""
        is_over = self.standstill.is_over()
        if is_over:
            self.cut_off("this instance stood still")
        return is_over

    def keep_house(self) -> None:
        """Start the housekeeper if it is needed, and note how late it is."""
        self.housekeeper.look(self.catalog.last_version)
        self.throttle.note(self.housekeeper.lag_ms)

    def let_go(self) -> None:
        """Close the files that requests have opened; later requests open them again."""
        self.topics.let_go()
        self.ranges.let_go()
        self.large_frames.let_go()


def _load_kernels() -> None:
    """Load the kernels that produce requests need. It takes longer than all other imports.

    Alone, or in its former place, a gateway answers other requests meanwhile. Else it has not
    joined yet.
    """
    import_module("sparklog.record.client_batch")


def _housekeeping(settings: Settings, own: Broker) -> Sequence[str]:
    """Return the command of the housekeeper."""
    return [HOUSEKEEPER, settings.log_dir, str(own.node_id), settings.log_level]


def are_open(image: Image, topics: Iterable[TopicDescription]) -> bool:
    """Whether an image has opened all of these topics that exist in it."""
    found = (image.topic(topic.topic_id) for topic in topics)
    return all(topic is None or topic.is_open for topic in found)


def _append_limits(settings: Settings) -> AppendLimits:
    return AppendLimits(max_pending_bytes=settings.max_pending_bytes, flush=settings.syncs)
