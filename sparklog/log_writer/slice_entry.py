"""The row of a slice that has one batch: it follows from the batch, without a SegmentBuilder."""

from sparklog.model import NO_TIMESTAMP, SegmentEntry
from sparklog.record.batch_settings import BatchSettings
from sparklog.record.checksum import extend_crc32c
from sparklog.record.encode import EncodedStream


def slice_entry(
    stream: EncodedStream,
    partition: int,
    place: tuple[str, int],
    settings: BatchSettings,
    now_ms: int,
) -> SegmentEntry:
    """Return the row of the only batch of `stream` at (path, position).

    It is the row that a SegmentBuilder makes of a batch that `encode` has made with `settings`.
    """
    batches = stream.batches
    first, last = int(batches.base_offset[0]), int(batches.last_offset[0])
    path, position = place
    newest = int(batches.max_timestamp[0])
    return SegmentEntry(
        partition=partition,
        base_offset=first,
        next_offset=last + 1,
        file_base_offset=first,
        log_path=path,
        log_bytes=len(stream.data),
        log_position=position,
        log_crc32c=extend_crc32c(0, stream.data),
        record_count=stream.record_count,
        batch_count=1,
        min_timestamp=int(stream.min_timestamps[0]),
        max_timestamp=newest,
        max_timestamp_delta=0 if newest == NO_TIMESTAMP else last - first,
        codec=int(settings.codec),
        max_leader_epoch=int(batches.leader_epoch[0]),
        producer_ids=(),
        created_ms=now_ms,
    )
