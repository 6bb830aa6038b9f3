"""ABORT markers for transactions that nobody will end.

What was open when a log was imported counts as aborted. A broker that mounts the log knows no open
transaction (it was stopped cleanly, and gets no snapshot of producers), and would show its records
as committed. So a marker for each follows behind the log's end.

    batch header   transactional, control, no times
    record         key: int16 version 0, int16 type 0 | value: int16 version 0, int32 coordinator
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from sparklog.interop.transactions import spans_of
from sparklog.log.windows import windows
from sparklog.log_reader.opened import opened
from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record import layout
from sparklog.record.checksum import crc32c
from sparklog.storage.files import Files

_PREFIX: Final = struct.Struct(">qiibI")
_FIELDS: Final = struct.Struct(">hiqqqhii")
_RECORD: Final = bytes.fromhex("20000000 08 00000000 0c 000000000000 00")
_SIZE: Final = _FIELDS.size + len(_RECORD) + layout.ATTRIBUTES - layout.LOG_OVERHEAD


class OpenTransaction(NamedTuple):
    """A transaction without an end, by its producer and its first offset."""

    producer_id: int
    producer_epoch: int
    first: int


def open_transactions(
    files: Files, directory: str, entries: Sequence[SegmentEntry], imported_end_offset: int
) -> list[OpenTransaction]:
    """The transactions of a partition's segments that were open when they were imported.

    A transaction of which compaction has left no batch needs no marker, and is not among them.
    Reads headers until it has seen a batch of each. Raises what reading raises.
    """
    wanted = {
        span.producer_id: span.first
        for entry in entries
        for span in spans_of(entry)
        if span.last >= imported_end_offset
    }
    found: dict[int, OpenTransaction] = {}
    for entry in entries:
        here = {span.producer_id for span in spans_of(entry)} & wanted.keys() - found.keys()
        if here:
            for producer, epoch in _epochs(files, directory, entry, here, wanted):
                found.setdefault(producer, OpenTransaction(producer, epoch, wanted[producer]))
    return sorted(found.values())


def _epochs(
    files: Files, directory: str, entry: SegmentEntry, producers: set[int], first: dict[int, int]
) -> Iterator[tuple[int, int]]:
    """Producer id and epoch of each batch of an open transaction in a segment."""
    for window in windows(opened(files, directory, entry)):
        batches = window.batches
        chosen = batches.take(
            np.isin(batches.producer_id, list(producers)) & batches.is_transactional
        )
        offsets = (chosen.base_offset + entry.shift).tolist()
        columns = (chosen.producer_id.tolist(), chosen.producer_epoch.tolist(), offsets)
        for producer, epoch, offset in zip(*columns, strict=True):
            if offset >= first[producer]:
                yield producer, epoch


def encode_abort(transaction: OpenTransaction, offset: int, leader_epoch: int) -> bytes:
    """The control batch that aborts a transaction, at an offset of the log."""
    attributes = layout.TRANSACTIONAL_MASK | layout.CONTROL_MASK
    times = (NO_TIMESTAMP, NO_TIMESTAMP)
    producer = (transaction.producer_id, transaction.producer_epoch, layout.NO_SEQUENCE)
    body = _FIELDS.pack(attributes, 0, *times, *producer, 1) + _RECORD
    return _PREFIX.pack(offset, _SIZE, leader_epoch, layout.MAGIC_V2, crc32c(body)) + body
