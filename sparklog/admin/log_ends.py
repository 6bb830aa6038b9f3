"""The log end offsets of the last hour, read from the history of the metadata log.

    a step      time of a commit | the end before it | the end after it

The first call reads back an hour, but no more than COMMITS_MAX commits; each later call reads new
commits. A partition without an append in this time has no steps: its end was the present one.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from threading import Lock
from typing import Final

from sparklog.metadata.catalog import Catalog
from sparklog.metadata.history.files import HistoryRecord
from sparklog.metadata.history.read import history
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image

KEPT_MS: Final = 3_600_000
COMMITS_MAX: Final = 50_000
"""The most commits that are read back, which takes two seconds."""
STEP_MS: Final = 1_000
"""The appends of one second make one step."""

Place = tuple[str, int]
"""The id of a topic, and a partition."""


class _Steps:
    """The steps of one partition, oldest first."""

    __slots__ = ("after", "before", "has_forgotten", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.before = array("q")
        self.after = array("q")
        self.has_forgotten = False

    def add(self, time_ms: int, before: int, after: int) -> None:
        if self.times and self.times[-1] // STEP_MS == time_ms // STEP_MS:
            self.times[-1], self.after[-1] = time_ms, after
            return
        self.times.append(time_ms)
        self.before.append(before)
        self.after.append(after)

    def forget(self, before_ms: int) -> None:
        """Forget the steps before a time, except for the last of them."""
        gone = bisect_right(self.times, before_ms) - 1
        if gone > 0:
            del self.times[:gone], self.before[:gone], self.after[:gone]
            self.has_forgotten = True

    def at(self, time_ms: int) -> int | None:
        slot = bisect_right(self.times, time_ms)
        if slot:
            return self.after[slot - 1]
        return None if self.has_forgotten else self.before[0]


class LogEnds:
    """The ends of the logs of a log dir. For any number of threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._steps: dict[Place, _Steps] = {}
        self._version: int | None = None
        self._since_ms = 0
        self._lock = Lock()

    def follow(self) -> None:
        """Read the commits since the last time. Raises CorruptMetadataError."""
        with self._lock:
            log, now_ms = self._catalog.log, self._catalog.clock.now_ms()
            image = log.image()
            newest = image.version
            if self._version is None or newest - self._version > COMMITS_MAX:
                self._read_back(newest, now_ms - KEPT_MS)
            elif newest > self._version:
                for one in history(log, self._version + 1, newest, newest_first=False):
                    self._take(one.timestamp_ms, one.edits)
            self._version = newest
            self._forget(image, now_ms - KEPT_MS)

    def _forget(self, image: Image, before_ms: int) -> None:
        """Forget old steps, and all steps of topics that vacuum has erased."""
        for place, steps in list(self._steps.items()):
            if place[0] in image.topics:
                steps.forget(before_ms)
            else:
                del self._steps[place]

    def _read_back(self, newest: int, since_ms: int) -> None:
        """Read commits from the newest one back, and apply them in the order of the log."""
        self._steps, self._since_ms = {}, 0
        found: list[HistoryRecord] = []
        for one in history(self._catalog.log, None, newest):
            if one.timestamp_ms < since_ms or len(found) == COMMITS_MAX:
                self._since_ms = one.timestamp_ms
                break
            found.append(one)
        else:
            self._since_ms = found[-1].timestamp_ms if found and found[-1].version else 0
        for one in reversed(found):
            self._take(one.timestamp_ms, one.edits)

    def _take(self, time_ms: int, edits: Iterable[Edit]) -> None:
        for edit in edits:
            for topic_id, of_topic in edit.topics.items():
                if of_topic.remove or of_topic.replace:
                    continue  # new files for old ones: no log end changes
                spans: dict[int, tuple[int, int]] = {}
                for entry in of_topic.segments:
                    start, _ = spans.get(entry.partition, (entry.base_offset, 0))
                    spans[entry.partition] = start, entry.next_offset
                for number, (start, end) in spans.items():
                    steps = self._steps.setdefault((topic_id, number), _Steps())
                    steps.add(time_ms, start, end)

    def at(self, place: Place, time_ms: int, end_offset: int) -> int | None:
        """Return the log end offset of a partition at a time (ms); None if it is no longer known.

        `end_offset` is its log end offset as of the last `follow`.
        """
        with self._lock:
            if time_ms < self._since_ms:
                return None
            steps = self._steps.get(place)
            found = end_offset if steps is None else steps.at(time_ms)
            return None if found is None else min(found, end_offset)
