"""Makes the row of a sealed segment without reading the segment.

It needs the segment's indexes, its name and the next segment's, and the first batch's header:

    largest timestamp, its offset   the last time entry, which a broker adds to a sealed segment
    end offset                      the base offset of the next segment
    aborted transactions            `.txnindex`
    smallest timestamp              the first record's, from the first batch's header
                                    (`BatchTable.first_timestamp`). This is an upper bound: a later
                                    record may be older. A broker uses a higher bound, the largest
                                    timestamp of the first batch (getFirstBatchTimestamp)
"""

from typing import Final

from sparklog.errors import CorruptionError
from sparklog.interop.broker_files.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.broker_files.index_checks import (
    check_offset_index,
    check_time_index,
    last_time_entry,
)
from sparklog.interop.broker_files.txn_index import read_txn_index
from sparklog.interop.examine import Examined
from sparklog.interop.transactions import Span, Transactions
from sparklog.log.indexer import Indexes
from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from sparklog.log.segment_writer import SegmentSummary
from sparklog.model import NO_TIMESTAMP
from sparklog.record import layout
from sparklog.record.batches import Buffer, byte_view
from sparklog.record.scan import scan_batches, size_in_header, unpack_header

INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
"""With a larger index the segment is read instead. Kafka's default is 10 MiB."""
TXN_INDEX_BYTES_MAX: Final = 34_000_000
"""The size of a million aborted transactions in one segment."""


def trusted(
    source: PartitionDir,
    files: SegmentFiles,
    following: int,
    transactions: Transactions,
    leader_epoch: int | None,
) -> Examined | None:
    """Return a sealed segment as if it was read; None if its indexes do not suffice.

    `following` is the base offset of the next segment, `leader_epoch` the largest of this segment,
    None if unknown. Aborted transactions are added to `transactions`. Raises CorruptIndexError and
    CorruptionError for a damaged index.
    """
    if not files.sizes.get(TIME_INDEX_SUFFIX) or INDEX_SUFFIX not in files.sizes:
        return None
    if max(files.sizes[INDEX_SUFFIX], files.sizes[TIME_INDEX_SUFFIX]) > INDEX_BYTES_MAX:
        return None

    def read(suffix: str) -> Buffer:
        return source.files.read(files.name(suffix)) if files.sizes.get(suffix) else b""

    span = following - files.base_offset
    stem = f"{source.path}/{files.name('')}"
    index = check_offset_index(read(INDEX_SUFFIX), span, files.log_bytes, f"{stem}{INDEX_SUFFIX}")
    times = check_time_index(read(TIME_INDEX_SUFFIX), span, f"{stem}{TIME_INDEX_SUFFIX}")
    last = last_time_entry(times)
    if last is None:
        return None
    if files.sizes.get(TXN_INDEX_SUFFIX, 0) > TXN_INDEX_BYTES_MAX:
        raise CorruptionError(f"{stem}{TXN_INDEX_SUFFIX}: more than {TXN_INDEX_BYTES_MAX} bytes")
    first_timestamp = _first_timestamp(source, files, following)
    if first_timestamp is None:
        return None
    aborted = read_txn_index(read(TXN_INDEX_SUFFIX)) if TXN_INDEX_SUFFIX in files.sizes else []
    for one in aborted:
        transactions.aborted.append(Span(one.producer_id, one.first_offset, one.last_offset))
    summary = SegmentSummary(
        partition=source.topic_partition.partition,
        file_base_offset=files.base_offset,
        file_next_offset=following,
        log_bytes=files.log_bytes,
        log_crc32c=None,
        batch_count=None,
        record_count=None,
        min_timestamp=max(min(first_timestamp, last.timestamp), NO_TIMESTAMP),
        max_timestamp=last.timestamp,
        max_timestamp_delta=last.offset,
        codec=None,
        max_leader_epoch=leader_epoch,
        producer_ids=None,
        transactional=bool(aborted),
    )
    return Examined(summary, Indexes(bytes(index), bytes(times)))


def _first_timestamp(source: PartitionDir, files: SegmentFiles, following: int) -> int | None:
    """Return the timestamp of the first record; None if the file does not begin with a batch."""
    name = files.name(LOG_SUFFIX)
    header = source.files.read(name, 0, layout.BATCH_HEADER_SIZE)
    size = size_in_header(header)
    if len(header) == layout.BATCH_HEADER_SIZE and header[layout.MAGIC] == layout.MAGIC_V2:
        batch = unpack_header(byte_view(header), 0)
        is_whole = layout.BATCH_HEADER_SIZE <= size <= files.log_bytes
        is_inside = files.base_offset <= batch.base_offset < following
        return batch.first_timestamp if is_whole and is_inside else None
    # A message set. It is mapped, and its header alone is read.
    batches = scan_batches(source.files.view(name, min(max(size, 0), files.log_bytes))).batches
    if len(batches) != 1 or not files.base_offset <= batches.base_offset[0] < following:
        return None
    return int(batches.first_timestamp[0])
