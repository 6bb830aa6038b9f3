"""Encodes the small records of a group together: one call of the encoder for all topics.

A TopicWriter costs half a millisecond a topic. But the small records of a topic make one batch a
partition: no segment rolls, no index is needed, and the row follows from the batch.

Topics whose records make more than one batch, or are refused, are left to a TopicWriter, which
names the wrong record. Topics with other settings (codec, limits) need another call.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from sparklog.clock import Clock
from sparklog.errors import UsageError
from sparklog.group_commit.rows import Int32s, Request, columns_of
from sparklog.log_writer import SharedSegment, WritePlan, check_rows
from sparklog.log_writer.slice_entry import slice_entry
from sparklog.model import SegmentEntry
from sparklog.record.encode import BatchSettings, EncodedStream, encode
from sparklog.record.rows import RecordColumns

_ONE_BATCH: Final = 1
_PARTITION_BITS: Final = 32


class Records(NamedTuple):
    """The records of one topic: as requests, as columns, and the partition of each record."""

    plan: WritePlan
    requests: Sequence[Request]
    columns: RecordColumns
    partitions: Int32s

    @property
    def is_small(self) -> bool:
        """Whether the records fit into one batch and a shared segment, by `Rows.size_bytes`."""
        size = sum(request.rows.size_bytes for request in self.requests)
        return size <= min(self.plan.options.batch_size, self.plan.shared_bytes_max)


def write_slices(
    records: Sequence[Records], shared: SharedSegment, clock: Clock
) -> list[list[SegmentEntry]]:
    """Write small records to a shared segment; return the rows of each topic.

    The list of a topic that is left to a TopicWriter is empty. Offsets begin at the end offset in
    the topic's plan, as with a TopicWriter.
    """
    written: list[list[SegmentEntry]] = [[] for _ in records]
    alike: dict[BatchSettings, list[int]] = {}
    for slot, one in enumerate(records):
        if one.is_small and _is_taken(one):
            alike.setdefault(one.plan.batch_settings, []).append(slot)
    for settings, slots in alike.items():
        for slot, streams in zip(
            slots, _encoded([records[slot] for slot in slots], settings), strict=True
        ):
            plan = records[slot].plan
            if all(_is_slice(stream, plan) for _, stream in streams):
                for partition, stream in streams:
                    place = shared.put([stream.data], flush=plan.options.flush)
                    entry = slice_entry(stream, partition, place, settings, clock.now_ms())
                    written[slot].append(entry)
    return written


def _is_taken(one: Records) -> bool:
    try:
        check_rows(one.columns, one.plan)
    except UsageError:
        return False
    return True


def _encoded(
    records: Sequence[Records], settings: BatchSettings
) -> list[list[tuple[int, EncodedStream]]]:
    """Return each topic's partitions with their batches; empty lists if any record is refused."""
    # One number for each topic and partition: the topic's place in `records`, then the partition.
    numbers = np.repeat(np.arange(len(records)), [len(one.partitions) for one in records])
    partitions = np.concatenate([one.partitions for one in records])
    codes, parts = np.unique((numbers << _PARTITION_BITS) + partitions, return_inverse=True)
    places = [divmod(code, 1 << _PARTITION_BITS) for code in codes.tolist()]
    bases = [records[number].plan.end_offsets.get(partition, 0) for number, partition in places]
    epochs = [records[number].plan.leader_epochs.get(partition, 0) for number, partition in places]
    columns = columns_of([request for one in records for request in one.requests], _time(records))
    found: list[list[tuple[int, EncodedStream]]] = [[] for _ in records]
    try:
        streams = encode(
            columns,
            parts.astype(np.int32),
            len(places),
            np.array(bases, np.int64),
            settings,
            np.array(epochs, np.int64),
        )
    except UsageError:
        return found
    for stream in streams:
        number, partition = places[stream.stream]
        found[number].append((partition, stream))
    return found


def _time(records: Sequence[Records]) -> int:
    """Return the time of records without a timestamp: all plans of a group have the same time."""
    return records[0].plan.now_ms


def _is_slice(stream: EncodedStream, plan: WritePlan) -> bool:
    return len(stream.batches) == _ONE_BATCH and len(stream.data) <= plan.shared_bytes_max
