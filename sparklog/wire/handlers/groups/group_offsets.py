"""OffsetFetch: return the committed offsets of a group."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sparklog.coordinator.commits.stale_offsets import Offsets, without_stale, younger_topics
from sparklog.coordinator.commits.strange_epochs import topics_with_epochs, without_strange_epochs
from sparklog.coordinator.requests import NO_EPOCH, NO_OFFSET, CommittedOffset, FetchRequest
from sparklog.errors import ErrorCode
from sparklog.model import TopicDescription, TopicPartition
from sparklog.tokens import Scope
from sparklog.wire.each import each
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.groups.group_members import ask_if_allowed
from sparklog.wire.handlers.partitions import step_for

GROUPS_SINCE: Final = 8
"""The first version of OffsetFetch with several groups."""

Fields = dict[str, Any]


def commit_codes(topics: Iterable[Any], codes: Mapping[TopicPartition, int]) -> list[Fields]:
    """Return the fields of an answer to a commit; `codes` has the code of each partition."""
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    "error_code": codes[TopicPartition(topic.name, one.partition_index)],
                }
                for one in topic.partitions
            ],
        }
        for topic in topics
    ]


async def offset_fetch(call: Call) -> Reply:
    """Return the answer."""
    request = await call.request()
    is_stable = getattr(request, "require_stable", False)
    if call.version < GROUPS_SINCE:
        groups = [await _fetched(call, request, is_stable=is_stable)]
        fields = groups[0]
    else:
        # A group that is named several times has one answer, for the topics of its last entry.
        distinct = {one.group_id: one for one in request.groups}.values()
        groups = await each(distinct, lambda one: _fetched(call, one, is_stable=is_stable))
        fields = {"groups": groups}
    count = len(groups) + sum(len(topic["partitions"]) for one in groups for topic in one["topics"])
    return await step_for(call, count, lambda: call.answer(fields))


async def _fetched(call: Call, request: Any, *, is_stable: bool) -> Fields:
    """Return the fields of one group. A group that does not exist has no offsets, and no error.

    With `is_stable` an offset that an open transaction may change is not returned: its code is
    UNSTABLE_OFFSET_COMMIT (KIP-447).
    """
    group_id, topics = request.group_id, request.topics
    wanted: Sequence[TopicPartition] | None = None
    if topics is not None:
        wanted = await call.step(lambda: _places(topics))
    member_id = getattr(request, "member_id", None)
    epoch = getattr(request, "member_epoch", NO_EPOCH)
    fetching = FetchRequest(group_id, wanted, member_id, epoch)
    unstable: frozenset[tuple[str, int]] = frozenset()
    if is_stable:
        # Read before the offsets: then a transaction that ends between the two does no harm.
        unstable = (await call.gateway.newest_image()).transactional_ids.pending(group_id)
    answer = await ask_if_allowed(call, fetching, group_id)
    if not isinstance(answer, int) and answer.error_code:
        answer = answer.error_code
    if isinstance(answer, int):
        return await call.step(lambda: _refused(group_id, topics, wanted or (), answer))
    offsets = await _current(call, answer.offsets)

    def found() -> Fields:
        told = {}
        for place, offset in offsets.items():
            if offset is None and wanted is None:
                continue
            if call.allows(Scope.READ, place.topic):
                is_open = place in unstable
                code = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_open else ErrorCode.NONE
                told[place] = _told(place, None if is_open else offset, code)
            elif wanted is not None:
                told[place] = _told(place, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fields = _by_topic(topics, told)
        return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": fields}

    return await step_for(call, len(offsets), found)


def _places(topics: Iterable[Any]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition)
        for topic in topics
        for partition in topic.partition_indexes
    ]


def _refused(
    group_id: str, topics: Iterable[Any] | None, places: Iterable[TopicPartition], code: int
) -> Fields:
    """Return the fields of a group that has an error: all its partitions have it."""
    told = {place: _told(place, None, code) for place in places}
    return {"group_id": group_id, "error_code": code, "topics": _by_topic(topics, told)}


async def _current(call: Call, offsets: Offsets) -> Offsets:
    """Return offsets with None in place of those of deleted topics, as a broker has deleted them.

    A client that gets one asks for the end of its log, and fails: kafka-consumer-groups does. A
    leader epoch that the partition has not had is left out.
    """
    image, count = await call.gateway.image(), len(offsets)

    def known() -> tuple[Offsets, Sequence[TopicDescription]]:
        found = {
            place: offset if place.topic in image.names else None
            for place, offset in offsets.items()
        }
        return found, younger_topics(image, found)

    current, younger = await step_for(call, count, known)
    if younger:
        opened = await call.gateway.opened(image, younger)
        current = await step_for(call, count, lambda: without_stale(opened, younger, current))
    with_epochs = await step_for(call, count, lambda: topics_with_epochs(image, current))
    if with_epochs:
        newest = await call.gateway.newest_image(*with_epochs)
        return without_strange_epochs(newest, with_epochs, current)
    return current


def _told(place: TopicPartition, offset: CommittedOffset | None, code: int) -> Fields:
    found = offset or CommittedOffset(NO_OFFSET)
    return {
        "partition_index": place.partition,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": code,
    }


def _by_topic(
    asked_for: Iterable[Any] | None, told: Mapping[TopicPartition, Fields]
) -> list[Fields]:
    """Return the fields of each topic; a topic that was asked for without partitions has none."""
    topics: dict[str, list[Fields]] = {topic.name: [] for topic in asked_for or ()}
    for place, fields in told.items():
        topics.setdefault(place.topic, []).append(fields)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
