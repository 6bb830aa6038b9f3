"""A group of requests to segments and one commit, with the offsets of every record.

    partitions    what a record names, else its key's, else sticky; with an Idempotency-Key nothing
                  is left to chance: toPositive(murmur2(Idempotency-Key)) takes records without key
    offsets       a partition's records get its offsets in the order of the group
    receipts      of every key, the offsets a partition: checked inside the commit loop. If a key
                  has landed elsewhere meanwhile, the group is written again without it

A request that the log refuses is found by halving the group; the others are committed. Files of a
group that was written again stay for vacuum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from api.records import Rows
from sparklog.errors import (
    FencedLeaderEpochError,
    InvalidRecordError,
    LateWriterError,
    SparklogError,
    UnknownTopicError,
    UsageError,
)
from sparklog.log_writer import TopicWriter, WriteOptions, WritePlan, plan_write_to
from sparklog.manifest.catalog import Catalog
from sparklog.manifest.store import (
    Change,
    Done,
    ManifestStore,
    Plan,
    Receipt,
    Snapshot,
    at_log_end,
)
from sparklog.model import NO_TIMESTAMP, OffsetRange, SegmentEntry, TopicDescription
from sparklog.produce.partitioner import (
    DEFAULT,
    ROUND_ROBIN,
    UNIFORM_STICKY,
    Partitioner,
    resolve_partitioner,
)
from sparklog.record.rows import HEADERS_TYPE, RecordColumns

PLANS_MAX: Final = 3
"""How often a group is planned again after an import or a vacuum came between."""

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Request = tuple[Rows, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """What one request got: partition and offset of each record.

    `now_ms` is the time of records that brought none, -1 when a replay no longer knows it.
    """

    partition: Int32s
    offset: Int64s
    now_ms: int
    replayed: bool = False


Outcome = Written | SparklogError


class GroupWriter:
    """Writes groups. For several threads at once, as long as each topic has one at a time."""

    def __init__(
        self, catalog: Catalog, options: WriteOptions, on_conflict: Callable[[], None]
    ) -> None:
        self._catalog = catalog
        self._options = options
        self._on_conflict = on_conflict
        self._lock = Lock()
        self._partitioners: dict[tuple[str, str], Partitioner] = {}

    def write(self, topic: str, requests: Sequence[Request]) -> list[Outcome]:
        """Write and commit; return what each request got, or the error it is answered with."""
        try:
            return self._written(topic, requests)
        except UsageError as error:
            # Raised before the commit, so nothing of the group is there.
            if len(requests) == 1:
                return [error]
            half = len(requests) // 2
            return self.write(topic, requests[:half]) + self.write(topic, requests[half:])
        except SparklogError as error:
            return [error] * len(requests)

    def _written(self, topic: str, requests: Sequence[Request]) -> list[Outcome]:
        keys = {key for _, key in requests if key is not None}
        receipts: dict[str, Receipt] | None = None
        plans = 0
        while True:
            store, plan = self._planned(topic)
            if receipts is None:
                receipts = dict(store.snapshot().receipts(keys))
            fresh = [request for request in requests if request[1] not in receipts]
            try:
                landed = self._committed(store, plan, fresh, receipts) if fresh else []
            except (LateWriterError, FencedLeaderEpochError):
                plans += 1
                if plans == PLANS_MAX:
                    raise
                continue
            if landed is None:
                continue  # a key of the group has landed elsewhere: without it
            rest = iter(landed)
            return [
                self._replayed(plan, rows, key, receipts[key])
                if key is not None and key in receipts
                else next(rest)
                for rows, key in requests
            ]

    def _planned(self, topic: str) -> tuple[ManifestStore, WritePlan]:
        with self._lock:
            description = self._catalog.topics().get(topic)
            if description is None:
                raise UnknownTopicError(f"unknown topic {topic!r}", topic=topic)
            store = self._catalog.store(description)
        return store, plan_write_to(self._catalog, description, self._options)

    def _committed(
        self,
        store: ManifestStore,
        plan: WritePlan,
        requests: Sequence[Request],
        receipts: dict[str, Receipt],
    ) -> list[Outcome] | None:
        """Commit the requests together; None, with the receipt, when a key has landed meanwhile.

        Raises UsageError, with nothing committed, when one of the requests is refused.
        """
        partitions = self._partitions(plan, requests)
        pending = self._segments(plan, requests, partitions)
        sizes = [len(rows) for rows, _ in requests]
        known = len(receipts)
        place = self._placing(plan, pending, _key_spans(requests, sizes, partitions), receipts)
        committed = store.commit(place)
        if len(receipts) > known:
            return None
        starts = np.zeros(plan.topic.num_partitions, np.int64)
        for got in committed.ranges or ():
            starts[got.partition] = got.start
        offsets = starts[partitions] + ranks_of(partitions, plan.topic.num_partitions)
        cuts = np.cumsum(sizes)[:-1]
        return [
            Written(partition, offset, plan.now_ms)
            for partition, offset in zip(
                np.split(partitions, cuts), np.split(offsets, cuts), strict=True
            )
        ]

    def _placing(
        self,
        plan: WritePlan,
        pending: Sequence[SegmentEntry],
        spans: dict[str, list[OffsetRange]],
        receipts: dict[str, Receipt],
    ) -> Plan:
        """Return the plan of the commit; `receipts` gets those of keys that have landed before."""
        partitions = {entry.partition for entry in pending}
        tries: list[int] = []

        def place(snapshot: Snapshot) -> Change | Done:
            if tries:
                self._on_conflict()
            tries.append(snapshot.version)
            landed = snapshot.receipts(spans)
            if landed:
                receipts.update(landed)
                return Done()
            return Change(
                segments=at_log_end(snapshot, pending),
                leader_epochs=dict.fromkeys(partitions, plan.leader_epoch),
                partition_count=plan.topic.num_partitions,
                receipts={
                    key: [_moved(span, snapshot) for span in wanted]
                    for key, wanted in spans.items()
                },
            )

        return place

    def _segments(
        self, plan: WritePlan, requests: Sequence[Request], partitions: Int32s
    ) -> list[SegmentEntry]:
        writer = TopicWriter(self._catalog.files, plan, self._catalog.clock, seed=0)
        try:
            writer.write(
                _columns([rows for rows, _ in requests], plan.now_ms), pa.array(partitions)
            )
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def _partitions(self, plan: WritePlan, requests: Sequence[Request]) -> Int32s:
        count = plan.topic.num_partitions
        return np.concatenate([self._chosen(plan, rows, key, count) for rows, key in requests])

    def _chosen(self, plan: WritePlan, rows: Rows, key: str | None, count: int) -> Int32s:
        """Return the partition of each record. Raises UnknownTopicError for one out of range."""
        named = np.array([-1 if one is None else one for one in rows.partition], np.int64)
        if (named >= count).any():
            wrong = int(named.max())
            raise UnknownTopicError(
                f"topic {plan.topic.name!r} has no partition {wrong}: it has 0 to {count - 1}",
                topic=plan.topic.name,
                partition=wrong,
            )
        if (named >= 0).all():
            return named.astype(np.int32)
        columns = _columns([rows], plan.now_ms)
        if key is None:
            partitioner = self._partitioner(plan.topic, plan)
        else:
            partitioner = KeyedPartitioner(plan.partitioner, key)
        return np.where(named >= 0, named, partitioner.assign(columns, count)).astype(np.int32)

    def _partitioner(self, topic: TopicDescription, plan: WritePlan) -> Partitioner:
        """Return the topic's partitioner, which remembers from group to group where it was."""
        place = topic.topic_id, plan.partitioner
        if place not in self._partitioners:
            found = resolve_partitioner(plan.partitioner, plan.options.batch_size, seed=0)
            self._partitioners[place] = found
        return self._partitioners[place]

    def _replayed(self, plan: WritePlan, rows: Rows, key: str, receipt: Receipt) -> Outcome:
        """Return the offsets that the first request with this key got."""
        count = receipt.partition_count or plan.topic.num_partitions
        try:
            partitions = self._chosen(plan, rows, key, count)
        except UsageError as error:
            return error
        spans = np.bincount(partitions, minlength=count)
        starts = np.zeros(count, np.int64)
        for got in receipt.ranges:
            starts[got.partition] = got.start
        if {got.partition: got.span for got in receipt.ranges} != {
            partition: int(spans[partition]) for partition in np.flatnonzero(spans).tolist()
        }:
            return InvalidRecordError(
                "this Idempotency-Key was used with other records: a new request needs a new key"
            )
        offsets = starts[partitions] + ranks_of(partitions, count)
        return Written(partitions, offsets, NO_TIMESTAMP, replayed=True)


class KeyedPartitioner:
    """What a request with an Idempotency-Key gets: the same for the same records, on any instance.

    Records with a key go where the key says, those without one, and all of a topic that ignores
    keys, where the Idempotency-Key says.
    """

    def __init__(self, name: str, idempotency_key: str) -> None:
        self._name = name
        self._key = idempotency_key.encode()

    def assign(self, columns: RecordColumns, num_partitions: int) -> Int32s:
        """The partition of each row."""
        if self._name not in (DEFAULT, ROUND_ROBIN, UNIFORM_STICKY):
            return resolve_partitioner(self._name, 1, seed=0).assign(columns, num_partitions)
        ignores_keys = self._name != DEFAULT
        key = pa.nulls(len(columns), pa.binary()) if ignores_keys else columns.key
        hashed = RecordColumns(key.fill_null(self._key), columns.value, columns.timestamp)
        return resolve_partitioner(DEFAULT, 1, seed=0).assign(hashed, num_partitions)


def ranks_of(partitions: Int32s, count: int) -> Int64s:
    """Return how many rows before each one go to the same partition."""
    order = np.argsort(partitions, kind="stable")
    sizes = np.bincount(partitions, minlength=count)
    ranks = np.empty(len(partitions), np.int64)
    ranks[order] = np.arange(len(partitions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ranks


def _key_spans(
    requests: Sequence[Request], sizes: Sequence[int], partitions: Int32s
) -> dict[str, list[OffsetRange]]:
    """Return, by key, what its records get of each partition, counted from the log end offset."""
    spans: dict[str, list[OffsetRange]] = {}
    ends: dict[int, int] = {}
    start = 0
    for (_, key), size in zip(requests, sizes, strict=True):
        found, counts = np.unique(partitions[start : start + size], return_counts=True)
        mine = []
        for partition, count in zip(found.tolist(), counts.tolist(), strict=True):
            begin = ends.get(partition, 0)
            ends[partition] = begin + count
            mine.append(OffsetRange(partition, begin, begin + count))
        if key is not None:
            spans[key] = mine
        start += size
    return spans


def _moved(span: OffsetRange, snapshot: Snapshot) -> OffsetRange:
    base = snapshot.state(span.partition).log_end_offset
    return OffsetRange(span.partition, base + span.start, base + span.end)


def _columns(parts: Sequence[Rows], now_ms: int) -> RecordColumns:
    headers = [pairs for rows in parts for pairs in rows.headers]
    return RecordColumns(
        key=pa.array([key for rows in parts for key in rows.key], pa.binary()),
        value=pa.array([value for rows in parts for value in rows.value], pa.binary()),
        timestamp=np.array(
            [now_ms if one is None else one for rows in parts for one in rows.timestamp], np.int64
        ),
        headers=pa.array(headers, HEADERS_TYPE) if any(headers) else None,
    )
