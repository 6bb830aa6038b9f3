"""Reads and writes a segment's aborted transactions as a broker does (`<offset>.txnindex`).

    entries of 34 bytes:
    version 2 (0) | producer id 8 | first offset 8 | last offset 8 | last stable offset 8

See TransactionIndex, AbortedTxn. Kafka reads only the first byte of the version. A part of an entry
at the end is ignored.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparklog.errors import CorruptionError
from sparklog.record.batches import Buffer, byte_view

VERSION: Final = 0
PIECE_ENTRIES: Final = 32 * 1024
"""The entries that are read at once: a broker's file may have any size."""
_ENTRY: Final = struct.Struct(">bxqqqq")
_DTYPE: Final = np.dtype(
    [
        ("version", "i1"),
        ("unread", "i1"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)


class AbortedTxn(NamedTuple):
    """One aborted transaction; its last offset is that of its marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_txn_index(data: Buffer) -> list[AbortedTxn]:
    """Return the entries of a `.txnindex`. Raises CorruptionError for an unknown version."""
    names = list(AbortedTxn._fields)
    return [AbortedTxn(*row) for piece in txn_index_pieces(data) for row in piece[names].tolist()]


def txn_index_pieces(data: Buffer) -> Iterator[NDArray[np.void]]:
    """Yield the entries as arrays with the fields of AbortedTxn, up to PIECE_ENTRIES in each.

    All versions are checked before the first array is yielded, as in Kafka. Raises as
    `read_txn_index`.
    """
    raw = byte_view(data)
    entries = raw[: len(raw) // _ENTRY.size * _ENTRY.size].view(_DTYPE)
    pieces = [slice(at, at + PIECE_ENTRIES) for at in range(0, len(entries), PIECE_ENTRIES)]
    for piece in pieces:
        versions = entries["version"][piece]
        unknown = versions[versions > VERSION]
        if len(unknown):
            raise CorruptionError(
                f"Unexpected aborted transaction version {unknown[0]}, current version is {VERSION}"
            )
    yield from (entries[piece] for piece in pieces)


def encode_txn_index(entries: list[AbortedTxn]) -> bytes:
    """Return the bytes of a `.txnindex`."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
