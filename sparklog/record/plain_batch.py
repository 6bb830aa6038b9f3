"""One batch of magic 2 around records that are encoded already: `layout` shows the bytes.

In plain Python: the batches of a coordinator are small, and a service makes them before it loads
the kernels.
"""

import struct
from typing import Final

from sparklog.record import layout
from sparklog.record.checksum import crc32c

_TO_CRC: Final = struct.Struct(">qiibI")
_FROM_ATTRIBUTES: Final = struct.Struct(">hiqqqhii")
NOBODY: Final = (layout.NO_PRODUCER_ID, layout.NO_PRODUCER_EPOCH)


def plain_batch(
    records: bytes,
    count: int,
    now_ms: int,
    *,
    offset: int,
    leader_epoch: int,
    attributes: int = 0,
    producer: tuple[int, int] = NOBODY,
) -> bytes:
    """Return a batch of `count` uncompressed records, all as old as `now_ms`, without sequence.

    `producer` is the id and the epoch.
    """
    fields = (attributes, count - 1, now_ms, now_ms, *producer, layout.NO_SEQUENCE, count)
    body = _FROM_ATTRIBUTES.pack(*fields) + records
    length = layout.CRC_START - layout.LOG_OVERHEAD + len(body)
    crc = crc32c(body)
    return _TO_CRC.pack(offset, length, leader_epoch, layout.MAGIC_V2, crc) + body
