"""The values that producers write: each is unique and tells who wrote it, when, and where in it.

    value = (producer * VERSIONS + version) * ROWS + row

A record's bytes are the value and a padding that follows from it, so a damaged one is seen.
"""

from typing import Final

VERSIONS: Final = 1_000_000
ROWS: Final = 10_000
DAMAGED: Final = -1
"""What a record counts as whose bytes are not those of any value."""


def pack(producer: int, version: int, row: int) -> int:
    """The value of one row of one write."""
    return (producer * VERSIONS + version) * ROWS + row


def writer_of(value: int) -> tuple[int, int]:
    """The producer and the version that wrote a value."""
    return divmod(value // ROWS, VERSIONS)


def to_bytes(value: int) -> bytes:
    """The value as a record's bytes: 10 to 300 of them, some easy to compress and some not."""
    pad = value * 2_654_435_761 % 2**61
    return f"{value}:{'' if pad % 3 else pad}{'ab' * (pad % 97)}".encode()


def from_bytes(data: bytes | None) -> int:
    """The value of a record, DAMAGED when no value has these bytes."""
    digits = b"" if data is None else data.partition(b":")[0]
    value = int(digits) if digits.isdigit() else DAMAGED
    return value if value >= 0 and to_bytes(value) == data else DAMAGED
