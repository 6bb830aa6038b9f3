"""The lag of groups: committed offsets compared with log end offsets; and their states.

All groups are compared with one image of the metadata, so all log ends are of one moment.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from sparklog.admin.groups import ConsumerGroupDescription, GroupAdmin
from sparklog.admin.lag_history import LagHistory
from sparklog.admin.lag_states import LagStates
from sparklog.coordinator.lag import PartitionLag, lag_ms_of, lag_of
from sparklog.coordinator.lag_state import LagState
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import CorruptionError, MissingFileError
from sparklog.garbage import seldom_collected
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.metadata.state.image import Image
from sparklog.model import NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from sparklog.log_reader.kept import KeptSegments

Committed = Mapping[TopicPartition, CommittedOffset]


class Lags:
    """The lags of groups at one moment. For any number of threads."""

    def __init__(self, catalog: Catalog, groups: GroupAdmin) -> None:
        self._catalog = catalog
        self._groups = groups

    @cached_property
    def _states(self) -> LagStates:
        return LagStates(self._catalog, self._groups.window)

    @cached_property
    def history(self) -> LagHistory:
        """The lags of the last hour."""
        return LagHistory(self._catalog, self._groups, self._states.ends)

    @seldom_collected()
    def of(
        self, group_ids: Iterable[str] | None, *, in_time: bool
    ) -> dict[str, tuple[ConsumerGroupDescription, list[PartitionLag]]]:
        """Return groups by id, each with its partitions, sorted; None: all groups.

        With `in_time` it also reads a batch of each partition with a lag, and the log ends of the
        last hour. Raises GroupIdNotFoundError.
        """
        found = self._groups.read(group_ids)
        topics = {place.topic for _, offsets in found.values() for place in offsets}
        for described, _ in found.values():
            topics |= {place.topic for one in described.members for place in one.partitions}
        states = self._states if in_time and found else None
        ends = _Ends(self._catalog, topics, states)
        try:
            return {
                group_id: (described, list(_lags(described, offsets, ends)))
                for group_id, (described, offsets) in found.items()
            }
        finally:
            ends.close()


def _lags(
    described: ConsumerGroupDescription, offsets: Committed, ends: "_Ends"
) -> Iterator[PartitionLag]:
    readers = {place: one for one in described.members for place in one.partitions}
    for place in sorted({*offsets, *readers} if readers else offsets):
        committed, member = offsets.get(place), readers.get(place)
        current = None if committed is None else committed.offset
        start, end = ends.of(place)
        lag = lag_of(current, end)
        lag_ms, state = (
            (None, None)
            if lag is None or current is None
            else ends.in_time(described.group_id, place, current, lag)
        )
        yield PartitionLag(
            place,
            current,
            None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
            start,
            end,
            lag,
            lag_ms,
            None if member is None else member.member_id,
            None if member is None else member.group_instance_id,
            None if member is None else member.client_id,
            None if member is None else member.host,
            state,
        )


class _Ends:
    """The logs of topics at one moment."""

    def __init__(self, catalog: Catalog, topics: Iterable[str], states: LagStates | None) -> None:
        """Without `states`, lags in time and states are None."""
        self._now_ms = catalog.clock.now_ms()
        self._states = states
        self._kept: KeptSegments | None = None
        self._times: dict[tuple[TopicPartition, int], int | None] = {}
        self._readers: dict[str, TopicReader] = {}
        self._ends: dict[TopicPartition, tuple[int | None, int | None]] = {}
        self._image = Image()
        names = catalog.topics()
        known = [names[name] for name in topics if name in names]
        if states is not None and known:
            self._kept = _kept(catalog)
        image = self._image = catalog.image(*known)
        if self._kept is not None and states is not None:
            states.ends.follow()
        for topic in known:
            reader = TopicReader(catalog.files, topic, topic_of(image, topic), self._kept)
            self._readers[topic.name] = reader

    def of(self, place: TopicPartition) -> tuple[int | None, int | None]:
        """Return log start and log end offset; (None, None) for a partition that does not exist."""
        if place not in self._ends:
            self._ends[place] = self._look(place)
        return self._ends[place]

    def _look(self, place: TopicPartition) -> tuple[int | None, int | None]:
        reader = self._readers.get(place.topic)
        if reader is None or place.partition >= reader.topic.num_partitions:
            return None, None
        log = reader.image.partition(place.partition)
        return log.log_start_offset, log.log_end_offset

    def in_time(
        self, group_id: str, place: TopicPartition, offset: int, lag: int
    ) -> tuple[int | None, LagState | None]:
        """Return the lag in time (ms) at an offset, and the state of the partition.

        Each is None if it is unknown; both are, without `states`.
        """
        if self._states is None:
            return None, None
        if lag and (place, offset) not in self._times:
            try:
                self._times[place, offset] = self._timestamp(place, offset)
            except (CorruptionError, MissingFileError):  # the other lags are known all the same
                self._times[place, offset] = NO_TIMESTAMP
        timestamp = self._times.get((place, offset))
        left = 0 if timestamp is None else lag
        state = self._states.of(group_id, place, self._image, left, self._now_ms)
        return lag_ms_of(lag, timestamp, self._now_ms), state

    def _timestamp(self, place: TopicPartition, offset: int) -> int | None:
        """Return the timestamp (ms) of the first record at or after an offset; None without one.

        A control batch, and one that compaction has emptied, has no record to read.
        """
        from sparklog.log_reader.find import find_offset

        reader = self._readers[place.topic]
        log = reader.image.partition(place.partition)
        first = max(offset, log.log_start_offset)
        while first < log.log_end_offset:
            found = find_offset(reader, place.partition, first)
            if found is None or found.offset >= 0:
                return None if found is None else found.timestamp
            first = found.last_offset + 1
        return None

    def close(self) -> None:
        """Close the segments that lookups have opened."""
        if self._kept is not None:
            self._kept.let_go()


def _kept(catalog: Catalog) -> "KeptSegments":
    # Loaded where records are looked up: the kernels take a while.
    from sparklog.log_reader.kept import KeptSegments

    return KeptSegments(catalog.files)
