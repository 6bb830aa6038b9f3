"""The lag of groups: what they have committed, against the ends of the logs.

All groups are held against one image of the metadata, so no end is older than another.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from sparklog.admin.groups import ConsumerGroupDescription, GroupAdmin, MemberDescription
from sparklog.coordinator.lag import PartitionLag, lag_ms_of, lag_of
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import GroupIdNotFoundError, LogDirError
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog, topic_of
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.log_reader.kept import KeptSegments

Committed = Mapping[TopicPartition, CommittedOffset]


class Lags:
    """The lags of groups at one moment."""

    def __init__(self, catalog: Catalog, groups: GroupAdmin) -> None:
        self._catalog = catalog
        self._groups = groups

    def of(
        self, group_ids: Iterable[str] | None, *, in_time: bool
    ) -> dict[str, tuple[ConsumerGroupDescription, list[PartitionLag]]]:
        """Return groups and their partitions, in order; all groups for None.

        `in_time` reads a batch of each partition that is behind. Raises GroupIdNotFoundError.
        """
        found = dict(self._read(group_ids))
        topics = {place.topic for _, offsets in found.values() for place in offsets}
        for described, _ in found.values():
            topics |= {place.topic for one in described.members for place in one.partitions}
        ends = _Ends(self._catalog, topics, in_time=in_time)
        try:
            return {
                group_id: (described, _lags(described, offsets, ends))
                for group_id, (described, offsets) in found.items()
            }
        finally:
            ends.close()

    def _read(
        self, group_ids: Iterable[str] | None
    ) -> Iterator[tuple[str, tuple[ConsumerGroupDescription, Committed]]]:
        wanted = [one.group_id for one in self._groups.listed()] if group_ids is None else group_ids
        for one in wanted:
            try:
                yield one, (self._groups.described(one), self._groups.offsets(one))
            except GroupIdNotFoundError:
                if group_ids is not None:
                    raise  # of all groups, one was deleted meanwhile


def _lags(
    described: ConsumerGroupDescription, offsets: Committed, ends: "_Ends"
) -> list[PartitionLag]:
    readers = {place: one for one in described.members for place in one.partitions}
    places = sorted({*offsets, *readers})
    return [_lag(place, offsets.get(place), readers.get(place), ends) for place in places]


def _lag(
    place: TopicPartition,
    committed: CommittedOffset | None,
    member: MemberDescription | None,
    ends: "_Ends",
) -> PartitionLag:
    current = None if committed is None else committed.offset
    start, end = ends.of(place)
    lag = lag_of(current, end)
    return PartitionLag(
        place,
        current,
        None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        start,
        end,
        lag,
        None if lag is None or current is None else ends.lag_ms(place, current, lag),
        *(() if member is None else _of_member(member)),
    )


def _of_member(member: MemberDescription) -> tuple[str, str | None, str, str]:
    return member.member_id, member.group_instance_id, member.client_id, member.host


class _Ends:
    """The logs of topics at one moment."""

    def __init__(self, catalog: Catalog, topics: Iterable[str], *, in_time: bool) -> None:
        self._now_ms = catalog.clock.now_ms()
        self._in_time = in_time
        self._kept: KeptSegments | None = None
        self._times: dict[tuple[TopicPartition, int], int | None] = {}
        self._readers: dict[str, TopicReader] = {}
        self._ends: dict[TopicPartition, tuple[int | None, int | None]] = {}
        try:
            names = catalog.topics()
        except LogDirError:
            return  # no group is there either
        known = [names[name] for name in topics if name in names]
        if in_time and known:
            self._kept = _kept(catalog)
        image = catalog.image(*known)
        for topic in known:
            reader = TopicReader(catalog.files, topic, topic_of(image, topic), self._kept)
            self._readers[topic.name] = reader

    def of(self, place: TopicPartition) -> tuple[int | None, int | None]:
        """Return where a log begins and ends; None where there is none."""
        if place not in self._ends:
            self._ends[place] = self._look(place)
        return self._ends[place]

    def _look(self, place: TopicPartition) -> tuple[int | None, int | None]:
        reader = self._readers.get(place.topic)
        if reader is None or place.partition >= reader.topic.num_partitions:
            return None, None
        log = reader.image.partition(place.partition)
        return log.log_start_offset, log.log_end_offset

    def lag_ms(self, place: TopicPartition, offset: int, lag: int) -> int | None:
        """Return the lag in time at an offset; None when it was not asked for."""
        if not self._in_time:
            return None
        if lag and (place, offset) not in self._times:
            self._times[place, offset] = self._timestamp(place, offset)
        return lag_ms_of(lag, self._times.get((place, offset)), self._now_ms)

    def _timestamp(self, place: TopicPartition, offset: int) -> int | None:
        """Return the time of the first record at or after an offset; None when none is left."""
        from sparklog.log_reader.find import find_offset

        reader = self._readers[place.topic]
        log = reader.image.partition(place.partition)
        first = max(offset, log.log_start_offset)
        if first >= log.log_end_offset:
            return None
        found = find_offset(reader, place.partition, first)
        return None if found is None else found.timestamp

    def close(self) -> None:
        """Close the segments that lookups have opened."""
        if self._kept is not None:
            self._kept.let_go()


def _kept(catalog: Catalog) -> "KeptSegments":
    # Loaded where records are looked up: the kernels take a while.
    from sparklog.log_reader.kept import KeptSegments

    return KeptSegments(catalog.files)
