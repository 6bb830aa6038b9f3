"""Looks whether the log has the marker of a transaction that the metadata say is open.

Then the metadata are wrong, and an abort would hide records that the marker has committed:
`verify --repair` closes the transaction instead.

    metadata    producer 7 is open from 0
    log         a(7)  COMMIT(7)  b(7)         an abort would hide a
    log         a(7)  (gap)  COMMIT(7)        the marker of a may have been in the gap: no answer
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sparklog.errors import InvalidTxnStateError
from sparklog.log.windows import checked_windows
from sparklog.log_reader.opened import damage_in, opened
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.image import PartitionLog
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.model import SegmentEntry
from sparklog.record.batches import byte_view
from sparklog.record.markers import KINDS, NO_MARKER, marker_kinds
from sparklog.storage.files import Files


class Marker(NamedTuple):
    """The end of a transaction in the log: its kind, and its offset."""

    kind: int
    offset: int


def check_unended(
    catalog: Catalog, places: Iterable[TransactionPartition], producer_id: int
) -> None:
    """Refuse to end a producer's transaction in partitions where the log has its marker already.

    Raises InvalidTxnStateError, and the errors of `first_marker`.
    """
    for topic_id, number in places:
        topic = catalog.log.image([topic_id]).existing(topic_id)
        if topic is None:
            continue
        log, directory = topic.partition(number), topic_directory(topic.description)
        for one in log.transactions:
            if one.producer_id != producer_id:
                continue
            found = first_marker(catalog.files, directory, log, one)
            if found is not None:
                raise InvalidTxnStateError(
                    f"{log.name}: the transaction of producer {producer_id} from offset "
                    f"{one.first_offset} on has ended with the {KINDS[found.kind]} at "
                    f"{found.offset}, and an abort would hide its records: run sparklog verify "
                    f"--repair {topic.description.name}"
                )


def first_marker(
    files: Files, directory: str, log: PartitionLog, one: OpenTransaction
) -> Marker | None:
    """Return the first marker of a transaction's producer behind its first record.

    None if there is none, or if a gap of offsets comes first: the marker may have been there. Reads
    only the segments whose rows have the producer, or do not say which they have. `directory` is
    the topic's. Raises CorruptRecordError and MissingFileError, with the file.
    """
    due = max(one.first_offset, log.log_start_offset)
    for entry in log.entries(due):
        if entry.base_offset > due:
            return None
        if entry.producer_ids is None or one.producer_id in entry.producer_ids:
            found = _first_in(files, directory, entry, one, due)
            if found is not None:
                return found if found.kind != NO_MARKER else None
        elif entry.record_count != entry.offset_span:
            return None
        due = entry.next_offset
    return None


def _first_in(
    files: Files, directory: str, entry: SegmentEntry, one: OpenTransaction, due: int
) -> Marker | None:
    """Return the first marker in a segment; one of kind NO_MARKER for a gap from `due` on."""
    with damage_in(directory, entry):
        for window in checked_windows(opened(files, directory, entry)):
            batches = window.batches.raised(entry.shift)
            is_gap = batches.base_offset > batches.due_offsets(due)
            is_end = batches.is_control & (batches.producer_id == one.producer_id)
            is_end &= batches.base_offset > one.first_offset
            rows = np.flatnonzero(is_gap | is_end)
            if len(rows):
                row = int(rows[0])
                kinds = marker_kinds(byte_view(window.data), batches)
                kind = NO_MARKER if is_gap[row] else int(kinds[row])
                return Marker(kind, int(batches.base_offset[row]))
            due = int(batches.last_offset[-1]) + 1
    return None if due == entry.next_offset else Marker(NO_MARKER, due)
