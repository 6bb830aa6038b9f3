"""The last commits of each group and partition, from __consumer_offsets.

A window is filled while the topic is read, and keeps commits that compaction removes from the topic
later. A commit within a second of the previous one replaces its offset and keeps its time, as in
Burrow (`min-distance`). So the window of a consumer that commits very often still covers some time.
"""

from array import array
from collections.abc import Callable
from threading import Lock
from typing import Final

from sparklog.coordinator.lag_state import SeenCommit
from sparklog.coordinator.requests import CommittedOffset
from sparklog.model import TopicPartition

INTERVALS: Final = 10
"""How many commits of a partition are kept: Burrow's default."""
DISTANCE_MS: Final = 1_000
_FIELDS: Final = 3
_UNKNOWN: Final = -1


class CommitWindow:
    """Commits by group and partition. For any number of threads."""

    def __init__(self) -> None:
        # Three numbers a commit (offset, time, lag) in one array: that takes little memory.
        self._commits: dict[str, dict[TopicPartition, array[int]]] = {}
        self._lock = Lock()

    def saw(self, group_id: str, place: TopicPartition, offset: CommittedOffset | None) -> None:
        """Note a commit; None: the offset was deleted.

        A commit that is not newer than the last one is ignored: it comes from a repeated read.
        """
        with self._lock:
            of_group = self._commits.setdefault(group_id, {})
            if offset is None:
                of_group.pop(place, None)
                if not of_group:
                    del self._commits[group_id]
                return
            found = of_group.setdefault(place, array("q"))
            since_ms = offset.committed_ms - found[-2] if found else DISTANCE_MS
            if since_ms >= DISTANCE_MS:
                found.extend((offset.offset, offset.committed_ms, _UNKNOWN))
                del found[: -_FIELDS * INTERVALS]
            elif since_ms > 0:
                found[-_FIELDS], found[-1] = offset.offset, _UNKNOWN

    def commits(
        self, group_id: str, place: TopicPartition, end_at: Callable[[int], int | None]
    ) -> list[SeenCommit]:
        """Return the commits of a partition, oldest first.

        `end_at` returns the log end offset at a time, or None. It is called for each commit until
        it has returned a number.
        """
        with self._lock:
            found = self._commits.get(group_id, {}).get(place, array("q"))
            for at in range(0, len(found), _FIELDS):
                if found[at + 2] == _UNKNOWN:
                    end = end_at(found[at + 1])
                    found[at + 2] = _UNKNOWN if end is None else max(end - found[at], 0)
            numbers = iter(found.tolist())
        return [
            SeenCommit(offset, committed_ms, None if lag == _UNKNOWN else lag)
            for offset, committed_ms, lag in zip(numbers, numbers, numbers, strict=True)
        ]
