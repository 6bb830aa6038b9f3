"""An image as rows of runs: the rows of keys that entries touched, or all rows. Pure functions.

    rows_since(image, entries)   a row for each key that entries touched, as the image has it
    rows_of(image)               a row for each key of an image

`run_values` converts back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sparklog.metadata.cluster import UserKey
from sparklog.metadata.edit import Edit
from sparklog.metadata.entry import Entry
from sparklog.metadata.image import Image, TopicImage
from sparklog.metadata.tables import (
    BROKER,
    HORIZON,
    LEASE,
    PARTITION,
    PRODUCER,
    RECEIPT,
    RUN_SCHEMA,
    SEGMENT,
    SHARED,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    padded,
    segments_table,
    table_of,
)
from sparklog.model import SegmentEntry, SegmentKey
from sparklog.record.arrays import values_of

Row = dict[str, Any]


def rows_since(image: Image, entries: Iterable[Entry]) -> pa.Table:
    """Return a row (RUN_SCHEMA) for each key that entries touched, as the image has it.

    The image is that of the last entry; the topics that the entries touched are open to view.
    """
    topics: dict[str, _Touched] = {}
    keys = _Keys()
    for entry in entries:
        for edit in entry.edits:
            keys.add(edit)
            for topic_id in edit.forget_topics:
                topics.setdefault(topic_id, _Touched())
            for topic_id, of_topic in edit.topics.items():
                topics.setdefault(topic_id, _Touched()).add(of_topic)
    return _rows(image, topics, keys)


def rows_of(image: Image) -> pa.Table:
    """Return a row (RUN_SCHEMA) for each key of an image whose topics are all open to view."""
    topics = {topic_id: _Touched.whole(topic) for topic_id, topic in image.topics.items()}
    return _rows(image, topics, _Keys.whole(image))


def _rows(image: Image, topics: "Mapping[str, _Touched]", keys: "_Keys") -> pa.Table:
    rows: list[Row] = [_horizon_row(image), *keys.rows(image)]
    segments: list[SegmentEntry] = []
    owners: list[str] = []
    for topic_id, touched in topics.items():
        topic = image.topic(topic_id)
        if topic is None:
            rows.append({"kind": TOPIC, "topic_id": topic_id, "gone": True})
        else:
            rows.append(_topic_row(topic))
            rows += touched.rows(topic)
            found, gone = touched.segments(topic)
            segments += found
            owners += [topic_id] * len(found)
            place = {"kind": SEGMENT, "topic_id": topic_id, "gone": True}
            rows += [{**place, **key._asdict()} for key in gone]
    for row in rows:
        row.setdefault("gone", False)
        row["as_of"] = image.version
    return pa.concat_tables(
        [table_of(rows, RUN_SCHEMA), _segment_rows(segments, owners, image.version)]
    )


def _segment_rows(segments: Sequence[SegmentEntry], owners: Sequence[str], as_of: int) -> pa.Table:
    """Return the rows of segments; `owners` are the ids of their topics."""
    table, count = segments_table(segments), len(segments)
    given: dict[str, Sequence[Any]] = {
        "kind": [SEGMENT] * count,
        "as_of": [as_of] * count,
        "gone": [False] * count,
        "topic_id": owners,
    }
    for name, values in given.items():
        table = table.append_column(name, values_of(values, RUN_SCHEMA.field(name).type))
    return padded(table, RUN_SCHEMA)


@dataclass(slots=True)
class _Keys:
    """The keys of the log dir that edits touched."""

    leases: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    users: set[UserKey] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)

    def add(self, edit: Edit) -> None:
        """Note the keys of one more edit."""
        self.leases.update(edit.leases)
        self.brokers.update(edit.brokers)
        self.users.update(edit.users)
        self.transactional_ids.update(edit.transactional_ids)
        self.shared.update(edit.forget_shared)
        for of_topic in edit.topics.values():
            self.shared.update(one.log_path for one in of_topic.segments if one.is_shared)
            self.shared.update(key.log_path for key in of_topic.remove if key.is_shared)

    @classmethod
    def whole(cls, image: Image) -> "_Keys":
        """Return all keys of an image."""
        return cls(
            set(image.leases),
            set(image.shared),
            set(image.brokers),
            set(image.users),
            set(image.transactional_ids.by_id),
        )

    def rows(self, image: Image) -> list[Row]:
        """Return the rows of these keys, as the image has them."""
        return [
            *(_lease_row(image, name) for name in sorted(self.leases)),
            *(_shared_row(image, path) for path in sorted(self.shared)),
            *(_broker_row(image, node_id) for node_id in sorted(self.brokers)),
            *(_user_row(image, key) for key in sorted(self.users)),
            *(_transactional_id_row(image, name) for name in sorted(self.transactional_ids)),
        ]


class _Touched:
    """The keys of one topic that edits touched."""

    def __init__(self) -> None:
        self._partitions: set[int] = set()
        self._segments: dict[int, set[SegmentKey]] = {}
        self._made: set[SegmentKey] = set()
        """Segments that the edits themselves have added: no older run has a row of them."""
        self._receipts: set[Any] = set()
        self._producers: set[tuple[int, int]] = set()
        self._all_partitions = False

    def add(self, edit: Any) -> None:
        """Note the keys of one more edit."""
        added = [entry.key for entry in edit.segments]
        keys = [*added, *(entry.key for entry in edit.replace), *edit.remove, *edit.forget]
        self._made.update(key for key in added if key not in self._segments.get(key.partition, ()))
        for key in keys:
            self._segments.setdefault(key.partition, set()).add(key)
        self._partitions.update(
            {key.partition for key in keys},
            edit.partitions,
            edit.transactions,
            edit.epochs,
            edit.producers,
        )
        self._receipts.update(edit.receipts)
        self._all_partitions |= edit.forget_producers_before_ms is not None
        for number, states in edit.producers.items():
            self._producers.update((number, one.producer_id) for one in states)

    @classmethod
    def whole(cls, topic: TopicImage) -> "_Touched":
        """Return all keys of a topic."""
        found = cls()
        found._all_partitions = True
        found._producers.update(
            (number, producer_id)
            for number, log in topic.partitions.items()
            for producer_id in log.producers
        )
        found._receipts.update(topic.receipts)
        live = [entry for log in topic.partitions.values() for entry in log.entries()]
        for entry in (*live, *topic.removed):
            found._segments.setdefault(entry.partition, set()).add(entry.key)
        return found

    def rows(self, topic: TopicImage) -> list[Row]:
        """Return the rows of these keys, as the topic has them."""
        place = {"topic_id": topic.description.topic_id}
        known = set(topic.partitions)
        numbers = known if self._all_partitions else known & self._partitions
        rows = [{**place, **_partition_row(topic, number)} for number in sorted(numbers)]
        rows += [{**place, **_receipt_row(topic, key)} for key in sorted(self._receipts)]
        rows += [{**place, **_producer_row(topic, *key)} for key in sorted(self._producers)]
        return rows

    def segments(self, topic: TopicImage) -> tuple[list[SegmentEntry], list[SegmentKey]]:
        """Return the live and the removed segments of these keys, and the keys of no segment."""
        found: list[SegmentEntry] = []
        gone: list[SegmentKey] = []
        for number, keys in self._segments.items():
            live = topic.partition(number).live.find(keys)
            found += live
            if len(live) == len(keys):
                continue
            for key in keys.difference(entry.key for entry in live):
                removal = topic.content.removed.get(key)
                if removal is not None:
                    found.append(removal.entry(key))
                elif key not in self._made:
                    gone.append(key)  # else it was merged since: nobody has to learn that
        return found, gone


def _horizon_row(image: Image) -> Row:
    """Return the row that also has the position of the run: the id and time of its last entry."""
    return {
        "kind": HORIZON,
        "horizon_ms": image.horizon_ms,
        "level": image.level,
        "next_producer_id": image.next_producer_id,
        "ended_logs": [one._asdict() for one in image.ended_logs] or None,
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


def _broker_row(image: Image, node_id: int) -> Row:
    broker = image.brokers.get(node_id)
    if broker is None:
        return {"kind": BROKER, "node_id": node_id, "gone": True}
    endpoints = [one._asdict() for one in broker.endpoints]
    return {"kind": BROKER, **broker._asdict(), "endpoints": endpoints}


def _user_row(image: Image, key: UserKey) -> Row:
    credential = image.users.get(key)
    row = {"kind": USER, "name": key[0], "mechanism": key[1]}
    return {**row, "gone": True} if credential is None else {**row, **credential._asdict()}


def _transactional_id_row(image: Image, name: str) -> Row:
    found, row = image.transactional_ids.get(name), {"kind": TRANSACTIONAL_ID, "name": name}
    if found is None:
        return {**row, "gone": True}
    return {
        **row,
        "producer_id": found.producer_id,
        "producer_epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "status": str(found.status),
        "last_producer_id": found.last_producer_id,
        "last_epoch": found.last_epoch,
        "number": found.number,
        "started_ms": found.started_ms,
        "used_ms": found.used_ms,
        "transaction_partitions": [one._asdict() for one in found.partitions] or None,
        "transaction_groups": list(found.groups) or None,
        "transaction_offsets": [one._asdict() for one in found.offsets] or None,
    }


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
        "producers_from_ms": log.idempotence.mark.used_ms or None,
        "producers_from_id": log.idempotence.mark.producer_id or None,
    }


def _receipt_row(topic: TopicImage, key: Any) -> Row:
    receipt = topic.receipts.get(key)
    row = {"kind": RECEIPT, "app_id": key.app_id, "is_versioned": key.is_versioned}
    if receipt is None:
        return {**row, "gone": True}
    return {**row, **receipt._asdict(), "ranges": [one._asdict() for one in receipt.ranges]}


def _producer_row(topic: TopicImage, number: int, producer_id: int) -> Row:
    state = topic.partition(number).producers.get(producer_id)
    row = {"kind": PRODUCER, "partition": number, "producer_id": producer_id}
    if state is None:
        return {**row, "gone": True}
    batches = [one._asdict() for one in state.batches] or None
    said = {"producer_epoch": state.epoch, "batches": batches, "used_ms": state.used_ms}
    return {**row, **said}
