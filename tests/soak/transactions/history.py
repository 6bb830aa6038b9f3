"""What happened to transactions: the events that every process writes down as it goes.

A key is a partition, `topic:number`. A value is written once: it names its transaction. Times are
those of `tests.soak.history`, and so are torn last lines.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.soak.history import Failed, lines

Pairs = tuple[tuple[int, str], ...]
"""(offset, value) in the order they were read."""
Reads = tuple[tuple[str, Pairs], ...]
"""By key."""

COMMITTED = "read_committed"
UNCOMMITTED = "read_uncommitted"


class Outcome(StrEnum):
    """What a transaction's producer was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Began:
    """A transaction is about to write these (key, value), in this order."""

    txn: str
    sends: tuple[tuple[str, str], ...]
    began: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A transaction's end is about to be asked for."""

    txn: str
    is_commit: bool
    asked: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction's end, and the records that were acknowledged: (key, offset, value)."""

    txn: str
    outcome: str
    sent: tuple[tuple[str, int, str], ...]
    ended: int


@dataclass(frozen=True, slots=True)
class Polled:
    """One poll. With `txn` it belongs to a transaction of the group `reader`.

    Without one the reader has read all partitions from their beginning, without a break; `ends` are
    the keys that it has read to their end, with the offset of it. `is_moved` says that partitions
    came and went since the poll before.
    """

    reader: str
    isolation: str
    reads: Reads
    began: int
    ended: int
    txn: str = ""
    ends: tuple[str, ...] = ()
    is_moved: bool = False


@dataclass(frozen=True, slots=True)
class Audited:
    """The money of all accounts as of a version; `is_closed` when no transaction was open."""

    version: int
    is_closed: bool
    money: int


@dataclass(frozen=True, slots=True)
class Final:
    """The whole log, read after everything had ended."""

    isolation: str
    reads: Reads


Event = Began | Asked | Ended | Polled | Audited | Final | Failed
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Began, Asked, Ended, Polled, Audited, Final, Failed)
}


def load(path: Path) -> list[Event]:
    """The events of one file."""
    return [_event(fields) for fields in lines(path)]


def _event(fields: dict[str, Any]) -> Event:
    kind = KINDS[fields.pop("kind")]
    return kind(**{name: _frozen(value) for name, value in fields.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
