"""Looks up the partitions of a request, and checks the client's leader epoch."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from sparklog import model
from sparklog.errors import ErrorCode
from sparklog.metadata.state.image import Image, PartitionLog
from sparklog.model import TopicDescription
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call
from sparklog.wire.security.authorization import DENIED

NO_EPOCH: Final = -1
"""The epoch of a client that knows none: it is not checked."""
QUICK: Final = 100
"""The most partitions that the event loop itself works on."""

T = TypeVar("T")


def isolation_named(level: int) -> str:
    """Return the isolation.level that a request's number means."""
    return model.READ_COMMITTED if level == 1 else model.READ_UNCOMMITTED


async def newest_image_of(call: Call, names: Iterable[str]) -> Image:
    """Return the newest image; it has opened the topics of these names that exist."""
    image = await call.gateway.newest_image()
    known = [image.names[one] for one in names if one in image.names]
    return await call.gateway.opened(image, known)


async def step_for(call: Call, count: int, step: Callable[[], T]) -> T:
    """Take a step towards the answer for `count` partitions, beside the event loop if it is long.

    A UI asks for thousands of partitions at once, often by a short request.
    """
    return await (call.gateway.beside(step) if count > QUICK else call.step(step))


def log_of(image: Image, topic: TopicDescription | None, partition: int) -> PartitionLog | None:
    """Return a partition's log in an image that has opened the topic; None if there is none."""
    if topic is None or not 0 <= partition < topic.num_partitions:
        return None
    found = image.topic(topic.topic_id)
    return None if found is None else found.partition(partition)


def readable(
    call: Call, image: Image, name: str, partition: int, current_leader_epoch: int
) -> PartitionLog | int:
    """Return a partition's log if the client may read it, else the error code."""
    if not call.allows(Scope.READ, name):
        return DENIED[Resource.TOPIC]
    return of_epoch(log_of(image, image.names.get(name), partition), current_leader_epoch)


def of_epoch(log: PartitionLog | None, current_leader_epoch: int) -> PartitionLog | int:
    """Return the log if there is one and the client knows its leader epoch, else the error code.

    A client with an older leader epoch must refresh its metadata. A client with a newer one has
    seen a change that this instance has not seen yet (Partition.checkCurrentLeaderEpoch).
    """
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if current_leader_epoch in (NO_EPOCH, log.leader_epoch):
        return log
    if current_leader_epoch < log.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH
