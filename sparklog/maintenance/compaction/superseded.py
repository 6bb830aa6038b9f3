"""Finds records of a partition that have a later one with the same key, for any number of keys.

    index_keys     dirty segment -> keys, hashes and offsets, in buckets by the hash's top bits
    mark           all records of one bucket, each key in offset order -> a hash table of whole keys
                     -> offsets of records with a later record of the same key: superseded
                     -> clean records whose hash, in a key index, is in the table: suspects

A bucket has about two million records, so memory does not grow with the partition. Of clean
segments only the key indexes are read. A suspect comes with the key that it may have; the task that
rewrites its segment compares this key with the record's key.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.errors import MissingFileError, SparklogError
from sparklog.log import key_index
from sparklog.log.key_index import KeyHashes
from sparklog.log_reader.isolation import aborted_spans
from sparklog.log_reader.key_hashes import hashes_of, key_buffers, key_hashes
from sparklog.log_reader.slices import read_slices
from sparklog.maintenance.compaction.aborted import without_aborted
from sparklog.metadata.state.image import Slice
from sparklog.model import SegmentEntry, SegmentKey
from sparklog.record.decode import DecodedRecords
from sparklog.record.kernels.key_table import Keys, find_hashes, mark_superseded
from sparklog.record.payload import frozen
from sparklog.storage.files import Files

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

BUCKET_RECORDS: Final = 2_000_000
"""About how many records a bucket has: with keys of 30 bytes 100 MB of keys, hashes and table,
with 250 bytes 1 GB."""
ROUND_RECORDS: Final = BUCKET_RECORDS * key_index.PARTS
"""The most records that a round reads, if one segment does not have more: as many as fit into all
buckets of a partition."""
CHUNK_RECORDS: Final = 500_000
CHUNK_BYTES: Final = 32 * 1024 * 1024
"""The most records and bytes of a segment that are read, and sent, at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """A segment whose keys must be read. Picklable.

    `segment` is the segment's number in its partition, in offset order. Its keys go to the reducers
    `first` to `first + (1 << bits) - 1`.
    """

    files: Files
    directory: str
    entry: SegmentEntry
    first: int = 0
    segment: int = 0
    bits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """The reducers of one partition: 1 << bits from `first` on. `indexed` have key indexes."""

    first: int
    bits: int
    indexed: Sequence[SegmentEntry]


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """Records of a clean segment, as offsets - base offset, and the key that each may have.

    An offset occurs twice if two keys in the table have its hash. `keys` is large_binary.
    """

    deltas: Int64s
    keys: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The findings of one bucket about the segments of its partition, by segment key.

    `slot` is the partition's index among those of the round.
    """

    slot: int
    superseded: dict[SegmentKey, NDArray[np.uint32]] = field(default_factory=dict)
    """Offsets - base offset of superseded records."""
    suspects: dict[SegmentKey, Suspects] = field(default_factory=dict)
    unreadable: "Unreadable | None" = None
    """Why the partition cannot be compacted; None if it can."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Records that have a key: offset - base offset, hash, and key data[ends[i] : ends[i + 1]]."""

    deltas: NDArray[np.uint32]
    hashes: Int64s
    ends: NDArray[np.int32]
    data: Bytes

    @classmethod
    def of(cls, records: DecodedRecords, base_offset: int) -> "KeyRows":
        """Return the records that have a key; `base_offset` is that of their segment."""
        keys, offsets = records.key, records.offset
        if keys.null_count:
            mask = keys.is_valid()
            keys, offsets = keys.filter(mask), offsets.filter(mask)
        deltas = (offsets.to_numpy() - base_offset).astype(np.uint32)
        return cls(deltas, hashes_of(keys), *key_buffers(keys))

    def sorted_by_hash(self) -> "KeyRows":
        """Return the rows in a stable sort by the top 16 bits of their hashes.

        So the rows of a bucket are neighbours, and `mark` reads memory sequentially.
        """
        order = np.argsort(_top_bits(self.hashes), kind="stable")
        buffers = [None, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        keys = pa.Array.from_buffers(pa.binary(), len(self.deltas), buffers)
        return KeyRows(
            self.deltas[order], self.hashes[order], *key_buffers(keys.take(pa.array(order)))
        )

    def slice(self, start: int, stop: int) -> "KeyRows":
        """Return rows [start, stop)."""
        ends = self.ends[start : stop + 1]
        return KeyRows(
            self.deltas[start:stop],
            self.hashes[start:stop],
            ends - ends[0],
            self.data[ends[0] : ends[-1]],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Keyed records, at least one, of one segment and one bucket."""

    segment: int
    key: SegmentKey
    rows: KeyRows

    @property
    def place(self) -> tuple[int, int]:
        """The sort key of chunks: sorted by it, the rows of a key are in offset order."""
        return self.segment, int(self.rows.deltas.min())


class Unreadable(NamedTuple):
    """The reason why the keys of a segment cannot be read; it takes the place of chunks."""

    problem: str
    is_missing: bool
    """True if the error is that of a missing file."""

    @classmethod
    def of(cls, error: SparklogError, hint: str = "") -> "Unreadable":
        """Return the reason that an error tells."""
        return cls(f"{error}{hint}", isinstance(error, MissingFileError))


def bucket_bits(records: int) -> int:
    """Return how many bits of a hash (0 to 8) choose the bucket, for a partition of `records`."""
    return min(max(records - 1, 0) // BUCKET_RECORDS, key_index.PARTS - 1).bit_length()


def bucket_of(hashes: Int64s, bits: int) -> Int64s:
    """Return the bucket of each hash: the number that its top `bits` (0 to 8) make."""
    return key_index.part_of(hashes) >> (key_index.PARTS_BITS - bits)


def _top_bits(hashes: Int64s) -> NDArray[np.uint16]:
    """Return the top 16 bits: numpy sorts 16-bit numbers by a fast radix sort."""
    return (hashes.view(np.uint64) >> np.uint64(48)).astype(np.uint16)


def index_keys(source: KeySource) -> Iterator[tuple[int, Chunk | Unreadable]]:
    """Yield the records of a segment that have a key, each chunk with the number of its reducer.

    Damage is yielded as Unreadable, not raised: it concerns this partition alone.
    """
    first, key = source.first, source.entry.key
    try:
        for records in key_records(source):
            rows = KeyRows.of(records, source.entry.base_offset)
            rows = rows.sorted_by_hash()
            buckets = bucket_of(rows.hashes, source.bits)
            bounds = np.searchsorted(buckets, np.arange((1 << source.bits) + 1)).tolist()
            for bucket, (start, stop) in enumerate(pairwise(bounds)):
                if start < stop:
                    yield first + bucket, Chunk(source.segment, key, rows.slice(start, stop))
    except SparklogError as error:
        yield first, Unreadable.of(error)


def key_records(source: KeySource) -> Iterator[DecodedRecords]:
    """Yield `key` and `offset` of a segment's records, without those of aborted transactions.

    Every checksum is verified. Raises as `read_slices`.
    """
    entry = source.entry
    records = read_slices(
        source.files,
        source.directory,
        [Slice(entry, entry.base_offset, entry.next_offset)],
        columns=("key", "offset"),
        rows_max=CHUNK_RECORDS,
        window_bytes=CHUNK_BYTES,
    )
    if not entry.aborted:
        return records
    spans = aborted_spans([entry])
    return without_aborted(source.files, source.directory, entry, spans, records)


def mark(
    files: Files,
    directory: str,
    partitions: Sequence[Buckets],
    reducer: int,
    chunks: Iterator[Chunk | Unreadable],
) -> Marks:
    """Return the marks of one bucket; `reducer` is its number among the buckets of all partitions.

    If a key index is missing or damaged, the marks have an `unreadable`, and no record is dropped.
    """
    slot = bisect_right(partitions, reducer, key=lambda one: one.first) - 1
    mine = partitions[slot]
    found: list[Chunk] = []
    for chunk in chunks:
        if isinstance(chunk, Unreadable):
            return Marks(slot, unreadable=chunk)
        found.append(chunk)
    table = KeyTable(sorted(found, key=lambda chunk: chunk.place), mine.bits)
    suspects: dict[SegmentKey, Suspects] = {}
    for entry in mine.indexed:
        try:
            hashes = key_hashes(files, directory, entry, reducer - mine.first, mine.bits)
        except SparklogError as error:
            hint = "; compact with --reindex reads the keys instead"
            return Marks(slot, unreadable=Unreadable.of(error, hint))
        suspected = table.suspects(hashes)
        if len(suspected.deltas):
            suspects[entry.key] = suspected
    return Marks(slot, table.superseded(), suspects)


class KeyTable:
    """The keys of one bucket, and the latest record of each key."""

    def __init__(self, chunks: Sequence[Chunk], bits: int) -> None:
        rows = [chunk.rows for chunk in chunks]
        sizes = np.cumsum([0, *(len(one.data) for one in rows)])
        ends = [one.ends[1:] + start for one, start in zip(rows, sizes.tolist(), strict=False)]
        self._chunks = chunks
        self._keys = Keys(
            frozen(np.concatenate([one.hashes for one in rows])),
            frozen(np.concatenate([np.zeros(1, np.int64), *ends])),
            np.concatenate([one.data for one in rows]),
        )
        count = len(self._keys.hashes)
        self._bits = bits
        self._table_bits = max(2 * count - 1, 1).bit_length()
        self._slots = np.full(1 << self._table_bits, -1, np.int32)
        self._is_superseded = np.zeros(count, np.uint8)
        self._keys.data.setflags(write=False)
        order = np.argsort(_top_bits(self._keys.hashes), kind="stable")
        mark_superseded(self._keys, order, bits, self._table_bits, self._slots, self._is_superseded)

    def superseded(self) -> dict[SegmentKey, NDArray[np.uint32]]:
        """Return the offsets - base offset of records that have a later one, by segment."""
        found: dict[SegmentKey, list[NDArray[np.uint32]]] = {}
        start = 0
        for chunk in self._chunks:
            stop = start + len(chunk.rows.deltas)
            gone = chunk.rows.deltas[self._is_superseded[start:stop] != 0]
            start = stop
            if len(gone):
                found.setdefault(chunk.key, []).append(gone)
        return {key: np.concatenate(deltas) for key, deltas in found.items()}

    def suspects(self, indexed: KeyHashes) -> Suspects:
        """Return the records of a key index whose hashes are in the table."""
        room = len(indexed.hashes)
        while True:
            which, rows = np.empty(room, np.int64), np.empty(room, np.int64)
            count = find_hashes(
                frozen(indexed.hashes),
                self._keys.hashes,
                self._bits,
                self._table_bits,
                self._slots,
                which,
                rows,
            )
            if count <= room:
                break
            room = count
        buffers = [None, pa.py_buffer(self._keys.ends), pa.py_buffer(self._keys.data)]
        keys = pa.Array.from_buffers(pa.large_binary(), len(self._keys.hashes), buffers)
        return Suspects(indexed.deltas[which[:count]], keys.take(pa.array(rows[:count])))
