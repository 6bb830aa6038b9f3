"""Rewrite batches without the records that compaction drops (LogCleaner.cleanInto).

    all records stay       the batch's bytes, unchanged
    some records go        a new batch of the others: same offsets, same times, same codec
    no record stays        no batch, or a header without records if Kafka keeps that
    control batch          its bytes, unchanged

A batch with a tombstone gets a delete horizon when it is first compacted: its base timestamp
becomes the time from which the tombstone may go, and bit 6 of its attributes is set (KIP-534). The
horizon is at most 2^63 - 1, the largest timestamp: then the tombstone stays for ever. Readers add
time deltas modulo 2^64, as Java does, so that every record keeps its time under any horizon. A
compressed batch that might decompress to more than 256 MiB with its horizon gets none: its
tombstones stay. All batches are of magic 2; the caller has verified the checksums.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.model import NO_TIMESTAMP, Codec
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import COLUMNS, BatchTable, Buffer, byte_view, in_parts
from sparklog.record.checksum import put_checksums
from sparklog.record.codecs.compression import compressor
from sparklog.record.kernels import retain as kernels
from sparklog.record.kernels.columns import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    POSITION,
    RECORD_COUNT,
    SIZE,
)
from sparklog.record.kernels.decode import NUM_COUNTERS, Batches
from sparklog.record.kernels.encode import put_headers
from sparklog.record.payload import damaged_record, frozen, open_payloads

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Mask = NDArray[np.bool_]

_HORIZON_MAX: Final = 2**63 - 1
_SHIFTED_MORE: Final = layout.MAX_VARINT_SIZE + layout.MAX_VARLONG_SIZE
"""How many bytes a record gains at most when its timestamp delta changes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rules:
    """Which records go; `aborted` and `stays_empty` have one flag for each batch."""

    dropped: Int64s
    """Ascending offsets, in the batches' own numbering, of records that a later one supersedes."""
    aborted: Mask
    """Batches of aborted transactions, of which no record stays."""
    stays_empty: Mask
    """Batches that stay as a header if no record stays."""
    now_ms: int
    delete_retention_ms: int
    """How long, from now on, a tombstone stays in a batch that gets its delete horizon now."""
    keeps_rest: bool = False
    """True if the rewrite erases keys and is no compaction: then all records but `dropped` stay,
    also tombstones and records without a key, and no batch gets a delete horizon."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Retained:
    """The batches that stay, back to back. Times in ms; `min_timestamp` is None without records."""

    data: Bytes
    batches: BatchTable
    min_timestamp: int | None
    delete_horizon_ms: int | None
    """The earliest delete horizon of a batch with tombstones; None if no such batch has one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Some batches and their records, and which batches and records stay."""

    view: Bytes
    run: BatchTable
    decompressed: Bytes
    records: Batches
    verdict: kernels.Verdict
    horizon: Int64s
    """For each batch the delete horizon (ms) it has or gets; meaningless without tombstones."""
    gets_horizon: Mask
    """Batches that get their delete horizon now."""
    is_raw: Mask
    is_rebuilt: Mask
    is_emptied: Mask

    def of(self, column: int) -> Int64s:
        """Return one column of the kernel's sums: an int64 for each batch."""
        sums: Int64s = self.verdict.sums[:, column]
        return sums


def retain_in_parts(
    data: Buffer, batches: BatchTable, rules_of: Callable[[BatchTable], Rules], *, shift: int
) -> Iterator[Retained]:
    """Yield what `retain` returns for `batches`, at least one, in parts that memory can hold.

    Several batches of a part decompress to BATCH_BYTES_MAX at most, which one batch alone may have.
    `rules_of` returns the rules of the batches of a part. Raises as `retain`, after all parts
    before the damage were yielded (`in_parts`).
    """

    def retained(part: BatchTable, max_bytes: int | None) -> Retained:
        return retain(data, part, rules_of(part), shift=shift, max_bytes=max_bytes)

    return in_parts(batches, retained, BATCH_BYTES_MAX)


def retain(
    data: Buffer, batches: BatchTable, rules: Rules, *, shift: int = 0, max_bytes: int | None = None
) -> Retained:
    """Return the part of `batches` that stays; their positions are positions in `data`.

    All batches are of magic 2. `shift` is added to every offset of the answer. Raises
    CorruptRecordError, with position in `data` and base offset, for a damaged record, and for a
    batch that decompresses to more than `max_bytes` (None: BATCH_BYTES_MAX).
    """
    judged = _judged(byte_view(data), batches, rules, max_bytes)
    stays = judged.is_raw | judged.is_rebuilt | judged.is_emptied
    matrix = np.stack([getattr(batches, name) for name in COLUMNS])
    _change(matrix, judged)
    rebuilt = iter(_rebuilt(judged))
    pieces = [
        judged.view[start:end] if is_raw else next(rebuilt) if is_rebuilt else b""
        for start, end, is_raw, is_rebuilt in zip(
            (batches.position + np.where(judged.is_raw, 0, layout.RECORDS))[stays].tolist(),
            batches.end_position[stays].tolist(),
            judged.is_raw[stays].tolist(),
            judged.is_rebuilt[stays].tolist(),
            strict=True,
        )
    ]
    matrix = np.ascontiguousarray(matrix[:, stays])
    out = _laid_out(matrix, pieces, judged.is_raw[stays])
    matrix[[BASE_OFFSET, LAST_OFFSET]] += shift
    put_headers(matrix, out)
    table = BatchTable.from_matrix(matrix)
    put_checksums(out, table)
    has_records = judged.of(kernels.KEPT) > 0
    has_horizon = _has_horizon(batches) | judged.gets_horizon
    has_tombstones = (judged.of(kernels.TOMBSTONES) > 0) & has_horizon
    return Retained(
        data=out,
        batches=table,
        min_timestamp=_least(judged.of(kernels.MIN_TIMESTAMP)[has_records]),
        delete_horizon_ms=_least(judged.horizon[has_tombstones]),
    )


def without(retained: Retained, gone: Mask) -> Retained:
    """Return the retained batches without those whose flag in `gone` is set."""
    left = retained.batches.take(~gone)
    pieces = zip(left.position.tolist(), left.end_position.tolist(), strict=True)
    data = np.concatenate([np.empty(0, np.uint8), *(retained.data[at:end] for at, end in pieces)])
    position = np.cumsum(left.size) - left.size
    return replace(retained, data=data, batches=replace(left, position=position))


def _judged(view: Bytes, run: BatchTable, rules: Rules, max_bytes: int | None) -> _Judged:
    had_horizon = _has_horizon(run)
    due_ms = min(rules.now_ms + rules.delete_retention_ms, _HORIZON_MAX)
    horizon = np.where(had_horizon, run.base_timestamp, due_ms)
    protects = ~had_horizon | (rules.now_ms < run.base_timestamp) | rules.keeps_rest
    flags = np.where(protects, kernels.KEEP_TOMBSTONES, 0)
    flags |= np.where(rules.aborted, kernels.KEEP_NONE, 0)
    flags |= kernels.KEEP_KEYLESS if rules.keeps_rest else 0
    decompressed, records = open_payloads(view, run, 0, max_bytes)
    # A control record is not a user's record, so control batches are not opened.
    records = records._replace(
        record_count=frozen(np.where(run.is_control, 0, run.record_count)),
        end=frozen(np.where(run.is_control, records.position, records.end)),
    )
    verdict = kernels.Verdict(
        np.zeros(int(records.record_count.sum()), np.uint8),
        np.zeros((len(run), kernels.NUM_SUMS), np.int64),
    )
    counters = np.zeros(NUM_COUNTERS, np.int64)
    answer = kernels.judge(
        view, decompressed, records, frozen(flags), frozen(rules.dropped), verdict, counters
    )
    if answer < 0:
        raise damaged_record(answer, counters, run)
    kept, tombstones = verdict.sums[:, kernels.KEPT], verdict.sums[:, kernels.TOMBSTONES]
    # A horizon lengthens time deltas, and readers would not decompress a larger batch.
    most = verdict.sums[:, kernels.KEPT_BYTES] + _SHIFTED_MORE * kept
    has_room = (run.codec == Codec.NONE) | (most <= BATCH_BYTES_MAX)
    gets_horizon = (tombstones > 0) & ~had_horizon & (not rules.keeps_rest) & has_room
    is_whole = (kept == run.record_count) & (kept > 0) & ~gets_horizon
    is_raw = run.is_control | is_whole
    is_rebuilt = ~is_raw & (kept > 0)
    is_emptied = ~is_raw & (kept == 0) & rules.stays_empty
    return _Judged(
        view,
        run,
        decompressed,
        records,
        verdict,
        horizon,
        gets_horizon,
        is_raw,
        is_rebuilt,
        is_emptied,
    )


def _has_horizon(run: BatchTable) -> Mask:
    has: Mask = run.attributes & layout.DELETE_HORIZON_MASK != 0
    return has


def _change(matrix: Int64s, judged: _Judged) -> None:
    """Change the headers of changed batches, except for position and size."""
    gets_horizon, is_rebuilt, is_emptied = judged.gets_horizon, judged.is_rebuilt, judged.is_emptied
    matrix[RECORD_COUNT, is_rebuilt] = judged.of(kernels.KEPT)[is_rebuilt]
    is_own_time = is_rebuilt & (judged.run.timestamp_type == 0)
    matrix[MAX_TIMESTAMP, is_own_time] = judged.of(kernels.MAX_TIMESTAMP)[is_own_time]
    matrix[ATTRIBUTES, gets_horizon] |= layout.DELETE_HORIZON_MASK
    matrix[BASE_TIMESTAMP, gets_horizon] = judged.horizon[gets_horizon]
    # DefaultRecordBatch.writeEmptyHeader: no codec, no base timestamp.
    matrix[RECORD_COUNT, is_emptied] = 0
    matrix[ATTRIBUTES, is_emptied] &= ~(layout.CODEC_MASK | layout.DELETE_HORIZON_MASK)
    matrix[BASE_TIMESTAMP, is_emptied] = NO_TIMESTAMP


def _rebuilt(judged: _Judged) -> list[Bytes | bytes]:
    """Return the records of each batch that is rebuilt, compressed with the batch's codec."""
    chosen = judged.is_rebuilt
    if not chosen.any():
        return []
    records = Batches(*(frozen(column[chosen]) for column in judged.records))
    in_chosen = np.repeat(chosen, judged.records.record_count)
    old_base = judged.run.base_timestamp
    time_shift = np.where(judged.gets_horizon, old_base - judged.horizon, 0)[chosen]
    size = judged.of(kernels.KEPT_BYTES)[chosen].sum()
    size += _SHIFTED_MORE * judged.of(kernels.KEPT)[chosen][time_shift != 0].sum()
    out, ends = np.empty(size, np.uint8), np.empty(len(time_shift), np.int64)
    kernels.copy_kept(
        judged.view,
        judged.decompressed,
        records,
        frozen(time_shift),
        judged.verdict.kept[in_chosen],
        out,
        ends,
    )
    bounds = pairwise([0, *ends.tolist()])
    return [
        out[start:end] if codec == Codec.NONE else _compressor(codec)(out[start:end].data)
        for codec, (start, end) in zip(judged.run.codec[chosen].tolist(), bounds, strict=True)
    ]


_compressor = cache(lambda codec: compressor(Codec(codec)))


def _laid_out(matrix: Int64s, pieces: list[Bytes | bytes], is_raw: Mask) -> Bytes:
    """Return the pieces back to back, each after room for a header unless the piece has one."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    matrix[SIZE] = lengths + np.where(is_raw, 0, layout.RECORDS)
    ends = np.cumsum(matrix[SIZE])
    matrix[POSITION] = ends - matrix[SIZE]
    out = np.empty(int(matrix[SIZE].sum()), np.uint8)
    for piece, start, end in zip(pieces, (ends - lengths).tolist(), ends.tolist(), strict=True):
        out[start:end] = np.frombuffer(piece, np.uint8)
    return out


def _least(values: Int64s) -> int | None:
    return int(values.min()) if len(values) else None
