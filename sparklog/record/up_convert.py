"""Message sets (magic 0 and 1) as record batches: same records, offsets, times and codecs.

sparklog writes no message sets. Compaction converts them first, as a broker does when the message
format of a topic is raised (LogValidator.convertAndAssignOffsetsNonCompressed). A tombstone in a
message set has no delete horizon. Magic 0 has no times: they become -1.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from sparklog.model import Codec, TimestampType
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import BatchTable, Buffer, in_parts
from sparklog.record.decode import DecodedRecords, decode
from sparklog.record.encode import BatchSettings, EncodedStream, encode
from sparklog.record.rows import RecordColumns

SIZE_MAX: Final = 2**31 - 1
"""No record is refused for its size here, because the log has it already."""


def up_convert(data: Buffer, batches: BatchTable) -> Iterator[tuple[Buffer, BatchTable]]:
    """Yield `batches`, at least one, as runs of magic 2, each with the bytes that it lies in.

    A run that is of magic 2 already is yielded as it is. Raises CorruptRecordError, with position
    in `data` and base offset, for a damaged message, after all before it was yielded.
    """
    for run in _alike(batches):
        if run.magic[0] == layout.MAGIC_V2:
            yield data, run
        else:
            yield from _converted(data, run)


def _alike(batches: BatchTable) -> Iterator[BatchTable]:
    """Cut into runs with one format, one codec, and for LogAppendTime one timestamp."""
    is_old = batches.magic < layout.MAGIC_V2
    is_appended = is_old & (batches.timestamp_type == TimestampType.LOG_APPEND_TIME)
    kinds = np.stack(
        [
            is_old,
            np.where(is_old, batches.codec, 0),
            is_appended,
            np.where(is_appended, batches.max_timestamp, 0),
        ]
    )
    return batches.cut((np.diff(kinds) != 0).any(axis=0))


def _converted(data: Buffer, run: BatchTable) -> Iterator[tuple[Buffer, BatchTable]]:
    """Yield a run of one kind, converted, in parts that memory can hold (`in_parts`)."""
    columns = ("key", "value", "offset", "timestamp")

    def converted(part: BatchTable, max_bytes: int | None) -> tuple[Buffer, BatchTable]:
        return _encoded(part, decode(data, part, columns=columns, max_bytes=max_bytes))

    return in_parts(run, converted, BATCH_BYTES_MAX)


def _encoded(run: BatchTable, records: DecodedRecords) -> tuple[Buffer, BatchTable]:
    offsets = records.offset.to_numpy()
    # The encoder's batches have no gaps, so each gap begins a new stream.
    is_first = np.diff(offsets, prepend=offsets[0] - 2) != 1
    is_appended = run.timestamp_type[0] == TimestampType.LOG_APPEND_TIME
    settings = BatchSettings(
        Codec(int(run.codec[0])),
        max_message_bytes=SIZE_MAX,
        timestamp_type=TimestampType(int(is_appended)),
        log_append_time_ms=int(run.max_timestamp[0]),
        leader_epoch=layout.NO_LEADER_EPOCH,
    )
    columns = RecordColumns(records.key, records.value, records.timestamp.to_numpy())
    stream = (np.cumsum(is_first) - 1).astype(np.int32)
    first = offsets[is_first]
    return _joined(encode(columns, stream, len(first), first, settings))


def _joined(streams: list[EncodedStream]) -> tuple[Buffer, BatchTable]:
    sizes = [len(one.data) for one in streams]
    starts = np.cumsum(sizes) - sizes
    tables = [
        replace(one.batches, position=one.batches.position + start)
        for one, start in zip(streams, starts.tolist(), strict=True)
    ]
    return np.concatenate([one.data for one in streams]), BatchTable.concat(tables)
