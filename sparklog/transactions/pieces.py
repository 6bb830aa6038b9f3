"""Small batches that one entry appends to several partitions: markers, and offsets of groups.

They lie in one shared segment. A batch is written before its offset is known: base offset and
leader epoch lie outside its checksum, and a reader takes the offset from the row.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparklog.coordinator.batches import batch_of
from sparklog.coordinator.records import Record
from sparklog.log_writer import SharedSegment
from sparklog.metadata.catalog import Catalog
from sparklog.model import SegmentEntry
from sparklog.record import layout
from sparklog.record.checksum import crc32c


class Piece(NamedTuple):
    """Bytes to append to a partition; pieces of several partitions may be the same bytes."""

    topic_id: str
    partition: int
    data: bytes
    records: int
    is_marker: bool


class Slot(NamedTuple):
    """The place of bytes: the path of a shared segment, and a position in it."""

    path: str
    position: int


def offsets_batch(records: Sequence[Record], now_ms: int, leader_epoch: int) -> bytes:
    """Return records of __consumer_offsets as one batch with a leader epoch."""
    data = bytearray(batch_of(records, now_ms))
    data[layout.LEADER_EPOCH : layout.MAGIC] = leader_epoch.to_bytes(4, "big", signed=True)
    return bytes(data)


def written(catalog: Catalog, wanted: Iterable[bytes]) -> tuple[dict[bytes, Slot], SharedSegment]:
    """Write bytes into a shared segment; return the place of each, and the segment.

    The caller must sync the segment before an entry names it.
    """
    shared = SharedSegment(catalog.files, catalog.clock)
    try:
        places = {data: Slot(*shared.put([data], flush=True)) for data in sorted(wanted)}
        shared.complete()
    except BaseException:
        shared.abort()
        raise
    return places, shared


def row_of(
    piece: Piece, place: Slot, base: int, leader_epoch: int, producer_id: int, now_ms: int
) -> SegmentEntry:
    """Return the row of a piece that is appended at offset `base`."""
    return SegmentEntry(
        partition=piece.partition,
        base_offset=base,
        next_offset=base + piece.records,
        file_base_offset=0,
        log_path=place.path,
        log_bytes=len(piece.data),
        log_position=place.position,
        log_crc32c=crc32c(piece.data),
        record_count=piece.records,
        batch_count=1,
        min_timestamp=now_ms,
        max_timestamp=now_ms,
        max_timestamp_delta=piece.records - 1,
        codec=0,
        max_leader_epoch=leader_epoch,
        producer_ids=(producer_id,) if piece.is_marker else (),
        transactional=piece.is_marker,
        created_ms=now_ms,
    )
