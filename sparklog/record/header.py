"""One batch header (magic 2) in plain Python.

For many headers at once use `scan`. The picture of the bytes stands in `layout`.
"""

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout

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
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of records."""
        return bool(self.attributes & layout.CONTROL_MASK)


def unpack_header(view: NDArray[np.uint8], position: int) -> BatchHeader:
    """The fields of the 61 bytes at `position`, whatever they say."""
    return BatchHeader._make(_HEADER.unpack_from(view.data, position))
