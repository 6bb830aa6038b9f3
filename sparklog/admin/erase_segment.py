"""The tasks of erase: a segment is searched for keys, and written anew without their records.

    search   if the key index has none of the keys' hashes, the segment is not read; otherwise
             every record is compared, also those of open and aborted transactions
    without  windows, verified -> the records that stay -> one segment of the same offsets

Offsets and times stay. If no record of a batch is left, its header stays, as compaction keeps the
header of a producer's last batch. So every offset that was in a batch is still in one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.clock import Clock
from sparklog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    MissingFileError,
    SparklogError,
)
from sparklog.log import key_index
from sparklog.log.key_index import KeyHashes
from sparklog.log.roll import RollPolicy
from sparklog.log.segment_writer import SegmentBuilder
from sparklog.log.windows import checked_windows
from sparklog.log_reader.key_hashes import hashes_of, key_hashes
from sparklog.log_reader.opened import damage_in, scanned_whole
from sparklog.log_reader.slices import decoded_in_groups, read_slices
from sparklog.log_writer import SegmentFile
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.state.image import Slice
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.record.arrays import numbers_of
from sparklog.record.batches import BatchTable, Buffer, byte_view
from sparklog.record.checksum import verify_checksums
from sparklog.record.decode import DecodedRecords, decode
from sparklog.record.retain import Retained, Rules, retain_in_parts
from sparklog.record.scan import scan_batches
from sparklog.record.up_convert import up_convert
from sparklog.storage.files import Files

Int64s = NDArray[np.int64]
Keys = tuple[bytes, ...]
Answer = TypeVar("Answer")

NOTHING: Final = np.empty(0, np.int64)


class Found(NamedTuple):
    """The records with one of the keys, as offset minus base offset, ascending.

    `is_read` is False if the key index has ruled the segment out.
    """

    deltas: Int64s
    is_read: bool = True


def search(files: Files, directory: str, keys: Keys, entry: SegmentEntry) -> Found:
    """Return the records of a segment that have one of the keys. Raises as `read_slices`."""
    if entry.key_index_path is not None and not _may_hold(files, directory, keys, entry):
        return Found(NOTHING, is_read=False)
    deltas = [NOTHING]
    whole = Slice(entry, entry.base_offset, entry.next_offset)
    for records in read_slices(files, directory, [whole], columns=("key", "offset")):
        is_hit = has_key(records.key, keys)
        deltas.append(records.offset.to_numpy()[is_hit] - entry.base_offset)
    return Found(np.concatenate(deltas))


def has_key(column: Any, keys: Keys) -> NDArray[np.bool_]:
    """Return, for each value of a binary Arrow column, whether it is one of the keys."""
    wanted = pa.array(keys, pa.large_binary())
    return numbers_of(pc.is_in(column.cast(pa.large_binary()), value_set=wanted))


def _may_hold(files: Files, directory: str, keys: Keys, entry: SegmentEntry) -> bool:
    """Return True if the key index has the hash of a key, or cannot be read."""
    hashes = hashes_of(pa.array(keys, pa.binary()))
    try:
        for part in np.unique(key_index.part_of(hashes)).tolist():
            known = key_hashes(files, directory, entry, part, key_index.PARTS_BITS)
            if np.isin(hashes, known.hashes).any():
                return True
    except (CorruptIndexError, MissingFileError):
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadBytes:
    """Stretches (start, length) of a shared segment that belong to no live slice. Picklable."""

    files: Files
    path: str
    stretches: tuple[tuple[int, int], ...]
    keys: Keys


def search_dead(work: DeadBytes) -> bool:
    """Return True if a record in these bytes has one of the keys, or if they cannot be read."""
    for start, length in work.stretches:
        data = byte_view(work.files.view(work.path, length, start))
        scan = scan_batches(data)
        batches = scan.batches.take(~scan.batches.is_control)
        found = decoded_in_groups(partial(_decoded_keys, data), batches)
        try:
            verify_checksums(data, batches)
            has_one = any(has_key(records.key, work.keys).any() for records in found)
        except CorruptRecordError:
            return True
        if has_one or scan.problem is not None:
            return True
    return False


def _decoded_keys(data: Buffer, batches: BatchTable, max_bytes: int | None) -> DecodedRecords:
    return decode(data, batches, columns=("key",), max_bytes=max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Removal:
    """A segment to be written anew without the records at `deltas`. Picklable."""

    files: Files
    clock: Clock
    topic: TopicDescription
    entry: SegmentEntry
    deltas: Int64s
    policy: RollPolicy


def without(work: Removal) -> SegmentEntry:
    """Write the segment anew, durably, and return its row.

    The new segment has a file of its own, even if the old one was a slice of a shared segment.
    Raises CorruptRecordError naming file, position and offset, CorruptIndexError for its key index,
    and the errors of storage.
    """
    entry, now_ms = work.entry, work.clock.now_ms()
    builder = SegmentBuilder(entry.base_offset, entry.partition, work.policy)
    target = SegmentFile(work.files, work.topic, builder, now_ms)
    try:
        for some in _retained(work):
            target.append(some.batches, some.data, min_timestamp=some.min_timestamp)
    except BaseException:
        target.abort()
        raise
    row = target.close(now_ms, next_offset=entry.next_offset)
    row = row._replace(
        created_ms=entry.created_ms,
        aborted=entry.aborted,
        delete_horizon_ms=entry.delete_horizon_ms,
    )
    if entry.key_index_path is not None:
        row = target.with_key_index(row, _kept_keys(work))
    work.files.sync(target.paths)
    return row


def _retained(work: Removal) -> Iterator[Retained]:
    directory, entry = topic_directory(work.topic), work.entry
    rules_of = partial(_rules, work.deltas + entry.file_base_offset)
    with damage_in(directory, entry):
        for window in checked_windows(scanned_whole(work.files, directory, entry)):
            for data, batches in up_convert(window.data, window.batches):
                yield from retain_in_parts(data, batches, rules_of, shift=entry.shift)


def _rules(dropped: Int64s, batches: BatchTable) -> Rules:
    first, end = batches.base_offset[0], batches.last_offset[-1] + 1
    start, stop = np.searchsorted(dropped, [first, end])
    return Rules(
        dropped=dropped[start:stop],
        aborted=np.zeros(len(batches), np.bool_),
        stays_empty=np.ones(len(batches), np.bool_),
        now_ms=0,
        delete_retention_ms=0,
        keeps_rest=True,
    )


def _kept_keys(work: Removal) -> KeyHashes:
    """Return the keys of the segment's key index, without those of the removed records."""
    known = key_hashes(work.files, topic_directory(work.topic), work.entry)
    stays = ~np.isin(known.deltas, work.deltas)
    return KeyHashes(known.hashes[stays], known.deltas[stays])


def stretches_between(spans: Sequence[tuple[int, int]], size: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches (start, length) of a file that lie outside of spans (start, length)."""
    found, at = [], 0
    for start, length in sorted(spans):
        if start > at:
            found.append((at, start - at))
        at = max(at, start + length)
    if size > at:
        found.append((at, size - at))
    return tuple(found)


def sound(answers: Iterable[Answer | SparklogError]) -> list[Answer]:
    """Return the answers of tasks; raises the first error among them."""
    found = []
    for answer in answers:
        if isinstance(answer, SparklogError):
            raise answer
        found.append(answer)
    return found
