"""How records are batched. Here, and not beside the encoder, because a plan has it, too."""

from dataclasses import dataclass

from sparklog.model import Codec, TimestampType
from sparklog.record import layout


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How records are batched. Names and defaults are those of Kafka's producer and topic."""

    codec: Codec = Codec.NONE
    level: int | None = None
    """`compression.<codec>.level`; None for its default."""
    batch_bytes: int = 16384
    """`batch.size`: most bytes of a batch with more than one record, before compression."""
    max_message_bytes: int = 1048588
    """`max.message.bytes`: most bytes of a batch, after compression."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    log_append_time_ms: int = -1
    """The time every record gets when `timestamp_type` is LOG_APPEND_TIME."""
    leader_epoch: int = 0

    @property
    def attributes(self) -> int:
        """The attribute bits of every batch."""
        return int(self.codec) | layout.TIMESTAMP_TYPE_MASK * self.is_append_time

    @property
    def uncompressed_max(self) -> int:
        """Most bytes of a batch of several records, so that compression cannot make it too large.

        What cannot be compressed grows: by a sixth and some bytes at most (snappy).
        """
        if self.codec == Codec.NONE:
            return self.max_message_bytes
        return max(self.max_message_bytes * 6 // 7 - 2 * layout.RECORDS, 1)

    @property
    def is_append_time(self) -> bool:
        """Whether records get the time of the append instead of their own."""
        return self.timestamp_type == TimestampType.LOG_APPEND_TIME
