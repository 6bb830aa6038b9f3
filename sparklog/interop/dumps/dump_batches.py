"""The lines that kafka-dump-log.sh prints of batches and their records.

    baseOffset: … lastOffset: … … position: … CreateTime: … size: … magic: 2 … isvalid: true
    | offset: … CreateTime: … keySize: … valueSize: … sequence: … headerKeys: … key: … payload: …

Well-formed batches of magic 2 are decoded and printed thousands at once. Message sets, control
batches and damaged batches are read one by one, as Kafka's classes do it. See DumpLogSegments.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError, UsageError
from sparklog.interop.broker_files.control_records import control_text
from sparklog.interop.broker_files.file_records import Bytes, OddBatch, int_at
from sparklog.interop.broker_files.java_records import (
    CODECS,
    JavaRecord,
    later_sequence,
    records_at,
)
from sparklog.interop.dumps.text_lines import (
    Lines,
    Part,
    after,
    content,
    flags,
    interleaved,
    java_text,
    java_texts,
    numbers,
    texts,
    words,
)
from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.checksum import checksums
from sparklog.record.columns import SIZES
from sparklog.record.decode import DecodedRecords, decode
from sparklog.record.scan import scan_batches

Int64s = NDArray[np.int64]

TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime", "NoTimestampType")
GROUP_BYTES: Final = 4 * 1024 * 1024
"""About how many bytes of the file are decoded and printed at once."""
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most decompressed bytes of a group of batches; a single batch may have more."""
_TITLES_V2: Final = (
    "baseOffset: ", " lastOffset: ", " count: ", " baseSequence: ", " lastSequence: ",
    " producerId: ", " producerEpoch: ", " partitionLeaderEpoch: ", " isTransactional: ",
    " isControl: ", " deleteHorizonMs: ",
)  # fmt: skip

_COLUMNS: Final = ("offset", "timestamp", "headers", *SIZES)
_DATA_COLUMNS: Final = (*_COLUMNS, "key", "value")

Decoded = tuple[bytes | None, bytes | None]
Decoder = Callable[[JavaRecord], Decoded]
"""Returns the texts to print for key and value of a record; None prints nothing."""


@dataclass(frozen=True, slots=True)
class RecordText:
    """The parts of a `.log` to print.

    `deep`: records, too. Of each record its numbers (`metadata`), and its key and value (`data`).
    `decoder` is None for plain text.
    """

    deep: bool = False
    data: bool = False
    metadata: bool = True
    decoder: Decoder | None = None


@dataclass(slots=True)
class Offsets:
    """Finds gaps between the offsets of records. A gap is (offset, the next record's offset)."""

    last: int
    gaps: list[tuple[int, int]]

    def add(self, offsets: Int64s) -> None:
        """Take the offsets of the next records."""
        if not len(offsets):
            return
        before = np.concatenate([[self.last], offsets[:-1]])
        # -1 means "no record yet", even if a record has offset -1.
        wrong = np.flatnonzero((offsets != before + 1) & (before != -1))
        self.gaps += zip(before[wrong].tolist(), offsets[wrong].tolist(), strict=True)
        self.last = int(offsets[-1])


class BatchPrinter:
    """Prints the batches of one file; counts those whose checksum is wrong."""

    def __init__(self, view: Bytes, text: RecordText) -> None:
        self._view = view
        self._text = text
        self.offsets = Offsets(-1, [])
        self.invalid = 0

    def table(self, batches: BatchTable) -> Iterator[bytes | memoryview]:
        """Yield the lines of batches whose headers are well formed."""
        plain = batches.magic == layout.MAGIC_V2
        if self._text.deep:
            plain &= ~batches.is_control
            if self._text.decoder:
                plain &= False
        plain &= batches.codec < len(CODECS)
        cuts = [0, *(np.flatnonzero(np.diff(plain)) + 1).tolist(), len(batches)]
        for start, stop in pairwise(cuts):
            run = batches.slice(start, stop)
            if plain[start]:
                for group in _groups(run):
                    yield from self._group(group)
            else:
                for slot in range(len(run)):
                    yield from self._single(run.slice(slot, slot + 1))

    def odd(self, batch: OddBatch) -> Iterator[bytes | memoryview]:
        """Yield the lines of a batch that no writer can have written."""
        position, size, magic = batch
        if magic < layout.MAGIC_V0:
            yield f"offset: {int_at(self._view, position, 8)}".encode()
            raise CorruptRecordError(
                f"Invalid magic used in LegacyRecord: {magic}", position=position
            )
        if position + layout.RECORDS > len(self._view):
            reason = "Failed to read record batch: its header is cut"
            raise CorruptRecordError(reason, position=position)
        header = self._view[position : position + layout.RECORDS].copy()
        header[layout.MAGIC] = layout.MAGIC_V2
        header[layout.LENGTH : layout.LENGTH + 4] = (0, 0, 0, layout.BATCH_MIN_LENGTH)
        yield from self._single(
            replace(
                scan_batches(header).batches,
                position=np.array([position]),
                size=np.array([size]),
                magic=np.array([magic]),
            )
        )

    def _group(self, group: BatchTable) -> Iterator[bytes | memoryview]:
        if not self._text.deep:
            yield content(self._heads(group))
            return
        columns = _DATA_COLUMNS if self._text.data else _COLUMNS
        limit = DECOMPRESSED_BYTES_MAX // len(group)
        try:
            records = decode(self._view, group, columns=columns, max_bytes=limit)
        except (CorruptRecordError, UsageError):
            half = len(group) // 2
            if half:
                yield from self._group(group.slice(0, half))
                yield from self._group(group.slice(half))
            else:
                yield from self._single(group)
            return
        self.offsets.add(records.offset.to_numpy())
        lines = _record_lines(group, records, self._text)
        yield interleaved(self._heads(group), lines, group.record_count)

    def _single(self, batch: BatchTable) -> Iterator[bytes]:
        yield from self._head(batch)
        if not self._text.deep:
            return
        magic = int(batch.magic[0])
        kind = TIMESTAMP_TYPES[_timestamp_type(batch)[0]]
        is_control = magic >= layout.MAGIC_V2 and bool(batch.attributes[0] & layout.CONTROL_MASK)
        for record in records_at(self._view, int(batch.position[0]), int(batch.size[0])):
            self.offsets.add(np.array([record.offset]))
            yield from _record_line(record, magic, kind, is_control, self._text)

    def _head(self, batch: BatchTable) -> Iterator[bytes]:
        codec = int(batch.codec[0])
        if codec < len(CODECS):
            yield bytes(content(self._heads(batch)))
            return
        yield bytes(content(Lines(1, *_titles(batch))))
        position = int(batch.position[0])
        raise CorruptRecordError(f"Unknown compression type id: {codec}", position=position)

    def _heads(self, batches: BatchTable) -> Lines:
        stored, valid = _checksums(self._view, batches)
        self.invalid += len(valid) - int(valid.sum())
        return Lines(
            len(batches),
            *_titles(batches),
            " position: ", numbers(batches.position),
            " ", words(_timestamp_type(batches), TIMESTAMP_TYPES),
            ": ", numbers(batches.max_timestamp),
            " size: ", numbers(batches.size),
            " magic: ", numbers(batches.magic),
            " compresscodec: ", words(batches.codec, CODECS),
            " crc: ", numbers(stored),
            " isvalid: ", flags(valid),
            "\n",
        )  # fmt: skip


def _groups(batches: BatchTable) -> Iterator[BatchTable]:
    part = (np.cumsum(batches.size) - batches.size) // GROUP_BYTES
    return batches.cut(np.diff(part))


def _timestamp_type(batches: BatchTable) -> Int64s:
    """Return indices into TIMESTAMP_TYPES; magic 0 has type -1, which is the last of them."""
    return batches.timestamp_type % len(TIMESTAMP_TYPES)


def _titles(batches: BatchTable) -> list[str | Part]:
    """Return the first parts of the batch lines; either all batches have magic 2, or none has."""
    if batches.magic[0] < layout.MAGIC_V2:
        return ["offset: ", numbers(batches.last_offset)]
    columns = (
        numbers(batches.base_offset),
        numbers(batches.last_offset),
        numbers(batches.record_count),
        numbers(batches.base_sequence),
        numbers(_last_sequences(batches)),
        numbers(batches.producer_id),
        numbers(batches.producer_epoch),
        numbers(batches.leader_epoch),
        flags(batches.attributes & layout.TRANSACTIONAL_MASK != 0),
        flags(batches.attributes & layout.CONTROL_MASK != 0),
        _horizons(batches),
    )
    return [part for pair in zip(_TITLES_V2, columns, strict=True) for part in pair]


def _horizons(batches: BatchTable) -> str | Part:
    has_horizon = batches.attributes & layout.DELETE_HORIZON_MASK != 0
    if not has_horizon.any():
        return "OptionalLong.empty"
    times = zip(has_horizon.tolist(), batches.base_timestamp.tolist(), strict=True)
    found = [f"OptionalLong[{time}]" if has else "OptionalLong.empty" for has, time in times]
    return words(np.arange(len(found)), found)


def _last_sequences(batches: BatchTable) -> Int64s:
    base, delta = batches.base_sequence, batches.last_offset - batches.base_offset
    last = (base + delta) % 2**31
    strange = np.flatnonzero((base < 0) | (delta < 0))
    for slot in strange.tolist():
        first, step = int(base[slot]), int(delta[slot])
        last[slot] = -1 if first == -1 else later_sequence(first, step)
    return last


def _checksums(view: Bytes, batches: BatchTable) -> tuple[Int64s, NDArray[np.bool_]]:
    """Return the stored checksums, and whether each is right; all have magic 2, or none has."""
    is_v2 = batches.magic[0] >= layout.MAGIC_V2
    at = layout.CRC if is_v2 else layout.LEGACY_CRC
    least = layout.RECORDS if is_v2 else layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0
    stored = np.ascontiguousarray(view[(batches.position + at)[:, None] + np.arange(4)])
    stored = stored.view(">u4").reshape(-1).astype(np.int64)
    return stored, (stored == checksums(view, batches)) & (batches.size >= least)


# --- records -------------------------------------------------------------------------------------


def _record_lines(batches: BatchTable, records: DecodedRecords, text: RecordText) -> Lines:
    """Return the lines of records; the batches have magic 2, and none is a control batch."""
    parts: list[str | Part] = []
    if text.metadata:
        parts += _metadata(batches, records)
    if text.data:
        parts += after(" key: " if text.metadata else "| key: ", java_texts(records.key))
        parts += after(" payload: ", java_texts(records.value))
    return Lines(records.num_rows, *parts, "\n")


def _metadata(batches: BatchTable, records: DecodedRecords) -> list[str | Part]:
    batch = np.repeat(np.arange(len(batches)), batches.record_count)
    offset = records.offset.to_numpy()
    base_sequence = batches.base_sequence[batch]
    sequence = (base_sequence + offset - batches.base_offset[batch]) % 2**31
    return [
        "| offset: ", numbers(offset),
        " ", words(_timestamp_type(batches)[batch], TIMESTAMP_TYPES),
        ": ", numbers(records.timestamp.to_numpy()),
        " keySize: ", numbers(records.key_size.to_numpy()),
        " valueSize: ", numbers(records.value_size.to_numpy()),
        " sequence: ", numbers(np.where(base_sequence < 0, -1, sequence)),
        " headerKeys: [", _header_keys(records.headers), "]",
    ]  # fmt: skip


def _header_keys(headers: pa.Array) -> str | Part:
    if headers.null_count == len(headers):
        return ""
    keys = headers.values.field("key").cast(pa.binary())
    starts = np.frombuffer(headers.buffers()[1], np.int32)[: len(headers) + 1]
    lists = pa.ListArray.from_arrays(pa.array(starts), keys)
    return texts(pc.binary_join(lists, b","))


def _record_line(
    record: JavaRecord, magic: int, kind: str, is_control: bool, text: RecordText
) -> Iterator[bytes]:
    """Yield the line of one record in pieces, so that the pieces before an error are printed."""
    prefix = b"| "
    if text.metadata:
        yield _single_metadata(record, magic, kind)
        prefix = b" "
        if is_control:
            yield control_text(record.key, record.value).encode()
    if text.data and not is_control:
        if record.is_cut:
            raise CorruptRecordError("the message ends before its value does")
        decoder = text.decoder or _as_text
        key, value = decoder(record)
        yield b"" if key is None else prefix + b"key: " + key
        yield b"" if value is None else b" payload: " + value
    yield b"\n"


def _single_metadata(record: JavaRecord, magic: int, kind: str) -> bytes:
    line = (
        f"| offset: {record.offset} {kind}: {record.timestamp} "
        f"keySize: {record.key_size} valueSize: {record.value_size}"
    ).encode()
    if magic >= layout.MAGIC_V2:
        names = b",".join(java_text(name) for name in record.headers)
        line += f" sequence: {record.sequence} headerKeys: [".encode() + names + b"]"
    if record.is_valid is not None:
        line += f" isValid: {str(record.is_valid).lower()} crc: {record.crc}}}".encode()
    return line


def _as_text(record: JavaRecord) -> Decoded:
    key, value = record.key, record.value
    return None if key is None else java_text(key), None if value is None else java_text(value)
