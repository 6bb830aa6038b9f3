"""Writes a group of requests, of any topics, to segments and commits them.

    round         plans and writes some requests of each topic, and commits them in one entry
    offsets       the records of a partition get their offsets in the order of the group
    receipts      the offsets and a checksum of the records of each Idempotency-Key. If a key has
                  landed elsewhere meanwhile, the commit leaves its topic out, and the next round
                  writes the topic again without that request

A topic that the commit refuses (deleted, fenced) is left out of the entry and does not stop the
others. If the records of a topic are refused, its share of the group is halved until the refused
request is alone. Vacuum deletes the files that were never committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparklog.errors import InvalidRecordError, OffsetOutOfRangeError, SparklogError, UsageError
from sparklog.group_commit.edit import PLANS_MAX, counting, group_edit, is_passing, topic_edit
from sparklog.group_commit.rows import (
    Int32s,
    Request,
    columns_of,
    content_crc32c,
    key_spans,
    partitions_of,
    ranks_of,
)
from sparklog.group_commit.share import Counts, Outcome, Planned, Share, Slot, Written, together
from sparklog.group_commit.slices import Records, write_slices
from sparklog.log.names import OFFSET_MAX, check_not_internal
from sparklog.log_writer import (
    SharedSegment,
    SharedSegments,
    TopicWriter,
    WriteOptions,
    WritePlan,
    plan_write_on,
)
from sparklog.metadata.batch import CheckedEdit
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.topics import unknown_topic
from sparklog.metadata.state.edit import Done, Receipt, ReceiptKey, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage, added_ranges, at_log_end
from sparklog.model import NO_TIMESTAMP, OffsetRange, SegmentEntry
from sparklog.produce.partitioner import Partitioner, resolve_partitioner
from sparklog.record.rows import RecordColumns

PARTITIONERS_MAX: Final = 10_000
"""The most topics whose partitioners keep their state; each state has a generator of numbers."""


class _Batch:
    """The records of a share to write, and the outcome of the newest try to commit them."""

    def __init__(self, planned: Planned, table: RecordColumns, rows: range) -> None:
        """`rows` of the table are the records. Raises as `partitions_of` and `_check_room`."""
        self.share, self.plan, self.slots = planned.share, planned.plan, planned.slots
        self.name, self.topic_id = self.plan.topic.name, self.plan.topic.topic_id
        requests = [slot.request for slot in self.slots]
        count = self.plan.topic.num_partitions
        self.records = Records(self.plan, requests, table, rows, planned.size_bytes)
        self.partitions = partitions_of(
            requests, lambda: self.records.columns, self.plan, planned.partitioner, count
        )
        _check_room(self.plan, self.partitions)
        self.ranks = ranks_of(self.partitions, count)
        self._spans = key_spans(requests, self.partitions, self.ranks)
        self._content = {
            request.key: content_crc32c(request.rows)
            for request in requests
            if request.key is not None
        }
        self.segments: Sequence[SegmentEntry] = ()
        self.ranges: Sequence[OffsetRange] = ()
        self.error: SparklogError | None = None
        self.is_known = False
        """Whether an earlier commit holds the Idempotency-Key of one of the requests."""

    def placed(self, image: Image) -> TopicEdit | None:
        """Return the edit that makes the segments visible; None if refused or if a key is known."""
        self.error, self.is_known = None, False
        try:
            topic = image.existing(self.topic_id)
            if topic is None:
                raise unknown_topic(self.name)
            self.is_known = any(ReceiptKey(key) in topic.receipts for key in self._spans)
            if self.is_known:
                return None
            fields: dict[str, Any] = {
                "segments": at_log_end(topic, self.segments),
                "leader_epochs": self.plan.epochs_of(self.segments),
            }
            if self._spans:
                receipts = {ReceiptKey(key): self._receipt(key, topic) for key in self._spans}
                fields["receipts"] = receipts
            edit = topic_edit(image, self.topic_id, fields)
        except SparklogError as error:
            self.error = error
            return None
        self.ranges = added_ranges(topic, edit)
        return edit

    def _receipt(self, key: str, topic: TopicImage) -> Receipt:
        return Receipt(
            tuple(_moved(span, topic) for span in self._spans[key]),
            self.plan.topic.num_partitions,
            content_crc32c=self._content[key],
        )

    def settle(self) -> None:
        """Give every request the offsets of its records: the commit has landed."""
        if len(self.ranges) == 1:
            offsets = self.ranks + self.ranges[0].start
        else:
            starts = np.zeros(self.plan.topic.num_partitions, np.int64)
            for got in self.ranges:
                starts[got.partition] = got.start
            offsets = starts[self.partitions] + self.ranks
        plan = self.plan
        written = Written(self.partitions, offsets, plan.now_ms, is_append_time=plan.is_append_time)
        if len(self.slots) == 1:
            self.slots[0].outcome = written
            return
        first = 0
        for slot in self.slots:
            rows = slice(first, first + len(slot.request.rows))
            slot.outcome = replace(written, partition=self.partitions[rows], offset=offsets[rows])
            first = rows.stop


class GroupWriter:
    """Writes groups, one at a time."""

    def __init__(self, catalog: Catalog, options: WriteOptions, counts: Counts) -> None:
        self._catalog = catalog
        self._options = options
        self._counts = counts
        self._partitioners: dict[tuple[str, str], Partitioner] = {}
        """By topic id and name, the one that was used longest ago first."""
        self._shared = SharedSegments(catalog.files, catalog.clock)

    def write(self, group: Mapping[str, Sequence[Request]]) -> dict[str, list[Outcome]]:
        """Write and commit; return the outcomes of the requests, in their order, by topic."""
        whole = [
            Share(topic, [Slot(request) for request in requests])
            for topic, requests in group.items()
        ]
        shares = whole
        while shares:
            now: dict[str, Share] = {}
            later = [share for share in shares if now.setdefault(share.topic, share) is not share]
            try:
                again = self._round(list(now.values()))
            except SparklogError as error:
                for share in now.values():
                    share.settle(error)
                again = []
            shares = again + later
        return {
            share.topic: [slot.outcome for slot in share.slots if slot.outcome is not None]
            for share in whole
        }

    def close(self) -> None:
        """Close the shared segment that was written last."""
        self._shared.close()

    def _round(self, shares: Sequence[Share]) -> list[Share]:
        """Write shares, one a topic, in one commit; return the shares to write again."""
        names = self._catalog.topics()
        known = {share.topic: names[share.topic] for share in shares if share.topic in names}
        log, now_ms = self._catalog.log, self._catalog.clock.now_ms()
        image, damaged = log.sound_image([topic.topic_id for topic in known.values()])
        for share in shares if damaged else ():
            if share.topic in known and known[share.topic].topic_id in damaged:
                share.settle(damaged[known[share.topic].topic_id])
        shares = [share for share in shares if share.open]
        batches, again = self._batches(shares, image, now_ms)
        anew = any(share.plans for share in shares)
        written, refused = self._written(batches, self._shared.next(image, anew=anew))
        for batch, refusal in refused:
            again += batch.share.after_refusal(refusal)
        if written:
            self._commit(written)
            again += [batch.share for batch in written if not self._is_settled(batch)]
        return again

    def _batches(
        self, shares: Sequence[Share], image: Image, now_ms: int
    ) -> tuple[list[_Batch], list[Share]]:
        """Return the records to write, and the halves of refused shares."""
        plans: list[Planned] = []
        batches: list[_Batch] = []
        refused: list[Share] = []
        for share in shares:
            try:
                planned = self._planned(share, image, now_ms)
            except UsageError as error:
                refused += share.after_refusal(error)
            else:
                plans += [] if planned is None else [planned]
        for some in together(plans):
            table = columns_of([slot.request for one in some for slot in one.slots], now_ms)
            stop = 0
            for planned in some:
                start, stop = stop, stop + sum([len(slot.request.rows) for slot in planned.slots])
                try:
                    batches.append(_Batch(planned, table, range(start, stop)))
                except UsageError as error:
                    refused += planned.share.after_refusal(error)
        return batches, refused

    def _planned(self, share: Share, image: Image, now_ms: int) -> Planned | None:
        """Return the requests to write of a share; None if all have an outcome.

        A request whose key has landed before gets its outcome here.
        """
        check_not_internal(share.topic)
        description = image.names.get(share.topic)
        topic = None if description is None else image.topic(description.topic_id)
        if topic is None:
            share.settle(unknown_topic(share.topic))
            return None
        plan = plan_write_on(topic, now_ms, self._options)
        partitioner = self._partitioner(plan)
        slots = []
        for slot in share.open:
            key = slot.request.key
            receipt = None if key is None else topic.receipts.get(ReceiptKey(key))
            if receipt is None:
                slots.append(slot)
            else:
                slot.outcome = _replayed(plan, slot.request, receipt, partitioner)
        size_bytes = sum([slot.request.rows.size_bytes for slot in slots])
        return Planned(share, plan, partitioner, slots, size_bytes) if slots else None

    def _written(
        self, batches: Sequence[_Batch], shared: SharedSegment
    ) -> tuple[list[_Batch], list[tuple[_Batch, UsageError]]]:
        """Write segments, durably; return the batches that were written, and the refused ones.

        The small partitions of all topics share one segment.
        """
        written: list[_Batch] = []
        refused: list[tuple[_Batch, UsageError]] = []
        try:
            slices = write_slices(
                [batch.records for batch in batches],
                [batch.partitions for batch in batches],
                shared,
                self._catalog.clock,
            )
            for batch, small in zip(batches, slices, strict=True):
                try:
                    batch.segments = small or self._segments(batch, shared)
                except UsageError as error:
                    refused.append((batch, error))
                else:
                    written.append(batch)
            shared.close()
        except BaseException:
            shared.abort()
            raise
        return written, refused

    def _segments(self, batch: _Batch, shared: SharedSegment) -> list[SegmentEntry]:
        writer = TopicWriter(self._catalog.files, batch.plan, self._catalog.clock, 0, shared)
        try:
            writer.write(batch.records.columns, pa.array(batch.partitions))
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def _commit(self, batches: Sequence[_Batch]) -> None:
        """Commit batches in one entry, without those that are refused or have a known key."""

        def plan(image: Image) -> CheckedEdit | Done:
            return group_edit([(batch, batch.placed(image)) for batch in batches])

        topics = [batch.topic_id for batch in batches]
        self._catalog.log.commit(counting(plan, self._counts), topics)

    def _is_settled(self, batch: _Batch) -> bool:
        """Give the requests of a batch their outcome; False if they must be written again."""
        if batch.is_known:
            return False
        if batch.error is None:
            batch.settle()
            return True
        batch.share.plans += 1
        if is_passing(batch.error) and batch.share.plans < PLANS_MAX:
            return False
        batch.share.settle(batch.error)
        return True

    def _partitioner(self, plan: WritePlan) -> Partitioner:
        """Return the topic's partitioner, whose state lasts from group to group."""
        key = plan.topic.topic_id, plan.partitioner
        found = self._partitioners.pop(key, None)
        if found is None:
            found = resolve_partitioner(plan.partitioner, plan.options.batch_size, seed=0)
        self._partitioners[key] = found
        if len(self._partitioners) > PARTITIONERS_MAX:
            del self._partitioners[next(iter(self._partitioners))]
        return found


def _check_room(plan: WritePlan, partitions: Int32s) -> None:
    """Raise OffsetOutOfRangeError if a partition has too few offsets left for its records."""
    if max(plan.end_offsets.values(), default=0) + len(partitions) <= OFFSET_MAX:
        return
    for number, count in enumerate(np.bincount(partitions).tolist()):
        end = plan.end_offsets.get(number, 0)
        if end + count > OFFSET_MAX:
            raise OffsetOutOfRangeError(
                f"{plan.topic.name}-{number}: {count} records at the log end offset {end}: the "
                f"partition has {OFFSET_MAX - end} offsets left"
            )


def _replayed(
    plan: WritePlan, request: Request, receipt: Receipt, partitioner: Partitioner
) -> Outcome:
    """Return the offsets that the first request with this key got.

    Returns an InvalidRecordError if that request had other records.
    """
    if receipt.content_crc32c not in (None, content_crc32c(request.rows)):
        return _other_records()
    count = receipt.partition_count or plan.topic.num_partitions
    columns = columns_of([request], plan.now_ms)
    try:
        partitions = partitions_of([request], lambda: columns, plan, partitioner, count)
    except UsageError as error:
        return error
    spans = np.bincount(partitions, minlength=count)
    starts = np.zeros(count, np.int64)
    for got in receipt.ranges:
        starts[got.partition] = got.start
    if {got.partition: got.span for got in receipt.ranges} != {
        partition: int(spans[partition]) for partition in np.flatnonzero(spans).tolist()
    }:
        return _other_records()
    offsets = starts[partitions] + ranks_of(partitions, count)
    return Written(partitions, offsets, NO_TIMESTAMP, True, plan.is_append_time)


def _other_records() -> InvalidRecordError:
    return InvalidRecordError(
        "this Idempotency-Key was used with other records: a new request needs a new key"
    )


def _moved(span: OffsetRange, topic: TopicImage) -> OffsetRange:
    base = topic.partition(span.partition).log_end_offset
    return OffsetRange(span.partition, base + span.start, base + span.end)
