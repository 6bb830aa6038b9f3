"""A group of requests to segments and one commit, with the offsets of every record.

    offsets       a partition's records get its offsets in the order of the group
    receipts      of every key, the offsets a partition: checked inside the commit loop. If a key
                  has landed elsewhere meanwhile, the group is written again without it

A request that the log refuses is found by halving the group; the others are committed. Files of a
group that was written again stay for vacuum.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np
import pyarrow as pa

from api.group_rows import (
    Int32s,
    Int64s,
    Request,
    columns_of,
    key_spans,
    partitions_of,
    ranks_of,
)
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
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.catalog import Catalog, TopicPlan
from sparklog.metadata.edit import Done, Receipt, TopicEdit
from sparklog.metadata.image import TopicImage, at_log_end
from sparklog.model import NO_TIMESTAMP, OffsetRange, SegmentEntry
from sparklog.produce.partitioner import Partitioner, resolve_partitioner
from sparklog.record.rows import RecordColumns

PLANS_MAX: Final = 3
"""How often a group is planned again after an import or a vacuum came between."""


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

    def catch_up(self, topic: str) -> None:
        """Read what the last group committed, so that the next need not.

        What is in the way will be told to that one. Over an object store nothing is read: the next
        group lists the logs again in any case.
        """
        if self._catalog.files.is_local:
            with suppress(Exception):
                self._planned(topic)

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

    def _planned(self, topic: str) -> tuple[Catalog, WritePlan]:
        with self._lock:
            description = self._catalog.topics().get(topic)
            if description is None:
                raise UnknownTopicError(f"unknown topic {topic!r}", topic=topic)
            store = self._catalog.store(description)
        return store, plan_write_to(self._catalog, description, self._options)

    def _committed(
        self,
        store: Catalog,
        plan: WritePlan,
        requests: Sequence[Request],
        receipts: dict[str, Receipt],
    ) -> list[Outcome] | None:
        """Commit the requests together; None, with the receipt, when a key has landed meanwhile.

        Raises UsageError, with nothing committed, when one of the requests is refused.
        """
        count = plan.topic.num_partitions
        columns = columns_of(requests, plan.now_ms)
        partitions = partitions_of(requests, columns, plan, self._partitioner(plan), count)
        pending = self._segments(plan, columns, partitions)
        ranks = ranks_of(partitions, count)
        known = len(receipts)
        place = self._placing(plan, pending, key_spans(requests, partitions, ranks), receipts)
        committed = store.commit(place)
        if len(receipts) > known:
            return None
        starts = np.zeros(count, np.int64)
        for got in committed.ranges or ():
            starts[got.partition] = got.start
        offsets = starts[partitions] + ranks
        cuts = np.cumsum([len(rows) for rows, _ in requests])[:-1]
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
    ) -> TopicPlan:
        """Return the plan of the commit; `receipts` gets those of keys that have landed before."""
        partitions = {entry.partition for entry in pending}
        tries: list[int] = []

        def place(snapshot: TopicImage) -> TopicEdit | Done:
            if tries:
                self._on_conflict()
            tries.append(snapshot.version)
            landed = snapshot.receipts(spans)
            if landed:
                receipts.update(landed)
                return Done()
            return TopicEdit(
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
        self, plan: WritePlan, columns: RecordColumns, partitions: Int32s
    ) -> list[SegmentEntry]:
        writer = TopicWriter(self._catalog.files, plan, self._catalog.clock, seed=0)
        try:
            writer.write(columns, pa.array(partitions))
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def _partitioner(self, plan: WritePlan) -> Partitioner:
        """Return the topic's partitioner, which remembers from group to group where it was."""
        place = plan.topic.topic_id, plan.partitioner
        if place not in self._partitioners:
            found = resolve_partitioner(plan.partitioner, plan.options.batch_size, seed=0)
            self._partitioners[place] = found
        return self._partitioners[place]

    def _replayed(self, plan: WritePlan, rows: Rows, key: str, receipt: Receipt) -> Outcome:
        """Return the offsets that the first request with this key got."""
        count = receipt.partition_count or plan.topic.num_partitions
        request, columns = (rows, key), columns_of([(rows, key)], plan.now_ms)
        try:
            partitions = partitions_of([request], columns, plan, self._partitioner(plan), count)
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


def _moved(span: OffsetRange, snapshot: TopicImage) -> OffsetRange:
    base = snapshot.partition(span.partition).log_end_offset
    return OffsetRange(span.partition, base + span.start, base + span.end)
