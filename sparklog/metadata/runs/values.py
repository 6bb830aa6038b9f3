"""Rows of runs to values: the image of a log dir, and topics. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from immutables import Map

from sparklog.errors import CorruptMetadataError
from sparklog.metadata.runs.rows import marked
from sparklog.metadata.runs.tables import (
    BROKER,
    HORIZON,
    LEASE,
    LOG_DIR_KINDS,
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
)
from sparklog.metadata.state.cluster import Broker, Endpoint, ScramCredential
from sparklog.metadata.state.edit import (
    EpochStart,
    FoldEdit,
    Lease,
    LogVersion,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    Stamp,
)
from sparklog.metadata.state.image import (
    Directory,
    Image,
    PartitionLog,
    Removal,
    SharedSegmentState,
    TopicContent,
    TopicImage,
)
from sparklog.metadata.state.producers import ProducerBatch, Producers, ProducerState
from sparklog.metadata.state.segment_tables import SEGMENT_SCHEMA, segment_entries
from sparklog.metadata.state.segments import LiveSegments
from sparklog.metadata.state.transactions import (
    PendingOffset,
    TransactionalId,
    TransactionalIds,
    TransactionPartition,
    TransactionStatus,
)
from sparklog.model import OffsetRange, SegmentEntry, TopicDescription
from sparklog.record.arrays import numbers_of, strings_of

_STATE: Final = PartitionState._fields

Row = Mapping[str, Any]
ProducerRows = Mapping[tuple[str, int], pa.Table]


def image_of(fold: FoldEdit, rows: pa.Table) -> Image:
    """Return the image as of the fold's cover from the log dir's rows; no topic is opened."""
    by_kind: dict[str, list[Row]] = {kind: [] for kind in LOG_DIR_KINDS}
    others = rows.filter(pc.not_equal(rows.column("kind"), strings_of([SHARED])[0]))
    for row in padded(others, RUN_SCHEMA).to_pylist():
        by_kind[row["kind"]].append(row)
    if len(by_kind[HORIZON]) != 1:
        raise CorruptMetadataError(
            f"the runs of the fold up to {fold.cover} lack their horizon row"
        )
    (horizon,) = by_kind[HORIZON]
    topics = Map({row["topic_id"]: _unopened(row) for row in by_kind[TOPIC]})
    leases = [Lease(row["name"], row["owner"], row["expires_ms"]) for row in by_kind[LEASE]]
    return Image(
        stamp=Stamp(fold.cover, horizon["name"], horizon["used_ms"]),
        topics=topics,
        leases=Map({lease.name: lease for lease in leases}),
        shared=_shared(rows),
        horizon_ms=horizon["horizon_ms"],
        level=horizon["level"],
        fold=fold,
        directory=Directory(topics),
        next_producer_id=horizon["next_producer_id"] or 0,
        brokers=Map({row["node_id"]: _broker(row) for row in by_kind[BROKER]}),
        users=Map({(row["name"], row["mechanism"]): _credential(row) for row in by_kind[USER]}),
        transactional_ids=TransactionalIds(map(_transactional_id, by_kind[TRANSACTIONAL_ID])),
        ended_logs=tuple(LogVersion(**one) for one in horizon["ended_logs"] or ()),
    )


def contents(
    topics: Sequence[TopicImage], rows: pa.Table
) -> Iterator[tuple[TopicImage, TopicContent]]:
    """Yield (topic, its content) for topics that are not opened; they are in the order of ids."""
    segments = _Segments(rows, [topic.description.topic_id for topic in topics])
    partitions, receipts = _by_topic(rows, PARTITION), _by_topic(rows, RECEIPT)
    producers = _producers(rows)
    for at, topic in enumerate(topics):
        topic_id = topic.description.topic_id
        before_ms = topic.receipts_before_ms
        yield (
            topic,
            TopicContent(
                Map(segments.logs(at, topic, partitions.get(topic_id, ()), producers)),
                Removal.of(segments.removed.get(topic_id, ())),
                Map(
                    {
                        ReceiptKey(row["app_id"], row["is_versioned"]): _receipt(row)
                        for row in receipts.get(topic_id, ())
                        if row["is_versioned"] or row["used_ms"] >= before_ms
                    }
                ),
                topic.vacuum_horizon_ms,
                before_ms,
            ),
        )


class _Segments:
    """The segments of some topics: live ones as rows of one table, removed ones as entries."""

    def __init__(self, rows: pa.Table, topic_ids: Sequence[str]) -> None:
        found = _of_kind(rows, SEGMENT, ["topic_id", *SEGMENT_SCHEMA.names])
        self.removed: dict[str, list[SegmentEntry]] = {}
        if "removed_ms" in found.column_names:
            is_removed = pc.is_valid(found.column("removed_ms"))
            removed = found.filter(is_removed)
            ids = removed.column("topic_id").to_pylist()
            entries = segment_entries(padded(removed, SEGMENT_SCHEMA))
            for topic_id, entry in zip(ids, entries, strict=True):
                self.removed.setdefault(topic_id, []).append(entry)
            found = found.filter(pc.invert(is_removed))
        codes = pc.index_in(found.column("topic_id"), strings_of(topic_ids))
        self._bounds = np.searchsorted(numbers_of(codes), np.arange(len(topic_ids) + 1)).tolist()
        self._live = padded(found.combine_chunks(), SEGMENT_SCHEMA)
        self._numbers = numbers_of(self._live.column("partition"))

    def logs(
        self, at: int, topic: TopicImage, rows: Sequence[Row], producers: ProducerRows
    ) -> dict[int, PartitionLog]:
        """Return the logs of topic number `at` by partition; `rows` are of kind partition."""
        first, last = self._bounds[at], self._bounds[at + 1]
        numbers = [row["partition"] for row in rows]
        starts = first + np.searchsorted(self._numbers[first:last], numbers)
        stops = first + np.searchsorted(self._numbers[first:last], numbers, "right")
        return {
            row["partition"]: _partition(
                topic,
                row,
                LiveSegments.of(self._live, start, stop),
                producers.get((row["topic_id"], row["partition"])),
            )
            for row, start, stop in zip(rows, starts.tolist(), stops.tolist(), strict=True)
        }


def _of_kind(rows: pa.Table, kind: str, names: Sequence[str]) -> pa.Table:
    """Return the rows of one kind, with those of the columns `names` that the run has."""
    known = set(rows.column_names)
    is_kind = pc.equal(rows.column("kind"), strings_of([kind])[0])
    return rows.select([name for name in names if name in known]).filter(is_kind)


def _by_topic(rows: pa.Table, kind: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    of_kind = _of_kind(rows, kind, _SCHEMAS[kind].names)
    for row in padded(of_kind, _SCHEMAS[kind]).to_pylist():
        found.setdefault(row["topic_id"], []).append(row)
    return found


_SCHEMAS: Final = {
    kind: pa.schema([RUN_SCHEMA.field(name) for name in names])
    for kind, names in {
        PARTITION: (
            "topic_id",
            "partition",
            *_STATE,
            "transactions",
            "epochs",
            "producers_from_ms",
            "producers_from_id",
        ),
        PRODUCER: ("topic_id", "partition", "producer_id", "producer_epoch", "used_ms", "batches"),
        RECEIPT: ("topic_id", "app_id", "is_versioned", *Receipt._fields),
        SHARED: ("log_path", *SharedSegmentState._fields),
    }.items()
}


def _shared(rows: pa.Table) -> Map[str, SharedSegmentState]:
    """Return the shared segments; column-wise, as each service makes one a second."""
    schema = _SCHEMAS[SHARED]
    found = padded(_of_kind(rows, SHARED, schema.names), schema)
    paths, counts, times = (found.column(name).to_pylist() for name in schema.names)
    return Map(zip(paths, map(SharedSegmentState, counts, times), strict=True))


def _broker(row: Row) -> Broker:
    endpoints = tuple(Endpoint(**one) for one in row["endpoints"])
    return Broker(row["node_id"], row["incarnation"], endpoints, row["rack"])


def _credential(row: Row) -> ScramCredential:
    return ScramCredential(*(row[name] for name in ScramCredential._fields))


def _transactional_id(row: Row) -> TransactionalId:
    partitions, offsets = row["transaction_partitions"], row["transaction_offsets"]
    return TransactionalId(
        transactional_id=row["name"],
        producer_id=row["producer_id"],
        epoch=row["producer_epoch"],
        timeout_ms=row["timeout_ms"],
        status=TransactionStatus(row["status"]),
        last_producer_id=row["last_producer_id"],
        last_epoch=row["last_epoch"],
        number=row["number"],
        partitions=tuple(TransactionPartition(**one) for one in partitions or ()),
        groups=tuple(row["transaction_groups"] or ()),
        offsets=tuple(PendingOffset(**one) for one in offsets or ()),
        started_ms=row["started_ms"],
        used_ms=row["used_ms"],
    )


def _unopened(row: Row) -> TopicImage:
    description = TopicDescription(
        row["name"],
        row["topic_id"],
        row["partition_count"],
        dict(row["configs"] or ()),
        row["created_ms"],
        row["deleted_ms"],
    )
    content = TopicContent(
        vacuum_horizon_ms=row["vacuum_horizon_ms"] or 0,
        receipts_before_ms=row["receipts_before_ms"] or 0,
    )
    return TopicImage(description, row["version"], content, is_open=False)


def _producers(rows: pa.Table) -> dict[tuple[str, int], pa.Table]:
    """Return the rows of producers by topic id and partition, also rows of forgotten states."""
    schema = _SCHEMAS[PRODUCER]
    found = _of_kind(rows, PRODUCER, schema.names)
    if not found.num_rows:
        return {}
    table = padded(found.combine_chunks(), schema)
    topics = table.column("topic_id").combine_chunks().dictionary_encode()
    places = np.stack((numbers_of(topics.indices), numbers_of(table.column("partition"))))
    changes = (places[:, 1:] != places[:, :-1]).any(axis=0)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    return {
        (topics[start].as_py(), int(places[1, start])): table.slice(start, stop - start)
        for start, stop in pairwise(bounds)
        if start < stop
    }


def _states(rows: pa.Table) -> list[ProducerState]:
    """Return the states in rows of kind producer; column-wise, as there may be thousands."""
    lists = rows.column("batches").combine_chunks()
    batches = map(ProducerBatch, *(numbers_of(one).tolist() for one in lists.flatten().flatten()))
    counts = np.diff(numbers_of(lists.offsets)).tolist()
    names = ("producer_id", "producer_epoch", "used_ms")
    columns = (numbers_of(rows.column(name)).tolist() for name in names)
    return [
        ProducerState(producer_id, epoch, tuple(islice(batches, count)), used_ms)
        for producer_id, epoch, used_ms, count in zip(*columns, counts, strict=True)
    ]


def _partition(
    topic: TopicImage, row: Row, live: LiveSegments, producers: pa.Table | None
) -> PartitionLog:
    number, mark = row["partition"], marked(row)
    return PartitionLog(
        f"{topic.description.name}-{number}",
        number,
        PartitionState(*(row[name] for name in _STATE)),
        live,
        tuple(OpenTransaction(**one) for one in row["transactions"] or ()),
        tuple(EpochStart(**one) for one in row["epochs"] or ()),
        Producers(partial(_states, producers), mark)
        if producers is not None
        else Producers(mark=mark),
    )


def _receipt(row: Row) -> Receipt:
    ranges = tuple(OffsetRange(**one) for one in row["ranges"])
    return Receipt(
        ranges, row["partition_count"], row["version"], row["content_crc32c"], row["used_ms"]
    )
