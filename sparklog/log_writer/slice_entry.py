"""Rows of slices that have one batch each: made from the batch, without a SegmentBuilder."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record.batch_settings import BatchSettings
from sparklog.record.batches import BatchTable, Buffer
from sparklog.record.checksum import extend_crc32c
from sparklog.record.encode import EncodedStream


class Slices(NamedTuple):
    """Batches that lie back to back, each the only one of its partition.

    `record_counts` and `min_timestamps` are those of the batches, as in an EncodedStream.
    """

    partitions: Iterable[int]
    data: Sequence[Buffer]
    batches: BatchTable
    record_counts: Iterable[int]
    min_timestamps: NDArray[np.int64]


def slice_entry(
    stream: EncodedStream,
    partition: int,
    place: tuple[str, int],
    settings: BatchSettings,
    now_ms: int,
) -> SegmentEntry:
    """Return the row of the slice at (path, position) that has the only batch of `stream`."""
    one = [partition], [stream.data], stream.batches, [stream.record_count], stream.min_timestamps
    return slice_entries(Slices(*one), place, settings, now_ms)[0]


def slice_entries(
    slices: Slices, place: tuple[str, int], settings: BatchSettings, now_ms: int
) -> list[SegmentEntry]:
    """Return the rows of slices; the first slice is at `place`, (path, position).

    A SegmentBuilder would make the same rows. `settings` are those that the batches were encoded
    with.
    """
    path, position = place
    codec, batches = int(settings.codec), slices.batches
    found = []
    for partition, data, first, last, epoch, count, least, newest in zip(
        slices.partitions,
        slices.data,
        batches.base_offset.tolist(),
        batches.last_offset.tolist(),
        batches.leader_epoch.tolist(),
        slices.record_counts,
        slices.min_timestamps.tolist(),
        batches.max_timestamp.tolist(),
        strict=True,
    ):
        found.append(
            SegmentEntry(
                partition=partition,
                base_offset=first,
                next_offset=last + 1,
                file_base_offset=first,
                log_path=path,
                log_bytes=len(data),
                log_position=position,
                log_crc32c=extend_crc32c(0, data),
                record_count=count,
                batch_count=1,
                min_timestamp=least,
                max_timestamp=newest,
                max_timestamp_delta=0 if newest == NO_TIMESTAMP else last - first,
                codec=codec,
                max_leader_epoch=epoch,
                producer_ids=(),
                created_ms=now_ms,
            )
        )
        position += len(data)
    return found
