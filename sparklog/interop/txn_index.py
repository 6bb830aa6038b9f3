"""Aborted transactions of a segment, as a broker writes them (`<offset>.txnindex`).

    entries of 34 bytes:
    version 2 (0) | producer id 8 | first offset 8 | last offset 8 | last stable offset 8

See TransactionIndex, AbortedTxn. Of the version Kafka reads the first byte only. A part of an entry
at the end is ignored.
"""

import struct
from typing import Final, NamedTuple

from sparklog.errors import CorruptionError
from sparklog.record.batches import Buffer, byte_view

VERSION: Final = 0
_ENTRY: Final = struct.Struct(">bxqqqq")


class AbortedTxn(NamedTuple):
    """One aborted transaction; its last offset is that of its marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_txn_index(data: Buffer) -> list[AbortedTxn]:
    """The entries of a `.txnindex`. Raises CorruptionError for an unknown version."""
    raw = byte_view(data).tobytes()
    whole = raw[: len(raw) // _ENTRY.size * _ENTRY.size]
    found = [AbortedTxn(*fields) for fields in _ENTRY.iter_unpack(whole)]
    for entry in found:
        if entry.version > VERSION:
            raise CorruptionError(
                f"Unexpected aborted transaction version {entry.version}, current version is "
                f"{VERSION}"
            )
    return found


def encode_txn_index(entries: list[AbortedTxn]) -> bytes:
    """The bytes of a `.txnindex`."""
    return b"".join(_ENTRY.pack(*entry) for entry in entries)
