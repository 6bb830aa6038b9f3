"""The coordinator of each group: its instance, and the shards that this instance owns.

Rendezvous hashing gives each partition of __consumer_offsets to an instance. At the first request
the instance reads the partition, claims it by raising the leader epoch, and reads what has come
since. From the claim on appends of an earlier owner are refused. A partition that cannot be read is
not claimed: clients ask again and again, and each claim is an entry.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from sparklog.config import TopicConfig
from sparklog.coordinator.held_groups import held_by_partition, with_held
from sparklog.coordinator.offsets_topic import claim, load, newest, records
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC, Record
from sparklog.coordinator.requests import ListedGroup, ListRequest, Request
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import NotCoordinatorError, SparklogError
from sparklog.metadata.plans.topics import live_topic
from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription
from sparklog.wire.each import each
from sparklog.wire.groups.owned_shard import Claimed, Log, OwnedShard
from sparklog.wire.instances import Instance, leader_of
from sparklog.wire.settings import Settings

if TYPE_CHECKING:
    from sparklog.wire.gateway import Gateway

FENCED_MS: Final = 1_000
"""How long an instance does not claim a partition again after another instance has claimed it."""
MS_PER_MINUTE: Final = 60_000
ENDS: Final = "the gateway ends"
INITIAL_MS: Final = 5
"""The least that an empty group waits for members. Members that come at the same time join one
generation; else all wait for the first one's next heartbeat. A broker, too, collects the writes of
a coordinator for 5 ms by default (group.coordinator.append.linger.ms)."""
log: Final = logging.getLogger("sparklog.gateway")


def limits_of(settings: Settings) -> GroupLimits:
    """Return the limits of groups from an operator's settings."""
    return GroupLimits(
        initial_rebalance_delay_ms=max(settings.group_initial_rebalance_delay_ms, INITIAL_MS),
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * MS_PER_MINUTE,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
    )


class Coordinators:
    """The shards of one instance. For one event loop."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._limits = limits_of(gateway.settings)
        self._shards: dict[int, OwnedShard] = {}
        self._claims: dict[int, asyncio.Task[OwnedShard]] = {}
        self._left_alone: dict[int, int] = {}
        """Until when a partition is not claimed again, in ms of CLOCK_BOOTTIME."""
        self._is_closed = False

    async def coordinator_of(self, group_id: str) -> Instance:
        """Return the instance that a group belongs to. Creates __consumer_offsets if needed."""
        topic = await self._topic(await self._gateway.image())
        return self._owner(partition_of(group_id, topic.num_partitions))

    async def ask(self, request: Request, group_id: str, image: Image | None = None) -> Any:
        """Return the answer to a request for a group; it knows all records in the newest image.

        `image` is the newest image, if the caller has just read it. Raises NotCoordinatorError,
        CoordinatorNotAvailableError, and the errors of an append.
        """
        image = image or await self._gateway.image()
        topic = await self._topic(image)
        number = partition_of(group_id, topic.num_partitions)
        shard = self._at_hand(image, topic, number)
        if shard is None or not await shard.caught_up(_end_of(image, topic, number)):
            shard = await self._owned(topic, number)
        return await shard.ask(with_held(request, image))

    def ask_at_once(
        self, request: Request, group_id: str, image: Image
    ) -> "asyncio.Future[Any] | None":
        """Return a future of the answer; None if the shard must first be claimed or read.

        For requests that append: `image` may be old, as the append compares the leader epoch. The
        future raises as `ask`.
        """
        topic = image.names.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        shard = self._at_hand(image, topic, partition_of(group_id, topic.num_partitions))
        return None if shard is None else shard.ask(request)

    async def groups(self) -> Sequence[ListedGroup]:
        """Return the groups of this instance."""
        gateway = self._gateway
        image = await gateway.image()
        topic = image.names.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        # Before the shards are asked: a transaction may end meanwhile.
        held = held_by_partition(image, topic.num_partitions)
        opened = live_topic(await gateway.opened(image, [topic]), topic.topic_id)
        known = self._shards.keys() | held.keys()
        numbers = [
            number
            for number in range(topic.num_partitions)
            if (opened.partition(number).log_end_offset or number in known) and self._owns(number)
        ]
        return [*chain(*await each(numbers, partial(self._listed, topic, held)))]

    async def _listed(
        self, topic: TopicDescription, held: Mapping[int, AbstractSet[str]], number: int
    ) -> Sequence[ListedGroup]:
        """Return the groups of a partition; none if it was claimed meanwhile, as in Kafka."""
        with suppress(NotCoordinatorError):
            shard = await self._owned(topic, number)
            request = ListRequest(held.get(number, frozenset()))
            found: Sequence[ListedGroup] = await shard.ask(request)
            return found
        return ()

    def close(self) -> None:
        """Give the shards up: waiting requests are answered with an error. No shard is claimed."""
        self._is_closed = True
        for shard in list(self._shards.values()):
            shard.end(NotCoordinatorError(ENDS))

    def _entry_ms(self) -> int:
        return self._gateway.catalog.log.last_ms

    def _owner(self, number: int) -> Instance:
        return leader_of(f"{OFFSETS_TOPIC}-{number}", self._gateway.instances.alive)

    def _owns(self, number: int) -> bool:
        return self._owner(number).node_id == self._gateway.instances.own.node_id

    async def _topic(self, image: Image) -> TopicDescription:
        topic = image.names.get(OFFSETS_TOPIC)
        return topic or await self._gateway.offsets_topic()

    def _at_hand(self, image: Image, topic: TopicDescription, number: int) -> OwnedShard | None:
        """Return the shard of a partition; None unless it is owned in an image with the topic."""
        shard, opened = self._shards.get(number), image.topic(topic.topic_id)
        if shard is None or opened is None or not opened.is_open or not self._owns(number):
            return None
        return shard if shard.problem(image) is None else None

    async def _owned(self, topic: TopicDescription, number: int) -> OwnedShard:
        """Return the shard of a partition, up to date with the log; claim the partition if needed.

        Raises NotCoordinatorError when it belongs to another instance.
        """
        while True:
            shard = self._shards.get(number)
            if not self._owns(number):
                error = NotCoordinatorError(f"{OFFSETS_TOPIC}-{number} is another instance's")
                if shard is not None:
                    shard.end(error)
                raise error
            shard = shard or await self._claimed(topic, number)
            image = await self._gateway.image(topic)
            problem = shard.problem(image)
            if problem is None and await shard.caught_up(_end_of(image, topic, number)):
                return shard
            shard.end(problem or NotCoordinatorError("given up"))

    async def _claimed(self, topic: TopicDescription, number: int) -> OwnedShard:
        """Claim and read a partition; return its shard. Concurrent calls share one claim."""
        task = self._claims.get(number)
        if task is None:
            task = asyncio.ensure_future(self._claim(topic, number))
            task.add_done_callback(lambda _: self._claims.pop(number))
            self._claims[number] = task
        return await asyncio.shield(task)

    async def _claim(self, topic: TopicDescription, number: int) -> OwnedShard:
        gateway = self._gateway
        bytes_max = TopicConfig.parse(topic.configs).max_message_bytes
        limits = replace(self._limits, batch_bytes_max=bytes_max)
        shard, name = Shard(limits, lambda: str(uuid4())), f"{OFFSETS_TOPIC}-{number}"
        if gateway.clock.boot_ms() < self._left_alone.get(number, 0):
            raise NotCoordinatorError(f"{name} was claimed by another instance")
        if self._is_closed:
            raise NotCoordinatorError(ENDS)

        def read() -> tuple[int, int]:
            end = load(newest(gateway.catalog, topic), number, shard.replay)
            epoch = claim(gateway.catalog, topic, number)
            if epoch is None:
                raise NotCoordinatorError(f"{name} was claimed by another instance")
            return epoch, load(newest(gateway.catalog, topic), number, shard.replay, end)

        try:
            epoch, end = await gateway.claiming(read)
        except NotCoordinatorError:
            raise
        except SparklogError as error:
            gateway.seldom.warn(name, log, "%s was not taken over: %s", name, error)
            raise
        if self._is_closed:  # meanwhile
            raise NotCoordinatorError(ENDS)
        claimed = Claimed(topic, number, epoch, end)
        follow = Log(partial(self._read, topic, number), partial(self._log_end, topic, number))
        owned = OwnedShard(
            claimed, shard, follow, gateway.appends, gateway.clock, self._ended, self._entry_ms
        )
        self._shards[number] = owned
        return owned

    async def _log_end(self, topic: TopicDescription, number: int) -> int:
        """Return the log end offset of a partition in the newest image."""
        image = await self._gateway.image(topic)
        return live_topic(image, topic.topic_id).partition(number).log_end_offset

    async def _read(
        self, topic: TopicDescription, number: int, start: int, end: int
    ) -> Sequence[Record]:
        """Return the records of a partition in [start, end)."""
        catalog = self._gateway.catalog
        return await self._gateway.lookup(lambda: records(catalog, topic, number, start, end))

    def _ended(self, shard: OwnedShard, error: SparklogError) -> None:
        del self._shards[shard.partition]
        if isinstance(error, NotCoordinatorError):
            until_ms = self._gateway.clock.boot_ms() + FENCED_MS
            self._left_alone[shard.partition] = until_ms
        else:
            name = f"{OFFSETS_TOPIC}-{shard.partition}"
            log.warning("%s has to be read again: %s", name, error)


def _end_of(image: Image, topic: TopicDescription, number: int) -> int:
    """Return the log end offset of a partition; 0 if the topic is gone."""
    opened = image.topic(topic.topic_id)
    return 0 if opened is None else opened.partition(number).log_end_offset
