"""What is known of a sealed segment without reading it: from its name, its indexes, its neighbour.

A broker closes a segment with a last time entry, (largest timestamp, its offset); the segment ends
where the next one begins; its aborted transactions are in its `.txnindex`.
"""

from dataclasses import dataclass

from sparklog.interop.broker_dir import PartitionDir, SegmentFiles
from sparklog.interop.index_checks import check_offset_index, check_time_index, last_time_entry
from sparklog.interop.transactions import Span, Transactions
from sparklog.interop.txn_index import read_txn_index
from sparklog.log.indexer import Indexes
from sparklog.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from sparklog.model import SegmentEntry

TXN_INDEX_SUFFIX = ".txnindex"


@dataclass(frozen=True, slots=True)
class Trusted:
    """A segment's row, without paths, and the index files to copy."""

    entry: SegmentEntry
    indexes: Indexes


def trusted(
    source: PartitionDir, files: SegmentFiles, following: int, transactions: Transactions
) -> Trusted | None:
    """The row of a sealed segment whose indexes say enough; None when its `.log` must be read.

    `transactions` is told of the aborted ones. Raises CorruptIndexError, CorruptionError for an
    index that cannot be right.
    """
    if not files.sizes.get(TIME_INDEX_SUFFIX) or INDEX_SUFFIX not in files.sizes:
        return None
    span = following - files.base_offset
    data = {suffix: source.files.view(files.name(suffix)) for suffix in files.sizes}
    paths = {suffix: f"{source.path}/{files.name(suffix)}" for suffix in files.sizes}
    index = check_offset_index(data[INDEX_SUFFIX], span, files.log_bytes, paths[INDEX_SUFFIX])
    times = check_time_index(data[TIME_INDEX_SUFFIX], span, paths[TIME_INDEX_SUFFIX])
    last = last_time_entry(times)
    if last is None:
        return None
    aborted = read_txn_index(data[TXN_INDEX_SUFFIX]) if TXN_INDEX_SUFFIX in data else []
    for one in aborted:
        transactions.aborted.append(Span(one.producer_id, one.first_offset, one.last_offset))
    entry = SegmentEntry(
        partition=source.place.partition,
        base_offset=files.base_offset,
        next_offset=following,
        file_base_offset=files.base_offset,
        log_path="",
        log_bytes=files.log_bytes,
        max_timestamp=last.timestamp,
        max_timestamp_delta=last.offset,
        transactional=bool(aborted),
        created_ms=0,
    )
    return Trusted(entry, Indexes(index, times))
