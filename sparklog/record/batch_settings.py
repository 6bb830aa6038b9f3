"""The settings of the encoder; apart from it, so that the plan of a write needs no numba."""

from dataclasses import dataclass
from typing import Final

from sparklog.model import Codec, TimestampType
from sparklog.record import layout

BATCH_BYTES_MAX: Final = 256 * 2**20
"""The largest decompressed size of a batch's records that readers take."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How records are batched. Names and defaults are those of Kafka's producer and topics."""

    codec: Codec = Codec.NONE
    level: int | None = None
    """`compression.<codec>.level`; None is the codec's default."""
    batch_bytes: int = 16384
    """`batch.size`: the largest size, before compression, of a batch of more than one record."""
    max_message_bytes: int = 1048588
    """`max.message.bytes`: the largest size of a batch, after compression."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    log_append_time_ms: int = -1
    """The time (ms) that every record gets if `timestamp_type` is LOG_APPEND_TIME."""
    leader_epoch: int = 0

    @property
    def attributes(self) -> int:
        """The attribute bits of every batch."""
        return int(self.codec) | layout.TIMESTAMP_TYPE_MASK * self.is_append_time

    @property
    def uncompressed_max(self) -> int:
        """The largest size, in bytes, of a batch of several records before compression.

        A batch of this size stays within `max_message_bytes` even if it cannot be compressed: then
        it grows by a sixth and some bytes at most (snappy).
        """
        if self.codec == Codec.NONE:
            return self.max_message_bytes
        most = max(self.max_message_bytes * 6 // 7 - 2 * layout.RECORDS, 1)
        return min(most, self.single_max)

    @property
    def single_max(self) -> int:
        """The largest size, in bytes, of a batch of a single record before compression."""
        if self.codec == Codec.NONE:
            return self.max_message_bytes
        return BATCH_BYTES_MAX + layout.RECORDS

    @property
    def is_append_time(self) -> bool:
        """Whether records get the time of the append instead of their own."""
        return self.timestamp_type == TimestampType.LOG_APPEND_TIME
