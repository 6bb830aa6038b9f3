"""Assignors: which member of a consumer group reads which partition (KIP-848's `uniform`, `range`).

An assignor is a function of the members and of their topics. It gives every partition of a
subscribed topic to exactly one member that subscribes to the topic.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

TopicIdPartition = tuple[str, int]
"""A topic id, as in the metadata log, and a partition."""
Partitions = frozenset[TopicIdPartition]
NOTHING: Final[Partitions] = frozenset()


class Reader(NamedTuple):
    """A member as an assignor sees it; `assigned` is its present target."""

    topic_ids: frozenset[str]
    assigned: Partitions = NOTHING
    instance_id: str | None = None


Readers = Mapping[str, Reader]
Assignor = Callable[[Readers, Mapping[str, int]], dict[str, Partitions]]
"""(readers by member id, number of partitions by topic id) -> partitions by member id."""


def uniform(readers: Readers, counts: Mapping[str, int]) -> dict[str, Partitions]:
    """Give every member the same number of partitions, and move as few partitions as possible.

    If members read different topics, their numbers may differ by more than one.
    """
    found: dict[str, set[TopicIdPartition]] = {}
    free = {(topic_id, number) for topic_id, count in counts.items() for number in range(count)}
    for member_id, reader in sorted(readers.items()):
        kept = {one for one in reader.assigned if one in free and one[0] in reader.topic_ids}
        found[member_id] = kept
        free -= kept
    by_topic: dict[str, tuple[str, ...]] = {}
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for topic_id in counts:
        members = _readers_of(topic_id, readers)
        by_topic[topic_id] = same.setdefault(members, members)
    # By identity: the hash of a tuple of a thousand names, for each partition, takes long.
    takers = {id(one): _Takers([found[name] for name in one]) for one in same if one}

    # Topics with the fewest readers come first: their partitions have the least choice.
    for place in sorted(free, key=lambda one: (len(by_topic[one[0]]), one)):
        if candidates := by_topic[place[0]]:
            takers[id(candidates)].take(place)
    while _has_moved(found, by_topic):
        pass
    return {member_id: frozenset(places) for member_id, places in found.items()}


class _Takers:
    """Members who read the same topics; finds the one with the fewest partitions.

    `taken` are the partitions of each member. Meanwhile no member may lose any.
    """

    def __init__(self, taken: list[set[TopicIdPartition]]) -> None:
        self._taken = taken
        self._heap = [(len(one), at) for at, one in enumerate(taken)]
        """A number of partitions that each member has or had, and the member's place."""
        heapify(self._heap)

    def take(self, place: TopicIdPartition) -> None:
        """Give a partition to the first of the members with the fewest ones."""
        count, at = self._heap[0]
        while count < len(self._taken[at]):
            heapreplace(self._heap, (len(self._taken[at]), at))
            count, at = self._heap[0]
        self._taken[at].add(place)


def _has_moved(
    found: dict[str, set[TopicIdPartition]], by_topic: Mapping[str, tuple[str, ...]]
) -> bool:
    """Move partitions from one member to one with at least two fewer; return whether any moved.

    Topics with the same readers have the same tuple: if one partition of them does not move, none
    of the following ones does.
    """
    has_moved = False
    for places in sorted(found.values(), key=len, reverse=True):
        if len(places) - min(map(len, found.values())) < 2:
            break
        settled: set[int] = set()
        """The ids of tuples of readers, all of whom have too many partitions."""
        for place in sorted(places, reverse=True):
            readers = by_topic[place[0]]
            if id(readers) in settled:
                continue
            least = min((found[one] for one in readers), key=len)
            if len(places) - len(least) >= 2:
                places.remove(place)
                least.add(place)
                has_moved = True
            else:
                settled.add(id(readers))
    return has_moved


def in_ranges(readers: Readers, counts: Mapping[str, int]) -> dict[str, Partitions]:
    """Give each reader of a topic a range of its partitions (`range`).

    If the partitions cannot be divided evenly, the first readers get one more. Static members come
    first, by instance id, then the others by member id. So members that read the same topics get
    the same range of each topic.
    """
    found: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in readers}
    for topic_id, count in counts.items():
        members = _readers_of(topic_id, readers)
        for at, member_id in enumerate(members):
            quota, extra = divmod(count, len(members))
            start = quota * at + min(at, extra)
            end = start + quota + (at < extra)
            found[member_id].update((topic_id, number) for number in range(start, end))
    return {member_id: frozenset(places) for member_id, places in found.items()}


def _readers_of(topic_id: str, readers: Readers) -> tuple[str, ...]:
    """Return the members that read a topic: static ones by instance id, then the others."""
    members = [member_id for member_id, one in readers.items() if topic_id in one.topic_ids]

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = readers[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return tuple(sorted(members, key=place))


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": in_ranges}
"""The assignors by the names of `group.remote.assignor`; the first one is the default."""
