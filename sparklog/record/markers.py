"""The control batch that ends a transaction in a partition: COMMIT or ABORT (EndTransactionMarker).

batch header   transactional, control, no sequence
record         key: int16 version 0, int16 type | value: int16 version 0, int32 coordinator epoch
"""

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparklog.record import layout
from sparklog.record.batches import BatchTable
from sparklog.record.plain_batch import plain_batch

ABORT: Final = 0
COMMIT: Final = 1
KINDS: Final = {ABORT: "ABORT", COMMIT: "COMMIT"}
"""The names of the two kinds."""

_RECORD: Final = struct.Struct(">BbbbBhhBhiB")
_LENGTH, _KEY_LENGTH, _VALUE_LENGTH = 0x20, 0x08, 0x0C
"""16, 4 and 6 as zig-zag varints: the bytes of the record, its key, its value."""
_BEGINNINGS: Final = np.stack(
    [
        np.frombuffer(struct.pack(">BbbbBhh", _LENGTH, 0, 0, 0, _KEY_LENGTH, 0, kind), np.uint8)
        for kind in (ABORT, COMMIT)
    ]
)
"""How the record of each kind of marker begins: to the end of its key."""
_MARKER_BYTES: Final = layout.RECORDS + _RECORD.size
"""The size of every marker of Kafka's, and of ours."""
NO_MARKER: Final = -1


def marker_kinds(data: NDArray[np.uint8], batches: BatchTable) -> NDArray[np.int64]:
    """Return for each batch whether it is a marker: ABORT, COMMIT, or NO_MARKER.

    A control batch that a broker's cleaner has emptied is none.
    """
    found = np.full(len(batches), NO_MARKER)
    rows = np.flatnonzero(batches.is_control & (batches.size == _MARKER_BYTES))
    heads = batches.position[rows, np.newaxis] + layout.RECORDS + np.arange(_BEGINNINGS.shape[1])
    is_same = (data[heads][:, np.newaxis] == _BEGINNINGS).all(axis=2)
    for kind in (ABORT, COMMIT):
        found[rows[is_same[:, kind]]] = kind
    return found


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
