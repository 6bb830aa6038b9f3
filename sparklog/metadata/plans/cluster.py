"""Plans of brokers, users and producer ids: pure functions of an image."""

from collections.abc import Mapping

from sparklog.errors import UsageError
from sparklog.metadata.state.cluster import (
    FIRST_PRODUCER_ID,
    PRODUCER_ID_BLOCK,
    Broker,
    ScramCredential,
    UserKey,
)
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image


def fresh_producer_id(image: Image, random_start: int) -> int:
    """Return the next producer id; the first one of a log dir is `random_start`.

    The edit that uses it must set `next_producer_id` to the id after it.
    """
    next_id = image.next_producer_id
    return next_id if next_id >= FIRST_PRODUCER_ID else random_start


def producer_id_block(image: Image, random_start: int) -> tuple[Edit, range]:
    """Return the edit that takes a block of producer ids, and the block.

    The first block of a log dir begins at `random_start` (`random_producer_id`). Raises UsageError
    for a start below FIRST_PRODUCER_ID.
    """
    if random_start < FIRST_PRODUCER_ID:
        raise UsageError(f"producer ids from {random_start}: allowed from {FIRST_PRODUCER_ID}")
    first = fresh_producer_id(image, random_start)
    block = range(first, first + PRODUCER_ID_BLOCK)
    parameters = {"first": str(block.start), "count": str(len(block))}
    edit = Edit(
        operation="ALLOCATE PRODUCER IDS", parameters=parameters, next_producer_id=block.stop
    )
    return edit, block


def with_broker(image: Image, broker: Broker, replaces: str | None = None) -> Edit | Done:
    """Return the edit that registers a broker, in place of the incarnation `replaces` if given.

    Done if the broker is registered like this already. `check` refuses the edit while a third
    incarnation holds the node id.
    """
    if image.brokers.get(broker.node_id) == broker:
        return Done()
    endpoints = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in broker.endpoints)
    return Edit(
        operation="REGISTER BROKER",
        parameters={"broker": str(broker.node_id), "endpoints": endpoints},
        brokers={broker.node_id: broker},
        replaces={} if replaces is None else {broker.node_id: replaces},
    )


def without_broker(image: Image, node_id: int, incarnation: str, why: str) -> Edit | Done:
    """Return the edit that removes a broker; Done if this incarnation no longer holds the id.

    `why` is for people: the broker left, or another broker declared it dead.
    """
    held = image.brokers.get(node_id)
    if held is None or held.incarnation != incarnation:
        return Done()
    return Edit(
        operation="UNREGISTER BROKER",
        parameters={"broker": str(node_id), "why": why},
        brokers={node_id: None},
        replaces={node_id: incarnation},
    )


def with_users(image: Image, changes: Mapping[UserKey, ScramCredential | None]) -> Edit | Done:
    """Return the edit that sets users' credentials (None removes one); Done if none changes."""
    changed = {key: one for key, one in changes.items() if image.users.get(key) != one}
    if not changed:
        return Done()
    names = ", ".join(sorted({name for name, _ in changed}))
    return Edit(
        operation="ALTER USER SCRAM CREDENTIALS", parameters={"users": names}, users=changed
    )
