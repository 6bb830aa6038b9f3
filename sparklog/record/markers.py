"""The control batch that ends a transaction in a partition: COMMIT or ABORT (EndTransactionMarker).

batch header   transactional, control, no sequence
record         key: int16 version 0, int16 type | value: int16 version 0, int32 coordinator epoch
"""

import struct
from typing import Final

from sparklog.record import layout
from sparklog.record.plain_batch import plain_batch

ABORT: Final = 0
COMMIT: Final = 1

_RECORD: Final = struct.Struct(">BbbbBhhBhiB")
_LENGTH, _KEY_LENGTH, _VALUE_LENGTH = 0x20, 0x08, 0x0C
"""16, 4 and 6 as zig-zag varints: the bytes of the record, its key, its value."""
MARKER_RECORDS: Final = tuple(
    struct.pack(">BbbbBhh", _LENGTH, 0, 0, 0, _KEY_LENGTH, 0, kind) for kind in (ABORT, COMMIT)
)
"""How the record of each kind of marker begins: to the end of its key."""


def encode_marker(
    kind: int, producer_id: int, epoch: int, now_ms: int, offset: int, leader_epoch: int
) -> bytes:
    """Return the 78 bytes of a marker, ABORT or COMMIT, at `offset`; coordinator epoch 0."""
    return plain_batch(
        _RECORD.pack(_LENGTH, 0, 0, 0, _KEY_LENGTH, 0, kind, _VALUE_LENGTH, 0, 0, 0),
        1,
        now_ms,
        offset=offset,
        leader_epoch=leader_epoch,
        attributes=layout.TRANSACTIONAL_MASK | layout.CONTROL_MASK,
        producer=(producer_id, epoch),
    )
