"""Topics by name: readers, writers and administrators reach the metadata through `Catalog`."""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from sparklog.clock import Clock, SystemClock
from sparklog.errors import (
    ForgottenTopicError,
    LogDirError,
    SparklogWarning,
    UnknownTopicError,
    UsageError,
)
from sparklog.log.names import topic_dir
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.state import told
from sparklog.metadata.state.edit import Done, Edit, LogVersion, Receipt, ReceiptKey, TopicEdit
from sparklog.metadata.state.image import Image, PartitionLog, TopicImage, added_ranges
from sparklog.metadata.upkeep.housekeeping import keep_house
from sparklog.model import OffsetRange, TopicDescription, TopicPartition
from sparklog.storage.files import Files
from sparklog.storage.log_dir import open_log_dir

TopicPlan = Callable[[TopicImage], TopicEdit | Done]
"""Returns the edit of one topic. Pure: it is called again on every try."""

RECEIPT_TTL_MS: Final = 24 * 3600 * 1000
"""The least time (ms) for which a request's key is remembered."""

PRODUCER_ID_EXPIRATION_MS: Final = 24 * 3600 * 1000
"""The least time (ms) for which an idle producer is remembered (producer.id.expiration.ms)."""


def topic_directory(topic: TopicDescription) -> str:
    """Return the topic's directory, relative to the log dir."""
    return topic_dir(topic.name, topic.topic_id)


def check_partition(topic: TopicDescription, partition: int) -> None:
    """Raise UnknownTopicError unless the topic has the partition."""
    if not 0 <= partition < topic.num_partitions:
        raise UnknownTopicError(
            f"topic {topic.name!r} has no partition {partition}: it has "
            f"0 to {topic.num_partitions - 1}",
            topic=topic.name,
            partition=partition,
        )


@dataclass(frozen=True, slots=True)
class Landed:
    """The answer to a commit of one topic: the version after it, and its offsets.

    `replayed` says that the write had landed before. `ranges` is None if the offsets of a replay
    are not known any more, because its version is not the application's highest.
    """

    version: int
    ranges: tuple[OffsetRange, ...] | None = ()
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One topic's part of a commit, planned on the topic's image.

    With `app_id` and `version` (Delta's txnAppId and txnVersion) the write lands once: the answer
    to a replay has the offsets of the first time. With `app_id` alone, a request's key, this holds
    for at least RECEIPT_TTL_MS. `is_micro_batch`: a version below one that has landed is an error,
    because a stream only runs its last micro-batch again.
    """

    topic: TopicDescription
    plan: TopicPlan
    app_id: str | None = None
    version: int | None = None
    is_micro_batch: bool = False

    @property
    def key(self) -> ReceiptKey | None:
        """The key of its receipt; None for a write without one."""
        return None if self.app_id is None else ReceiptKey(self.app_id, self.version is not None)


class Catalog:
    """The topics of one log dir, and its metadata log. Usable from any number of threads."""

    def __init__(
        self,
        files: Files,
        clock: Clock | None = None,
        *,
        flush: bool = True,
        after_commit: Callable[[MetadataLog], None] | None = None,
    ) -> None:
        self.files = files
        self.clock: Clock = clock or SystemClock()
        self._log = MetadataLog(
            files, self.clock, flush=flush, after_commit=after_commit or keep_house
        )
        self._is_log_dir = False

    @property
    def log(self) -> MetadataLog:
        """The metadata log. Raises LogDirError if the directory is no log dir."""
        if not self._is_log_dir:
            open_log_dir(self.files)
            self._is_log_dir = True
        return self._log

    @property
    def last_version(self) -> int | None:
        """The version of the log that was read or committed last; None before the first."""
        return self._log.last_version

    def check_not_gone(self) -> None:
        """Raise LogDirError if this catalog has read a log here. Call it if no log is here now."""
        if self._is_log_dir:
            raise LogDirError(
                f"{self.files.uri}: the log dir that was here is gone, perhaps with a file system "
                f"that is not mounted; a process that is started anew makes another"
            )

    def image(self, *topics: TopicDescription) -> Image:
        """Return the newest image, with these topics opened."""
        return self.log.image([topic.topic_id for topic in topics])

    def topics(self) -> Mapping[str, TopicDescription]:
        """Return the topics that exist, by name, in name order."""
        return self.log.image().names

    def topic(self, name: str) -> TopicDescription:
        """Return a topic. Raises UnknownTopicError, which names the nearest topics."""
        return self.named([name])[0]

    def named(self, names: Iterable[str]) -> list[TopicDescription]:
        """Return the topics of these names, in their order, by one look at the metadata log.

        Raises UnknownTopicError for the first that does not exist, as `topic` does.
        """
        topics, found = self.topics(), []
        for name in names:
            if name not in topics:
                raise _unknown(name, topics)
            found.append(topics[name])
        return found

    def topic_image(self, topic: TopicDescription) -> TopicImage:
        """Return a topic as it is now. Raises ForgottenTopicError."""
        return topic_of(self.image(topic), topic)

    def log_version(self, topic: TopicDescription) -> LogVersion:
        """Return the version that changed a topic last, and the log's incarnation.

        Raises ForgottenTopicError.
        """
        version = self.topic_image(topic).version
        return LogVersion(self.log.log_id, version)

    def partition(self, topic: TopicDescription, partition: int) -> PartitionLog:
        """Return one partition's log. Raises UnknownTopicError."""
        check_partition(topic, partition)
        return self.topic_image(topic).partition(partition)

    def commit(
        self,
        topic: TopicDescription,
        plan: TopicPlan,
        *,
        operation: str,
        parameters: Mapping[str, str] | None = None,
    ) -> Landed:
        """Commit a job's edit of one topic; raises as `MetadataLog.commit` does."""
        write = Write(topic=topic, plan=plan)
        landed = self.commit_all([write], operation=operation, parameters=parameters, patient=True)
        return landed[0]

    def commit_all(
        self,
        writes: Collection[Write],
        *,
        operation: str,
        parameters: Mapping[str, str] | None = None,
        patient: bool = False,
        next_producer_id: int | None = None,
    ) -> list[Landed]:
        """Commit writes of several topics in one entry, all or none; return an answer for each.

        The answers are in the order of `writes`. Later producer ids are at or above
        `next_producer_id`. Raises ForgottenTopicError, and as `MetadataLog.commit` does.
        """
        answers: list[Landed] = []

        def plan(image: Image) -> Edit | Done:
            answers.clear()
            topics: dict[str, TopicEdit] = {}
            for write in writes:
                topic = topic_of(image, write.topic)
                replayed = _replayed(topic, write)
                answers.append(replayed or Landed(image.version))
                if replayed is not None:
                    continue
                edit = write.plan(topic)
                if isinstance(edit, Done) or (edit.is_empty and write.key is None):
                    continue
                ranges = added_ranges(topic, edit)
                answers[-1] = Landed(image.version + 1, ranges)
                if write.key is not None:
                    count = write.topic.num_partitions
                    edit = edit.with_receipt(write.key, Receipt(ranges, count, write.version))
                topics[write.topic.topic_id] = edit
            if not topics:
                return Done()
            names = [write.topic.name for write in writes if write.topic.topic_id in topics]
            return Edit(
                operation=operation,
                parameters={**parameters_of(names, topics.values()), **(parameters or {})},
                topics=topics,
                next_producer_id=next_producer_id,
            )

        ids = [write.topic.topic_id for write in writes]
        committed = self.log.commit(plan, ids, patient=patient)
        version = committed.image.version
        return [replace(answer, version=version) for answer in answers]

    def is_committed(self, topic: TopicDescription, app_id: str, version: int) -> bool:
        """Whether this write has landed, so that its records need not be written again."""
        receipt = self.topic_image(topic).receipts.get(ReceiptKey(app_id, is_versioned=True))
        return receipt is not None and receipt.version is not None and receipt.version >= version


def parameters_of(names: Iterable[str], edits: Collection[TopicEdit]) -> dict[str, str]:
    """Return the parameters of a commit, for people: the topics' names, and what was done to them.

    The counts are of segments, records, bytes, and removed segments. Log start offsets are told
    where the commit raises them.
    """
    segments = [entry for edit in edits for entry in edit.segments]
    removed = sum(len(edit.remove) for edit in edits)
    counts: dict[str, int] = {}
    if segments:
        counts["segments"] = len(segments)
        counts["records"] = sum(entry.record_count or 0 for entry in segments)
        counts["bytes"] = sum(entry.log_bytes for entry in segments)
    if removed:
        counts["removed"] = removed
    names = list(names)
    found = {"topics": ", ".join(names), **{name: str(one) for name, one in counts.items()}}
    if any(edit.partitions for edit in edits):
        starts = told.offsets(
            (TopicPartition(name, number), state.log_start_offset)
            for name, edit in zip(names, edits, strict=True)
            for number, state in edit.partitions.items()
            if state.log_start_offset
        )
        found |= {"logStartOffsets": starts} if starts else {}
    return found


def _unknown(name: str, topics: Collection[str]) -> UnknownTopicError:
    """Return the error of a topic that does not exist; it names the nearest topics."""
    near = get_close_matches(name, topics, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownTopicError(
        f"unknown topic {name!r} (topics are not made on first use){hint}", topic=name
    )


def topic_of(image: Image, topic: TopicDescription) -> TopicImage:
    """Return a topic as an image has it. Raises ForgottenTopicError."""
    found = image.topic(topic.topic_id)
    if found is None:
        raise ForgottenTopicError(
            f"topic {topic.name!r} ({topic.topic_id}): there is no such topic (any more)"
        )
    return found


def _replayed(topic: TopicImage, write: Write) -> Landed | None:
    """Return the answer to a write that was committed before; None if it was not.

    Warns if the offsets are no longer known. Raises UsageError for a micro-batch below one that has
    landed.
    """
    receipt = None if write.key is None else topic.receipts.get(write.key)
    if receipt is None:
        return None
    if write.version is None or receipt.version == write.version:
        return Landed(topic.version, receipt.ranges, True)
    if receipt.version is None or receipt.version < write.version:
        return None
    if write.is_micro_batch:
        raise UsageError(
            f"topic {write.topic.name!r} has micro-batch {receipt.version} of query "
            f"{write.app_id} already, so micro-batch {write.version} is not written: the "
            f"checkpoint was restored, rewound or copied; start a new one, with startingOffsets"
        )
    warnings.warn(
        f"version {write.version} of {write.app_id!r} is skipped: version {receipt.version} was "
        f"committed, so this one counts as committed before, and its offsets are not known any "
        f"more. Versions that begin anew, as with a new checkpoint, need another txnAppId",
        SparklogWarning,
        stacklevel=2,
    )
    return Landed(topic.version, None, replayed=True)
