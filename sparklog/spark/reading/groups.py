"""Spark as a consumer group: its start at committed offsets, and its commits.

batch    startingOffsets=committed begins at the committed offsets; `ends` returns the ends of the
         read, and `commit_group` commits them when the caller has used the records
stream   begins at its checkpoint; option groupId commits each micro-batch's ends
"""

import logging
from collections.abc import Mapping
from threading import Condition, Thread
from typing import Any, Final

from sparklog.admin.groups import GroupAdmin
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import InvalidOptionError, OffsetOutOfRangeError, SparklogError
from sparklog.metadata.catalog import Catalog
from sparklog.model import EARLIEST, LATEST, TopicPartition
from sparklog.spark.reading.offsets import Bound, Bounds, parse_bounds
from sparklog.spark.reading.position import Position
from sparklog.spark.reading.selection import Selected

log: Final = logging.getLogger("sparklog.spark")


def starting_bounds(
    catalog: Catalog, options: Mapping[str, Any], wanted: Selected, *, streaming: bool = False
) -> Bounds:
    """Return where partitions begin, by the options or by the group's committed offsets.

    Raises InvalidOptionError, and OffsetOutOfRangeError if nothing is committed and
    auto.offset.reset is none.
    """
    if not starts_as_group(options):
        return parse_bounds(options, "starting", streaming=streaming)
    group_id = options["groupId"]
    reset = options["auto.offset.reset"] or ("latest" if streaming else "earliest")
    committed = GroupAdmin(catalog).offsets(group_id)
    missing = [key for key in wanted if key not in committed]
    if missing and reset == "none":
        raise OffsetOutOfRangeError(
            f"{missing[0]}: group {group_id!r} has committed nothing, and auto.offset.reset is none"
        )
    default = Bound(LATEST if reset == "latest" else EARLIEST)
    starts = {key: Bound(committed[key].offset) for key in wanted if key in committed}
    return Bounds(default, starts, {})


def starts_as_group(options: Mapping[str, Any]) -> bool:
    """Whether startingOffsets is `committed`: the read begins at the offsets of its group.

    Raises InvalidOptionError if no option names the group.
    """
    if str(options["startingOffsets"]).strip().lower() != "committed":
        return False
    if not options["groupId"]:
        raise InvalidOptionError(
            "option startingOffsets: committed needs the option groupId", option="groupId"
        )
    return True


def check_start(options: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError if the options of a stream's start are invalid."""
    if not starts_as_group(options):
        parse_bounds(options, "starting", streaming=True)


class GroupCommits:
    """Commits the newest position of a stream as the offsets of a group, on a thread of its own.

    Committed offsets never go back, although micro-batches run again after a restart. Only an
    offset beyond the log end is replaced by a smaller one: the topic was created anew. A failure
    is logged, and the next micro-batch commits again.
    """

    def __init__(self, catalog: Catalog, group_id: str) -> None:
        self._catalog = catalog
        self._group_id = group_id
        self._groups = GroupAdmin(catalog)
        self._changed = Condition()
        self._wanted: Position | None = None
        self._is_done = True
        self._thread: Thread | None = None

    def commit(self, position: Position) -> None:
        """Commit a position soon, unless it equals that of the last call."""
        with self._changed:
            if position == self._wanted:
                return
            self._wanted, self._is_done = position, False
            if self._thread is None:
                self._thread = Thread(target=self._run, name="group-commits", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until the last position is committed, or its commit has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_done)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_done)
                position = self._wanted
            try:
                if position is not None:
                    self._commit(position)
            except SparklogError as error:
                log.warning("group %s: offsets were not committed: %s", self._group_id, error)
            except Exception:  # the thread goes on after any error
                log.exception("group %s: offsets were not committed", self._group_id)
            with self._changed:
                self._is_done = self._wanted is position
                self._changed.notify_all()

    def _commit(self, position: Position) -> None:
        committed, ids = self._groups.offsets(self._group_id), position.ids or {}
        topics = {name: one for name, one in self._catalog.topics().items() if name in ids}
        image = self._catalog.image(*topics.values())
        changed: dict[TopicPartition, CommittedOffset] = {}
        for place, offset in position.offsets.items():
            topic = topics.get(place.topic)
            if topic is None or topic.topic_id != ids[place.topic]:
                continue
            found = image.topic(topic.topic_id)
            end = 0 if found is None else found.partition(place.partition).log_end_offset
            known = committed.get(place)
            if known is None or known.offset < offset or known.offset > end:
                changed[place] = CommittedOffset(offset)
        self._groups.commit(self._group_id, changed)
