"""One batch header (magic 2) in plain Python.

For many headers at once use `scan`. The picture of the bytes stands in `layout`.
"""

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptRecordError, UnsupportedCodecError
from sparklog.model import Codec, TimestampType
from sparklog.record import layout
from sparklog.record.batches import Buffer, byte_view

_HEADER = struct.Struct(">qiibIhiqqqhii")


class BatchHeader(NamedTuple):
    """The 13 fields of a batch header, in the order of their bytes, and what follows from them."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """All bytes of the batch, header included."""
        return layout.LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also of one that compaction has dropped."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last."""
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed. Raises UnsupportedCodecError for bits 5 to 7."""
        bits = self.attributes & layout.CODEC_MASK
        if bits > Codec.ZSTD:
            raise UnsupportedCodecError(
                f"codec bits {bits} are not defined; known are 0 (none) to 4 (zstd)",
                offset=self.base_offset,
            )
        return Codec(bits)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whose clock the timestamps are."""
        return TimestampType(bool(self.attributes & layout.TIMESTAMP_TYPE_MASK))

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & layout.TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of records."""
        return bool(self.attributes & layout.CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones of the batch may go; None when compaction has not set it."""
        return self.base_timestamp if self.attributes & layout.DELETE_HORIZON_MASK else None


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header that begins at `position`; the records behind it may be missing.

    Raises CorruptRecordError when fewer than 61 bytes are left, the magic is not 2 or the length is
    below 49.
    """
    view = byte_view(data)
    left = len(view) - position
    if left < layout.BATCH_HEADER_SIZE:
        raise CorruptRecordError(
            f"truncated: {max(left, 0)} bytes are left, a batch header takes "
            f"{layout.BATCH_HEADER_SIZE}",
            position=position,
        )
    header = unpack_header(view, position)
    if header.magic != layout.MAGIC_V2:
        raise CorruptRecordError(
            f"magic {header.magic}, a record batch has {layout.MAGIC_V2}",
            position=position,
            offset=header.base_offset,
        )
    if header.length < layout.BATCH_MIN_LENGTH:
        raise CorruptRecordError(
            f"length {header.length} is below {layout.BATCH_MIN_LENGTH}, that of an empty batch",
            position=position,
            offset=header.base_offset,
        )
    return header


def unpack_header(view: NDArray[np.uint8], position: int) -> BatchHeader:
    """The fields of the 61 bytes at `position`, whatever they say."""
    return BatchHeader._make(_HEADER.unpack_from(view.data, position))
