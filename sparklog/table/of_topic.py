"""The directory of a topic's table, and sparklog's commits to it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparklog.clock import Clock
from sparklog.config.topic import TopicConfig
from sparklog.errors import CommitConflictError, LateWriterError, UsageError
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.edit import LogVersion
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.storage.files import Files
from sparklog.table.delta_log import DeltaLog, TableCommit
from sparklog.table.footer import opened
from sparklog.table.marks import NO_MARK, NO_VERSION, Mark, Marks, transactions_of
from sparklog.table.parquet import WrittenFile
from sparklog.table.schema import TABLE, Action, metadata_action, protocol_action
from sparklog.table.snapshot import REBUILT, DataFile, Snapshot

BUILT: Final = "BUILD TABLE"
COMPACTED: Final = "COMPACT TABLE"
EXPIRED: Final = "EXPIRE TABLE"
ERASED: Final = "ERASE"
ERASE_BEGUN: Final = "BEGIN ERASE"
ERASE_ENDED: Final = "END ERASE"
VACUUMED: Final = "VACUUM"


def table_directory(topic: TopicDescription) -> str:
    """Return the directory of a topic's table, relative to the log dir."""
    return f"{topic_directory(topic)}/{TABLE}"


def delta_log(files: Files, topic: TopicDescription, clock: Clock) -> DeltaLog:
    """Return the Delta log of a topic's table; the table need not exist."""
    delay_ms = TopicConfig.parse(topic.configs).delete_delay_ms
    return DeltaLog(files, table_directory(topic), topic.topic_id, clock, delay_ms)


def check_sound(topic: TopicDescription, snapshot: Snapshot) -> None:
    """Raise UsageError naming the problems if the table is no longer a copy of the log."""
    problems = snapshot.problems(topic.topic_id)
    if problems:
        raise UsageError(
            f"the table of topic {topic.name!r} is no copy of its log any more: "
            f"{'; '.join(problems)}; `sparklog jobs build_table --rebuild --topic {topic.name}` "
            f"builds it anew"
        )


def check_of_log(
    topic: TopicDescription, marks: Marks, image: TopicImage, last_versions: Mapping[str, int]
) -> None:
    """Raise UsageError if the table has records of versions that the log does not have.

    This happens if the log dir was restored from a copy that is older than the table. `image` and
    `last_versions` (`FollowedLog.last_versions`) must not be older than the marks.
    """
    ahead = [
        f"the table has records of version {version} of log {log_id}, the log dir "
        + (f"ends that log at version {end}" if end >= 0 else "has nothing of that log")
        for log_id, version in marks.logs.items()
        if version > (end := last_versions.get(log_id, NO_VERSION))
    ]
    ahead += [
        f"partition {number} of the table ends at {mark.end}, the log at {end}"
        for number, mark in marks.partitions.items()
        if mark.end > (end := image.partition(number).log_end_offset)
    ]
    if ahead:
        raise UsageError(
            f"the table of topic {topic.name!r} is ahead of its log, as after a restore of the log "
            f"dir: {ahead[0]}; `sparklog jobs build_table --rebuild --topic {topic.name}` builds "
            f"it anew"
        )


def check_copy(catalog: Catalog, topic: TopicDescription, snapshot: Snapshot) -> TopicImage:
    """Return a topic in its newest state. Raises UsageError if its table is not a copy of its log.

    Raises the errors of following the metadata log, too.
    """
    check_sound(topic, snapshot)
    image = catalog.topic_image(topic)
    check_of_log(topic, snapshot.marks(topic.topic_id), image, catalog.log.last_versions())
    return image


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job's change of a table, after its files are written.

    `planned`: the marks of the changing partitions that the plan has seen (None: no mark yet).
    `marks`: their marks after the change. `erasures`: the number of erasures that the plan has
    seen; records that were read before an erasure must not get into the table after it.
    `log_version`: the version of the log from which the records come, or the version after an
    erasure. It shows later whether the log dir was restored from an older copy.
    """

    operation: str
    planned: Mapping[int, Mark | None] = field(default_factory=dict)
    marks: Mapping[int, Mark] = field(default_factory=dict)
    written: Sequence[WrittenFile] = ()
    dropped: Sequence[DataFile] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    erasures: int | None = None
    erasing: int | None = None
    """The mark of the `erase` that ends (`Marks.erasing`)."""
    log_version: LogVersion | None = None
    horizon_ms: int = 0
    """Of VACUUMED: orphans that were made before it will be unlinked."""

    @property
    def is_rebuild(self) -> bool:
        """Whether the change empties the table; it also undoes foreign changes."""
        return self.operation == REBUILT


def commit(files: Files, topic: TopicDescription, clock: Clock, change: Change) -> Snapshot:
    """Commit a change in one entry, files and marks together; return the table after it.

    Raises CommitConflictError if another commit has moved a mark, dropped a file or erased records
    since the change was planned; UsageError if the table is no longer a copy of the log;
    LateWriterError if vacuum may have unlinked the files as orphans; StorageError.
    """

    def plan(before: Snapshot) -> TableCommit:
        if change.operation not in (REBUILT, VACUUMED):
            check_sound(topic, before)
        known = before.marks(topic.topic_id)
        _check_planned(topic, change, before, known)
        _check_young(topic, change, known)
        now_ms = clock.now_ms()
        changes_data = change.operation != COMPACTED
        added = sum(one.rows for one in change.written)
        dropped = sum(_rows(files, topic, one) for one in change.dropped)
        rows = 0 if change.is_rebuild else known.rows + added - dropped
        erasures = known.erasures + (change.operation == ERASED)
        stays_unsound = bool(before.foreign) and not change.is_rebuild
        after = Marks(
            _partitions(change, known),
            _logs(change, known),
            rows,
            known.version if stays_unsound else before.version + 1,
            erasures,
            _erasing(change, known),
            max(known.horizon_ms, change.horizon_ms),
        )
        actions = _made(topic, before, now_ms, is_new=change.is_rebuild)
        actions += [one.add(now_ms, changes_data=changes_data) for one in change.written]
        gone = before.files.values() if change.is_rebuild else change.dropped
        actions += [_remove(one, now_ms, changes_data=changes_data) for one in gone]
        actions += [
            {"txn": {"appId": app_id, "version": version, "lastUpdated": now_ms}}
            for app_id, version in transactions_of(known, after, topic.topic_id).items()
        ]
        return TableCommit(
            operation=change.operation, parameters=change.parameters, actions=actions
        )

    return delta_log(files, topic, clock).commit(plan)


def _rows(files: Files, topic: TopicDescription, file: DataFile) -> int:
    """Return how many rows a file has; its footer tells if its writer gave no statistics."""
    if file.rows is not None:
        return file.rows
    rows: int = opened(files, f"{table_directory(topic)}/{file.path}").metadata.num_rows
    return rows


def _partitions(change: Change, known: Marks) -> dict[int, Mark]:
    """Return the marks after a change; an emptied table gets empty marks."""
    if change.is_rebuild:
        return {**dict.fromkeys(known.partitions, NO_MARK), **change.marks}
    return {**known.partitions, **change.marks}


def _logs(change: Change, known: Marks) -> dict[str, int]:
    logs = dict.fromkeys(known.logs, NO_VERSION) if change.is_rebuild else {**known.logs}
    if change.log_version is not None:
        log_id, version = change.log_version
        logs[log_id] = max(version, logs.get(log_id, NO_VERSION))
    return logs


def _erasing(change: Change, known: Marks) -> int:
    """Return the mark `erasing` after a change. A killed erase ends when the next one ends."""
    if change.operation == ERASE_BEGUN:
        return known.begun()
    is_end = change.operation == ERASE_ENDED and change.erasing == known.erasing
    return known.erasing + is_end


def _check_planned(topic: TopicDescription, change: Change, before: Snapshot, known: Marks) -> None:
    moved = [
        partition
        for partition, mark in change.planned.items()
        if known.partitions.get(partition) != mark
    ]
    gone = [one.path for one in change.dropped if one.path not in before.files]
    if moved or gone:
        raise CommitConflictError(
            f"the table of topic {topic.name!r} was changed meanwhile: "
            f"partitions {moved}, files {gone}"
        )
    if change.erasures not in (None, known.erasures):
        raise CommitConflictError(f"records were erased from topic {topic.name!r} meanwhile")


def _check_young(topic: TopicDescription, change: Change, known: Marks) -> None:
    """Refuse files that vacuum may have unlinked as orphans: it commits its horizon first."""
    born_ms = min((one.born_ms for one in change.written), default=known.horizon_ms)
    if born_ms < known.horizon_ms:
        raise LateWriterError(
            f"the table of topic {topic.name!r}: its files took longer to write than "
            f"sparklog.orphan.retention.ms allows, so vacuum may have unlinked them; their "
            f"writer's clock said {born_ms}: if that was long ago, set the clock"
        )


def _made(topic: TopicDescription, before: Snapshot, now_ms: int, *, is_new: bool) -> list[Action]:
    """Return the actions that create the table or restore its columns; [] if neither is needed."""
    if before.exists and not is_new:
        return []
    made = metadata_action(topic.name, topic.topic_id, now_ms, os.urandom(16).hex())
    if before.metadata is not None:
        made["metaData"]["id"] = before.metadata["id"]
    return [protocol_action(), made]


def _remove(file: DataFile, now_ms: int, *, changes_data: bool) -> Action:
    """Return the action that removes a file; to Delta the deletion vector is part of its name."""
    vector = file.action.get("deletionVector")
    return {
        "remove": {
            "path": file.action["path"],
            "deletionTimestamp": now_ms,
            "dataChange": changes_data,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": file.bytes,
            **({"deletionVector": vector} if vector else {}),
        }
    }
