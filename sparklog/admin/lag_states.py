"""The states of partitions that groups read, from commits and the log ends at their times."""

from typing import TYPE_CHECKING, Final

from sparklog.admin.log_ends import LogEnds, Place
from sparklog.coordinator.commits.stale_offsets import stale_times
from sparklog.coordinator.lag_state import LagState, partition_state
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.metadata.state.image import Image
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.coordinator.lag_window import CommitWindow

LATELY_MS: Final = 100_000
"""A group that has reached the log end within this time has not stopped. Burrow compares with ten
log ends, ten seconds apart."""


class LagStates:
    """The states of the partitions of a log dir's groups. For any number of threads."""

    def __init__(self, catalog: Catalog, window: "CommitWindow") -> None:
        self.ends = LogEnds(catalog)
        self._window = window

    def of(
        self, group_id: str, place: TopicPartition, image: Image, lag: int, now_ms: int
    ) -> LagState | None:
        """Return the state of a partition; None if there is a lag and too few commits are known.

        The image has opened the partition's topic. Call `ends.follow` before.
        """
        if not lag:
            return LagState.OK
        topic = topic_of(image, image.names[place.topic])
        at: Place = topic.description.topic_id, place.partition
        end = topic.partition(place.partition).log_end_offset

        def end_at(time_ms: int) -> int | None:
            return self.ends.at(at, time_ms, end)

        found, stale = self._window.commits(group_id, place, end_at), stale_times(image, topic)
        commits = [one for one in found if one.committed_ms not in stale]
        first = end_at(now_ms - LATELY_MS)  # a log grows, so this is the least of its recent ends
        return partition_state(commits, () if first is None else (first,), lag, now_ms)
