"""The lag of a group over the last hour, from its commits and the log end offsets.

A commit counts from its time to the next one. Before the first known commit the lag of a partition
is unknown: compaction may have removed older commits.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from sparklog.admin.groups import GroupAdmin
from sparklog.admin.log_ends import LogEnds
from sparklog.coordinator.commits.stale_offsets import stale_times
from sparklog.metadata.catalog import Catalog
from sparklog.model import TopicPartition

HOUR_MS: Final = 3_600_000
POINTS: Final = 60
"""Steps of an hour: one a minute."""


class LagPoint(NamedTuple):
    """The lag of a group in records at a time; None if it is unknown for all partitions."""

    time_ms: int
    lag: int | None


class Commit(NamedTuple):
    """An offset that was committed at a time."""

    committed_ms: int
    offset: int


class LagHistory:
    """The lags of groups over the last hour. For any number of threads."""

    def __init__(self, catalog: Catalog, groups: GroupAdmin, ends: LogEnds) -> None:
        self._catalog = catalog
        self._groups = groups
        self._ends = ends

    def of(self, group_id: str, sees_topic: Callable[[str], bool]) -> list[LagPoint]:
        """Return the lag of a group in the existing topics that `sees_topic` allows.

        The points are a minute apart, the oldest first, the last one now. Raises
        CorruptRecordError, MissingFileError.
        """
        now_ms = self._catalog.clock.now_ms()
        times = range(now_ms - HOUR_MS, now_ms + 1, HOUR_MS // POINTS)
        topics = {name: one for name, one in self._catalog.topics().items() if sees_topic(name)}
        commits = self._commits(group_id, now_ms - HOUR_MS)
        known = {place: found for place, found in commits.items() if place.topic in topics}
        image = self._catalog.image(*(topics[name] for name in {one.topic for one in known}))
        self._ends.follow()
        lines = []
        for place, found in known.items():
            topic = image.topic(topics[place.topic].topic_id)
            if topic is not None and place.partition < topic.description.num_partitions:
                end = topic.partition(place.partition).log_end_offset
                where = topic.description.topic_id, place.partition
                ends = [self._ends.at(where, one, end) for one in times]
                stale = stale_times(image, topic)
                current = [one for one in found if one.committed_ms not in stale]
                lines.append(lags_of(current, times, ends))
        return [LagPoint(time, total(one)) for time, *one in zip(times, *lines, strict=True)]

    def _commits(self, group_id: str, since_ms: int) -> dict[TopicPartition, list[Commit]]:
        """Return the commits of the last hour, and the present committed offsets."""
        found = self._groups.commits_since(group_id, since_ms)
        held = self._groups.offsets(group_id)
        every = sorted(
            {
                (place, Commit(one.committed_ms, one.offset))
                for place, one in (*found, *held.items())
            }
        )
        return {
            place: [commit for _, commit in some]
            for place, some in groupby(every, lambda one: one[0])
        }


def lags_of(
    commits: Sequence[Commit], times: Iterable[int], ends: Iterable[int | None]
) -> list[int | None]:
    """Return the lag of a partition at times, from its commits, oldest first, and the log's ends.

    None before the first commit, and if the log's end is unknown.
    """
    moments = [one.committed_ms for one in commits]
    found: list[int | None] = []
    for time_ms, end in zip(times, ends, strict=True):
        slot = bisect_right(moments, time_ms)
        is_known = slot and end is not None
        found.append(max((end or 0) - commits[slot - 1].offset, 0) if is_known else None)
    return found


def total(lags: Iterable[int | None]) -> int | None:
    """Return the sum of the lags that are known; None when none is."""
    known = [one for one in lags if one is not None]
    return sum(known) if known else None
