"""The record batch of a client: checked as a leader checks it, in the form that the topic stores.

    one batch          exactly one of magic 2 in Produce 3 and later        ProduceRequest
    its header         base offset 0, sizes, checksum, counts               UnifiedLog, LogValidator
    its records        every one: deltas 0, 1, 2 …, keys, times, fields     LogValidator
    the stored batch   the sent bytes, or the topic's codec or time put in      LogValidator

Rules and error codes are Kafka's, in Kafka's order. sparklog also refuses a batch that readers
could not decode later: a header key that is not UTF-8, offset deltas with gaps, a stream that
decompresses to more than 256 MiB, uncompressed records of more than 256 MiB in a topic that
compresses. And it refuses attributes that clients do not set: LogAppendTime, a delete horizon.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparklog.config import TopicConfig
from sparklog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from sparklog.model import NO_TIMESTAMP, Codec, TimestampType
from sparklog.record import layout
from sparklog.record.batch_settings import BATCH_BYTES_MAX
from sparklog.record.batches import Buffer, byte_view
from sparklog.record.checksum import batch_crc32c
from sparklog.record.codecs.compression import compressor
from sparklog.record.codecs.decompression import decompress
from sparklog.record.decode import decode
from sparklog.record.kernels import client_batch as kernels
from sparklog.record.kernels.decode import LEFT_OVER
from sparklog.record.payload import REASONS
from sparklog.record.scan import BatchHeader, scan_batches, size_in_header, unpack_header

Bytes = NDArray[np.uint8]

ZSTD_SINCE: Final = 7
"""The first version of Produce that may contain zstd (KIP-110)."""
_ASCII: Final = 0x7F
_REASONS: Final = {
    **REASONS,
    kernels.NOT_DENSE: "its offset delta is not the number of records before it",
}


class ClientBatch(NamedTuple):
    """A checked batch as it is stored; its base offset is still 0.

    Times (ms) are those that readers see; `min_timestamp` is -1 if a record has none.
    """

    data: Bytes
    record_count: int
    min_timestamp: int
    max_timestamp: int
    codec: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


class _Times(NamedTuple):
    """The times (ms) of the records: how many have none, the earliest and latest of the others."""

    missing: int
    earliest: int
    latest: int

    @property
    def are_missing(self) -> bool:
        """Whether no record has a time."""
        return self.earliest > self.latest

    @property
    def least(self) -> int:
        """The smallest time that a reader sees: NO_TIMESTAMP if a record has none."""
        return NO_TIMESTAMP if self.missing else self.earliest

    @property
    def largest(self) -> int:
        """The largest time that a reader sees; NO_TIMESTAMP if no record has one."""
        return NO_TIMESTAMP if self.are_missing else self.latest


def check_client_batch(
    data: Buffer, config: TopicConfig, now_ms: int, produce_version: int
) -> ClientBatch:
    """Return the batch that a client sent to a topic, as the topic stores it.

    `now_ms` is the time of the append. Raises InvalidRecordError for bytes that are not one batch
    of magic 2, for counts, offsets and sequences that do not agree, for control batches, for
    damaged records, and for a missing key in a compacted topic; CorruptRecordError for a wrong
    checksum or size; UnsupportedCodecError; InvalidTimestampError; RecordTooLargeError above
    max.message.bytes, and above 256 MiB of uncompressed records if the topic compresses;
    RecordBatchTooLargeError above segment.bytes. An error about a missing key or a time has the
    attribute `records`: the numbers, from 0, of the refused records in the batch.
    """
    view = byte_view(data)
    header = _one_batch(view, produce_version)
    _check_sizes(len(view), config)
    crc = batch_crc32c(view, 0, len(view))
    if crc != header.crc:
        raise CorruptRecordError(f"the checksum of the batch is {header.crc}, its bytes' is {crc}")
    _check_header(header)
    payload = view[layout.RECORDS :]
    if header.attributes & layout.CODEC_MASK:
        payload = _decompressed(header, payload)
    times = _walked(view, header, payload, config)
    is_append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    if not is_append_time:
        _check_times(view, times, config, now_ms)
    newest = now_ms if is_append_time else times.largest
    codec = header.attributes & layout.CODEC_MASK
    if config.codec not in (None, codec) or is_append_time or newest != header.max_timestamp:
        view, codec = _stored(view, header, payload, newest, config)
    return ClientBatch(
        data=view,
        record_count=header.record_count,
        min_timestamp=now_ms if is_append_time else times.least,
        max_timestamp=newest,
        codec=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=bool(header.attributes & layout.TRANSACTIONAL_MASK),
    )


def _one_batch(view: Bytes, produce_version: int) -> BatchHeader:
    """Return the header of the only batch (ProduceRequest.validateRecords)."""
    if len(view) < layout.BATCH_HEADER_SIZE:
        raise _no_batch(view)
    header = unpack_header(view, 0)
    size = header.size
    if header.magic != layout.MAGIC_V2 or not layout.BATCH_HEADER_SIZE <= size <= len(view):
        raise _no_batch(view)
    codec = header.attributes & layout.CODEC_MASK
    if codec > Codec.ZSTD or (codec == Codec.ZSTD and produce_version < ZSTD_SINCE):
        raise UnsupportedCodecError(
            f"codec bits {codec} are not allowed in Produce {produce_version}: known are 0 to "
            f"{Codec.ZSTD:d}, zstd ({Codec.ZSTD:d}) since version {ZSTD_SINCE}"
        )
    if size < len(view):
        raise InvalidRecordError(
            f"{len(view) - size} bytes are behind the batch: exactly one batch is allowed"
        )
    return header


def _no_batch(view: Bytes) -> InvalidRecordError | CorruptRecordError:
    """Return why bytes do not begin with a whole batch of magic 2."""
    if len(view) < layout.HEADER_PREFIX:
        return InvalidRecordError(f"{len(view)} bytes hold no record batch; exactly one is needed")
    size, magic = size_in_header(view), int(view[layout.MAGIC])
    if size < layout.LOG_OVERHEAD + layout.LEGACY_MIN_LENGTH_V0:
        return CorruptRecordError(f"the batch says it has {size} bytes, fewer than any batch")
    if size > len(view):
        return InvalidRecordError(f"the batch says it has {size} bytes; {len(view)} were sent")
    if magic > layout.MAGIC_V2:
        return CorruptRecordError(f"magic {magic} is not 0, 1 or 2")
    if magic != layout.MAGIC_V2:
        return InvalidRecordError(f"a batch of magic {magic}; allowed is magic 2 alone")
    return CorruptRecordError(
        f"the batch says it has {size} bytes; a header alone has {layout.BATCH_HEADER_SIZE}"
    )


def _check_sizes(size: int, config: TopicConfig) -> None:
    if size > config.max_message_bytes:
        raise RecordTooLargeError(
            f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}",
            size=size,
            limit=config.max_message_bytes,
        )
    if size > config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"the batch has {size} bytes, segment.bytes allows {config.segment_bytes}"
        )


def _check_header(header: BatchHeader) -> None:
    """Check the header (UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch)."""
    if header.base_offset != 0:
        raise InvalidRecordError(f"the base offset is {header.base_offset}; a client's is 0")
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecordError(
            f"the batch says it has {count} records and the last offset delta "
            f"{header.last_offset_delta}; allowed: 1 record or more, and that number less 1"
        )
    if header.is_control:
        raise InvalidRecordError("clients may not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(
            f"base sequence {header.base_sequence} with producer id {header.producer_id}; a "
            f"sequence is not negative"
        )
    if header.attributes & layout.DELETE_HORIZON_MASK:
        raise InvalidRecordError("clients may not set a delete horizon")
    if header.attributes & layout.TIMESTAMP_TYPE_MASK:
        raise InvalidTimestampError("clients may not set the timestamp type LogAppendTime")


def _decompressed(header: BatchHeader, payload: Bytes) -> Bytes:
    try:
        plain = decompress(header.attributes & layout.CODEC_MASK, payload, BATCH_BYTES_MAX)
    except CorruptRecordError as error:
        # CORRUPT_MESSAGE would make the client try again: no use, as the checksum is right.
        raise InvalidRecordError(str(error)) from None
    return np.frombuffer(plain, np.uint8)


def _walked(view: Bytes, header: BatchHeader, payload: Bytes, config: TopicConfig) -> _Times:
    """Check every record; return their times."""
    problem, record, keyless, missing, earliest, latest, bits = kernels.walk_client_records(
        payload, 0, len(payload), header.record_count, header.base_timestamp
    )
    if problem != kernels.SOUND:
        which = f"record {record + 1} of {header.record_count}: "
        is_whole = problem == LEFT_OVER
        raise InvalidRecordError(("" if is_whole else which) + _REASONS[problem])
    if keyless != kernels.NO_RECORD and config.is_compacted:
        raise InvalidRecordError(
            f"the topic is compacted: record {keyless + 1} of {header.record_count} is the first "
            f"without a key",
            records=_places(pc.is_null(_column(view, "key"))),
        )
    if bits > _ASCII:
        _check_header_keys(view)
    return _Times(missing, earliest, latest)


def _check_header_keys(view: Bytes) -> None:
    """Refuse header keys that are not UTF-8; called only if not all bytes of keys are ASCII."""
    try:
        decode(view, scan_batches(view).batches, columns=("headers",))
    except CorruptRecordError as error:
        raise InvalidRecordError(str(error.args[0])) from None


def _check_times(view: Bytes, times: _Times, config: TopicConfig, now_ms: int) -> None:
    """Check the times (LogValidator.validateTimestamp); a record need not have one."""
    if times.are_missing:
        return
    if times.earliest < 0:
        raise InvalidTimestampError(
            f"timestamp {times.earliest} is negative; allowed are milliseconds since 1970, from 0, "
            f"and -1 for none",
            records=_places(np.asarray(_column(view, "timestamp")) < NO_TIMESTAMP),
        )
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if now_ms - times.earliest > before or times.latest - now_ms > after:
        found = np.asarray(_column(view, "timestamp"))
        is_outside = (now_ms - found > before) | (found - now_ms > after)
        raise InvalidTimestampError(
            f"timestamps from {times.earliest} to {times.latest}; now it is {now_ms}, and allowed "
            f"are message.timestamp.before.max.ms={before} and message.timestamp.after.max.ms="
            f"{after} around it",
            records=_places(is_outside & (found != NO_TIMESTAMP)),
        )


def _column(view: Bytes, name: str) -> Any:
    return getattr(decode(view, scan_batches(view).batches, columns=(name,)), name)


def _places(is_refused: Any) -> tuple[int, ...]:
    """Return the numbers, from 0, of the refused records."""
    return tuple(np.flatnonzero(np.asarray(is_refused)).tolist())


def _stored(
    view: Bytes, header: BatchHeader, payload: Bytes, max_timestamp: int, config: TopicConfig
) -> tuple[Bytes, int]:
    """Return a batch that is not stored as it came, in its stored form, and its codec.

    `payload` are the records, decompressed. They are encoded again only if the codec changes. The
    append time, and a largest time that the header had wrong, change the header alone.
    """
    sent_codec = header.attributes & layout.CODEC_MASK
    codec = int(sent_codec if config.codec is None else config.codec)
    data = view.copy() if codec == sent_codec else _encoded(view, payload, Codec(codec), config)
    is_append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    attributes = header.attributes & ~layout.CODEC_MASK | codec
    _put(data, layout.ATTRIBUTES, 2, attributes | layout.TIMESTAMP_TYPE_MASK * is_append_time)
    _put(data, layout.MAX_TIMESTAMP, 8, max_timestamp)
    _put(data, layout.CRC, 4, batch_crc32c(data, 0, len(data)))
    return byte_view(data), codec


def _encoded(view: Bytes, payload: Bytes, codec: Codec, config: TopicConfig) -> Bytes:
    """Return the batch with its records in another codec; its header has only the size right."""
    if codec != Codec.NONE and len(payload) > BATCH_BYTES_MAX:
        raise RecordTooLargeError(
            f"the batch has {len(payload)} bytes of records, and the topic compresses it with "
            f"{codec.name.lower()}: readers take {BATCH_BYTES_MAX}",
            size=len(payload),
            limit=BATCH_BYTES_MAX,
        )
    records = compressor(codec, config.compression_level(codec))(payload.data)
    data = np.frombuffer(bytearray(view[: layout.RECORDS].tobytes() + records), np.uint8)
    _put(data, layout.LENGTH, 4, len(data) - layout.LOG_OVERHEAD)
    _check_sizes(len(data), config)
    return data


def _put(data: Bytes, at: int, size: int, value: int) -> None:
    unsigned = value & (1 << 8 * size) - 1
    data[at : at + size] = np.frombuffer(unsigned.to_bytes(size, "big"), np.uint8)
