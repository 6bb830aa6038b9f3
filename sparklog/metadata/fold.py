"""Folding: the entries since the last fold become a run, and runs of like size become one.

    rows_since(image, entries)   the keys that entries touched, as the image has them: pure
    rows_of(image)               all keys of an image
    fold(log)                    write the run (`runs`) and the history (`history`), merge, commit
                                 the FoldEdit, then publish Delta's checkpoint and the hint

A fold changes nothing that is committed; it conflicts with other folds only. Each row is rewritten
O(log n) times: a new run takes in the runs before it that are not twice its size. A process that is
killed while it folds leaves files that no entry names; vacuum deletes them when they are older than
the log dir's horizon.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
import pyarrow as pa

from sparklog.errors import CommitConflictError, CorruptMetadataError, LateWriterError
from sparklog.metadata import delta
from sparklog.metadata.edit import Done, Edit, FoldEdit, RunFile
from sparklog.metadata.entry import Entry
from sparklog.metadata.history_runs import Retention, continued, told, without_damaged
from sparklog.metadata.image import Image, TopicImage
from sparklog.metadata.log import ENTRIES, HINT, MetadataLog
from sparklog.metadata.runs import in_order, merged
from sparklog.metadata.tables import (
    HORIZON,
    LEASE,
    PARTITION,
    RECEIPT,
    RUN_SCHEMA,
    SEGMENT,
    SHARED,
    TOPIC,
    segment_row,
    table_of,
)
from sparklog.model import SegmentKey

FOLD_EVERY: Final = 256
"""The committer of a version that is a multiple of this folds."""
FOLD_AT_THE_LATEST: Final = 1024
"""With this many entries behind the last fold, every committer folds."""

FOLD_AT_THE_LATEST_BYTES: Final = 4 * 1024 * 1024
"""With this many bytes of entries behind the last fold, too."""
POINTER: Final = f"{ENTRIES}/_last_checkpoint"
RETENTION: Final = Retention()

Row = dict[str, Any]


def is_due(image: Image, bytes_behind: int = 0) -> bool:
    """Whether the committer of the image's version should fold."""
    behind = image.version - image.fold.cover
    is_late = behind >= FOLD_AT_THE_LATEST or bytes_behind >= FOLD_AT_THE_LATEST_BYTES
    return behind > 1 and (is_late or image.version % FOLD_EVERY == 0)


def fold(
    log: MetadataLog,
    *,
    retention: Retention = RETENTION,
    is_forced: bool = False,
    damaged: Collection[str] = (),
) -> Image | None:
    """Fold all entries up to the newest; None when there are none, or another process was first.

    `is_forced` folds when nothing but folds came since the last one, too; `damaged` are files of
    the history that are left out. Raises StorageError when a file cannot be written,
    CorruptMetadataError when an entry cannot be read.
    """
    image = log.image()
    based_on, cover = image.fold.cover, image.version
    entries = [told(log, image.fold, version) for version in range(based_on + 1, cover + 1)]
    is_idle = all(edit.fold is not None for entry in entries for edit in entry.edits)
    if not entries or (is_idle and not is_forced):
        return None
    touched = {topic_id for entry in entries for edit in entry.edits for topic_id in edit.topics}
    image = log.opened_at(image, touched)
    rows = table_of(rows_since(image, entries), RUN_SCHEMA)
    runs = _with_run(log, image, rows, based_on + 1)
    before = replace(image.fold, history=without_damaged(image.fold, damaged))
    history = continued(log, before, entries, runs, retention)
    return commit_fold(log, FoldEdit(cover, based_on, runs, history))


def commit_fold(log: MetadataLog, made: FoldEdit, operation: str = "FOLD") -> Image | None:
    """Commit a fold whose files are written, and publish it; None when another was first."""
    told = {"cover": str(made.cover), "rows": str(sum(run.rows for run in made.runs))}

    def plan(newest: Image) -> Edit | Done:
        if newest.fold.cover != made.based_on:
            return Done()
        return Edit(operation=operation, parameters=told, fold=made)

    try:
        committed = log.commit(plan, housekeeping=False)
    except (CommitConflictError, LateWriterError):
        return None
    if committed.edit is None:
        return None
    log.bytes_behind = 0
    publish(log, committed.image.version, made)
    return committed.image


def _with_run(log: MetadataLog, image: Image, rows: pa.Table, first: int) -> tuple[RunFile, ...]:
    """Return the runs with a new one, which takes in those before it that are not twice as large.

    A run that cannot be read stays as it is: a reader of one of its topics gets the error.
    """
    kept = list(image.fold.runs)
    tables = [in_order(rows)]
    count = rows.num_rows
    while kept and kept[-1].rows <= 2 * count:
        try:
            tables.append(log.runs.whole(kept[-1]))
        except CorruptMetadataError:
            break
        run = kept.pop()
        count += run.rows
        first = run.from_version
    whole = merged(tables, drops_gone=not kept)
    if not kept:
        whole = _alive(whole, image)
    fresh = log.runs.write(whole, (first, image.version), log.clock.now_ms())
    return (*kept, fresh)


def _alive(rows: pa.Table, image: Image) -> pa.Table:
    """Return the rows without those of forgotten topics, and without forgotten receipts.

    A reader of runs passes over the same receipts (`run_values.contents`).
    """
    import pyarrow.compute as pc

    known = sorted(image.topics)
    before_ms = pa.array([image.topics[one].receipts_before_ms for one in known], pa.int64())
    ids = rows.column("topic_id")
    slots = pc.index_in(ids, pa.array(known, pa.string()))
    is_request = pc.and_(
        pc.equal(rows.column("kind"), RECEIPT), pc.invert(rows.column("is_versioned"))
    )
    is_old = pc.less(rows.column("used_ms"), before_ms.take(slots.combine_chunks()))
    is_forgotten = pc.fill_null(pc.and_(is_request, is_old), fill_value=False)
    is_known = pc.or_(pc.is_null(ids), pc.is_valid(slots))
    return rows.filter(pc.and_not(is_known, is_forgotten))


# ------------------------------------------------------------------------------------------- rows


def rows_since(image: Image, entries: Iterable[Entry]) -> list[Row]:
    """Return a row for each key that entries touched, as the image has it.

    The image is that of the last entry, with the topics they touched opened.
    """
    topics: dict[str, _Touched] = {}
    leases: set[str] = set()
    shared: set[str] = set()
    for entry in entries:
        for edit in entry.edits:
            leases.update(edit.leases)
            shared.update(edit.forget_shared)
            for topic_id in edit.forget_topics:
                topics.setdefault(topic_id, _Touched())
            for topic_id, of_topic in edit.topics.items():
                topics.setdefault(topic_id, _Touched()).add(of_topic)
                shared.update(one.log_path for one in of_topic.segments if one.is_shared)
                shared.update(key.log_path for key in of_topic.remove if key.is_shared)
    return _rows(image, topics, leases, shared)


def rows_of(image: Image) -> list[Row]:
    """Return a row for each key of an image whose topics are all opened."""
    topics = {topic_id: _Touched.whole(topic) for topic_id, topic in image.topics.items()}
    return _rows(image, topics, set(image.leases), set(image.shared))


def _rows(
    image: Image, topics: "Mapping[str, _Touched]", leases: set[str], shared: set[str]
) -> list[Row]:
    rows: list[Row] = [_horizon_row(image)]
    rows += [_lease_row(image, name) for name in sorted(leases)]
    rows += [_shared_row(image, path) for path in sorted(shared)]
    for topic_id, touched in topics.items():
        topic = image.topic(topic_id)
        if topic is None:
            rows.append({"kind": TOPIC, "topic_id": topic_id, "gone": True})
        else:
            rows.append(_topic_row(topic))
            rows += touched.rows(topic)
    for row in rows:
        row.setdefault("gone", False)
        row["as_of"] = image.version
    return rows


class _Touched:
    """The keys of one topic that edits touched."""

    def __init__(self) -> None:
        self._partitions: set[int] = set()
        self._segments: dict[int, set[SegmentKey]] = {}
        self._receipts: set[Any] = set()

    def add(self, edit: Any) -> None:
        """Note the keys of one more edit."""
        keys = [
            *(entry.key for entry in (*edit.segments, *edit.replace)),
            *edit.remove,
            *edit.forget,
        ]
        for key in keys:
            self._segments.setdefault(key.partition, set()).add(key)
        self._partitions.update(
            {key.partition for key in keys},
            edit.partitions,
            edit.transactions,
            edit.epochs,
        )
        self._receipts.update(edit.receipts)

    @classmethod
    def whole(cls, topic: TopicImage) -> "_Touched":
        """Return all keys of a topic."""
        found = cls()
        found._partitions.update(topic.partitions)
        found._receipts.update(topic.receipts)
        live = [entry for log in topic.partitions.values() for entry in log.entries()]
        for entry in (*live, *topic.removed):
            found._segments.setdefault(entry.partition, set()).add(entry.key)
        return found

    def rows(self, topic: TopicImage) -> list[Row]:
        """Return the rows of these keys, as the topic has them."""
        place = {"topic_id": topic.description.topic_id}
        rows = [
            {**place, **_partition_row(topic, number)}
            for number in sorted(self._partitions)
            if number in topic.partitions
        ]
        rows += [{**place, **_receipt_row(topic, key)} for key in sorted(self._receipts)]
        removed = {entry.key: entry for entry in topic.removed}
        for number, keys in self._segments.items():
            live = {entry.key: entry for entry in topic.partition(number).live.find(keys)}
            for key in keys:
                entry = live.get(key) or removed.get(key)
                row = {**key._asdict(), "gone": True} if entry is None else segment_row(entry)
                rows.append({**place, "kind": SEGMENT, **row})
        return rows


def _horizon_row(image: Image) -> Row:
    """Return the row that also says where the run stands: the id and time of its last entry."""
    return {
        "kind": HORIZON,
        "horizon_ms": image.horizon_ms,
        "level": image.level,
        "name": image.stamp.entry_id,
        "used_ms": image.stamp.timestamp_ms,
    }


def _lease_row(image: Image, name: str) -> Row:
    lease = image.leases.get(name)
    if lease is None:
        return {"kind": LEASE, "name": name, "gone": True}
    return {
        "kind": LEASE,
        "name": name,
        "owner": lease.owner,
        "expires_ms": lease.expires_ms,
    }


def _shared_row(image: Image, path: str) -> Row:
    found = image.shared.get(path)
    if found is None:
        return {"kind": SHARED, "log_path": path, "gone": True}
    return {"kind": SHARED, "log_path": path, **found._asdict()}


def _topic_row(topic: TopicImage) -> Row:
    description = topic.description
    return {
        "kind": TOPIC,
        "topic_id": description.topic_id,
        "name": description.name,
        "partition_count": description.num_partitions,
        "configs": list(description.configs.items()),
        "created_ms": description.created_ms,
        "deleted_ms": description.deleted_ms,
        "vacuum_horizon_ms": topic.vacuum_horizon_ms,
        "receipts_before_ms": topic.receipts_before_ms,
        "version": topic.version,
    }


def _partition_row(topic: TopicImage, number: int) -> Row:
    log = topic.partition(number)
    return {
        "kind": PARTITION,
        "partition": number,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "leader_epoch": log.leader_epoch,
        "cleaner_offset": log.cleaner_offset,
        "imported_end_offset": log.imported_end_offset,
        "transactions": [one._asdict() for one in log.transactions] or None,
        "epochs": [one._asdict() for one in log.epochs] or None,
    }


def _receipt_row(topic: TopicImage, key: Any) -> Row:
    receipt = topic.receipts.get(key)
    row = {"kind": RECEIPT, "app_id": key.app_id, "is_versioned": key.is_versioned}
    if receipt is None:
        return {**row, "gone": True}
    return {**row, **receipt._asdict(), "ranges": [one._asdict() for one in receipt.ranges]}


# ------------------------------------------------------------------------------------------ delta


def publish(log: MetadataLog, version: int, made: FoldEdit) -> None:
    """Write Delta's checkpoint of the fold's version, and the two hints that lead to it."""
    checkpoint = checkpoint_path(version)
    data = delta.checkpoint(delta.metadata(log.log_id), made.runs)
    if log.files.put_new(checkpoint, data):
        log.files.sync_directory(ENTRIES)
    size = 2 + len(made.runs)
    pointer: Mapping[str, int] = {"version": version, "size": size}
    log.files.overwrite(POINTER, orjson.dumps(pointer))
    log.files.overwrite(HINT, orjson.dumps({"version": version}))


def checkpoint_path(version: int) -> str:
    """Return the path of Delta's checkpoint of a version."""
    return f"{ENTRIES}/{version:020}.checkpoint.parquet"
