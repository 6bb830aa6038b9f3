"""The committed offsets of the groups of a shard, and when they expire (OffsetMetadataManager)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from sparklog.coordinator.group import Group
from sparklog.coordinator.group_record import subscribed_topics
from sparklog.coordinator.records import OFFSET_COMMIT, Record, write_record
from sparklog.coordinator.requests import NO_EPOCH, CommittedOffset
from sparklog.coordinator.states import State
from sparklog.model import TopicPartition

VERSION: Final = 3
WITH_EXPIRY: Final = 1
"""The version of a value that says when it expires: it has no leader epoch."""

Offsets = dict[TopicPartition, CommittedOffset]


def offset_record(group_id: str, place: TopicPartition, offset: CommittedOffset | None) -> Record:
    """Return the record of a committed offset; None deletes it."""
    key = {"group": group_id, "topic": place.topic, "partition": place.partition}
    if offset is None:
        return write_record(OFFSET_COMMIT, key)
    value = {
        "offset": offset.offset,
        "leaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.committed_ms,
        "expireTimestamp": offset.expires_ms,
    }
    version = VERSION if offset.expires_ms is None else WITH_EXPIRY
    return write_record(OFFSET_COMMIT, key, version, value)


def offset_of(value: Mapping[str, Any]) -> CommittedOffset:
    """Return the offset that a record's value says."""
    expires_ms = value.get("expireTimestamp", -1)
    return CommittedOffset(
        value["offset"],
        value.get("leaderEpoch", NO_EPOCH),
        value["metadata"] or "",
        value["commitTimestamp"],
        None if expires_ms < 0 else expires_ms,
    )


def expired(
    group: Group, offsets: Offsets, retention_ms: int, now_ms: int
) -> Iterator[TopicPartition]:
    """Yield the partitions whose offsets of a group have expired (offsets.retention.minutes).

    Of an empty group, counted from when it became empty; of one whose members do not use the group
    for more than offsets, and of topics that a stable group does not read any more, from the
    commit. Others keep theirs.
    """
    since = _since(group)
    for place, offset in offsets.items():
        since_ms = since(place, offset)
        if since_ms is None:
            continue
        is_over = now_ms - since_ms >= retention_ms
        if is_over if offset.expires_ms is None else now_ms >= offset.expires_ms:
            yield place


def _since(group: Group) -> Callable[[TopicPartition, CommittedOffset], int | None]:
    """Return a function that gives when the retention of an offset began; None: it has not."""
    if group.state is State.EMPTY and group.protocol_type is not None:
        return lambda _, offset: group.state_ms or offset.committed_ms
    if group.protocol_type is None:
        return lambda _, offset: offset.committed_ms
    topics = subscribed_topics(group) if group.state is State.STABLE else None
    if topics is None:
        return lambda *_: None
    return lambda place, offset: None if place.topic in topics else offset.committed_ms
