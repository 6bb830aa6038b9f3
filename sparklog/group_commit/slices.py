"""Encode the small records of a group together, with one call of the encoder for all topics.

A call for each topic would take most of a small request's time. A TopicWriter writes a topic whose
records are refused here, need more than one batch, or are too large for a shared segment.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from sparklog.clock import Clock
from sparklog.errors import UsageError
from sparklog.group_commit.rows import Int32s, Request, columns_of
from sparklog.log_writer import SharedSegment, WritePlan, check_rows, takes_all_of_now
from sparklog.log_writer.slice_entry import Slices, slice_entries
from sparklog.model import SegmentEntry
from sparklog.record.batches import BatchTable, byte_view
from sparklog.record.encode import BatchSettings, EncodedBatches, encode_batches
from sparklog.record.rows import RecordColumns

_PARTITION_BITS: Final = 32
_PARTITION_MASK: Final = (1 << _PARTITION_BITS) - 1


class Records(NamedTuple):
    """The records of one topic: as requests, and as rows of a table that topics may share.

    `size_bytes` is the sum of `Rows.size_bytes`.
    """

    plan: WritePlan
    requests: Sequence[Request]
    table: RecordColumns
    rows: range
    size_bytes: int

    @property
    def columns(self) -> RecordColumns:
        """The records as columns."""
        return self.table.rows(self.rows.start, self.rows.stop)


class _Settings(NamedTuple):
    """How the batches of slices are encoded, and how large a slice may be."""

    batches: BatchSettings
    slice_bytes_max: int


def write_slices(
    records: Sequence[Records],
    partitions: Sequence[Int32s],
    shared: SharedSegment,
    clock: Clock,
) -> list[list[SegmentEntry]]:
    """Write small records to a shared segment; return the rows of each topic.

    `partitions` has the partition of each record, topic by topic. A topic that a TopicWriter has to
    write gets an empty list. Offsets go on from the end offset in the topic's plan. All plans have
    the same options and the same time.
    """
    written: list[list[SegmentEntry]] = [[] for _ in records]
    alike: dict[_Settings, list[int]] = {}
    known: dict[int, _Settings] = {}
    are_of_now: dict[int, bool] = {}
    for number, one in enumerate(records):
        plan, table = one.plan, one.table
        # Equal configs are one object, and most topics have equal configs.
        settings = known.get(id(plan.config))
        if settings is None:
            settings = _Settings(plan.batch_settings, plan.shared_bytes_max)
            known[id(plan.config)] = settings
        if one.size_bytes > min(plan.options.batch_size, settings.slice_bytes_max):
            continue
        if id(table) not in are_of_now:
            are_of_now[id(table)] = bool((table.timestamp == plan.now_ms).all())
        if (are_of_now[id(table)] and takes_all_of_now(plan)) or _is_taken(one):
            alike.setdefault(settings, []).append(number)
    for settings, numbers in alike.items():
        some = [records[number] for number in numbers]
        places = _Places.of([partitions[number] for number in numbers])
        for number, rows in zip(
            numbers, _write(some, places, settings, shared, clock.now_ms()), strict=True
        ):
            written[number] = rows
    return written


def _is_taken(one: Records) -> bool:
    """Whether `check_rows` lets the records pass."""
    try:
        check_rows(one.columns, one.plan)
    except UsageError:
        return False
    return True


def _write(
    records: Sequence[Records],
    places: "_Places",
    settings: _Settings,
    shared: SharedSegment,
    now_ms: int,
) -> list[list[SegmentEntry]]:
    """Encode and write the records of topics; return each topic's rows, as `write_slices`."""
    written: list[list[SegmentEntry]] = [[] for _ in records]
    try:
        found = _encoded(records, places, settings.batches)
    except UsageError:
        return written
    firsts = np.cumsum(found.batch_counts) - found.batch_counts
    batches = BatchTable.from_matrix(found.matrix)
    is_slice = (found.batch_counts == 1) & (batches.size[firsts] <= settings.slice_bytes_max)
    numbers = np.array(places.numbers)
    taken = np.flatnonzero(~np.isin(numbers, numbers[~is_slice]))
    if not len(taken):
        return written
    batches = batches.take(firsts[taken])
    data = byte_view(found.data).data
    ends = batches.position + batches.size
    pieces = [data[a:b] for a, b in zip(batches.position.tolist(), ends.tolist(), strict=True)]
    place = shared.put(pieces, flush=records[0].plan.options.flush)
    slices = Slices(
        [places.partitions[slot] for slot in taken.tolist()],
        pieces,
        batches,
        found.row_counts[taken].tolist(),
        found.min_timestamps[firsts[taken]],
    )
    for number, entry in zip(
        numbers[taken].tolist(),
        slice_entries(slices, place, settings.batches, now_ms),
        strict=True,
    ):
        written[number].append(entry)
    return written


class _Places(NamedTuple):
    """The partitions, of several topics, to which records go: the places."""

    numbers: list[int]
    """For each place, the number of its topic."""
    partitions: list[int]
    slots: Int32s
    """For each record, the index of its place."""

    @classmethod
    def of(cls, partitions: Sequence[Int32s]) -> "_Places":
        """Return the places, in the order of topics, then of partitions."""
        # One code for each record: the topic's number, then the partition.
        numbers = np.repeat(np.arange(len(partitions)), list(map(len, partitions)))
        codes, slots = np.unique(
            (numbers << _PARTITION_BITS) + np.concatenate(partitions), return_inverse=True
        )
        return cls(
            (codes >> _PARTITION_BITS).tolist(),
            (codes & _PARTITION_MASK).tolist(),
            slots.astype(np.int32),
        )


def _encoded(
    records: Sequence[Records], places: _Places, settings: BatchSettings
) -> EncodedBatches:
    """Return the batches of each place. Raises UsageError if any record is refused."""
    where = list(zip(places.numbers, places.partitions, strict=True))
    bases = [records[number].plan.end_offsets.get(partition, 0) for number, partition in where]
    epochs = [records[number].plan.leader_epochs.get(partition, 0) for number, partition in where]
    return encode_batches(
        _columns(records),
        places.slots,
        len(where),
        np.array(bases, np.int64),
        settings,
        np.array(epochs, np.int64),
    )


def _columns(records: Sequence[Records]) -> RecordColumns:
    """Return the records of all topics as columns; mostly these are one whole table."""
    table = records[0].table
    is_whole = sum(len(one.rows) for one in records) == len(table)
    if is_whole and all(one.table is table for one in records):
        return table
    requests = [request for one in records for request in one.requests]
    return columns_of(requests, records[0].plan.now_ms)
