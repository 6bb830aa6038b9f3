"""Groups read and changed in the log, by processes that are not their coordinator.

    ask      a shard for each partition of __consumer_offsets follows the log, and answers
    change   the shard answers; its records are appended if the log still ends where it has read
    planned  the same without the append: the records go into an entry with other writes

A living coordinator reads such an append before it answers its next request. As long as a group has
members, only they may change it. If no gateway is alive, no member can be connected: a change then
claims a new leader epoch, and first removes the members.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, NamedTuple

from sparklog.config import TopicConfig
from sparklog.coordinator.alive import one_lives
from sparklog.coordinator.batches import batch_of, cut
from sparklog.coordinator.commits.offsets import read_commit
from sparklog.coordinator.held_groups import held_by_partition, with_held
from sparklog.coordinator.lag_window import CommitWindow
from sparklog.coordinator.offsets_topic import NUM_PARTITIONS, claim, load, newest, offsets_topic
from sparklog.coordinator.placement import partition_of
from sparklog.coordinator.records import OFFSETS_TOPIC, Record, is_offset
from sparklog.coordinator.requests import (
    CommitRequest,
    CommittedOffset,
    ConsumerDescribeRequest,
    DescribeRequest,
    Effects,
    LeaveRequest,
    ListedGroup,
    ListRequest,
    MemberIdentity,
    Now,
    OffsetDeleteRequest,
    Request,
)
from sparklog.coordinator.shard import Shard
from sparklog.coordinator.states import GroupLimits
from sparklog.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    GroupNotEmptyError,
    SparklogError,
    UnexpectedAppendOffsetError,
)
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.state import told
from sparklog.model import TopicDescription, TopicPartition

TRIES_MAX: Final = 50
"""How often a change is planned again because others have written to the partition."""
FOLLOWED_MS: Final = 3_600_000
"""A partition that was not read for longer is read again from its start: compaction may have
removed tombstones of records that were read."""
EXPIRED: Final = {"why": "expired offsets"}
COMMITS_MAX: Final = 500_000
"""The most records of a partition that are read to find a group's commits."""


class Expired(NamedTuple):
    """Removed offsets, and problems, by partition of __consumer_offsets."""

    removed: dict[int, int]
    problems: dict[int, SparklogError]


class PlannedAppend(NamedTuple):
    """Records to append to a partition of __consumer_offsets, if it still ends at `end_offset`.

    `leader_epoch` is the epoch that this change has claimed; None if it has claimed none.
    """

    topic: TopicDescription
    partition: int
    records: list[Record]
    end_offset: int
    leader_epoch: int | None


@dataclass(slots=True)
class _Followed:
    """A partition that was read up to `end_offset`."""

    topic: TopicDescription
    number: int
    shard: Shard
    end_offset: int
    read_ms: int
    """The time of the last read, by the clock since the machine's start."""


class _WatchedShard(Shard):
    """A shard that also passes each commit to a window."""

    def __init__(self, window: CommitWindow) -> None:
        super().__init__(GroupLimits(), str)
        self._window = window

    def _put(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        super()._put(group_id, offsets)
        for place, offset in offsets.items():
            self._window.saw(group_id, place, offset)

    def _drop(self, group_id: str, place: TopicPartition) -> None:
        super()._drop(group_id, place)
        self._window.saw(group_id, place, None)


class GroupLog:
    """The groups of a log dir. For any number of threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._followed: dict[int, _Followed] = {}
        self._lock = RLock()
        self.window = CommitWindow()
        """The last commits in the partitions that were read."""

    def ask(self, group_id: str, request: Request) -> Any:
        """Return the answer to a request that changes nothing, from the newest state of the log.

        Raises LogDirError, CorruptRecordError, MissingFileError.
        """
        return self.ask_all([(group_id, request)])[0]

    def ask_all(self, asked: Iterable[tuple[str, Request]]) -> list[Any]:
        """Return the answers to requests for groups, all from one version of the log.

        Each partition is read once. Raises as `ask`.
        """
        with self._lock:
            image, shards, answers = self._catalog.image(), dict[int, Shard](), list[Any]()
            topic = image.names.get(OFFSETS_TOPIC)
            reader = None if topic is None else newest(self._catalog, topic)
            for group_id, request in asked:
                number = 0 if topic is None else partition_of(group_id, topic.num_partitions)
                if number not in shards:
                    shards[number] = (
                        Shard(GroupLimits(), str)
                        if reader is None
                        else self._followed_to(reader, number).shard
                    )
                told = with_held(request, image)
                answers.append(_answered(shards[number], told, Effects(), Now(0, 0)))
            return answers

    def groups(self) -> list[ListedGroup]:
        """Return all groups, sorted by id. Raises as `ask`."""
        with self._lock:
            image = self._catalog.image()
            topic = image.names.get(OFFSETS_TOPIC)
            if topic is None:
                return []
            held = held_by_partition(image, topic.num_partitions)
            reader, listed = newest(self._catalog, topic), list[ListedGroup]()
            for number in range(topic.num_partitions):
                if reader.partition(number).log_end_offset or number in held:
                    shard = self._followed_to(reader, number).shard
                    request = ListRequest(held.get(number, frozenset()))
                    listed += _answered(shard, request, Effects(), Now(0, 0))
            return sorted(listed)

    def commits_since(
        self, group_id: str, since_ms: int
    ) -> list[tuple[TopicPartition, CommittedOffset]]:
        """Return the commits of a group since a time, in the order of the log.

        Commits that compaction has removed are missing. Only the last COMMITS_MAX records of the
        partition are read. Raises as `ask`.
        """
        found: list[tuple[TopicPartition, CommittedOffset]] = []
        topic = self._topic()
        if topic is None:
            return found

        def note(key: bytes, value: bytes | None) -> None:
            if is_offset(key) and value is not None:
                owner, place, offset = read_commit(key, value)
                if owner == group_id and offset is not None:
                    found.append((place, offset))

        number = partition_of(group_id, topic.num_partitions)
        reader = newest(self._catalog, topic)
        start = reader.list_offset(number, since_ms).offset
        if start >= 0:
            end = reader.partition(number).log_end_offset
            load(reader, number, note, max(start, end - COMMITS_MAX))
        return found

    def change(self, group_id: str, request: Request) -> Any:
        """Return the answer to a request, once its changes are durable.

        Raises GroupNotEmptyError if the group has members and a gateway is alive,
        CommitConflictError if others keep writing to the partition, the errors of an append, and
        as `ask`.
        """
        with self._lock:
            topic = offsets_topic(self._catalog, self._catalog.clock, NUM_PARTITIONS)
            number = partition_of(group_id, topic.num_partitions)
            parameters = _told(group_id, request)
            for _ in range(TRIES_MAX):
                found, effects = self._newest(topic, number), Effects()
                del self._followed[number]  # kept again after its records are in the log
                epoch = self._without_members(found, group_id, effects)
                answer = _answered(found.shard, request, effects, self._now())
                if not effects.records or self._has_appended(found, effects, epoch, parameters):
                    self._followed[number] = found
                    return answer
        raise CommitConflictError(
            f"group {group_id!r}: others keep writing to {OFFSETS_TOPIC}-{number}: try again"
        )

    def planned(self, commits: Iterable[CommitRequest]) -> list[PlannedAppend]:
        """Return the records that commits append to each partition, for an entry with other writes.

        If no gateway is alive, these records also remove the members of the groups. Raises
        GroupNotEmptyError, and as `ask`.
        """
        with self._lock:
            topic = offsets_topic(self._catalog, self._catalog.clock, NUM_PARTITIONS)
            found: dict[int, list[CommitRequest]] = {}
            for one in commits:
                number = partition_of(one.group_id, topic.num_partitions)
                found.setdefault(number, []).append(one)
            return [self._planned(topic, *one) for one in sorted(found.items())]

    def _planned(
        self, topic: TopicDescription, number: int, commits: Sequence[CommitRequest]
    ) -> PlannedAppend:
        found, effects, epoch = self._newest(topic, number), Effects(), None
        del self._followed[number]  # these records may never get into the log
        for one in commits:
            epoch = self._without_members(found, one.group_id, effects) or epoch
            _answered(found.shard, one, effects, self._now())
        return PlannedAppend(topic, number, effects.records, found.end_offset, epoch)

    def expire(self, *, dry_run: bool = False) -> Expired:
        """Remove expired offsets.

        Gateways remove expired offsets themselves: nothing is removed while one is registered. A
        partition that another process has written to meanwhile is left to the next call. With
        `dry_run` nothing is written. Raises LogDirError; errors of a partition are in `problems`.
        """
        done = Expired({}, {})
        with self._lock:
            topic = self._topic()
            if topic is None or self._catalog.log.image().brokers:
                return done
            image = self._catalog.topic_image(topic)
            for number in range(topic.num_partitions):
                if image.partition(number).log_end_offset:
                    try:
                        self._expire(topic, number, done.removed, dry_run=dry_run)
                    except SparklogError as error:
                        done.problems[number] = error
        return done

    def _expire(
        self, topic: TopicDescription, number: int, removed: dict[int, int], *, dry_run: bool
    ) -> None:
        found, now = self._newest(topic, number), Now(0, self._catalog.clock.now_ms())
        del self._followed[number]  # it drops offsets that may stay in the log
        while (effects := found.shard.expire(now)).records:
            if not (dry_run or self._has_appended(found, effects, None, EXPIRED)):
                return
            if count := sum(is_offset(one.key) for one in effects.records):
                removed[number] = removed.get(number, 0) + count

    def _topic(self) -> TopicDescription | None:
        return self._catalog.topics().get(OFFSETS_TOPIC)

    def _newest(self, topic: TopicDescription, number: int) -> _Followed:
        """Return a partition in its newest state."""
        return self._followed_to(newest(self._catalog, topic), number)

    def _followed_to(self, reader: TopicReader, number: int) -> _Followed:
        """Return a partition as a reader has it; of a known one only new records are read."""
        found, now_ms = self._followed.get(number), self._catalog.clock.boot_ms()
        topic, end_offset = reader.topic, reader.partition(number).log_end_offset
        if (
            found is None
            or found.topic.topic_id != topic.topic_id
            or found.end_offset > end_offset
            or now_ms - found.read_ms > FOLLOWED_MS
        ):
            found = _Followed(topic, number, _WatchedShard(self.window), 0, now_ms)
            self._followed[number] = found
        found.read_ms = now_ms
        found.end_offset = load(reader, number, found.shard.replay, found.end_offset)
        return found

    def _now(self) -> Now:
        return Now(0, self._catalog.clock.now_ms(), self._catalog.log.last_ms)

    def _without_members(self, found: _Followed, group_id: str, effects: Effects) -> int | None:
        """Remove a group's members if no gateway is alive; return the claimed leader epoch.

        Returns None if there are no members. Raises GroupNotEmptyError if a gateway is alive.
        """
        now = self._now()
        gone = _members(found.shard, group_id)
        if not gone:
            return None
        if one_lives(self._catalog.files, self._catalog.clock, self._catalog.log.image().brokers):
            raise GroupNotEmptyError(
                f"group {group_id!r} has {len(gone)} members, which may be connected to a living "
                f"gateway: stop them first, or wait until their sessions end"
            )
        _answered(found.shard, LeaveRequest(group_id, gone), effects, now)
        while (epoch := claim(self._catalog, found.topic, found.number)) is None:
            pass  # another change was first
        return epoch

    def _has_appended(
        self, found: _Followed, effects: Effects, epoch: int | None, parameters: Mapping[str, str]
    ) -> bool:
        """Append at the end that was read; return False if another process has appended first.

        Deletions of more offsets or members than a batch holds are several commits.
        """
        # Imported with the first change: loading the kernels takes a while.
        from sparklog.group_commit.append_slots import Append, Appended, Slot
        from sparklog.group_commit.append_writer import AppendWriter

        bytes_max = TopicConfig.parse(found.topic.configs).max_message_bytes
        for records in cut(effects.records, bytes_max):
            batch = batch_of(records, self._catalog.clock.now_ms())
            slot = Slot(Append(found.topic.topic_id, found.number, batch, epoch, found.end_offset))
            AppendWriter(self._catalog, parameters=parameters).write([slot])
            if isinstance(slot.outcome, UnexpectedAppendOffsetError | FencedLeaderEpochError):
                return False
            if not isinstance(slot.outcome, Appended):
                assert slot.outcome is not None  # noqa: S101 - a writer gives every slot its outcome
                raise slot.outcome
            found.end_offset += len(records)
        return True


def _members(shard: Shard, group_id: str) -> tuple[MemberIdentity, ...]:
    """Return the members of a group of either protocol."""
    kinds: tuple[Request, ...] = (DescribeRequest(group_id), ConsumerDescribeRequest(group_id))
    found = [_answered(shard, one, Effects(), Now(0, 0)) for one in kinds]
    members = [member for group in found if group is not None for member in group.members]
    return tuple(MemberIdentity(one.member_id, one.instance_id) for one in members)


def _told(group_id: str, request: Request) -> dict[str, str]:
    """Return the parameters of a change's commit: the group, and what becomes of its offsets."""
    if isinstance(request, CommitRequest):
        offsets = {place: one.offset for place, one in request.offsets.items()}
        return {"groups": group_id, "offsets": told.offsets(offsets.items())}
    if isinstance(request, OffsetDeleteRequest):
        return {"groups": group_id, "deletedOffsets": told.listed(map(str, request.partitions))}
    return {"groups": group_id, "why": "deleted"}


def _answered(shard: Shard, request: Request, effects: Effects, now: Now) -> Any:
    """Return the answer to a request that needs no waiting; add its records to `effects`."""
    found = shard.handle(request, None, now)
    effects.records += found.records
    return found.answers[-1][1]
