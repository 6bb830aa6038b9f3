"""Small batches that one entry appends to several partitions: markers, and offsets of groups.

They lie in one shared segment. A batch is written before its offset is known. This is possible
because its checksum does not cover base offset and leader epoch, and a reader takes the offset from
the row.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparklog.group_commit.companions import Place
from sparklog.log_writer import SharedSegment
from sparklog.metadata.catalog import Catalog
from sparklog.model import SegmentEntry
from sparklog.record import layout
from sparklog.record.checksum import crc32c


class Piece(NamedTuple):
    """Batches to append to a partition; pieces of several partitions may have the same bytes.

    `records` has the number of records of each batch, `producer_ids` the producers of the markers.
    """

    partition: int
    data: bytes
    records: tuple[int, ...]
    producer_ids: tuple[int, ...] = ()


def in_a_row(batches: Sequence[bytes], records: Sequence[int]) -> bytes:
    """Join batches that have base offset 0; in the result the base offsets count on from 0."""
    if len(batches) == 1:
        return batches[0]
    found = bytearray()
    base = 0
    for data, count in zip(batches, records, strict=True):
        found += base.to_bytes(layout.LENGTH, "big") + data[layout.LENGTH :]
        base += count
    return bytes(found)


def written(catalog: Catalog, wanted: Iterable[bytes]) -> tuple[dict[bytes, Place], SharedSegment]:
    """Write pieces of bytes into a shared segment; return the place of each, and the segment.

    The caller must sync the segment before an entry names it.
    """
    shared = SharedSegment(catalog.files, catalog.clock)
    try:
        places = {
            data: Place(*shared.put([data], flush=True), crc32c(data)) for data in sorted(wanted)
        }
        shared.complete()
    except BaseException:
        shared.abort()
        raise
    return places, shared


def row_of(piece: Piece, place: Place, base: int, leader_epoch: int, now_ms: int) -> SegmentEntry:
    """Return the row of a piece that is appended at offset `base`."""
    count = sum(piece.records)
    return SegmentEntry(
        partition=piece.partition,
        base_offset=base,
        next_offset=base + count,
        file_base_offset=0,
        log_path=place.path,
        log_bytes=len(piece.data),
        log_position=place.position,
        log_crc32c=place.crc32c,
        record_count=count,
        batch_count=len(piece.records),
        min_timestamp=now_ms,
        max_timestamp=now_ms,
        max_timestamp_delta=piece.records[0] - 1,
        codec=0,
        max_leader_epoch=leader_epoch,
        producer_ids=tuple(sorted(set(piece.producer_ids))),
        transactional=bool(piece.producer_ids),
        created_ms=now_ms,
    )
