"""AdminClient: topics, configs and offsets, with the names and rules of Kafka's own.

    AdminClient(log_dir).create_topics([NewTopic("flights", 4, config={"retention.ms": "-1"})])

A topic exists from the commit that creates it to the commit that deletes it. After that, commits
of its writers are refused, and the name is free. `vacuum` deletes the files later; until then the
topic can be undeleted.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sparklog.admin.changes import (
    AlterConfigOp,
    NewTopic,
    altered,
    check_deletable,
    described,
    grown,
    start_offset,
    with_starts,
)
from sparklog.admin.each import EachTopic
from sparklog.admin.groups import ConsumerGroupDescription, ConsumerGroupListing, GroupAdmin
from sparklog.admin.lags import Lags
from sparklog.admin.places import Place, by_place, committed, place_of, several, whole
from sparklog.admin.transactions import TransactionAdmin, TransactionDescription
from sparklog.clock import Clock, SystemClock
from sparklog.config import ConfigEntry, TopicConfig
from sparklog.coordinator.lag import PartitionLag
from sparklog.coordinator.requests import CommittedOffset
from sparklog.errors import LogDirError
from sparklog.fleet import LocalFleet
from sparklog.log_reader import TopicReader
from sparklog.metadata.catalog import Catalog, Write, check_partition
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.topics import describing, live, restorable, with_new, without
from sparklog.metadata.state.edit import Done, Edit, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import (
    READ_UNCOMMITTED,
    SegmentEntry,
    TimestampOffset,
    TopicDescription,
    TopicPartition,
)
from sparklog.storage import open_files
from sparklog.storage.log_dir import META_PROPERTIES, create_log_dir, strange_file

if TYPE_CHECKING:
    from sparklog.admin.erase import EraseReport


class AdminClient:
    """Administers one log dir. Reading methods need a log dir; creating a topic makes one.

    `storage_options` are storage settings by name (AWS_REGION, …). A call with several topics
    changes all of them or none. The calls of the attribute `each` decide topic by topic.

    Partitions, offsets and counts may be integers of any type, also numpy's; other values raise
    UsageError, and so does a text where a list is asked for.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        after_commit: Callable[[MetadataLog], None] | None = None,
    ) -> None:
        """`after_commit` replaces the housekeeping that follows each commit."""
        self._clock: Clock = clock or SystemClock()
        self._files = open_files(os.fspath(log_dir), storage_options)
        self._catalog = Catalog(self._files, self._clock, after_commit=after_commit)
        self._groups = GroupAdmin(self._catalog)
        self._lags = Lags(self._catalog, self._groups)
        self._transactions = TransactionAdmin(self._catalog)

    @property
    def each(self) -> EachTopic:
        """The same changes, each topic with its own outcome: one refused topic stops no other."""
        return EachTopic(self._catalog, self._clock)

    def create_topics(
        self, new_topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[TopicDescription]:
        """Create topics, all or none, in one commit; return them in the order given.

        The log dir is made if the directory is missing or empty. Raises InvalidTopicError,
        InvalidPartitionsError, InvalidConfigError, TopicExistsError, LogDirError (also if the log
        dir existed in an earlier call of this client and is gone).
        """
        image = self._image_or_none()
        now_ms = (image or Image()).not_before(self._clock.now_ms())
        wanted = [described(topic, os.urandom(16), now_ms) for topic in new_topics]
        plan = partial(with_new, wanted=wanted)
        plan(image or Image())
        if validate_only or not wanted:
            return wanted
        if image is None:
            self._create_log_dir()
        self._catalog.log.commit(plan)
        return wanted

    def create_log_dir(self) -> None:
        """Make the log dir if the directory is missing or empty; an existing log dir stays.

        Raises LogDirError for a directory that holds something else.
        """
        if self._image_or_none() is None:
            self._create_log_dir()

    def _create_log_dir(self) -> None:
        # In this order: meta.properties comes last, so a log dir with it has its metadata log.
        MetadataLog.create(self._files, self._clock)
        create_log_dir(self._files, os.urandom(16))

    def _image_or_none(self) -> Image | None:
        """Return the newest image; None if a log dir may be made here. Raises LogDirError."""
        if self._files.stat(META_PROPERTIES) is None:
            strange = strange_file(self._files)
            if strange is None:
                self._catalog.check_not_gone()
                return None
            # Another process may have made the log dir since the first look.
            if self._files.stat(META_PROPERTIES) is None:
                raise LogDirError(
                    f"{self._files.uri} is not a log dir and not empty (it has {strange}): a "
                    f"log dir is made in a new or an empty directory"
                )
        return self._catalog.image()

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics, all or none: their writers are refused, vacuum deletes the files later.

        Raises UnknownTopicError before anything is deleted when one of them does not exist.
        """
        ids = [topic.topic_id for topic in self._catalog.named(several(names))]
        self._catalog.log.commit(partial(without, topic_ids=ids, now_ms=self._clock.now_ms()))

    def undelete_topic(self, name: str, *, topic_id: str | None = None) -> TopicDescription:
        """Bring back a deleted topic, with its configs and records; return it.

        Transactions that were open when it was deleted are aborted in it. Of several deleted topics
        of one name the one deleted last comes back, or the one of `topic_id`. Raises
        UnknownTopicError when there is none (any more), TopicClosedError once vacuum has begun to
        erase it, TopicExistsError or InvalidTopicError when a topic has taken its name meanwhile.
        """
        from sparklog.transactions.undelete import undelete  # loaded late: it writes segments

        return undelete(self._catalog, name, topic_id)

    def list_deleted_topics(self) -> list[TopicDescription]:
        """Return the deleted topics that can come back, by name and time of deletion."""
        return restorable(self._catalog.image())

    def list_topics(self) -> list[str]:
        """Return the names of the topics, sorted."""
        return list(self._catalog.topics())

    def describe_topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """Return topics by name, without `names` all of them. Raises UnknownTopicError."""
        if names is None:
            return list(self._catalog.topics().values())
        return self._catalog.named(several(names))

    def describe_configs(self, topic: str) -> list[ConfigEntry]:
        """Return all configs of a topic, with defaults, sorted by key. Raises UnknownTopicError."""
        return TopicConfig.parse(self._catalog.topic(topic).configs).describe()

    def incremental_alter_configs(
        self, changes: Mapping[str, Iterable[AlterConfigOp]], *, validate_only: bool = False
    ) -> list[TopicDescription]:
        """Change configs of topics, all or none, in one commit; return the topics as they are now.

        With `validate_only` nothing is changed, and the topics are as they would be. Raises
        UnknownTopicError, InvalidConfigError, InvalidOptionError for a config that is named twice
        for a topic.
        """
        ops = {name: list(wanted) for name, wanted in changes.items()}

        def changed(image: Image) -> list[TopicDescription]:
            topics = [live(image, name) for name in ops]
            return [altered(topic, ops[topic.name]) for topic in topics]

        def plan(image: Image) -> Edit | Done:
            return describing("ALTER CONFIGS", [live(image, name) for name in ops], changed(image))

        if validate_only:
            return changed(self._catalog.image())
        image = self._catalog.log.commit(plan).image
        return [live(image, name) for name in ops]

    def create_partitions(self, totals: Mapping[str, int]) -> list[TopicDescription]:
        """Grow topics to the given numbers of partitions, all or none; return them.

        Raises UnknownTopicError, InvalidPartitionsError for a count that does not grow.
        """

        def plan(image: Image) -> Edit | Done:
            topics = [live(image, name) for name in totals]
            larger = [grown(topic, totals[topic.name]) for topic in topics]
            return describing("CREATE PARTITIONS", topics, larger)

        image = self._catalog.log.commit(plan).image
        return [live(image, name) for name in totals]

    def delete_records(self, before: Mapping[Place, int]) -> dict[TopicPartition, int]:
        """Delete the records before offsets: raise the log start offsets, in one commit.

        The jobs remove the segments later. -1 means the log end offset. Returns each partition's
        log start offset (low watermark). Raises UnknownTopicError, OffsetOutOfRangeError,
        PolicyViolationError (cleanup.policy without delete).
        """
        offsets: dict[str, dict[int, int]] = {}
        for place, offset in by_place(before).items():
            offsets.setdefault(place.topic, {})[place.partition] = offset
        topics = self._catalog.named(offsets)
        for topic in topics:
            for partition in offsets[topic.name]:
                check_partition(topic, partition)
            check_deletable(topic)
        self._catalog.commit_all(
            [
                Write(topic=topic, plan=partial(_trimmed, before=offsets[topic.name]))
                for topic in topics
            ],
            operation="DELETE RECORDS",
        )
        image = self._catalog.image(*topics)
        return {
            TopicPartition(topic.name, number): found.partition(number).log_start_offset
            for topic in topics
            if (found := image.topic(topic.topic_id)) is not None
            for number in offsets[topic.name]
        }

    def erase(
        self, topic: str, keys: Iterable[bytes | str], *, dry_run: bool = False
    ) -> "EraseReport":
        """Remove the records that have one of the keys from a topic's log and table.

        The work is done in this process; `sparklog jobs erase` does it with Spark. Offsets become
        gaps. The report has the numbers of records, and the time when vacuum can delete the last
        file. Raises UnknownTopicError, InvalidOptionError without a key, TopicClosedError,
        CommitConflictError, CorruptRecordError naming file, position and offset, and UsageError for
        a table that another writer has changed.
        """
        # Imported here because it loads the kernels, which most calls do not need.
        from sparklog.admin.erase import erase

        return erase(self._catalog, topic, several(keys), LocalFleet(), dry_run=dry_run)

    def rebuild_indexes(self, topic: str, partition: int | None = None) -> list[SegmentEntry]:
        """Build the indexes of a topic's segments, or of one partition's, anew if they are wrong.

        Reads every `.log` and verifies its checksums. Returns the new rows of the changed segments.
        There is one durable commit for each partition; an error leaves earlier commits as they are.
        Raises UnknownTopicError, MissingFileError, CorruptRecordError naming file, position and
        offset.
        """
        from sparklog.indexes import rebuild_indexes

        number = None if partition is None else place_of((topic, partition)).partition
        return rebuild_indexes(self._catalog, topic, number)

    def list_offsets(
        self, wanted: Mapping[Place, int], *, isolation_level: str = READ_UNCOMMITTED
    ) -> dict[TopicPartition, TimestampOffset]:
        """Return the answers of ListOffsets to times (ms) by partition.

        -1 is the latest offset, -2 the earliest, -3 the record with the largest timestamp; any
        other time asks for the first record at or after it. The answer is (-1, -1) if there is no
        such record. With `isolation_level` "read_committed" the latest offset is the last stable
        offset, and records from there on are not found. Raises UnknownTopicError.
        """
        places = by_place(wanted)
        names = dict.fromkeys(partition.topic for partition in places)
        readers = TopicReader.open_all(self._catalog, self._catalog.named(names))
        return {
            partition: readers[partition.topic].list_offset(
                partition.partition, timestamp, isolation_level
            )
            for partition, timestamp in places.items()
        }

    def list_consumer_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ConsumerGroupListing]:
        """Return the consumer groups, by name; of these states or types if any are given.

        States are as the protocol spells them, in any case: Empty, Stable, PreparingRebalance, ….
        Raises LogDirError.
        """
        wanted = tuple({one.lower() for one in several(given)} for given in (states, types))
        return [
            one
            for one in self._groups.listed()
            if (not wanted[0] or one.state.lower() in wanted[0])
            and (not wanted[1] or one.type in wanted[1])
        ]

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescription]:
        """Return groups with their members, as of the last rebalance. Raises GroupIdNotFoundError.

        They are read from __consumer_offsets. A member that was killed is listed until its
        coordinator has written that it left.
        """
        return self._groups.described(several(group_ids))

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[Place] | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets of a group, by default of all partitions.

        None where nothing is committed; a group that does not exist has no offsets. Raises
        LogDirError.
        """
        found = self._groups.offsets(group_id)
        if partitions is None:
            return dict(found)
        return {place: found.get(place) for place in map(place_of, partitions)}

    def consumer_group_lags(
        self, group_ids: Iterable[str] | None = None, *, in_time: bool = True
    ) -> dict[str, list[PartitionLag]]:
        """Return the lags of groups by group id, one for each partition; None: all groups.

        All lags are of one moment. Without `in_time` the call reads only metadata and groups; then
        `lag_ms` and `state` are None. Raises GroupIdNotFoundError, CorruptRecordError,
        MissingFileError.
        """
        wanted = None if group_ids is None else several(group_ids)
        found = self._lags.of(wanted, in_time=in_time)
        return {group_id: lags for group_id, (_, lags) in found.items()}

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[Place, int | CommittedOffset]
    ) -> None:
        """Set offsets of a group without members, all or none, in one commit; creates the group.

        An int is an offset without metadata; as in Kafka it may be beyond the log end. Raises
        InvalidGroupIdError, GroupNotEmptyError, UnknownTopicError, OffsetOutOfRangeError for a
        negative offset, CommitConflictError.
        """
        self._groups.commit(group_id, committed(offsets))

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, one after another, and their offsets.

        Raises GroupIdNotFoundError, GroupNotEmptyError, CommitConflictError.
        """
        for one in several(group_ids):
            self._groups.delete(one)

    def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[Place]) -> None:
        """Delete offsets of a group without members, in one commit.

        Raises GroupIdNotFoundError, GroupNotEmptyError, CommitConflictError.
        """
        self._groups.delete_offsets(group_id, list(map(place_of, partitions)))

    def list_transactions(self, states: Collection[str] = ()) -> list[TransactionDescription]:
        """Return the transactional ids, by name; with `states` those in one of them."""
        return self._transactions.list(tuple(several(states)))

    def describe_transactions(self, ids: Iterable[str]) -> list[TransactionDescription]:
        """Return transactional ids. Raises UsageError (TRANSACTIONAL_ID_NOT_FOUND)."""
        return [self._transactions.describe(one) for one in several(ids)]

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer.

        Raises UsageError (TRANSACTIONAL_ID_NOT_FOUND); InvalidTxnStateError when none is open, or
        when the log has its marker already; CorruptRecordError and MissingFileError of the segments
        that are searched for it.
        """
        self._transactions.abort(transactional_id)

    def abort_transaction_at(self, partition: tuple[str, int], start_offset: int) -> None:
        """Abort the open transaction that begins at this offset of a partition.

        It is for a transaction without a transactional id here, as an import may leave one. Raises
        UnknownTopicError; InvalidTxnStateError if none is open from there on, if the log has its
        marker already, or if it has ended meanwhile; InvalidProducerEpochError if its producer has
        begun another one; CorruptRecordError and MissingFileError of the segments that are searched
        for a marker.
        """
        self._transactions.abort_at(place_of(partition), whole(start_offset, "start offset"))


def _trimmed(topic: TopicImage, before: Mapping[int, int]) -> TopicEdit | Done:
    """Return the edit that deletes the records before these offsets, by partition."""
    starts = {number: start_offset(topic.partition(number), one) for number, one in before.items()}
    return with_starts(topic, starts)
