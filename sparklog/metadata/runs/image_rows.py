"""An image as rows of runs: the rows of keys that entries touched, or all rows. Pure functions.

    rows_since(image, touched)   a row for each key that entries touched, as the image has it
    rows_of(image)               a row for each key of an image

`values` converts back.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sparklog.metadata.runs.tables import (
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
    table_of,
)
from sparklog.metadata.runs.touched import LogDirKeys, TopicKeys, TouchedKeys, keys_of
from sparklog.metadata.state.cluster import UserKey
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.state.segment_tables import segments_table
from sparklog.model import SegmentEntry, SegmentKey
from sparklog.record.arrays import values_of

Row = dict[str, Any]


def rows_since(image: Image, touched: TouchedKeys) -> pa.Table:
    """Return a row (RUN_SCHEMA) for each key that entries touched, as the image has it.

    The image is that of the last entry; the topics that the entries touched in their parts are
    opened.
    """
    rows = _log_dir_rows(image, touched.log_dir)
    segments: list[SegmentEntry] = []
    owners: list[str] = []
    for topic_id, keys in touched.topics.items():
        topic = image.topic(topic_id)
        if topic is None:
            rows.append({"kind": TOPIC, "topic_id": topic_id, "gone": True})
        else:
            rows.append(_topic_row(topic))
            if not keys.of_parts:
                continue
            rows += _topic_rows(topic, keys)
            found, gone = _segments(topic, keys)
            segments += found
            owners += [topic_id] * len(found)
            place = {"kind": SEGMENT, "topic_id": topic_id, "gone": True}
            rows += [{**place, **key._asdict()} for key in gone]
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        row.setdefault("gone", False)
        row["as_of"] = image.version
        by_kind.setdefault(row["kind"], []).append(row)
    # Kind by kind: the rows of one kind fill few of the columns.
    tables = [table_of(of_kind, RUN_SCHEMA) for of_kind in by_kind.values()]
    return pa.concat_tables([*tables, _segment_rows(segments, owners, image.version)])


def rows_of(image: Image) -> pa.Table:
    """Return a row (RUN_SCHEMA) for each key of an image whose topics are all opened."""
    return rows_since(image, keys_of(image))


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


def _log_dir_rows(image: Image, keys: LogDirKeys) -> list[Row]:
    """Return the rows of the log dir's keys, as the image has them."""
    return [
        _horizon_row(image),
        *(_lease_row(image, name) for name in sorted(keys.leases)),
        *(_shared_row(image, path) for path in sorted(keys.shared)),
        *(_broker_row(image, node_id) for node_id in sorted(keys.brokers)),
        *(_user_row(image, key) for key in sorted(keys.users)),
        *(_transactional_id_row(image, name) for name in sorted(keys.transactional_ids)),
    ]


def _topic_rows(topic: TopicImage, keys: TopicKeys) -> list[Row]:
    """Return the rows of a topic's keys, without segments, as the topic has them."""
    place = {"topic_id": topic.description.topic_id}
    known = set(topic.partitions)
    numbers = known if keys.all_partitions else known & keys.partitions.union(keys.segments)
    rows = [{**place, **_partition_row(topic, number)} for number in sorted(numbers)]
    rows += [{**place, **_receipt_row(topic, key)} for key in sorted(keys.receipts)]
    rows += [{**place, **_producer_row(topic, *key)} for key in sorted(keys.producers)]
    return rows


def _segments(topic: TopicImage, keys: TopicKeys) -> tuple[list[SegmentEntry], list[SegmentKey]]:
    """Return the live and the removed segments of a topic's keys, and the keys of no segment."""
    found: list[SegmentEntry] = []
    gone: list[SegmentKey] = []
    for number, places in keys.segments.items():
        live = topic.partition(number).live.at(places.keys())
        found += live
        if len(live) == len(places):
            continue
        for place in places.keys() - {(one.log_path, one.log_position) for one in live}:
            key = SegmentKey(number, *place)
            removal = topic.content.removed.get(key)
            if removal is not None:
                found.append(removal.entry(key))
            elif not places[place]:
                gone.append(key)  # else the entries have added and removed it: no run has its row
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
