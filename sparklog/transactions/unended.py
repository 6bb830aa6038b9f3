"""Looks whether the log has the marker of a transaction that the metadata say is open.

Then the metadata are wrong, and an abort would hide records that the marker has committed:
`verify --repair` closes the transaction instead.

    metadata    producer 7 is open from 0
    log         a(7)  COMMIT(7)  b(7)         an abort would hide a
    log         a(7)  (gap)  COMMIT(7)        the marker of a may have been in the gap: no answer
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sparklog.errors import InvalidTxnStateError, MissingFileError
from sparklog.log.windows import SegmentLog, checked_windows
from sparklog.log_reader.opened import damage_in, opened_ahead
from sparklog.metadata.catalog import Catalog, topic_directory
from sparklog.metadata.state.edit import OpenTransaction
from sparklog.metadata.state.image import PartitionLog, Slice
from sparklog.metadata.state.transactions import TransactionPartition
from sparklog.record.batches import byte_view
from sparklog.record.markers import KINDS, NO_MARKER, marker_kinds
from sparklog.storage.files import Files


class Marker(NamedTuple):
    """The end of a transaction in the log: its kind, and its offset."""

    kind: int
    offset: int


def check_unended(
    catalog: Catalog, places: Sequence[TransactionPartition], producer_id: int
) -> None:
    """Refuse to end a producer's transaction in partitions where the log has its marker already.

    Raises InvalidTxnStateError, and the errors of `first_marker`.
    """
    try:
        _check_unended(catalog, places, producer_id)
    except MissingFileError:  # a merge may have replaced the segment, and vacuum deleted the file
        _check_unended(catalog, places, producer_id)


def _check_unended(
    catalog: Catalog, places: Sequence[TransactionPartition], producer_id: int
) -> None:
    image = catalog.log.image({one.topic_id for one in places})
    for topic_id, number in places:
        topic = image.existing(topic_id)
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
    only segments that have gaps, and those whose rows name the producer or no producers.
    `directory` is the topic's. Raises CorruptRecordError and MissingFileError, with the file.
    """
    due = max(one.first_offset, log.log_start_offset)
    for piece, segment in opened_ahead(files, directory, _searched(log, one.producer_id, due)):
        with damage_in(directory, piece.segment):
            found = next(_ends(segment, one, piece.start), None)
        if found is not None:
            return found if found.kind != NO_MARKER else None
    return None


def _searched(log: PartitionLog, producer_id: int, due: int) -> Iterator[Slice]:
    """Yield the slices from `due` on that may have a producer's marker, or a gap.

    The first gap between segments ends them.
    """
    for piece in log.slices(due, log.log_end_offset):
        if piece.start > due:
            return
        ids = piece.segment.producer_ids
        if ids is None or producer_id in ids or not piece.segment.is_dense:
            yield piece
        due = piece.end


def _ends(segment: SegmentLog, one: OpenTransaction, due: int) -> Iterator[Marker]:
    """Yield the markers of a transaction's producer in a segment; for a gap one of kind NO_MARKER.

    Gaps count from the offset `due` on. The kind of a marker without a record is NO_MARKER, too.
    """
    entry = segment.entry
    for window in checked_windows(segment):
        batches = window.batches.raised(entry.shift)
        is_gap = batches.base_offset > np.maximum(batches.due_offsets(due), due)
        is_end = batches.is_control & (batches.producer_id == one.producer_id)
        is_end &= batches.base_offset > one.first_offset
        kinds = np.where(is_gap, NO_MARKER, marker_kinds(byte_view(window.data), batches))
        for row in np.flatnonzero(is_gap | is_end):
            yield Marker(int(kinds[row]), int(batches.base_offset[row]))
        due = max(due, int(batches.last_offset[-1]) + 1)
    if due < entry.next_offset:
        yield Marker(NO_MARKER, due)
